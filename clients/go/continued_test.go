package holdpoint

import (
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheSameCallGoesOn: a call without a key goes on as the unfinished one that says the
// same; once that is over, an equal call is another.
func TestTheSameCallGoesOn(t *testing.T) {
	ok, replayed := answer(200, `{}`), answer(200, strings.Replace(redeemed, "{", `{"replayed":true,`, 1))
	status := func(is string) step { return answer(200, strings.Replace(pending, "pending", is, 1)) }
	for name, c := range map[string]struct {
		lines []string
		steps []step
		ran   []int
		want  func(error) bool
		first string // request
		left  string
	}{
		"proposed":            {nil, []step{answer(202, waiting), answer(200, pending), streams(wanted), answer(200, redeemed), ok}, []int{1}, isNil, "POST /v1/pre-tool-check", ""},
		"approved meanwhile":  {[]string{waits}, []step{answer(200, wanted), streams(wanted), answer(200, redeemed), ok}, []int{1}, isNil, "GET /v1/approvals/apr_1", ""},
		"still waiting":       {[]string{waits}, []step{answer(200, pending), streams(wanted), answer(200, redeemed), ok}, []int{1}, isNil, "GET /v1/approvals/apr_1", ""},
		"denied meanwhile":    {[]string{waits}, []step{status("denied"), streams(strings.Replace(pending, "pending", "denied", 1))}, nil, isRefused("t was not approved: denied"), "GET /v1/approvals/apr_1", ""},
		"expired meanwhile":   {[]string{waits}, []step{status("expired"), answer(200, accepted)}, []int{1}, isNil, "GET /v1/approvals/apr_1", ""},
		"cancelled meanwhile": {[]string{waits}, []step{status("cancelled"), answer(200, accepted)}, []int{1}, isNil, "GET /v1/approvals/apr_1", ""},
		"unknown there":       {[]string{waits}, []step{problemStep(404, "not_found"), answer(200, accepted)}, []int{1}, isNil, "GET /v1/approvals/apr_1", ""},
		"never run in time":   {[]string{waits}, []step{answer(200, strings.Replace(wanted, `,"resumption_token":"TOKEN"`, "", 1)), answer(200, accepted)}, []int{1}, isNil, "GET /v1/approvals/apr_1", ""},
		"redeeming":           {[]string{waits, redeems}, []step{replayed, ok}, []int{5}, isNil, "POST /v1/tokens/redeem", ""},
		"begun":               {[]string{waits, redeems, begun}, nil, nil, is(ErrOutcomeUnknown), "", "begun"},
		"ran":                 {[]string{waits, redeems, begun, hasRun}, []step{ok}, nil, isDone, "POST /v1/executions", ""},
		"ran, unknown there":  {[]string{waits, redeems, begun, hasRun}, []step{problemStep(404, "not_found")}, nil, isDone, "POST /v1/executions", ""},
		"ran, not redeemed":   {[]string{waits, redeems, begun, hasRun}, []step{problemStep(409, "not_redeemed")}, nil, isDone, "POST /v1/executions", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, tool := newTool(t, crashed(t, c.lines...), c.steps...)
			if _, err := tool.Call(ctx, numbered{1}); !slices.Equal(tool.ran, c.ran) || !c.want(err) {
				t.Errorf("ran %v, error %v", tool.ran, err)
			}
			if lines := s.lines(); len(lines) != len(c.steps) || len(lines) > 0 && lines[0] != c.first {
				t.Errorf("requests: %q", lines)
			}
			left, err := tool.Client.Unfinished()
			if err != nil || (len(left) == 0) != (c.left == "") || len(left) > 0 && left[0].State != c.left {
				t.Errorf("unfinished: %+v, %v", left, err)
			}
			if c.left == "" {
				s.mu.Lock()
				s.steps = append(s.steps[:len(s.seen)], answer(200, accepted))
				s.mu.Unlock()
				if _, err := tool.Call(ctx, numbered{1}); err != nil || s.lines()[len(c.steps)] != "POST /v1/pre-tool-check" {
					t.Errorf("the next equal call: %v, %q", err, s.lines())
				}
			}
		})
	}
}

// TestWhatIsJudgedOtherwise: a call that asks for more people than the unfinished one is
// another one: it is proposed as it is now.
func TestWhatIsJudgedOtherwise(t *testing.T) {
	s, tool := newTool(t, crashed(t), answer(200, accepted))
	tool.Event.RecommendedRoute = "defer"
	if _, err := tool.Call(ctx, numbered{1}); err != nil {
		t.Fatal(err)
	}
	if seen := s.seen[0]; seen.idempotency == "c" || !strings.Contains(seen.body, `"recommended_route":"defer"`) {
		t.Errorf("proposed: %s, %s", seen.idempotency, seen.body)
	}
}

// TestTwoEqualCallsAtOnce: neither goes on as what the other is busy with.
func TestTwoEqualCallsAtOnce(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	s, tool := newTool(t, crashed(t, waits), func(w http.ResponseWriter, r *http.Request, body string) {
		close(asked)
		<-goOn
		answer(200, wanted)(w, r, body)
	}, answer(200, accepted), streams(wanted), answer(200, redeemed), answer(200, `{}`))
	first := make(chan error, 1)
	go func() {
		_, err := tool.Call(ctx, numbered{1})
		first <- err
	}()
	<-asked
	_, second := tool.Call(ctx, numbered{1})
	close(goOn)
	if err := errors.Join(<-first, second); err != nil || !slices.Equal(tool.ran, []int{1, 1}) {
		t.Errorf("ran %v, %v", tool.ran, err)
	}
	if s.lines()[1] != "POST /v1/pre-tool-check" {
		t.Errorf("requests %q", s.lines())
	}
}

// TestWhatAnotherProcessRedeems stays its own.
func TestWhatAnotherProcessRedeems(t *testing.T) {
	journal := crashed(t, waits)
	_, other := newTool(t, journal)
	_, tool := newTool(t, journal, answer(200, wanted), streams(wanted), func(w http.ResponseWriter, r *http.Request, body string) {
		id, key, sent := "apr_1", "k", `{"token":"OLD"}`
		if err := other.Client.Journal.write(line{Call: "c", Step: stepRedeeming, Approval: &id, Key: &key, Body: &sent}); err != nil {
			t.Error(err)
		}
		problemStep(409, "token_used")(w, r, body)
	})
	if _, err := tool.Call(ctx, numbered{1}); !isDone(err) || len(tool.ran) != 0 {
		t.Errorf("ran %v, %v", tool.ran, err)
	}
	if by, err := other.Client.Journal.begin("c"); err != nil || by == "" {
		t.Errorf("the other cannot begin: %v", err)
	}
}

// TestSaysThatANamedCallWaits: only while it does. Under a key of its own the answer may be one
// that was given before people decided.
func TestSaysThatANamedCallWaits(t *testing.T) {
	for now, c := range map[string]struct {
		steps []step
		want  []Status
	}{
		"pending":  {[]step{answer(200, pending), streams(wanted)}, []Status{Pending}},
		"approved": {[]step{answer(200, wanted), streams(wanted)}, nil},
		"unread":   {[]step{problemStep(500, "internal"), streams(wanted)}, nil},
	} {
		steps := slices.Concat([]step{answer(202, waiting)}, c.steps, []step{answer(200, redeemed), answer(200, `{}`)})
		_, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), steps...)
		var told []Status
		tool.Client.OnWait = func(a Approval) { told = append(told, a.Status) }
		if _, err := tool.CallAs(ctx, "invoice-1", numbered{1}); err != nil || !slices.Equal(told, c.want) {
			t.Errorf("%s: told %q, %v", now, told, err)
		}
	}
}

// TestSaysWhatWasLeftWaiting: once, while it waits, whether it is made again or resumed.
func TestSaysWhatWasLeftWaiting(t *testing.T) {
	for now, c := range map[string]struct {
		stream step
		want   []Status
	}{
		"pending":  {streams(pending, pending, wanted), []Status{Pending}},
		"approved": {streams(wanted), nil},
	} {
		for _, resumed := range []bool{false, true} {
			_, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), answer(202, waiting), answer(200, pending), problemStep(403, "no_more"),
				c.stream, answer(200, redeemed), answer(200, `{}`))
			var told []Status
			tool.Client.OnWait = func(a Approval) { told = append(told, a.Status) }
			if _, err := tool.CallAs(ctx, "c", numbered{1}); err == nil || !slices.Equal(told, []Status{Pending}) {
				t.Fatalf("first: told %q, %v", told, err)
			}
			told = nil
			var err error
			if resumed {
				var left []*Unfinished
				if left, err = tool.Client.Unfinished(); err == nil {
					_, err = tool.Resume(ctx, left[0])
				}
			} else {
				_, err = tool.CallAs(ctx, "c", numbered{1})
			}
			if err != nil || !slices.Equal(told, c.want) {
				t.Errorf("%s, resumed %v: told %q, %v", now, resumed, told, err)
			}
		}
	}
}

func TestSaysWhatWaits(t *testing.T) {
	_, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), answer(202, waiting), streams(wanted), answer(200, redeemed), answer(200, `{}`))
	var told []string
	tool.Client.OnWait = func(a Approval) { told = append(told, a.ID) }
	if _, err := tool.Call(ctx, numbered{1}); err != nil || !slices.Equal(told, []string{"apr_1"}) {
		t.Errorf("told %q, %v", told, err)
	}
	a := Approval{ToolName: "p\x1bay", Token: "TOKEN", Links: Links{Review: "http://h/approvals/apr_1"}, Requirements: []Requirement{
		{Kind: "answer", Status: "satisfied"}, {Kind: "review", Role: "finance", Needed: 2, Status: "waiting"}, {Kind: "human", Status: "queued"},
	}}
	if got, want := waitsFor(a), "holdpoint: p?ay waits for review by 2 × finance, then human: http://h/approvals/apr_1"; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := waitsFor(Approval{ToolName: "pay"}), "holdpoint: pay waits for people"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestWithoutKeyOrURL(t *testing.T) {
	_, c := newWire(t, problemStep(401, "unauthenticated"))
	c.Key = ""
	if _, err := c.Check(ctx, Event{}); err == nil || !strings.Contains(err.Error(), "HOLDPOINT_API_KEY") || !strings.Contains(err.Error(), "agent_key") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := (&Client{}).Check(ctx, Event{}); err == nil || !strings.Contains(err.Error(), "HOLDPOINT_URL") {
		t.Errorf("without a URL: %v", err)
	}
}

// TestWrongAddressOrKey: what no try can mend is told at once, and without what there is instead of it.
func TestWrongAddressOrKey(t *testing.T) {
	for _, url := range []string{"127.0.0.1:8080", "localhost:8080", "http:/127.0.0.1:8080", "htp://127.0.0.1", "http://127.0.0.1:8o8o", "hp_secret", "https://h/?key=hp_secret"} {
		if _, err := (&Client{URL: url, Key: "hp_x"}).Check(ctx, Event{}); err == nil || !strings.Contains(err.Error(), "HOLDPOINT_URL") || temporary(err) || strings.Contains(err.Error(), "hp_secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, key := range []string{"hp_se\ncret", "hp se", "hp_ü"} {
		if _, err := (&Client{URL: "http://127.0.0.1:1", Key: key}).Check(ctx, Event{}); err == nil || !strings.Contains(err.Error(), "HOLDPOINT_API_KEY") || temporary(err) || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
	_, c := newWire(t, answer(200, waiting))
	c.URL, c.Key = " "+c.URL+"/ ", c.Key+"\n"
	if _, err := c.Get(ctx, "apr_1"); err != nil {
		t.Errorf("with blanks around both: %v", err)
	}
}
