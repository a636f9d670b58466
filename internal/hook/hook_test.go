package hook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	holdpoint "holdpoint.example/client"
)

var ask = Call{Session: "s", ID: "t1", Tool: "Bash", Arguments: json.RawMessage(`{"command":"make"}`)}

// A call runs when the answer says so in every place in which it can, and has one reading.
func TestAnswersThatPermitNothing(t *testing.T) {
	const good = `{"allowed":true,"decision":{"outcome":"ALLOW"}}`
	for name, answer := range map[string]struct {
		status int
		kind   string
		body   string
		runs   bool
	}{
		"a permission":                 {200, "application/json; charset=utf-8", good, true},
		"allowed alone":                {200, "application/json", `{"allowed":true}`, false},
		"against the decision":         {200, "application/json", `{"allowed":true,"decision":{"outcome":"DENY"}}`, false},
		"an outcome of another case":   {200, "application/json", `{"allowed":true,"decision":{"outcome":"allow"}}`, false},
		"beside an approval":           {200, "application/json", `{"allowed":true,"decision":{"outcome":"ALLOW"},"approval":{"id":"apr_1"}}`, false},
		"a member in another case":     {200, "application/json", `{"Allowed":true,"decision":{"outcome":"ALLOW"}}`, false},
		"two members in two cases":     {200, "application/json", `{"allowed":false,"Allowed":true,"decision":{"outcome":"ALLOW"}}`, false},
		"the other way round":          {200, "application/json", `{"allowed":true,"decision":{"outcome":"ALLOW","OUTCOME":"DENY"}}`, false},
		"a letter that folds":          {200, "application/json", `{"allowed":true,"decision":{"outcome":"ALLOW"},"deciſion":{"outcome":"ALLOW"}}`, false},
		"a member twice":               {200, "application/json", `{"allowed":false,"allowed":true,"decision":{"outcome":"ALLOW"}}`, false},
		"a text":                       {200, "application/json", `{"allowed":"true","decision":{"outcome":"ALLOW"}}`, false},
		"created":                      {201, "application/json", good, false},
		"accepted for later":           {202, "application/json", good, false},
		"a page":                       {200, "text/html", good, false},
		"of no kind":                   {200, "", good, false},
		"with more behind it":          {200, "application/json", good + " {}", false},
		"a redirect":                   {307, "application/json", good, false},
		"nothing":                      {200, "application/json", "", false},
		"null":                         {200, "application/json", "null", false},
		"a decision that is no object": {200, "application/json", `{"allowed":true,"decision":"ALLOW"}`, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if answer.kind != "" {
				w.Header().Set("Content-Type", answer.kind)
			}
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, answer.body)
		}))
		g := Gate{URL: server.URL, Key: "hp_test", Dir: t.TempDir()}
		v, err := g.Before(t.Context(), ask, false)
		if v.Run != answer.runs || (err == nil && v.Why == "") != answer.runs {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		server.Close()
	}
}

// fakeHoldpoint is a Holdpoint that asks people about each call, who approve it at once.
type fakeHoldpoint struct {
	mu      sync.Mutex
	asked   int
	spent   map[string]bool
	reports []string
}

func (h *fakeHoldpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "application/problem+json"}[status < 400])
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	body, _ := io.ReadAll(r.Body)
	id := "apr_" + strings.Repeat("x", h.asked)
	switch path := r.URL.Path; {
	case path == "/v1/tool-calls/check":
		h.asked++
		answer(202, map[string]any{"allowed": false, "decision": map[string]string{"outcome": "REQUIRE_APPROVAL"}, "approval": map[string]string{"id": id + "x", "status": "pending"}})
	case strings.HasPrefix(path, "/v1/approvals/"):
		id = strings.TrimPrefix(path, "/v1/approvals/")
		a := map[string]any{"id": id, "status": "approved", "execution": "none"}
		if !h.spent[id] {
			a["resumption_token"] = id
		}
		answer(200, a)
	case path == "/v1/tokens/redeem":
		var in struct{ Token string }
		_ = json.Unmarshal(body, &in)
		if h.spent[in.Token] {
			answer(409, map[string]string{"code": "token_used"})
			return
		}
		h.spent[in.Token] = true
		answer(200, map[string]any{"redeemed": true, "approval_id": in.Token, "constraints": map[string]any{}})
	default:
		h.reports = append(h.reports, path+" "+string(body))
		answer(200, map[string]any{})
	}
}

// A host whose settings name the hook twice asks twice about one try: it has one answer, and
// one report. Any other try is another one.
func TestTwoHooksForOneTry(t *testing.T) {
	h := &fakeHoldpoint{spent: map[string]bool{}}
	server := httptest.NewServer(h)
	defer server.Close()
	g := Gate{URL: server.URL, Key: "hp_test", Dir: t.TempDir()}
	both := func(one func() error) {
		t.Helper()
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- one() }()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
	runs := func(c Call, asked int) {
		t.Helper()
		both(func() error {
			v, err := g.Before(t.Context(), c, false)
			if err == nil && (!v.Run || !v.ByPeople) {
				t.Errorf("it does not run: %+v", v)
			}
			return err
		})
		if h.asked != asked {
			t.Errorf("people are asked %d times, want %d", h.asked, asked)
		}
	}
	runs(ask, 1)
	runs(ask, 1)
	both(func() error { return g.After(t.Context(), ask, holdpoint.Succeeded, time.Second) })
	if len(h.reports) != 1 || !strings.Contains(h.reports[0], "succeeded") {
		t.Errorf("reported: %s", h.reports)
	}
	runs(ask, 2) // its id is another try's now
	other := ask
	other.Arguments = json.RawMessage(`{"command":"make all"}`)
	runs(other, 3)
	other = ask
	other.ID = "t2"
	runs(other, 4)

	// A moment is over.
	notes, err := filepath.Glob(filepath.Join(g.Dir, "*", "allowed-*"))
	if err != nil || len(notes) != 3 {
		t.Fatalf("%s, %v", notes, err)
	}
	for _, note := range notes {
		if err := os.Chtimes(note, time.Time{}, time.Now().Add(-shortly)); err != nil {
			t.Fatal(err)
		}
	}
	runs(ask, 5)
	if err := g.NotRun(t.Context(), other); err != nil || len(h.reports) != 2 || !strings.Contains(h.reports[1], "failed") {
		t.Errorf("reported: %s, %v", h.reports, err)
	}
}

// A user's own hook whose name begins as ours does is not ours.
func TestOwnHookIsRecognized(t *testing.T) {
	for command, want := range map[string]bool{
		"holdpoint hook cursor": true, "'/opt/holdpoint' hook cursor --url http://x": true, "my hook cursor-lint.sh": false, "holdpoint hook": false,
	} {
		if got := Cursor.isOurs(command); got != want {
			t.Errorf("%s: %t", command, got)
		}
	}
}

// TestPendingSaysWhatIsAsked: the model learns of a reviewer's question, and its user by it.
func TestPendingSaysWhatIsAsked(t *testing.T) {
	a := holdpoint.Approval{Question: &holdpoint.Question{Text: "Which invoice?"}}
	a.Links.Review = "http://h/approvals/apr_1"
	if got := pending(a); !strings.Contains(got, `http://h/approvals/apr_1. A reviewer asks: "Which invoice?" Tell your user, who may answer there. Go on`) {
		t.Errorf("got %s", got)
	}
	a.Question = nil
	if got := pending(a); strings.Contains(got, "asks") {
		t.Errorf("got %s", got)
	}
}
