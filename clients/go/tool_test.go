package holdpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

type step = func(http.ResponseWriter, *http.Request, string)

// streams is a step that sends approvals as events, and then breaks off.
func streams(approvals ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, a := range approvals {
			_, _ = fmt.Fprintf(w, "id: 1\nevent: approval\ndata: %s\n\n", a)
		}
	}
}

// silent is a step that says that the approval waits, and nothing more.
func silent(w http.ResponseWriter, r *http.Request, _ string) {
	streams(pending)(w, r, "")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

const (
	redeemed = `{"redeemed":true,"approval_id":"apr_1","constraints":{}}`
	wanted   = `{"id":"apr_1","status":"approved","tool_name":"t","execution":"none","resumption_token":"TOKEN"}`
	changed  = `{"id":"apr_1","status":"approved","tool_name":"t","resumption_token":"TOKEN","edited":{"arguments":{"n":2}}}`
)

type numbered struct {
	N int `json:"n"`
}

// counted is a tool that notes what it ran with.
type counted struct {
	Tool[numbered, string]
	mu  sync.Mutex
	ran []int
}

func newTool(t *testing.T, journal string, steps ...step) (*wire, *counted) {
	t.Helper()
	s, c := newWire(t, append(steps, answer(500, `{"code":"unexpected"}`))...)
	if journal != "" {
		j, err := OpenJournal(journal)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		c.Journal = j
	}
	tool := &counted{}
	tool.Client, tool.Event = c, Event{ToolName: "t", ToolCategory: Write}
	tool.Run = func(_ context.Context, in numbered, _ Permit) (string, error) {
		tool.mu.Lock()
		defer tool.mu.Unlock()
		tool.ran = append(tool.ran, in.N)
		return "done", nil
	}
	return s, tool
}

// crashed is a journal as a killed process left it: a proposed call, and these lines.
func crashed(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	text := `{"call":"c","step":"proposed","tool":"t","key":"c","body":"{\"tool_name\":\"t\",\"tool_category\":\"write\",\"proposed_arguments\":{\"n\":1}}","headers":{}}`
	for _, l := range lines {
		text += "\n\n" + l
	}
	if err := os.WriteFile(path, []byte("\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	waits   = `{"call":"c","step":"waiting","approval":"apr_1"}`
	redeems = `{"call":"c","step":"redeeming","approval":"apr_1","key":"k","body":"{\"token\":\"OLD\",\"tool_name\":\"t\",\"arguments\":{\"n\":5}}"}`
	begun   = `{"call":"c","step":"begun","by":"x"}`
	hasRun  = `{"call":"c","step":"ran","outcome":"failed","ms":7}`
)

func problemStep(status int, code string) step {
	return answer(status, fmt.Sprintf(`{"code":%q,"title":"T","detail":"d"}`, code))
}

func TestToolRunsWhatIsPermitted(t *testing.T) {
	withApproval := strings.TrimSuffix(accepted, "}") + `,"approval":` + wanted + `}`
	for name, c := range map[string]struct {
		steps []step
		ran   []int
		want  func(error) bool
	}{
		"accepted":                  {[]step{answer(200, accepted)}, []int{1}, isNil},
		"refused":                   {[]step{answer(200, refused)}, nil, isRefused("t was refused: runtime_refusal")},
		"approved":                  {[]step{answer(202, waiting), streams(pending, wanted), answer(200, redeemed), answer(200, `{}`)}, []int{1}, isNil},
		"a token for an accepted":   {[]step{answer(200, withApproval), streams(wanted), answer(200, redeemed), answer(200, `{}`)}, []int{1}, isNil},
		"edited":                    {[]step{answer(202, waiting), streams(changed), answer(200, redeemed), answer(200, `{}`)}, []int{2}, isNil},
		"edited to what it is not":  {[]step{answer(202, waiting), streams(strings.Replace(changed, `"n":2`, `"m":2`, 1))}, nil, is(ErrEdited)},
		"edited to nothing":         {[]step{answer(202, waiting), streams(strings.Replace(changed, `"n":2`, `"n":null`, 1))}, nil, is(ErrEdited)},
		"edited to less":            {[]step{answer(202, waiting), streams(strings.Replace(changed, `"n":2`, ``, 1))}, nil, is(ErrEdited)},
		"edited to another case":    {[]step{answer(202, waiting), streams(strings.Replace(changed, `"n":2`, `"N":2`, 1))}, nil, is(ErrEdited)},
		"denied":                    {[]step{answer(202, waiting), streams(`{"id":"apr_1","status":"denied","tool_name":"t"}`)}, nil, isRefused("t was not approved: denied")},
		"constrained":               {[]step{answer(202, waiting), streams(wanted), answer(200, strings.Replace(redeemed, "{}", `{"max":1}`, 1)), answer(200, `{}`)}, nil, is(ErrConstraints)},
		"no token":                  {[]step{answer(202, waiting), streams(strings.Replace(wanted, "TOKEN", "", 1))}, nil, isOther},
		"spent by somebody":         {[]step{answer(202, waiting), streams(wanted), problemStep(409, "token_used")}, nil, isDone},
		"the token is too old once": {[]step{answer(202, waiting), streams(wanted), problemStep(401, "token_expired"), streams(wanted), answer(200, redeemed), answer(200, `{}`)}, []int{1}, isNil},
		"the token is too old":      {[]step{answer(202, waiting), streams(wanted), problemStep(401, "token_expired"), streams(wanted), problemStep(401, "token_expired")}, nil, isOther},
		"a kill switch":             {[]step{answer(202, waiting), streams(wanted), problemStep(423, "kill_switch")}, nil, isOther},
		"a proposal that is wrong":  {[]step{answer(200, `{"tool_name":"t","hard_blockers":["schema_validation_failed"],"validation_errors":[{"path":"$.risk_domain","message":"The field is required."}]}`)}, nil, isRefused("t was refused: schema_validation_failed ($.risk_domain: The field is required.)")},
		"no answer that it knows":   {[]step{answer(200, `{}`)}, nil, isRefused(" was refused: ")},
	} {
		t.Run(name, func(t *testing.T) {
			s, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), c.steps...)
			result, err := tool.Call(ctx, numbered{1})
			if !slices.Equal(tool.ran, c.ran) || !c.want(err) || (result == "done") != (err == nil) {
				t.Errorf("ran %v, %q, error %v", tool.ran, result, err)
			}
			if len(s.seen) != len(c.steps) {
				t.Errorf("requests: %q", s.lines())
			}
			if name == "edited" && !strings.Contains(s.seen[2].body, `"arguments":{"n":2}`) {
				t.Errorf("redeemed with %s", s.seen[2].body)
			}
		})
	}
}

func isDone(err error) bool { var d *AlreadyDone; return errors.As(err, &d) }

func TestToolIsHandedConstraints(t *testing.T) {
	_, tool := newTool(t, "", answer(202, waiting), streams(wanted), answer(200, strings.Replace(redeemed, "{}", `{"max":1}`, 1)), answer(200, `{}`))
	tool.KeepsConstraints = true
	tool.Run = func(_ context.Context, _ numbered, p Permit) (string, error) {
		return p.ApprovalID + string(p.Constraints), nil
	}
	if got, err := tool.Call(ctx, numbered{1}); err != nil || got != `apr_1{"max":1}` {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestToolLeavesWhatWaits: a wait that its context ends leaves the approval waiting, unless
// it is to be taken back.
func TestToolLeavesWhatWaits(t *testing.T) {
	for cancels, want := range map[bool]int{false: 2, true: 3} {
		ctx, cancel := context.WithCancel(ctx)
		s, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), answer(202, waiting), func(w http.ResponseWriter, r *http.Request, body string) {
			cancel()
			silent(w, r, body)
		}, answer(200, pending))
		tool.CancelWhenDone = cancels
		says := map[bool]string{false: "goes on waiting", true: "was taken back"}[cancels]
		if _, err := tool.Call(ctx, numbered{1}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "apr_1") || !strings.Contains(err.Error(), says) || len(tool.ran) != 0 {
			t.Errorf("ran %v, error %v", tool.ran, err)
		}
		left, err := tool.Client.Unfinished()
		if err != nil || len(s.seen) != want || (len(left) == 0) != cancels {
			t.Errorf("requests %q, unfinished %v, %v", s.lines(), left, err)
		}
	}
}

func TestWaitFallsBackToAsking(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	}
	s, c := newWire(t, streams(pending), hangUp, page, page, answer(200, wanted, "ETag", `"r2"`))
	a, err := c.Wait(ctx, "apr_1")
	if err != nil || a.Status != Approved || s.lines()[4] != "GET /v1/approvals/apr_1?wait=25" {
		t.Errorf("got %+v, %v, %q", a.Status, err, s.lines())
	}
	_, c = newWire(t, problemStep(404, "not_found"))
	if _, err := c.Wait(ctx, "apr_1"); err == nil {
		t.Error("it waits for what is not there")
	}
}

func TestToolResumes(t *testing.T) {
	ok, replayed := answer(200, `{}`), answer(200, strings.Replace(redeemed, "{", `{"replayed":true,`, 1))
	for name, c := range map[string]struct {
		lines []string
		steps []step
		ran   []int
		want  func(error) bool
		left  string
	}{
		"proposed":         {nil, []step{answer(202, waiting), answer(200, pending), streams(wanted), answer(200, redeemed), ok}, []int{1}, isNil, ""},
		"waiting":          {[]string{waits}, []step{streams(changed), answer(200, redeemed), ok}, []int{2}, isNil, ""},
		"redeeming":        {[]string{waits, redeems}, []step{replayed, ok}, []int{5}, isNil, ""},
		"too old":          {[]string{waits, redeems}, []step{problemStep(401, "token_expired"), streams(wanted), answer(200, redeemed), ok}, []int{1}, isNil, ""},
		"reported before":  {[]string{waits, redeems}, []step{problemStep(409, "already_reported")}, nil, isDone, ""},
		"a kept answer":    {[]string{waits, redeems}, []step{problemStep(423, "kill_switch"), answer(200, wanted), streams(wanted), answer(200, redeemed), ok}, []int{1}, isNil, ""},
		"spent and killed": {[]string{waits, redeems}, []step{problemStep(423, "kill_switch"), answer(200, strings.Replace(wanted, `"none"`, `"redeemed"`, 1))}, nil, isOther, "redeeming"},
		"begun":            {[]string{waits, redeems, begun}, nil, nil, is(ErrOutcomeUnknown), "begun"},
		"ran":              {[]string{waits, redeems, begun, hasRun}, []step{ok}, nil, isDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, tool := newTool(t, crashed(t, c.lines...), c.steps...)
			left, err := tool.Client.Unfinished()
			if err != nil || len(left) != 1 || string(left[0].Arguments) != `{"n":1}` {
				t.Fatalf("unfinished: %+v, %v", left, err)
			}
			if _, err := tool.Resume(ctx, left[0]); !slices.Equal(tool.ran, c.ran) || !c.want(err) {
				t.Errorf("ran %v, error %v", tool.ran, err)
			}
			if len(s.seen) != len(c.steps) {
				t.Errorf("requests: %q", s.lines())
			}
			if name == "redeeming" && (s.seen[0].idempotency != "k" || !strings.Contains(s.seen[0].body, "OLD")) {
				t.Errorf("redeemed with %+v", s.seen[0])
			}
			left, err = tool.Client.Unfinished()
			if err != nil || (len(left) == 0) != (c.left == "") || len(left) > 0 && left[0].State != c.left {
				t.Errorf("still unfinished: %+v, %v", left, err)
			}
		})
	}
}

func TestUnfinishedIsSettledOrDropped(t *testing.T) {
	s, tool := newTool(t, crashed(t, waits, redeems, begun), answer(200, `{}`))
	left, _ := tool.Client.Unfinished()
	if err := left[0].Drop(ctx); err == nil {
		t.Error("what has begun is dropped")
	}
	if err := left[0].Settle(ctx, Succeeded); err != nil || !strings.Contains(s.seen[0].body, `"succeeded"`) {
		t.Errorf("settled: %v, %+v", err, s.seen)
	}
	s, tool = newTool(t, crashed(t, waits), problemStep(409, "already_denied"))
	left, _ = tool.Client.Unfinished()
	if err := left[0].Settle(ctx, Succeeded); err == nil {
		t.Error("what waits is settled")
	}
	if err := left[0].Drop(ctx); err != nil || s.lines()[0] != "POST /v1/approvals/apr_1/cancel" {
		t.Errorf("dropped: %v, %q", err, s.lines())
	}
	if left, err := tool.Client.Unfinished(); err != nil || len(left) != 0 {
		t.Errorf("still unfinished: %v, %v", left, err)
	}
}

// TestDropOfWhatHasBegunMeanwhile: a call that another process has gone on with since it
// was listed is not dropped: its outcome stays on record, and it does not run again.
func TestDropOfWhatHasBegunMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		steps []step
	}{
		"waiting":   {[]string{waits}, []step{streams(wanted), answer(200, redeemed), answer(200, `{}`)}},
		"redeeming": {[]string{waits, redeems}, []step{answer(200, redeemed), answer(200, `{}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			journal := crashed(t, c.lines...)
			s, dropping := newTool(t, journal)
			stale, err := dropping.Client.Unfinished()
			if err != nil || len(stale) != 1 {
				t.Fatalf("unfinished: %+v, %v", stale, err)
			}
			_, running := newTool(t, journal, c.steps...)
			left, err := running.Client.Unfinished()
			if err != nil || len(left) != 1 {
				t.Fatalf("unfinished: %+v, %v", left, err)
			}
			running.Run = func(ctx context.Context, in numbered, _ Permit) (string, error) {
				running.ran = append(running.ran, in.N)
				if err := stale[0].Drop(ctx); err == nil {
					t.Error("what runs is dropped")
				}
				return "done", nil
			}
			if _, err := running.Resume(ctx, left[0]); err != nil {
				t.Fatal(err)
			}
			if e, err := dropping.Client.Journal.entry("c"); err != nil || e.outcome != Succeeded || e.step != stepOver {
				t.Errorf("on record: %+v, %v", e, err)
			}
			if err := stale[0].Drop(ctx); err == nil {
				t.Error("what ran is dropped")
			}
			if len(running.ran) != 1 || len(s.seen) != 0 {
				t.Errorf("ran %v; the one that drops asked %q", running.ran, s.lines())
			}
		})
	}
}

// TestDropOfWhatIsRedeemed: that it did not run is reported, also where it went on since
// it was listed, if the token was spent by this journal; then nobody runs it under its key
// of then.
func TestDropOfWhatIsRedeemed(t *testing.T) {
	replayed := answer(200, strings.Replace(redeemed, "{", `{"replayed":true,`, 1))
	for name, test := range map[string]struct {
		steps []step
		want  []string
		drops bool
	}{
		"by this journal":       {[]step{replayed, answer(200, `{}`)}, []string{"POST /v1/tokens/redeem", "POST /v1/executions"}, true},
		"reported already":      {[]step{replayed, problemStep(409, "already_reported")}, []string{"POST /v1/tokens/redeem", "POST /v1/executions"}, true},
		"by another program":    {[]step{problemStep(409, "token_used")}, []string{"POST /v1/tokens/redeem"}, true},
		"too late":              {[]step{problemStep(410, "token_expired")}, []string{"POST /v1/tokens/redeem"}, true},
		"stopped, not redeemed": {[]step{problemStep(423, "agent_stopped"), answer(200, `{"id":"apr_1","status":"approved","execution":"none"}`)}, []string{"POST /v1/tokens/redeem", "GET /v1/approvals/apr_1"}, true},
		"stopped, redeemed":     {[]step{problemStep(423, "agent_stopped"), answer(200, `{"id":"apr_1","status":"approved","execution":"redeemed"}`)}, []string{"POST /v1/tokens/redeem", "GET /v1/approvals/apr_1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, tool := newTool(t, crashed(t, waits), test.steps...)
			left, err := tool.Client.Unfinished()
			if err != nil || len(left) != 1 {
				t.Fatalf("unfinished: %+v, %v", left, err)
			}
			id, key, body := "apr_1", "k", `{"token":"OLD"}`
			if err := tool.Client.Journal.write(line{Call: "c", Step: stepRedeeming, Approval: &id, Key: &key, Body: &body}); err != nil {
				t.Fatal(err)
			}
			if err := left[0].Drop(ctx); (err == nil) != test.drops || !slices.Equal(s.lines(), test.want) {
				t.Errorf("%v, %q", err, s.lines())
			}
			if last := s.seen[len(s.seen)-1]; len(test.want) == 2 && strings.HasSuffix(test.want[1], "executions") && !strings.Contains(last.body, `"failed"`) {
				t.Errorf("reported %s", last.body)
			}
			if by, err := tool.Client.Journal.begin("c"); err != nil || by != "" {
				t.Errorf("what was dropped begins: %q, %v", by, err)
			}
			if err := left[0].Drop(ctx); (err == nil) != test.drops || len(s.seen) != len(test.want) {
				t.Errorf("again: %v, %+v", err, s.seen)
			}
		})
	}
}

// TestTwoThatResumeAtOnce: two processes with one journal run a call once.
func TestTwoThatResumeAtOnce(t *testing.T) {
	journal, replayed := crashed(t, waits, redeems), answer(200, strings.Replace(redeemed, "{", `{"replayed":true,`, 1))
	var tools [2]*counted
	var errs [2]error
	var left [2][]*Unfinished
	for i := range tools {
		_, tools[i] = newTool(t, journal, replayed, answer(200, `{}`))
		left[i], _ = tools[i].Client.Unfinished()
	}
	var both sync.WaitGroup
	for i := range tools {
		both.Add(1)
		go func() {
			defer both.Done()
			_, errs[i] = tools[i].Resume(ctx, left[i][0])
		}()
	}
	both.Wait()
	if len(tools[0].ran)+len(tools[1].ran) != 1 || (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[0], errs[1]), ErrOutcomeUnknown) {
		t.Errorf("ran %v and %v, errors %v", tools[0].ran, tools[1].ran, errs)
	}
}

func TestOwnKey(t *testing.T) {
	withApproval := strings.TrimSuffix(accepted, "}") + `,"approval":` + wanted + `}`
	journal := filepath.Join(t.TempDir(), "journal")
	s, tool := newTool(t, journal, answer(200, withApproval), streams(wanted), answer(200, redeemed), answer(200, `{}`))
	if _, err := tool.CallAs(ctx, "invoice:1", numbered{1}); err != nil || s.seen[0].idempotency != "invoice:1" || !strings.Contains(s.seen[0].body, `"want_token":true`) {
		t.Errorf("%v, %+v", err, s.seen[0])
	}
	s, again := newTool(t, journal)
	if _, err := again.CallAs(ctx, "invoice:1", numbered{1}); !isDone(err) {
		t.Errorf("got %v", err)
	}
	if _, err := again.CallAs(ctx, "invoice:1", numbered{2}); !errors.Is(err, ErrOtherCall) {
		t.Errorf("got %v", err)
	}
	if len(s.seen) != 0 || len(again.ran) != 0 {
		t.Errorf("ran %v, requests %q", again.ran, s.lines())
	}
}

func TestOwnKeyTwiceAtOnce(t *testing.T) {
	withApproval := strings.TrimSuffix(accepted, "}") + `,"approval":` + wanted + `}`
	_, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), answer(200, withApproval), streams(wanted), answer(200, redeemed), answer(200, `{}`))
	tool.Run = func(ctx context.Context, in numbered, _ Permit) (string, error) {
		tool.ran = append(tool.ran, in.N)
		if _, err := tool.CallAs(ctx, "invoice:1", in); err == nil || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("the second call: %v", err)
		}
		return "", nil
	}
	if _, err := tool.CallAs(ctx, "invoice:1", numbered{1}); err != nil || len(tool.ran) != 1 {
		t.Errorf("ran %v, %v", tool.ran, err)
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	s, tool := newTool(t, filepath.Join(t.TempDir(), "journal"), answer(200, accepted))
	if err := tool.Client.Journal.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Call(ctx, numbered{1}); err == nil || len(tool.ran) != 0 || len(s.seen) != 0 {
		t.Errorf("ran %v, %v, %q", tool.ran, err, s.lines())
	}
	if _, err := OpenJournal(t.TempDir()); err == nil {
		t.Error("a directory is a journal")
	}
}

func TestJournalOfAWholeLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	_, tool := newTool(t, path, answer(202, waiting), streams(wanted), answer(200, redeemed), answer(200, `{}`))
	steps := func() (list []string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "\n") {
			var l line
			if json.Unmarshal([]byte(text), &l) == nil {
				list = append(list, l.Step)
			}
		}
		return list
	}
	var before []string
	tool.Run = func(context.Context, numbered, Permit) (string, error) { before = steps(); return "", nil }
	if _, err := tool.Call(ctx, numbered{1}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"proposed", "waiting", "redeeming", "begun"}; !slices.Equal(before, want) || !slices.Equal(steps(), append(want, "ran", "over")) {
		t.Errorf("before the run %v, after it %v", before, steps())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestList(t *testing.T) {
	s, c := newWire(t, answer(200, `{"approvals":[{"id":"apr_1"}],"next_cursor":"c/1"}`), answer(200, `{"approvals":[{"id":"apr_2"}]}`))
	var got []string
	for a, err := range c.List(ctx, Filter{Status: Pending, ToolName: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a.ID)
	}
	if !slices.Equal(got, []string{"apr_1", "apr_2"}) || s.lines()[1] != "GET /v1/approvals?cursor=c%2F1&limit=100&status=pending&tool_name=t" {
		t.Errorf("got %v by %q", got, s.lines())
	}
}

// No list is not an empty one: what has run would be taken for what never began.
func TestListOfNothingKnown(t *testing.T) {
	for _, body := range []string{`{}`, `{"approvals":null}`, `{"approval":[]}`, `[]`, `null`, `{"approvals":{}}`} {
		_, c := newWire(t, answer(200, body))
		var errs []error
		for a, err := range c.List(ctx, Filter{}) {
			if errs = append(errs, err); a.ID != "" {
				t.Errorf("%s: %+v", body, a)
			}
		}
		if len(errs) != 1 || errs[0] == nil {
			t.Errorf("%s: %v", body, errs)
		}
	}
	_, c := newWire(t, answer(200, `{"approvals":[]}`))
	for a, err := range c.List(ctx, Filter{}) {
		t.Errorf("an empty list has %+v, %v", a, err)
	}
}
