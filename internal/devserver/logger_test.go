//go:build !nodev

package devserver

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/server/common/log/tag"
)

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.Info("chatter")
	l.Warn(noHTTP + " and so on")
	l.Error("no tasks", tag.Error(errors.New(shardStarting)))
	for range 3 {
		l.With(tag.String("service", "frontend")).Error("trouble", tag.Error(errors.New("cause")))
	}
	if got := out.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "temporal: trouble") || !strings.Contains(got, "service=frontend") || !strings.Contains(got, "error=cause") {
		t.Errorf("got %q, want one line about trouble", got)
	}
}

func TestFatalEndsTheGoroutineNotTheProcess(t *testing.T) {
	l := newLogger(slog.New(slog.DiscardHandler))
	ended := make(chan bool, 1)
	go func() {
		returned := false
		defer func() { ended <- !returned }()
		l.With(tag.String("service", "history")).Fatal("cannot listen", tag.Error(errors.New("port taken")))
		returned = true
	}()
	if !<-ended {
		t.Error("Fatal returned")
	}
	<-l.failed
	if err := l.err(); err == nil || err.Error() != "cannot listen: port taken" {
		t.Errorf("got %v, want what the server said", err)
	}
	l.stopping() // and stopping after that is fine
}

func TestStoppingSilences(t *testing.T) {
	var out bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&out, nil)))
	l.stopping()
	l.Error("connection refused")
	go l.Fatal("cannot serve")
	<-l.failed
	if err := l.err(); err != nil || out.Len() > 0 {
		t.Errorf("got %v and %q, want nothing", err, &out)
	}
}
