package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdpoint/engine"
	"holdpoint/internal/seal"
)

// statements keeps the SQL that is sent. It is safe for concurrent use.
type statements struct {
	mu   sync.Mutex
	list []string
}

func (s *statements) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, sql)
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.add(q.SQL)
}

func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// An approval that somebody else has and one that nobody has are looked for by the
// same statements: the time that it takes tells nobody which it is.
func TestMissingApprovalTakesTheSameStatements(t *testing.T) {
	s, _ := open(t)
	ctx := context.Background()
	there, nowhere := NewID("apr"), NewID("apr")
	if _, err := s.Submit(ctx, Submission{Event: event(there), Opening: opening(there, 3600e9)}); err != nil {
		t.Fatal(err)
	}
	sent := &statements{}
	cfg := s.pool.Config()
	cfg.ConnConfig.Tracer = sent
	traced, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer traced.Close()
	former := s.pool
	s.pool = traced
	defer func() { s.pool = former }()
	foreign := errors.New("it is somebody else's")
	for name, look := range map[string]func(id string) error{
		"read": func(id string) error { _, err := s.Approvals.Get(ctx, id); return err },
		"changed": func(id string) error {
			return s.Approvals.Change(ctx, id, nil, func(*Change) error { return foreign })
		},
	} {
		said := map[string][]string{}
		for _, id := range []string{there, there, nowhere} { // the first one prepares them
			sent.list = nil
			err := look(id)
			if id == nowhere && !errors.Is(err, ErrNotFound) || id == there && err != nil && !errors.Is(err, foreign) {
				t.Fatalf("%s: %v", name, err)
			}
			said[id] = slices.DeleteFunc(sent.list, func(sql string) bool { return strings.EqualFold(sql, "commit") || strings.EqualFold(sql, "rollback") })
		}
		if len(said[there]) < 3 || !slices.Equal(said[there], said[nowhere]) {
			t.Errorf("%s: one that is there takes\n%s\nand one that is not\n%s", name, strings.Join(said[there], "\n"), strings.Join(said[nowhere], "\n"))
		}
	}
}

// Credentials take turns in front of the writer, and what is long does not share a
// commit with much else.
func TestWriterTakesTurns(t *testing.T) {
	p := newPending()
	add := func(who string, size int) *queued {
		q := &queued{sub: Submission{Event: engine.Event{Actor: engine.Actor{ID: who}}, Opening: &Opening{Sealed: seal.Box{Data: make([]byte, size)}}}}
		if _, err := p.add(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		return q
	}
	for range 10 {
		add("flood", maxBatchBytes/2)
	}
	quiet := add("quiet", 100)
	first := p.take(nil)
	if len(first) != 2 || first[1] != quiet {
		t.Errorf("the first commit has %d, want the flood's first and the quiet one's", len(first))
	}
	rest := 0
	for p.end(); len(p.some) > 0; p.end() {
		<-p.some
		if !p.begin() {
			t.Fatal("the writer is called, and has nothing to do")
		}
		batch := p.take(nil)
		bytes := 0
		for _, q := range batch {
			bytes += q.size()
		}
		if bytes > maxBatchBytes {
			t.Errorf("a commit has %d bytes", bytes)
		}
		rest += len(batch)
	}
	if rest != 9 {
		t.Errorf("%d of 9 come afterwards", rest)
	}
	add("flood", 3*maxBatchBytes)
	if batch := p.take(nil); len(batch) != 1 {
		t.Errorf("one that is longer than a commit is in one of %d", len(batch))
	}
	if taken, _ := p.room.Usage(); taken != 0 {
		t.Errorf("%d places are lost", taken)
	}
}
