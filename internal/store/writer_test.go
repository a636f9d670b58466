package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// held lets nobody append until release.
func held(t *testing.T, owner string) (release func()) {
	t.Helper()
	tx, err := connect(t, owner).Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(4703514210561396082)`) // that of append_events
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	}
}

// Who comes while nobody commits does so at once, and alone; all who come meanwhile share the
// next commit.
func TestCallersShareTheNextCommit(t *testing.T) {
	s, owner := open(t)
	var mu sync.Mutex
	var sizes []int
	s.observe = func(size int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, size)
	}
	release := held(t, owner)
	defer release()
	var group sync.WaitGroup
	submit := func() {
		group.Go(func() {
			if _, err := s.Submit(context.Background(), Submission{Event: event("")}); err != nil {
				t.Error(err)
			}
		})
	}
	waiting := func(n int) {
		for ended := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			s.short.mu.Lock()
			queued, busy := s.short.turns.Len(), s.short.busy
			s.short.mu.Unlock()
			if busy && queued == n {
				return
			}
			if time.Now().After(ended) {
				t.Fatalf("%d wait, busy %t; want %d", queued, busy, n)
			}
		}
	}
	submit()
	waiting(0)
	for range 7 {
		submit()
	}
	waiting(7)
	release()
	group.Wait()
	if _, err := s.Submit(context.Background(), Submission{Event: event("")}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(sizes, []int{1, 7, 1}) {
		t.Errorf("commits of %v, want 1, 7 and 1", sizes)
	}
}

// Who makes a commit waits for it no longer than any other caller, whatever becomes of it; and
// who has little time leaves it to the writer.
func TestCommitterWaitsNoLonger(t *testing.T) {
	s, owner := open(t)
	release := held(t, owner)
	defer release()
	for _, patience := range []time.Duration{patience + 100*time.Millisecond, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		began := time.Now()
		_, err := s.Submit(ctx, Submission{Event: event("")})
		cancel()
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("after %s: %v", patience, err)
		}
		if took := time.Since(began); took < patience || took > patience+s.timeout/2 {
			t.Errorf("it took %s; its patience is %s", took, patience)
		}
	}
	release()
	if _, err := s.Submit(t.Context(), Submission{Event: event("")}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A commit that is given up by a panic of its caller keeps nobody else from theirs.
func TestPanicOfWhoCommits(t *testing.T) {
	s, _ := open(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it has not panicked")
			}
		}()
		once := &Idempotency[SubmitResult]{Request: Request{Credential: "k", Key: "1", Hash: []byte("h")}, Render: func(SubmitResult, error) Reply { panic("no answer") }}
		_, _ = s.Submit(t.Context(), Submission{Event: event(""), Idempotency: once})
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Submit(ctx, Submission{Event: event("")}); err != nil {
		t.Errorf("the next one: %v", err)
	}
	events, err := s.Events.List(ctx, EventFilter{Limit: 10})
	if err != nil || len(events) != 1 {
		t.Errorf("%d events, %v; want the second one's", len(events), err)
	}
}

// Who makes a commit of others' submissions has no part in it: their statements are in no span
// of its request, and its own does not end with them.
func TestSpanOfWhoCommits(t *testing.T) {
	provider := sdktrace.NewTracerProvider()
	ctx, span := provider.Tracer("test").Start(t.Context(), "request")
	s := &Store{db: &db{spans: provider.Tracer("test")}}
	within, commit := s.spanOf(ctx, []*queued{{}})
	commit.End()
	if !span.IsRecording() {
		t.Error("the request's span has ended")
	}
	if trace.SpanContextFromContext(within).IsValid() {
		t.Error("the statements are in the request's span")
	}
	within, commit = s.spanOf(ctx, []*queued{{}, {span: trace.SpanContextFromContext(ctx)}})
	if parent, ok := commit.(sdktrace.ReadOnlySpan); !ok || parent.Parent().SpanID() != span.SpanContext().SpanID() || trace.SpanFromContext(within) != commit {
		t.Error("the commit of the request's own submission is no part of it")
	}
}
