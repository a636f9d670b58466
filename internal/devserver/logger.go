//go:build !nodev

package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// quiet is how long a message is not repeated. A server that lost its Postgres says so a hundred times a second.
const quiet = 10 * time.Second

// What the server complains about though all is well: that its HTTP interface stays off, on purpose, and that a shard is not
// acquired yet in the moment after a start, upon which it tries again.
const (
	noHTTP        = "HTTP API port has not been set"
	shardStarting = "shard status unknown"
)

// logger passes the server's warnings and errors on to slog, and turns its way of giving up, a log message upon which the
// process is to exit, into a failure that the owner of the server learns of.
type logger struct {
	slog  *slog.Logger
	state *loggerState
	// failed is closed at the first fatal message, and by stopping.
	failed chan struct{}
	// ending is closed when what uses the server stops.
	ending <-chan struct{}
	// cut says that everything this logger is told is of work that was cut off.
	cut bool
}

type loggerState struct {
	mu      sync.Mutex
	fatal   error
	closed  bool
	stopped bool
	last    map[string]time.Time // when a message was last passed on
}

var (
	_ log.Logger     = (*logger)(nil)
	_ log.WithLogger = (*logger)(nil)
)

func newLogger(to *slog.Logger, ending <-chan struct{}) *logger {
	return &logger{slog: to, state: &loggerState{last: map[string]time.Time{}}, failed: make(chan struct{}), ending: ending}
}

// With is a logger that adds tags to everything.
func (l *logger) With(tags ...tag.Tag) log.Logger {
	with, attrs := *l, attrs(tags)
	with.slog = slog.New(l.slog.Handler().WithAttrs(attrs))
	with.cut = l.cut || cutOff(attrs)
	return &with
}

// Debug drops the message: it is for those who work on the server.
func (l *logger) Debug(string, ...tag.Tag) {}

// Info drops the message.
func (l *logger) Info(string, ...tag.Tag) {}

// Warn logs a warning.
func (l *logger) Warn(msg string, tags ...tag.Tag) { l.log(slog.LevelWarn, msg, tags) }

// Error logs an error.
func (l *logger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic logs an error; only the server's own developers want a panic here.
func (l *logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic logs an error and panics.
func (l *logger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic("temporal: " + msg)
}

// Fatal records that the server cannot go on and ends the goroutine that found out, as the caller expects not to come back.
func (l *logger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	err := errors.New(msg)
	for _, t := range tags {
		if cause, ok := t.Value().(error); ok {
			err = fmt.Errorf("%s: %w", msg, cause)
		} else if t.Key() == "error" {
			err = fmt.Errorf("%s: %v", msg, t.Value())
		}
	}
	l.state.mu.Lock()
	if !l.state.stopped && l.state.fatal == nil {
		l.state.fatal = err
	}
	l.close()
	l.state.mu.Unlock()
	runtime.Goexit()
}

// stopping says that the owner ends the server: what it complains about from now on is of no interest.
func (l *logger) stopping() {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.stopped = true
	l.close()
}

func (l *logger) close() {
	if !l.state.closed {
		l.state.closed = true
		close(l.failed)
	}
}

func (l *logger) err() error {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	return l.state.fatal
}

func (l *logger) log(level slog.Level, msg string, tags []tag.Tag) {
	attrs := attrs(tags)
	if (l.cut || cutOff(attrs)) && l.ends() {
		level = slog.LevelDebug
	}
	if strings.HasPrefix(msg, noHTTP) || !l.slog.Enabled(context.Background(), level) {
		return
	}
	for _, attr := range attrs {
		if attr.Key == "error" && attr.Value.String() == shardStarting {
			return
		}
	}
	if l.due(msg) {
		l.slog.LogAttrs(context.Background(), level, "temporal: "+msg, attrs...) //nolint:sloglint // the server's own messages are passed on
	}
}

// cutOff reports whether an error among the attributes says that somebody who waited for the server's work has gone.
func cutOff(attrs []slog.Attr) bool {
	return slices.ContainsFunc(attrs, func(a slog.Attr) bool {
		return a.Key == "error" && strings.Contains(a.Value.String(), context.Canceled.Error())
	})
}

// ends reports whether what uses the server stops. What is cut off with it is done by the next start.
func (l *logger) ends() bool {
	select {
	case <-l.ending:
		return true
	default:
		return false
	}
}

// due reports whether the message is worth passing on now.
func (l *logger) due(msg string) bool {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	now := time.Now()
	if l.state.stopped || now.Sub(l.state.last[msg]) < quiet {
		return false
	}
	l.state.last[msg] = now // the server's messages are constants: their number is bounded
	return true
}

// sdk is the same logger for the client library.
func (l *logger) sdk() sdklog.Logger { return log.NewSdkLogger(l) }

func attrs(tags []tag.Tag) []slog.Attr {
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	return attrs
}
