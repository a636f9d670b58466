//go:build !nodev

package devserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/server/common/log/tag"
)

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
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
	l := newLogger(slog.New(slog.DiscardHandler), nil)
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
	l := newLogger(slog.New(slog.NewTextHandler(&out, nil)), nil)
	l.stopping()
	l.Error("connection refused")
	go l.Fatal("cannot serve")
	<-l.failed
	if err := l.err(); err != nil || out.Len() > 0 {
		t.Errorf("got %v and %q, want nothing", err, &out)
	}
}

// TestCutOffByTheEnd: a task that is cut off because its worker stops is no fault, and frightens whoever stops it.
func TestCutOffByTheEnd(t *testing.T) {
	var out bytes.Buffer
	ending := make(chan struct{})
	l := newLogger(slog.New(slog.NewTextHandler(&out, nil)), ending)
	cut := tag.Error(fmt.Errorf("match: %w", context.Canceled))
	l.With(cut).Warn("before the end")
	close(ending)
	l.With(cut, tag.String("service", "history")).Warn("cut off")
	l.Warn("cut off", cut)
	l.With(tag.Error(errors.New("connection refused"))).Warn("another fault")
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "before the end") || !strings.Contains(got, "another fault") {
		t.Errorf("got %q, want what was cut off before the end, and what is no cut", got)
	}
}
