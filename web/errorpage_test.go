package web

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/httpstatus"
)

// brokenOff answers nobody: as a database does whose caller has left, or that is away.
type brokenOff struct{ *fakeGate }

func (brokenOff) SignIn(ctx context.Context, _, _, _, _, _ string) (engine.Person, error) {
	return engine.Person{}, brokenOffBy(ctx)
}

func brokenOffBy(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("the database is away")
}

// TestWhoHungUpIsNoOutage: their request ends because of them, which is nobody's error here.
func TestWhoHungUpIsNoOutage(t *testing.T) {
	var log bytes.Buffer
	c := start(t, func(cfg *Config) {
		cfg.SignIn, cfg.Logger = brokenOff{cfg.SignIn.(*fakeGate)}, slog.New(slog.NewTextHandler(&log, nil))
	})
	mux := http.NewServeMux()
	c.c.Register(mux)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		ctx    context.Context
		status int
		log    string
	}{
		"gone":  {gone, httpstatus.ClientGone, ""},
		"there": {t.Context(), http.StatusServiceUnavailable, "level=ERROR"},
	} {
		log.Reset()
		form := url.Values{"email": {"ada@example.com"}, "password": {"correct"}}
		r := httptest.NewRequestWithContext(test.ctx, http.MethodPost, "/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(log.String(), test.log) || test.log == "" && log.Len() > 0 {
			t.Errorf("%s: %d, want %d, and the log says %q", name, w.Code, test.status, log.String())
		}
	}
}
