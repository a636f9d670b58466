package tracker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/outbound"
)

// each runs a test for every kind of tracker.
func each(t *testing.T, test func(*testing.T, fake)) {
	for _, f := range fakes {
		t.Run(f.kind, func(t *testing.T) { test(t, f) })
	}
}

func TestLookup(t *testing.T) {
	each(t, func(t *testing.T, f fake) {
		source, base, _ := f.answer(t, f.says(f.good))
		got, err := source.Lookup(t.Context(), f.ref)
		if err != nil {
			t.Fatal(err)
		}
		want := f.want
		want.URL = base + want.URL
		if !got.CreatedAt.Equal(created) || !got.UpdatedAt.Equal(updated) {
			t.Errorf("created %s, updated %s", got.CreatedAt, got.UpdatedAt)
		}
		got.CreatedAt, got.UpdatedAt = time.Time{}, time.Time{}
		if got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	})
}

// A ticket's full address is as good as its reference, in the tracker that is
// configured and in no other.
func TestLookupByAddress(t *testing.T) {
	each(t, func(t *testing.T, f fake) {
		asked := f.ref
		if f.kind == HTTP {
			asked, f.path, f.good.id = "OPS-12", "/OPS-12", "OPS-12"
		}
		source, base, n := f.answer(t, f.says(f.good))
		got, err := source.Lookup(t.Context(), base+f.url)
		if err != nil || got.Ref != asked {
			t.Errorf("%q, %v", got.Ref, err)
		}
		n.Store(0)
		for _, other := range []string{
			"https://other.example" + f.url,
			strings.Replace(base, "http://", "https://", 1) + f.url,
			strings.Replace(base, "127.0.0.1", "127.0.0.1.evil.example", 1) + f.url,
			strings.Replace(base, "http://", "http://evil@", 1) + f.url,
			"http://evil.example/" + base + f.url,
			base + "0" + f.url,
			base + "/x" + f.url + "/../..",
			base + "/%2e%2e" + f.url,
			base + f.url + "#x",
			base + f.url + "&x=y",
			base + f.url + "?x",
			base + f.url + "%0d%0a",
			base,
			base + "/",
		} {
			if _, err := source.Lookup(t.Context(), other); !errors.Is(err, ErrBadRef) {
				t.Errorf("%s: %v", other, err)
			}
		}
		if n.Load() != 0 {
			t.Errorf("the tracker was asked %d times", n.Load())
		}
	})
}

// What a tracker says decides, from its answer to the verdict.
func TestVerdicts(t *testing.T) {
	request := created.Add(time.Hour)
	now := request.Add(time.Hour)
	each(t, func(t *testing.T, f fake) {
		for what, test := range map[string]struct {
			change func(*record)
			terms  Terms
			want   Code
		}{
			"good":          {func(*record) {}, Terms{}, ""},
			"good in terms": {func(*record) {}, Terms{Projects: []string{"x", f.want.Project}, States: []string{f.want.State}, MaxAge: 3 * time.Hour}, ""},
			"closed":        {func(r *record) { r.closed = true }, Terms{}, TicketClosed},
			"other project": {func(*record) {}, Terms{Projects: []string{"OTHER", f.want.Project + "x"}}, TicketOtherProject},
			"other state":   {func(*record) {}, Terms{States: []string{"Approved"}}, TicketState},
			"created at":    {func(r *record) { r.created = request }, Terms{}, TicketTooNew},
			"created after": {func(r *record) { r.created = request.Add(time.Minute) }, Terms{}, TicketTooNew},
			"too old":       {func(*record) {}, Terms{MaxAge: time.Hour}, TicketTooOld},
		} {
			r := f.good
			test.change(&r)
			source, _, _ := f.answer(t, f.says(r))
			ticket, err := source.Lookup(t.Context(), f.ref)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			var got Code
			if reason := Judge(ticket, test.terms, request, now); reason != nil {
				got = reason.Code
			}
			if got != test.want {
				t.Errorf("%s: %q, want %q", what, got, test.want)
			}
		}
	})
}

// others are tickets that are not the one of a kind's fake.
var others = map[string][]record{
	Jira:       {{id: "PAY-13", project: "PAY"}, {id: "OPS-12", project: "OPS"}},
	GitHub:     {{id: "13", project: "acme/pay.api"}, {id: "12", project: "acme/other"}, {id: "12", project: "evil/pay.api"}},
	GitLab:     {{id: "13", project: "acme/core/pay"}, {id: "12", project: "acme/other"}},
	Linear:     {{id: "ENG-13", project: "ENG"}, {id: "OPS-3", project: "OPS"}},
	ServiceNow: {{id: "CHG0010024", project: "change_request"}, {id: "INC0010023", project: "incident"}},
	HTTP:       {{id: "OPS:12#b", project: "OPS"}, {id: "ops:12#a", project: "OPS"}},
}

// An answer about another ticket is none about this one.
func TestOtherIdentity(t *testing.T) {
	each(t, func(t *testing.T, f fake) {
		for _, r := range others[f.kind] {
			source, _, _ := f.answer(t, f.says(r))
			if got, err := source.Lookup(t.Context(), f.ref); !errors.Is(err, ErrNotFound) {
				t.Errorf("%+v: %+v, %v", r, got, err)
			}
		}
	})
}

// Answers that are nobody's ticket, in words that each tracker has.
func TestSpecialAnswers(t *testing.T) {
	swap := func(f fake, from, to string) string {
		r := f.good
		r.created = created
		body := f.speak(r, "http://tracker.example")
		if !strings.Contains(body, from) {
			panic(f.kind + " never says " + from)
		}
		return strings.Replace(body, from, to, 1)
	}
	entity := `{"data": null, "errors": [{"message": "Entity not found: Issue", "extensions": {"code": "INPUT_ERROR"}}]}`
	each(t, func(t *testing.T, f fake) {
		type answer struct {
			status int
			body   string
			want   error
		}
		for what, test := range map[string]map[string]answer{
			Jira: {
				"no category": {200, swap(fakeOf(Jira), `"key": "indeterminate"`, `"key": ""`), ErrUnavailable},
				"no project":  {200, swap(fakeOf(Jira), `"key": "PAY", "name"`, `"name"`), ErrUnavailable},
				"no state":    {200, swap(fakeOf(Jira), `"In Progress"`, `" "`), ErrUnavailable},
				"other time":  {200, swap(fakeOf(Jira), "15:04:05.000+0000", "15:04"), ErrUnavailable},
			},
			GitHub: {
				"pull request":  {200, swap(fakeOf(GitHub), `"pull_request": null`, `"pull_request": {"url": "x"}`), ErrNotFound},
				"gone":          {410, `{"message": "This issue was deleted"}`, ErrNotFound},
				"odd state":     {200, swap(fakeOf(GitHub), `"open"`, `"ajar"`), ErrUnavailable},
				"no repository": {200, swap(fakeOf(GitHub), "repository_url", "x"), ErrUnavailable},
				"up and away":   {200, swap(fakeOf(GitHub), "/repos/acme/pay.api\"", "/repos/acme/..\""), ErrUnavailable},
			},
			GitLab: {
				"moved":         {200, swap(fakeOf(GitLab), `"moved_to_id": null`, `"moved_to_id": 43`), ErrNotFound},
				"no references": {200, swap(fakeOf(GitLab), "references", "x"), ErrUnavailable},
				"other full":    {200, swap(fakeOf(GitLab), `pay#12"`, `pay#13"`), ErrNotFound},
			},
			Linear: {
				"missing":        {200, entity, ErrNotFound},
				"missing as 400": {400, entity, ErrNotFound},
				"null":           {200, `{"data": {"issue": null}}`, ErrNotFound},
				"no data":        {200, `{}`, ErrUnavailable},
				"bare 400":       {400, `{}`, ErrUnavailable},
				"no API":         {404, `{}`, ErrUnavailable},
				"rate":           {400, `{"errors": [{"message": "s3cr3t-t0k3n", "extensions": {"code": "RATELIMITED"}}]}`, ErrUnavailable},
				"key":            {400, `{"errors": [{"message": "no", "extensions": {"code": "AUTHENTICATION_ERROR"}}]}`, ErrUnavailable},
				"both": {
					200, `{"data": null, "errors": [{"message": "Entity not found: Issue"}, {"message": "no", "extensions": {"code": "RATELIMITED"}}]}`,
					ErrUnavailable,
				},
				"error with data": {200, swap(fakeOf(Linear), `{"data"`, `{"errors": [{"message": "x"}], "data"`), ErrUnavailable},
				"no type":         {200, swap(fakeOf(Linear), `"started"`, `""`), ErrUnavailable},
			},
			ServiceNow: {
				"none":      {200, `{"result": []}`, ErrNotFound},
				"none, 404": {404, `{"error": {"message": "No Record found"}}`, ErrNotFound},
				"no result": {200, `{}`, ErrUnavailable},
				"no class":  {200, swap(fakeOf(ServiceNow), "sys_class_name", "x"), ErrUnavailable},
				"active":    {200, swap(fakeOf(ServiceNow), `"value": "true"`, `"value": ""`), ErrUnavailable},
				"two":       {200, swap(fakeOf(ServiceNow), `{"result": [`, `{"result": [{"number": {"value": "CHG0010023"}, "active": {"value": "true"}, "sys_class_name": {"value": "x"}}, `), ErrNotFound},
			},
			HTTP: {
				"no closed": {200, swap(fakeOf(HTTP), `"closed"`, `"x"`), ErrUnavailable},
				"no time":   {200, swap(fakeOf(HTTP), `"created_at"`, `"x"`), ErrUnavailable},
				"no ref":    {200, swap(fakeOf(HTTP), `"ref"`, `"x"`), ErrUnavailable},
				"odd time":  {200, swap(fakeOf(HTTP), `"2026-01-02T15:04:05Z"`, `"s3cr3t-t0k3n"`), ErrUnavailable},
				"long word": {200, swap(fakeOf(HTTP), `"ready"`, `"`+strings.Repeat("y", 201)+`"`), ErrUnavailable},
			},
		}[f.kind] {
			source, _, _ := f.answer(t, func(w http.ResponseWriter, _ string) {
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			got, err := source.Lookup(t.Context(), f.ref)
			if !errors.Is(err, test.want) || got != (Ticket{}) {
				t.Errorf("%s: %+v, %v; want %v", what, got, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func fakeOf(kind string) fake {
	for _, f := range fakes {
		if f.kind == kind {
			return f
		}
	}
	panic(kind)
}

// However a tracker fails, a lookup ends with the right error, no ticket and
// no secrets.
func TestFailures(t *testing.T) {
	status := func(code int, header ...string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			io.WriteString(w, `{"message": "`+secret+`"}`)
		}
	}
	each(t, func(t *testing.T, f fake) {
		missing := ErrNotFound
		if f.kind == Linear { // where only the body can say that a ticket is missing
			missing = ErrUnavailable
		}
		moved := ErrUnavailable
		if f.kind == GitHub {
			moved = ErrNotFound
		}
		for what, test := range map[string]struct {
			answer func(http.ResponseWriter, string)
			want   error
			also   error
		}{
			"404":            {status(404), missing, nil},
			"401":            {status(401), ErrUnavailable, nil},
			"403":            {status(403), ErrNotFound, nil},
			"403, too often": {status(403, "X-RateLimit-Remaining", "0"), ErrUnavailable, nil},
			"403, wait":      {status(403, "Retry-After", "60"), ErrUnavailable, nil},
			"429":            {status(429, "Retry-After", "60"), ErrUnavailable, nil},
			"400":            {status(400), ErrUnavailable, nil},
			"500":            {status(500), ErrUnavailable, nil},
			"503":            {status(503), ErrUnavailable, nil},
			"204":            {status(204), ErrUnavailable, nil},
			"301":            {status(301, "Location", "/there"), moved, nil},
			"302":            {status(302, "Location", "https://login.example/"+secret), ErrUnavailable, outbound.ErrRedirect},
			"307":            {status(307, "Location", "http://169.254.169.254/"), ErrUnavailable, outbound.ErrRedirect},
			"nothing":        {func(http.ResponseWriter, string) {}, ErrUnavailable, nil},
			"garbage":        {func(w http.ResponseWriter, _ string) { io.WriteString(w, "<html>"+secret+"</html>") }, ErrUnavailable, nil},
			"null":           {func(w http.ResponseWriter, _ string) { io.WriteString(w, "null") }, ErrUnavailable, nil},
			"list":           {func(w http.ResponseWriter, _ string) { io.WriteString(w, "[]") }, ErrUnavailable, nil},
			"empty object":   {func(w http.ResponseWriter, _ string) { io.WriteString(w, "{}") }, ErrUnavailable, nil},
			"wrong types": {func(w http.ResponseWriter, _ string) {
				io.WriteString(w, `{"key":1,"number":"`+secret+`","iid":[],"data":7,"result":{},"ref":{}}`)
			}, ErrUnavailable, nil},
			"deep": {func(w http.ResponseWriter, _ string) {
				io.WriteString(w, `{"key":`+strings.Repeat("[", 100_000))
			}, ErrUnavailable, nil},
			"twice": {func(w http.ResponseWriter, base string) {
				f.says(f.good)(w, base)
				f.says(f.good)(w, base)
			}, ErrUnavailable, nil},
			"cut off": {func(w http.ResponseWriter, base string) {
				w.Header().Set("Content-Length", "100000")
				f.says(f.good)(w, base)
			}, ErrUnavailable, nil},
			"huge": {func(w http.ResponseWriter, base string) {
				f.says(f.good)(w, base)
				blanks := strings.Repeat(" ", 64<<10)
				for range 32 {
					io.WriteString(w, blanks)
				}
			}, ErrUnavailable, outbound.ErrTooLarge},
			"header flood": {status(200, "X-Flood", strings.Repeat("x", 100_000)), ErrUnavailable, outbound.ErrTooLarge},
		} {
			source, base, asked := f.answer(t, test.answer)
			got, err := source.Lookup(t.Context(), f.ref)
			if !errors.Is(err, test.want) || got != (Ticket{}) || test.also != nil && !errors.Is(err, test.also) {
				t.Errorf("%s: %+v, %v; want %v, %v", what, got, err, test.want, test.also)
			}
			if asked.Load() != 1 {
				t.Errorf("%s: asked %d times", what, asked.Load())
			}
			leaks(t, what, err, base, f)
		}
	})
}

func leaks(t *testing.T, what string, err error, base string, f fake) {
	t.Helper()
	for _, text := range []string{secret, "Bearer", "Basic", base + "/", f.ref, "169.254", "login.example"} {
		if err != nil && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error says %q: %v", what, text, err)
		}
	}
}

// A tracker that never answers holds nobody up for longer than the caller or
// the configuration wants.
func TestSlow(t *testing.T) {
	each(t, func(t *testing.T, f fake) {
		for what, begin := range map[string]string{"at once": "", "in the middle": `{"key": `} {
			asked := make(chan struct{}, 2)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, begin)
				if begin != "" {
					w.(http.Flusher).Flush()
				}
				asked <- struct{}{}
				<-r.Context().Done()
			}))
			t.Cleanup(s.Close)
			config := f.config(s.URL)
			source, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			_, err = source.Lookup(ctx, f.ref)
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, caller: %v", what, err)
			}
			leaks(t, what, err, s.URL, f)

			config.Timeout = 50e6
			if source, err = New(config); err != nil {
				t.Fatal(err)
			}
			_, err = source.Lookup(t.Context(), f.ref)
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, timeout: %v", what, err)
			}
			leaks(t, what, err, s.URL, f)
		}
	})
}

// Without permission the address of a private tracker is not asked.
func TestForbiddenAddress(t *testing.T) {
	each(t, func(t *testing.T, f fake) {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
		t.Cleanup(s.Close)
		config := f.config("http://localhost:" + s.URL[strings.LastIndex(s.URL, ":")+1:])
		config.AllowPrivate = []string{"10.0.0.0/8"}
		source, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = source.Lookup(t.Context(), f.ref)
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, outbound.ErrForbiddenAddress) {
			t.Errorf("%v", err)
		}
		config.BaseURL = s.URL
		if _, err := New(config); !errors.Is(err, outbound.ErrForbiddenAddress) {
			t.Errorf("as an address: %v", err)
		}
	})
}

// Only what people can safely follow becomes a ticket's address.
func TestAddressOfTicket(t *testing.T) {
	f := fakeOf(HTTP)
	for given, want := range map[string]bool{
		"https://ops.example/12": true, "": false, "javascript:alert(1)": false, "data:text/html,x": false,
		"http://ops.example/12": true, "//ops.example/12": false, "https://ann:x@ops.example/": false,
		"https://169.254.169.254/": false, "https://ops.example/\\u0000": false,
	} {
		source, _, _ := f.answer(t, func(w http.ResponseWriter, _ string) {
			io.WriteString(w, `{"ref": "OPS:12#a", "state": "ready", "closed": false, "created_at": "2026-01-02T15:04:05Z", "url": "`+given+`"}`)
		})
		got, err := source.Lookup(t.Context(), f.ref)
		if err != nil || got.URL != "" && got.URL != given || (got.URL != "") != want {
			t.Errorf("%s: %q, %v", given, got.URL, err)
		}
	}
	f = fakeOf(Linear)
	source, _, _ := f.answer(t, f.says(f.good))
	source.(*linear).web.host = "linear.app"
	if got, err := source.Lookup(t.Context(), f.ref); err != nil || got.URL != "" {
		t.Errorf("an address outside Linear: %q, %v", got.URL, err)
	}
}

// The token of one workspace does not answer for another's address.
func TestLinearWorkspace(t *testing.T) {
	f := fakeOf(Linear)
	source, base, _ := f.answer(t, f.says(f.good))
	if _, err := source.Lookup(t.Context(), base+"/evil/issue/ENG-12/refund-4711"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := source.Lookup(t.Context(), base+"/acme/issue/ENG-12"); err != nil {
		t.Errorf("%v", err)
	}
}

func TestLinearClosed(t *testing.T) {
	f := fakeOf(Linear)
	r := f.good
	r.created = created
	body := f.speak(r, "https://linear.app")
	for _, change := range [][2]string{
		{`"canceledAt": null`, `"canceledAt": "2026-01-03T00:00:00.000Z"`},
		{`"archivedAt": null`, `"archivedAt": "2026-01-03T00:00:00.000Z"`},
		{`"type": "started"`, `"type": "completed"`},
		{`"type": "started"`, `"type": "canceled"`},
		{`"type": "started"`, `"type": "duplicate"`},
	} {
		source, _, _ := f.answer(t, func(w http.ResponseWriter, _ string) {
			io.WriteString(w, strings.Replace(body, change[0], change[1], 1))
		})
		if got, err := source.Lookup(t.Context(), f.ref); err != nil || !got.Closed {
			t.Errorf("%s: closed %t, %v", change[1], got.Closed, err)
		}
	}
}

func TestServiceNowTables(t *testing.T) {
	for prefix, table := range map[string]string{
		"INC": "incident", "CHG": "change_request", "PRB": "problem", "RITM": "sc_req_item", "TASK": "task",
	} {
		f := fakeOf(ServiceNow)
		number := prefix + "0000042"
		f.path = strings.NewReplacer("table/change_request", "table/"+table, "CHG0010023", number).Replace(f.path)
		f.good.id, f.good.project = number, "some_class"
		source, base, _ := f.answer(t, f.says(f.good))
		got, err := source.Lookup(t.Context(), number)
		if err != nil || got.Project != "some_class" || got.URL != base+"/"+table+".do?sysparm_query=number="+number {
			t.Errorf("%s: %+v, %v", number, got, err)
		}
		if again, err := source.Lookup(t.Context(), got.URL); err != nil || again != got {
			t.Errorf("%s: %+v, %v", got.URL, again, err)
		}
	}
}

func TestLongTitle(t *testing.T) {
	f := fakeOf(HTTP)
	for n, want := range map[int]int{300: 300, 301: 301, 5000: 301} {
		source, _, _ := f.answer(t, func(w http.ResponseWriter, _ string) {
			io.WriteString(w, `{"ref": "OPS:12#a", "state": "ready", "closed": false, "created_at": "2026-01-02T15:04:05Z", "title": "`+strings.Repeat("ü", n)+`"}`)
		})
		got, err := source.Lookup(t.Context(), f.ref)
		if runes := []rune(got.Title); err != nil || len(runes) != want || (n > 300) != strings.HasSuffix(got.Title, "…") {
			t.Errorf("%s: %d, %v", strconv.Itoa(n), len(runes), err)
		}
	}
}
