package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A browser gets a page for an address that does not exist; a program, which asks for
// none, gets a problem that it can read.
func TestWhoAsksForNoPageGetsAProblem(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", start(t, nil).c.NotFound)
	h := Guard(mux, GuardConfig{})
	for _, tc := range []struct {
		method, path, accept string
		page                 bool
	}{
		{"GET", "/workflow-check", "", false},
		{"POST", "/agent-check", "*/*", false},
		{"POST", "/agent-check", "application/json", false},
		{"GET", "/nothing", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true},
		{"GET", "/nothing", "Text/HTML", true},
	} {
		r := httptest.NewRequest(tc.method, tc.path, nil)
		if tc.accept != "" {
			r.Header.Set("Accept", tc.accept)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := "application/problem+json"
		if tc.page {
			want = "text/html; charset=utf-8"
		}
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusNotFound || got != want {
			t.Errorf("%s %s, Accept %q: %d %s, want 404 %s", tc.method, tc.path, tc.accept, w.Code, got, want)
		}
		var problem struct{ Type, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); !tc.page && (err != nil || problem.Code != "no_such_route" || problem.Type != "urn:holdpoint:problem:no_such_route") {
			t.Errorf("%s %s: %s", tc.method, tc.path, w.Body)
		}
	}
}
