package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// log is a signed log in memory.
type log struct {
	testing.TB
	key     note.Signer
	public  string
	records []Record
	events  []engine.Event
	tree    Tree
	tiles   map[string][]tlog.Hash
}

func newLog(t testing.TB, origin string, events []engine.Event) *log {
	private, public, err := NewKey(rand.NewChaCha8([32]byte{1}), origin)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	l := &log{TB: t, key: keys[0], public: public, events: events, tiles: map[string][]tlog.Hash{}}
	for i, e := range events {
		r := Record{
			Leaf: int64(i), ID: e.ID, At: e.Timestamp, Type: string(e.Type), Outcome: string(e.Outcome), AgentID: e.AgentID, ToolName: e.ToolName, ApprovalID: e.ApprovalID,
		}
		e.Seq, e.Timestamp = 0, time.Time{}
		if r.Body, err = json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		l.records = append(l.records, r)
		l.tree.Append(LeafHash(r.Entry()), l.keep)
	}
	for _, tile := range l.tree.Partial() {
		l.keep(tile)
	}
	return l
}

func (l *log) keep(t Tile) { l.tiles[fmt.Sprint(t.Level, "/", t.N)] = slices.Clone(t.Hashes) }

func (l *log) read(level int, n int64, width int) ([]tlog.Hash, error) {
	hashes := l.tiles[fmt.Sprint(level, "/", n)]
	if len(hashes) < width {
		return nil, fmt.Errorf("no tile %d/%d", level, n)
	}
	return hashes[:width], nil
}

func (l *log) checkpoint() Checkpoint {
	return Checkpoint{Origin: l.key.Name(), Size: l.tree.Size(), Root: l.tree.Root()}
}

func (l *log) header(whole bool, f Filter) Header {
	signed, err := Sign(l.checkpoint(), l.key)
	if err != nil {
		l.Fatal(err)
	}
	return Header{Checkpoint: string(signed), Whole: whole, Filter: f, Keys: []string{l.public}}
}

// export is an export of the whole log, or of the part for which fits is true.
func (l *log) export(f Filter, fits func(Record) bool) [][]byte {
	h := l.header(fits == nil, f)
	lines := [][]byte{h.Line()}
	for _, r := range l.records {
		if fits != nil && !fits(r) {
			continue
		}
		var proof tlog.RecordProof
		if fits != nil {
			var err error
			if proof, err = Tiles(l.read).ProveLeaf(l.tree.Size(), l.tree.Root(), r.Leaf); err != nil {
				l.Fatal(err)
			}
		}
		lines = append(lines, EventLine(r.Document(), LeafHash(r.Entry()), proof, fits == nil))
	}
	return append(lines, EndLine(h, int64(len(lines)-1)))
}

func (l *log) whole() [][]byte { return l.export(Filter{}, nil) }

func (l *log) verifier() *Verifier {
	v, err := ParseVerifiers(l.public)
	if err != nil {
		l.Fatal(err)
	}
	return &Verifier{Verifiers: v}
}

// verify gives a verifier lines.
func verify(v *Verifier, lines [][]byte) Report {
	for _, line := range lines {
		v.Line([]byte(strings.TrimSuffix(string(line), "\n")))
	}
	return v.Done()
}

// mustBeWell fails for a report with problems.
func mustBeWell(t testing.TB, r Report) Report {
	t.Helper()
	for _, p := range r.Problems {
		t.Error(p.Error())
	}
	if len(r.Problems) > 0 {
		t.FailNow()
	}
	return r
}

// mustName fails unless the report's first problem says all of these.
func mustName(t testing.TB, r Report, texts ...string) {
	t.Helper()
	if len(r.Problems) == 0 {
		t.Errorf("nothing was found, of %q", texts)
		return
	}
	for _, text := range texts {
		if got := r.Problems[0].Error(); !strings.Contains(got, text) {
			t.Errorf("got %q, want %q in it", got, text)
		}
	}
}

// clone is a verifier that goes on from where v is, by itself.
func (v *Verifier) clone() *Verifier {
	c := *v
	c.tree.edge = nil
	for _, hashes := range v.tree.edge {
		c.tree.edge = append(c.tree.edge, slices.Clone(hashes))
	}
	c.problems = slices.Clone(v.problems)
	c.replay.open, c.replay.over = map[string]*openApproval{}, map[string]*approvedCall{}
	for id, a := range v.replay.open {
		one := *a
		one.facts = slices.Clip(a.facts)
		c.replay.open[id] = &one
	}
	for id, a := range v.replay.over {
		one := *a
		c.replay.over[id] = &one
	}
	c.replay.spent = maps.Clone(v.replay.spent)
	c.replay.ended = recentSet{known: map[uint64]struct{}{}, order: slices.Clip(v.replay.ended.order), next: v.replay.ended.next}
	for h := range v.replay.ended.known {
		c.replay.ended.known[h] = struct{}{}
	}
	return &c
}

// TestSoundLogs: what the rules have made is in order, as a whole and in parts.
func TestSoundLogs(t *testing.T) {
	for seed := range uint64(2) {
		w := newWorld(t, seed)
		w.live(220)
		l := newLog(t, "log.example.com", w.events)
		r := mustBeWell(t, verify(l.verifier(), l.whole()))
		if len(w.events) < 1000 || r.Events != int64(len(w.events)) || r.Approvals.Ended < 200 || r.Approvals.Unjudged != 0 || r.Approvals.StillOpen == 0 || r.Approvals.Redeemed < 40 || !r.Replayed {
			t.Fatalf("of %d events: %+v", len(w.events), r.Approvals)
		}
		outcomes := map[engine.Outcome]int{}
		types := map[engine.EventType]int{}
		for _, e := range w.events {
			types[e.Type]++
			if e.Type == engine.Settled {
				outcomes[e.Outcome]++
			}
		}
		if len(outcomes) != 4 || len(types) < 20 {
			t.Fatalf("a log of %v, %v", types, outcomes)
		}
		for name, f := range map[string]Filter{
			"one approval": {ApprovalID: w.events[0].ApprovalID}, "an agent": {AgentID: "bot"}, "a tool": {Tool: "pay"},
			"a time": {Since: w.events[333].Timestamp, Until: w.events[900].Timestamp}, "from a time on": {Since: w.events[500].Timestamp},
			"a type": {Type: "execution"}, "an actor": {ActorID: "bot"}, "the system": {ActorID: "settle"}, "an outcome": {Outcome: "ALLOW"},
		} {
			part := l.export(f, func(r Record) bool {
				v, err := parse(r.Document())
				return err == nil && f.fits(v, r.At) == nil
			})
			if len(part) < 4 {
				t.Fatalf("%s: %d lines", name, len(part))
			}
			r := verify(l.verifier(), part)
			if len(r.Problems) > 0 {
				t.Errorf("%s: %v", name, r.Problems[0].Error())
			}
			if r.Replayed != (f.Type+f.ActorID+f.Outcome == "") {
				t.Errorf("%s: replayed is %v", name, r.Replayed)
			}
		}
	}
}

func parse(document []byte) (canon.Value, error) { return canon.Parse(document) }
