// Package logtest says what is wrong with an audit log in a database. It is for
// tests: it reads everything, in one snapshot and by SQL of its own, computes
// entries, tree and tiles again from the events, and shares no code with what
// wrote them but tlog's hashes and note's signatures. It never changes anything.
//
//	events ─► entries ─► stored hashes ─► tiles, root of every checkpoint's size
//	   │         │                          │                 │
//	   └─────────┴── compared with ─────────┴─────────────────┘
package logtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Check fails a test once for every violation of the log in the database at url,
// which belongs to somebody who may read it, and returns the log's size.
// Checkpoints have to be signed by one of the keys, in vkey form.
func Check(t testing.TB, url string, keys ...string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	size, list, err := Violations(ctx, conn, keys...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range list {
		if i == 10 {
			t.Errorf("the log: and %d more", len(list)-i)
			break
		}
		t.Errorf("the log: %s", v)
	}
	return size
}

// Violations reads the whole log and lists everything that is wrong with it.
func Violations(ctx context.Context, conn *pgx.Conn, keys ...string) (size int64, list []string, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, nil, fmt.Errorf("read the log: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	return violations(ctx, tx, keys...)
}

func violations(ctx context.Context, tx pgx.Tx, keys ...string) (size int64, list []string, err error) {
	c := checker{tiles: map[place][]byte{}}
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			return 0, nil, fmt.Errorf("read a verifier's key: %w", err)
		}
		c.verifiers = append(c.verifiers, v)
	}
	if err := c.read(ctx, tx); err != nil {
		return 0, nil, fmt.Errorf("read the log: %w", err)
	}
	c.checkEntries()
	c.checkTiles()
	c.checkHead()
	c.checkCheckpoints()
	return c.head.size, c.said, nil
}

type place struct {
	level int
	n     int64
}

type checkpoint struct {
	size       int64
	root, note []byte
}

// index is what a log_entries row says of its event.
type index struct {
	Leaf, Seq                                      int64
	At                                             time.Time
	Type, Outcome, Agent, Tool, Actor, Approval    string
	hasEvent                                       bool
	ID                                             string
	EventAt                                        time.Time
	EventType, EventOutcome, EventAgent, EventTool string
	EventApproval                                  string
	Body                                           []byte
}

type checker struct {
	verifiers   []note.Verifier
	entries     []index
	unplaced    []int64 // events up to head.seq that have no leaf
	tiles       map[place][]byte
	checkpoints []checkpoint
	orphans     []int64 // cosigned sizes without a checkpoint
	head        struct {
		rows, size, seq int64
		root            []byte
	}

	stored hashes
	leaves int64 // how many are in stored
	said   []string
}

func (c *checker) say(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *checker) read(ctx context.Context, tx pgx.Tx) error {
	if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(max(size), 0), coalesce(max(seq), 0) FROM log_head`).
		Scan(&c.head.rows, &c.head.size, &c.head.seq); err != nil {
		return err
	}
	if c.head.rows > 0 {
		if err := tx.QueryRow(ctx, `SELECT root FROM log_head LIMIT 1`).Scan(&c.head.root); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, `SELECT l.leaf, l.seq, l.at, l.type, l.outcome, l.agent_id, l.tool_name, l.actor_id, coalesce(l.approval_id, ''),
			e.seq IS NOT NULL, coalesce(e.event_id::text, ''), coalesce(e.appended_at, 'epoch'), coalesce(e.type, ''), coalesce(e.outcome, ''),
			coalesce(e.agent_id, ''), coalesce(e.tool_name, ''), coalesce(e.approval_id, ''), coalesce(e.body, '')
		FROM log_entries l LEFT JOIN events e USING (seq) ORDER BY l.leaf`)
	if err != nil {
		return err
	}
	if c.entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (x index, err error) {
		return x, row.Scan(&x.Leaf, &x.Seq, &x.At, &x.Type, &x.Outcome, &x.Agent, &x.Tool, &x.Actor, &x.Approval,
			&x.hasEvent, &x.ID, &x.EventAt, &x.EventType, &x.EventOutcome, &x.EventAgent, &x.EventTool, &x.EventApproval, &x.Body)
	}); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT e.seq FROM events e WHERE e.seq <= $1 AND NOT EXISTS (SELECT FROM log_entries l WHERE l.seq = e.seq) ORDER BY 1`, c.head.seq)
	if err != nil {
		return err
	}
	if c.unplaced, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT level, n, hashes FROM log_tiles`)
	if err != nil {
		return err
	}
	var at place
	var data []byte
	if _, err = pgx.ForEachRow(rows, []any{&at.level, &at.n, &data}, func() error {
		c.tiles[at] = bytes.Clone(data)
		return nil
	}); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT size, root, note FROM log_checkpoints ORDER BY size`)
	if err != nil {
		return err
	}
	if c.checkpoints, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p checkpoint, err error) {
		return p, row.Scan(&p.size, &p.root, &p.note)
	}); err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT DISTINCT s.size FROM log_cosignatures s LEFT JOIN log_checkpoints c USING (size) WHERE c.size IS NULL`)
	if err != nil {
		return err
	}
	c.orphans, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return err
}

// checkEntries holds the index against the events, and makes the tree.
func (c *checker) checkEntries() {
	seen := map[int64]int64{}
	var last int64
	for i, x := range c.entries {
		if x.Leaf != int64(i) {
			c.say("leaf %d is missing: there is leaf %d", i, x.Leaf)
			return // no tree can be made of it
		}
		if x.Seq <= last {
			c.say("leaf %d is event %d, which does not come after event %d", x.Leaf, x.Seq, last)
		}
		last = max(last, x.Seq)
		if former, twice := seen[x.Seq]; twice {
			c.say("event %d has the leaves %d and %d", x.Seq, former, x.Leaf)
		}
		seen[x.Seq] = x.Leaf
		if !x.hasEvent {
			c.say("leaf %d is of event %d, which is not there", x.Leaf, x.Seq)
			return
		}
		entry, actor, err := x.entry()
		if err != nil {
			c.say("leaf %d: event %d: %v", x.Leaf, x.Seq, err)
			return
		}
		if x.Type != x.EventType || x.Outcome != x.EventOutcome || x.Agent != x.EventAgent || x.Tool != x.EventTool ||
			x.Approval != x.EventApproval || x.Actor != actor || !x.At.Equal(x.EventAt) {
			c.say("leaf %d is not indexed by what event %d says", x.Leaf, x.Seq)
		}
		c.add(entry)
	}
	for _, seq := range c.unplaced {
		c.say("event %d has no leaf, and the log is at event %d", seq, c.head.seq)
	}
	if last != c.head.seq {
		c.say("the head is at event %d, the last leaf is event %d", c.head.seq, last)
	}
}

func (c *checker) add(entry []byte) {
	added, err := tlog.StoredHashes(c.leaves, entry, c.stored)
	if err != nil {
		panic(err) // it reads memory
	}
	c.stored = append(c.stored, added...)
	c.leaves++
}

// hashes are stored hashes in memory.
type hashes []tlog.Hash

// ReadHashes returns the hashes at these places.
func (h hashes) ReadHashes(at []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(at))
	for i, n := range at {
		if n < 0 || n >= int64(len(h)) {
			return nil, fmt.Errorf("there is no hash %d", n)
		}
		list[i] = h[n]
	}
	return list, nil
}

func (c *checker) root(size int64) []byte {
	hash, err := tlog.TreeHash(size, c.stored)
	if err != nil {
		return nil
	}
	return hash[:]
}

// checkTiles wants exactly the tiles that the leaves have.
func (c *checker) checkTiles() {
	wanted := 0
	for level := 0; c.leaves>>(8*level) > 0; level++ {
		count := c.leaves >> (8 * level)
		for n := int64(0); n*256 < count; n++ {
			wanted++
			width := int(min(256, count-n*256))
			want, err := tlog.ReadTileData(tlog.Tile{H: 8, L: level, N: n, W: width}, c.stored)
			if err != nil {
				c.say("tile %d of level %d: %v", n, level, err)
				return
			}
			got, ok := c.tiles[place{level, n}]
			switch {
			case !ok:
				c.say("tile %d of level %d is missing", n, level)
			case !bytes.Equal(got, want):
				c.say("tile %d of level %d is not that of the leaves (%d hashes, %d wanted)", n, level, len(got)/32, width)
			}
		}
	}
	if len(c.tiles) > wanted {
		c.say("there are %d tiles, and the leaves have %d", len(c.tiles), wanted)
	}
}

func (c *checker) checkHead() {
	if c.head.rows != 1 {
		c.say("the log has %d heads", c.head.rows)
		return
	}
	if c.head.size != c.leaves {
		c.say("the head says %d leaves, there are %d", c.head.size, c.leaves)
	}
	if !bytes.Equal(c.head.root, c.root(c.leaves)) {
		c.say("the head's root is not that of the leaves")
	}
	if c.head.size > 0 && !slices.ContainsFunc(c.checkpoints, func(p checkpoint) bool { return p.size == c.head.size }) {
		c.say("there is no checkpoint of the head")
	}
}

// checkCheckpoints wants every checkpoint signed, and its root to be that of its
// size: so each continues every former one.
func (c *checker) checkCheckpoints() {
	former, origin := int64(0), ""
	for _, p := range c.checkpoints {
		if p.size == former {
			c.say("there are two checkpoints of size %d", p.size)
		}
		former = p.size
		if p.size < 1 || p.size > c.leaves {
			c.say("there is a checkpoint of size %d, and %d leaves", p.size, c.leaves)
			continue
		}
		if !bytes.Equal(p.root, c.root(p.size)) {
			c.say("the root of the checkpoint of size %d is not that of the first leaves", p.size)
		}
		opened, err := note.Open(p.note, note.VerifierList(c.verifiers...))
		if err != nil {
			c.say("the checkpoint of size %d: %v", p.size, err)
			continue
		}
		if origin == "" {
			origin = opened.Sigs[0].Name
		}
		if want := fmt.Sprintf("%s\n%d\n%s\n", origin, p.size, base64.StdEncoding.EncodeToString(p.root)); opened.Text != want {
			c.say("the note of the checkpoint of size %d says %q", p.size, opened.Text)
		}
	}
	for _, size := range c.orphans {
		c.say("a witness signed size %d, which has no checkpoint", size)
	}
}
