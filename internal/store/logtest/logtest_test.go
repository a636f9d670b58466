package logtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const origin = "log.example.com/doctored"

func newKey(t *testing.T) audit.Key {
	t.Helper()
	private, _, err := audit.NewKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	return keys[0]
}

// sound is a database with a log of 600 events, in three batches, whose numbers
// have gaps, and the key that signed it.
func sound(t *testing.T) (*pgx.Conn, audit.Key) {
	t.Helper()
	ctx, url := context.Background(), pgtest.Migrated(t, store.Migrate)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	s, err := store.Open(ctx, store.Config{URL: url, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	key := newKey(t)
	run, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	q := &auditlog.Sequencer{Store: s, Keys: []audit.Key{key}, Logger: slog.New(slog.DiscardHandler), Every: 10 * time.Millisecond}
	go func() { q.Run(run); close(done) }()
	for batch := range 3 {
		if _, err := conn.Exec(ctx, `INSERT INTO events (event_id, type, outcome, agent_id, tool_name, body)
			SELECT i.id, 'decision', 'ALLOW', 'bot', 'search', convert_to('{"event_id":"' || i.id || '","type":"decision","outcome":"ALLOW","agent_id":"bot",' ||
				'"tool_name":"search","actor":{"kind":"agent","id":"bot"},"reasons":[],"text":"ä\u0001\u2028"}', 'UTF8')
			FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 200)) i`); err != nil {
			t.Fatal(err)
		}
		for deadline, size := time.Now().Add(time.Minute), 0; size < 200*(batch+1); {
			if err := conn.QueryRow(ctx, `SELECT size FROM log_head`).Scan(&size); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d events have a place", size, 200*(batch+1))
			}
			time.Sleep(5 * time.Millisecond)
		}
		// A number that no event has.
		if _, err := conn.Exec(ctx, `SELECT nextval('events_seq_seq')`); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
	return conn, key
}

// Whatever a superuser changes in a sound log is said.
func TestDoctoredLogs(t *testing.T) {
	conn, key := sound(t)
	ctx := context.Background()
	if size, violations, err := Violations(ctx, conn, key.Public); err != nil || len(violations) > 0 || size != 600 {
		t.Fatalf("the sound log of %d: %v, %v", size, violations, err)
	}
	note := func(key audit.Key, size int64, root string) string {
		var c audit.Checkpoint
		c.Origin, c.Size = key.Name(), size
		copy(c.Root[:], root)
		signed, err := audit.Sign(c, key)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`'\x%x'`, signed)
	}
	var root []byte
	if err := conn.QueryRow(ctx, `SELECT root FROM log_head`).Scan(&root); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, doctor, want string }{
		{"a leaf in the middle is gone", `DELETE FROM log_entries WHERE leaf = 300`, "leaf 300 is missing"},
		{"the last leaf is gone", `DELETE FROM log_entries WHERE leaf = 599`, "the head says 600 leaves, there are 599"},
		{
			"two leaves are exchanged", `UPDATE log_entries SET seq = seq + 100000 WHERE leaf IN (7, 8); UPDATE log_entries SET seq = CASE leaf WHEN 7 THEN seq - 99999 ELSE seq - 100001 END WHERE leaf IN (7, 8)`,
			"does not come after event",
		},
		{"an event has two leaves", `ALTER TABLE log_entries DROP CONSTRAINT log_entries_seq_key; UPDATE log_entries SET seq = (SELECT seq FROM log_entries WHERE leaf = 7) WHERE leaf = 8`, "has the leaves 7 and 8"},
		{"an event is gone", `DELETE FROM events WHERE seq = (SELECT seq FROM log_entries WHERE leaf = 9)`, "which is not there"},
		{"a body is other", `UPDATE events SET body = convert_to(replace(convert_from(body, 'UTF8'), 'agent"', 'human"'), 'UTF8') WHERE seq = (SELECT seq FROM log_entries WHERE leaf = 9)`, "tile 0 of level 0 is not that of the leaves"},
		{"an outcome is other", `UPDATE events SET outcome = 'DENY' WHERE seq = (SELECT seq FROM log_entries WHERE leaf = 599)`, "the head's root is not that of the leaves"},
		{"a time is other", `UPDATE events SET appended_at = appended_at + interval '1 microsecond' WHERE seq = (SELECT seq FROM log_entries WHERE leaf = 0)`, "leaf 0 is not indexed by what"},
		{"an actor is other", `UPDATE log_entries SET actor_id = 'cat' WHERE leaf = 5`, "leaf 5 is not indexed by what"},
		{"an event was put in between", `INSERT INTO events (seq, event_id, type, outcome, agent_id, tool_name, body) OVERRIDING SYSTEM VALUE VALUES (201, gen_random_uuid(), 'x', 'ALLOW', '', '', '')`, "event 201 has no leaf"},
		{"a tile is gone", `DELETE FROM log_tiles WHERE level = 0 AND n = 1`, "tile 1 of level 0 is missing"},
		{"a tile too many", `INSERT INTO log_tiles VALUES (2, 0, sha256(''))`, "there are 5 tiles, and the leaves have 4"},
		{"a tile is short", `UPDATE log_tiles SET hashes = substring(hashes FOR 32) WHERE level = 0 AND n = 2`, "tile 2 of level 0 is not that"},
		{"a tile is long", `UPDATE log_tiles SET hashes = hashes || sha256('') WHERE level = 0 AND n = 2`, "tile 2 of level 0 is not that"},
		{"an upper tile is other", `UPDATE log_tiles SET hashes = set_byte(hashes, 40, 255 - get_byte(hashes, 40)) WHERE level = 1`, "tile 0 of level 1 is not that"},
		{"the head's root is other", `UPDATE log_head SET root = sha256('')`, "the head's root is not that of the leaves"},
		{"the head is ahead", `UPDATE log_head SET size = 601`, "the head says 601 leaves"},
		{"the head names another event", `UPDATE log_head SET seq = seq + 1`, "the last leaf is event"},
		{"there is no head", `DELETE FROM log_head`, "the log has 0 heads"},
		{"the head's checkpoint is gone", `DELETE FROM log_checkpoints WHERE size = 600`, "there is no checkpoint of the head"},
		{"a checkpoint of too much", `INSERT INTO log_checkpoints VALUES (601, sha256(''), '')`, "a checkpoint of size 601, and 600 leaves"},
		{"a checkpoint of nothing", `INSERT INTO log_checkpoints VALUES (0, sha256(''), '')`, "a checkpoint of size 0"},
		{"a root that is none", `UPDATE log_checkpoints SET root = sha256('') WHERE size = 600`, "the root of the checkpoint of size 600 is not that"},
		{"a fork that is signed", `UPDATE log_checkpoints SET root = '\x` + strings.Repeat("41", 32) + `', note = ` + note(key, 600, strings.Repeat("A", 32)) + ` WHERE size = 600`, "the root of the checkpoint of size 600 is not that"},
		{"a note of another size", `UPDATE log_checkpoints SET note = ` + note(key, 599, string(root)) + ` WHERE size = 600`, "the note of the checkpoint of size 600 says"},
		{"a note of another key", `UPDATE log_checkpoints SET note = ` + note(newKey(t), 600, string(root)) + ` WHERE size = 600`, "the checkpoint of size 600: "},
		{"a witness without a checkpoint", `INSERT INTO log_cosignatures VALUES (599, 'w', 'x')`, "a witness signed size 599"},
		{"two checkpoints of a size", `ALTER TABLE log_checkpoints DROP CONSTRAINT log_checkpoints_pkey CASCADE; INSERT INTO log_checkpoints SELECT * FROM log_checkpoints WHERE size = 600`, "two checkpoints of size 600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(ctx) }()
			// Triggers and keys are no hindrance to a superuser.
			if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica; `+tt.doctor); err != nil {
				t.Fatal(err)
			}
			_, violations, err := violations(ctx, tx, key.Public)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(violations, "\n"), tt.want) {
				t.Errorf("got %q, want %q among it", violations, tt.want)
			}
		})
	}
}
