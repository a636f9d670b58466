package store

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestLatestCheckpoint: the newest one that enough witnesses have signed, however
// many newer ones there are.
func TestLatestCheckpoint(t *testing.T) {
	ctx := context.Background()
	url := migrated(t)
	conn := connect(t, url)
	s, err := Open(ctx, Config{URL: url, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Log.LatestCheckpoint(ctx, 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("an empty log has one: %v", err)
	}
	if _, err := conn.Exec(ctx, `INSERT INTO log_checkpoints (size, root, note) SELECT g, sha256('x'), convert_to('note ' || g, 'UTF8') FROM generate_series(1, 50) g;
		INSERT INTO log_cosignatures (size, name, line) VALUES (10, 'b', 'b 10'), (10, 'a', 'a 10'), (20, 'a', 'a 20'), (30, 'a', 'a 30'), (30, 'b', 'b 30'), (40, 'b', 'b 40')`); err != nil {
		t.Fatal(err)
	}
	for witnessed, want := range map[int]string{0: "note 50", 1: "note 40b 40", 2: "note 30a 30b 30"} {
		if c, err := s.Log.LatestCheckpoint(ctx, witnessed); err != nil || string(c.Signed()) != want {
			t.Errorf("by %d witnesses: got %d, %q, want %q: %v", witnessed, c.Size, c.Signed(), want, err)
		}
	}
	if c, err := s.Log.LatestCheckpoint(ctx, 3); !errors.Is(err, ErrNotFound) {
		t.Errorf("by three witnesses there is %d: %v", c.Size, err)
	}
}
