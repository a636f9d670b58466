package tracker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

func trackersOf(t *testing.T, configs ...Config) *Trackers {
	t.Helper()
	trackers, err := NewTrackers(configs)
	if err != nil {
		t.Fatal(err)
	}
	return trackers
}

// Ref writes every good reference in one way, which means itself.
func TestRef(t *testing.T) {
	for kind, refs := range goodRefs {
		source, err := New(Config{Name: "x", Kind: kind, BaseURL: parsers[kind].web, User: map[string]string{ServiceNow: "u"}[kind], Token: "t", AllowPrivate: []string{"10.0.0.0/8"}})
		if err != nil {
			t.Fatal(err)
		}
		for ref := range refs {
			_, want, _ := parsers[kind].parse(placeOf(t, parsers[kind].web), ref)
			got, err := source.Ref(ref)
			if linear := kind == Linear && strings.Contains(ref, "://"); linear {
				if !strings.HasSuffix(got, "/"+want) || !strings.HasPrefix(got, parsers[kind].web) {
					t.Errorf("%s %s: %q", kind, ref, got)
				}
			} else if got != want {
				t.Errorf("%s %s: %q, want %q", kind, ref, got, want)
			}
			if again, _ := source.Ref(got); err != nil || again != got {
				t.Errorf("%s %s: %q means %q, %v", kind, ref, got, again, err)
			}
		}
		if _, err := source.Ref("../x"); !errors.Is(err, ErrBadRef) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestTrackersTicket(t *testing.T) {
	trackers := trackersOf(t,
		Config{Name: "acme", Kind: Jira, BaseURL: "https://acme.example", Token: "t"},
		Config{Name: "eng", Kind: Linear, Token: "t"}, Config{Name: "hub", Kind: GitHub})
	for _, tc := range []struct{ system, ref, wantSystem, wantRef, wantErr string }{
		{"acme", "PAY-12", "acme", "PAY-12", ""},
		{"eng", "PAY-12", "eng", "PAY-12", ""},
		{"", "PAY-12", "", "", "could be one of acme or eng"},
		{"", "https://acme.example/browse/PAY-12", "acme", "PAY-12", ""},
		{"", "https://linear.app/acme/issue/ENG-12/title", "eng", "https://linear.app/acme/issue/ENG-12", ""},
		{"", "acme/pay#7", "hub", "acme/pay#7", ""},
		{"", "https://evil.example/browse/PAY-12", "", "", "no reference of acme, eng or hub"},
		{"hub", "PAY-12", "", "", "no reference of hub"},
		{"nope", "PAY-12", "", "", "no such ticket system"},
		{"ACME", "PAY-12", "", "", "no such ticket system"},
	} {
		got, err := trackers.Ticket(tc.system, tc.ref)
		if got != (approval.Ticket{System: tc.wantSystem, Ref: tc.wantRef}) || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%q of %q: %+v, %v", tc.ref, tc.system, got, err)
		}
	}
}

func TestTrackersCheck(t *testing.T) {
	f := fakeOf(HTTP)
	request := created.Add(time.Hour)
	status := func(code int) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) { w.WriteHeader(code) }
	}
	for what, tc := range map[string]struct {
		says    func(http.ResponseWriter, string)
		own     Terms // of the connector
		terms   *engine.TicketTerms
		code    Code
		unknown bool
	}{
		"good":                         {says: f.says(f.good)},
		"good by its own terms":        {says: f.says(f.good), own: Terms{Projects: []string{"OPS"}}},
		"not good by its own terms":    {says: f.says(f.good), own: Terms{Projects: []string{"HR"}}, code: TicketOtherProject},
		"the call's terms win":         {says: f.says(f.good), own: Terms{Projects: []string{"HR"}}, terms: &engine.TicketTerms{Projects: []string{"OPS"}}},
		"the others stay":              {says: f.says(f.good), own: Terms{MaxAge: time.Minute}, terms: &engine.TicketTerms{Projects: []string{"OPS"}}, code: TicketTooOld},
		"its system":                   {says: f.says(f.good), terms: &engine.TicketTerms{System: "tracker"}},
		"another system":               {says: f.says(f.good), terms: &engine.TicketTerms{System: "jira"}, code: TicketOtherSystem},
		"none":                         {says: status(404), code: TicketNotFound},
		"no answer":                    {says: status(500), unknown: true},
		"not there before the request": {says: f.says(record{id: f.good.id, project: "OPS", created: request}), code: TicketTooNew},
	} {
		_, base, asked := f.answer(t, tc.says)
		config := f.config(base)
		config.Projects, config.MaxAge = tc.own.Projects, engine.Duration(tc.own.MaxAge)
		ticket := approval.Ticket{System: "tracker", Ref: f.ref}
		got, err := trackersOf(t, config).Check(t.Context(), ticket, tc.terms, request, request.Add(time.Hour))
		if got.Code != string(tc.code) || (got.Message == "") != (tc.code == "") || (err != nil) != tc.unknown || got.System != ticket.System || got.Ref != ticket.Ref {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		if err != nil && (!errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), base)) {
			t.Errorf("%s: %v", what, err)
		}
		if tc.code == TicketOtherSystem && asked.Load() != 0 {
			t.Errorf("%s: asked", what)
		}
	}
	if _, err := trackersOf(t).Check(t.Context(), approval.Ticket{System: "gone", Ref: "X-1"}, nil, request, request); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a connector that is gone: %v", err)
	}
}

// What is kept of a tracker's text is text.
func TestTrackersText(t *testing.T) {
	f := fakeOf(HTTP)
	_, base, _ := f.answer(t, func(w http.ResponseWriter, _ string) {
		io.WriteString(w, `{"ref": "OPS:12#a", "title": "a\u0000b\r\nc\u001b[0m \ud800 d", "project": "O\u0000", "state": "r\n", "closed": false, "created_at": "2026-01-02T15:04:05Z"}`)
	})
	got, err := trackersOf(t, f.config(base)).Check(t.Context(), approval.Ticket{System: "tracker", Ref: f.ref}, nil, created.Add(time.Hour), created.Add(time.Hour))
	if err != nil || got.Title != "a b  c [0m \uFFFD d" || got.Project != "O " || got.State != "r " {
		t.Errorf("%+q, %v", got, err)
	}
}

// A tracker of our own shape is read by exact names, each once.
func TestTrackersReadEachMemberOnce(t *testing.T) {
	const rest = `"ref":"OPS:12#a","title":"t","project":"O","state":"s","created_at":"2026-01-02T15:04:05Z"}`
	for reply, want := range map[string]string{
		`{"closed":false,` + rest:                   "open",
		`{"closed":true,"Closed":false,` + rest:     "closed",
		`{"Closed":true,"closed":false,` + rest:     "open",
		`{"Closed":false,` + rest:                   "unreadable",
		`{"closed":false,"closed":true,` + rest:     "unreadable",
		`{"closed":true,"closed":true,` + rest:      "unreadable",
		`{"closed":"no",` + rest:                    "unreadable",
		`[{"closed":false,` + rest + `]`:            "unreadable",
		`{"closed":false,"x":{"a":1,"a":2},` + rest: "open",
	} {
		f := fakeOf(HTTP)
		_, base, _ := f.answer(t, func(w http.ResponseWriter, _ string) { io.WriteString(w, reply) })
		source, err := New(f.config(base))
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := source.Lookup(t.Context(), f.ref)
		got := "open"
		switch {
		case errors.Is(err, errUnreadable):
			got = "unreadable"
		case err != nil:
			got = err.Error()
		case ticket.Closed:
			got = "closed"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", reply, got, want)
		}
	}
}

// A lookup does not take longer than a call can wait, whatever is configured.
func TestTrackersBoundTheLookup(t *testing.T) {
	source := deadlined{}
	trackers := &Trackers{names: []string{"x"}, sources: map[string]Source{"x": &source}, terms: map[string]Terms{}}
	if _, err := trackers.Check(context.Background(), approval.Ticket{System: "x", Ref: "x"}, nil, created, created); err == nil {
		t.Error("no error")
	}
	if source.left <= 0 || source.left > lookupFor {
		t.Errorf("%s to answer", source.left)
	}
}

type deadlined struct{ left time.Duration }

func (d *deadlined) Ref(ref string) (string, error) { return ref, nil }

func (d *deadlined) Lookup(ctx context.Context, _ string) (Ticket, error) {
	at, _ := ctx.Deadline()
	d.left = time.Until(at)
	return Ticket{}, ErrUnavailable
}

func TestTrackersHaveDifferentNames(t *testing.T) {
	c := Config{Name: "acme", Kind: Jira, BaseURL: "https://acme.example", Token: "t"}
	bad := Config{Name: "bad", Kind: "trello", Token: secret}
	_, err := NewTrackers([]Config{c, c, bad})
	if err == nil || !strings.Contains(err.Error(), "two of this name") || !strings.Contains(err.Error(), "kind") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}
