package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	key   = "hp_secret_of_the_key"
	token = "secret.of.the.token"
)

// server answers as Holdpoint does: one call accepted, one refused, one waiting
// until it is over as given.
func serve(t *testing.T, over string) string {
	t.Helper()
	checks := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("%s %s: without the key", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		body := `{}`
		switch r.URL.Path {
		case "/v1/pre-tool-check":
			body = []string{
				`{"gate_decision":"pass","recommended_action":"accept","hard_blockers":[],"aix":{"hard_blockers":[]},"architecture_decision":{"route":"accept"},"execution_policy":{"execution_allowed":true}}`,
				`{"gate_decision":"fail","recommended_action":"refuse","hard_blockers":["evidence_secret_leak"]}`,
				`{"gate_decision":"fail","recommended_action":"defer","approval":{"id":"apr_1","status":"pending","requirements":[{"kind":"review","role":"finance-approver","needed":1}],"links":{"review":"http://review.example/apr_1"}}}`,
			}[checks]
			checks++
		case "/v1/approvals/apr_1":
			body = over
		case "/v1/tokens/redeem":
			body = `{"redeemed":true,"approval_id":"apr_1","constraints":{}}`
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func dataDir(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	content, err := json.Marshal(map[string]any{"url": url, "agent_key": key, "reviewers": []map[string]any{
		{"email": "ada@example.com", "password": "secret-of-ada", "roles": []string{"finance-approver"}},
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "dev.json"), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRun(t *testing.T) {
	for name, test := range map[string]struct{ over, want string }{
		"approved":  {`{"id":"apr_1","status":"approved","resumption_token":"` + token + `"}`, "reported: succeeded"},
		"denied":    {`{"id":"apr_1","status":"denied","denial":{"kind":"never","comment":"No.\u001b[2J"}}`, `the reviewer says: "No.\x1b[2J"`},
		"expired":   {`{"id":"apr_1","status":"expired"}`, "nobody decided in time"},
		"cancelled": {`{"id":"apr_1","status":"cancelled"}`, "taken back"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := run(context.Background(), []string{"-data", dataDir(t, serve(t, test.over))}, &out, io.Discard); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			for _, want := range []string{"accepted", "refused: evidence_secret_leak", "http://review.example/apr_1", "ada@example.com", test.want} {
				if !strings.Contains(got, want) {
					t.Errorf("the output lacks %q:\n%s", want, got)
				}
			}
			if strings.Contains(got, "secret-of") || strings.Contains(got, "secret_of") || strings.Contains(got, token) {
				t.Errorf("the output holds a secret:\n%s", got)
			}
		})
	}
}

func TestMistakesAreOneLine(t *testing.T) {
	for name, args := range map[string][]string{
		"no dev running":   {"-data", filepath.Join(t.TempDir(), "none")},
		"dev has ended":    {"-data", dataDir(t, "http://127.0.0.1:9")},
		"url without key":  {"-url", "http://127.0.0.1:9"},
		"no such flag":     {"-nonsense"},
		"no such argument": {"nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			var help strings.Builder
			err := run(context.Background(), args, io.Discard, &help)
			if err == nil || strings.Contains(err.Error(), "\n") || help.Len() > 0 {
				t.Errorf("got %v and %q, want one line", err, help.String())
			}
		})
	}
}
