package audit

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine/canon"
)

var long = flag.Bool("long", false, "tamper with every field of every line, not with a sample")

// tampered is a line with one thing changed, and which.
type tampered struct {
	path, how string
	line      []byte
}

// tamper changes, removes and retypes every value of a JSON line, and adds one to
// every object and array, one at a time.
func tamper(t testing.TB, line []byte, visit func(tampered)) {
	t.Helper()
	var document any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		t.Fatal(err)
	}
	say := func(path, how string) {
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		v, err := canon.Parse(text)
		if err != nil {
			t.Fatalf("%s %s: %v", path, how, err)
		}
		visit(tampered{path, how, v.Canonical()})
	}
	var walk func(path string, at any, set func(any))
	walk = func(path string, at any, set func(any)) {
		defer set(at)
		for how, v := range others(at) {
			set(v)
			say(path, how)
		}
		set(at)
		switch at := at.(type) {
		case map[string]any:
			at["zz_added"] = "x"
			say(path, "added")
			delete(at, "zz_added")
			for _, name := range slices.Sorted(maps.Keys(at)) {
				inner := at[name]
				delete(at, name)
				say(path+"."+name, "removed")
				walk(path+"."+name, inner, func(v any) { at[name] = v })
			}
		case []any:
			for i := range at {
				set(slices.Delete(slices.Clone(at), i, i+1))
				say(path+"[]", "removed")
				set(append(slices.Clone(at), at[i]))
				say(path+"[]", "added")
				set(at)
				walk(path+"[]", at[i], func(v any) { at[i] = v })
			}
			if len(at) == 0 {
				set([]any{"x"})
				say(path+"[]", "added")
			}
		}
	}
	walk("", document, func(v any) {
		if v != nil {
			document = v
		}
	})
}

// paths are those of all values of a JSON line.
func paths(t testing.TB, line []byte) (all []string) {
	v, err := canon.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v canon.Value)
	walk = func(path string, v canon.Value) {
		all = append(all, path)
		for name, inner := range v.All() {
			walk(path+"."+name, inner)
		}
		for _, inner := range v.Elements() {
			walk(path+"[]", inner)
		}
	}
	walk("", v)
	return all
}

// others are other values in a value's place: of its type, and of others.
func others(v any) map[string]any {
	switch v := v.(type) {
	case string:
		m := map[string]any{"changed": v + "x", "retyped": json.Number("1"), "nulled": nil}
		if v != "" {
			m["emptied"], m["cased"] = "", strings.ToUpper(v)
			if strings.ToUpper(v) == v {
				delete(m, "cased")
			}
		}
		return m
	case json.Number:
		changed := v + "1"
		if v == "0" {
			changed = "1"
		}
		return map[string]any{"changed": changed, "retyped": v.String(), "nulled": nil}
	case bool:
		return map[string]any{"changed": !v, "retyped": fmt.Sprint(v), "nulled": nil}
	case map[string]any, []any:
		return map[string]any{"retyped": "x"}
	}
	return map[string]any{"retyped": "x"}
}

// TestEveryFieldOfEveryEvent: whatever single thing is changed in an event of a
// whole log, the first problem names that line and that event.
func TestEveryFieldOfEveryEvent(t *testing.T) {
	w := newWorld(t, 7)
	w.live(230)
	l := newLog(t, "log.example.com", w.events)
	lines := l.whole()
	v, tries, seen, known := l.verifier(), 0, map[string]int{}, map[string]bool{}
	if len(lines) < 1002 {
		t.Fatalf("only %d lines", len(lines))
	}
	v.Line(bytes.TrimSpace(lines[0]))
	for i, line := range lines[1 : len(lines)-1] {
		line, kind := bytes.TrimSpace(line), string(l.events[i].Type)
		fresh := *long
		for _, path := range paths(t, line) {
			if !known[kind+path] {
				fresh, known[kind+path] = true, true
			}
		}
		if fresh {
			tamper(t, line, func(c tampered) {
				if seen[kind+c.path+c.how]++; !*long && seen[kind+c.path+c.how] > 1 {
					return
				}
				tries++
				again := v.clone()
				again.Line(c.line)
				if len(again.problems) == 0 {
					t.Fatalf("event %d, %s %s: nothing was found\n%s", i+1, c.path, c.how, c.line)
				}
				if p := again.problems[0]; p.Line != int64(i+2) || p.Seq != int64(i+1) && again.header.Whole {
					t.Fatalf("event %d, %s %s: found %v\n%s", i+1, c.path, c.how, p.Error(), c.line)
				}
			})
		}
		v.Line(line)
		if len(v.problems) > 0 {
			t.Fatal(v.problems[0].Error())
		}
	}
	t.Logf("%d changes of %d kinds, in %d events", tries, len(seen), len(lines)-2)
	if tries < 3000 {
		t.Errorf("only %d changes were tried", tries)
	}
}

// TestEveryFieldOfParts: likewise of a part, whose events are not known to come
// one after the other, and of first and last lines.
func TestEveryFieldOfParts(t *testing.T) {
	w := newWorld(t, 8)
	w.live(17)
	l := newLog(t, "log.example.com", w.events)
	f := Filter{AgentID: "bot"}
	part := l.export(f, func(r Record) bool { return r.AgentID == "bot" })
	mustBeWell(t, verify(l.verifier(), part))
	whole := l.whole()
	for name, lines := range map[string][][]byte{"part": part, "whole": whole} {
		for i, line := range lines {
			if !*long && i > 3 && i < len(lines)-1 {
				continue
			}
			tamper(t, bytes.TrimSpace(line), func(c tampered) {
				v := l.verifier()
				v.Line(bytes.TrimSpace(lines[0]))
				if i == 0 {
					v = l.verifier()
				} else {
					v.last, v.events, v.lines = 0, int64(i-1), int64(i)
					if name == "whole" && i < len(lines)-1 {
						return // TestEveryFieldOfEveryEvent
					}
				}
				v.Line(c.line)
				if i == 0 { // the last line says whether the first one was changed
					for _, rest := range lines[1:] {
						v.Line(bytes.TrimSpace(rest))
					}
				}
				if len(v.problems) == 0 {
					t.Fatalf("%s, line %d, %s %s: nothing was found\n%s", name, i+1, c.path, c.how, c.line)
				}
				if p := v.problems[0]; i > 0 && p.Line != int64(i+1) {
					t.Fatalf("%s, line %d, %s %s: found %v", name, i+1, c.path, c.how, p.Error())
				}
			})
		}
	}
}

// TestFlippedBitsAreFound: a flipped bit anywhere is found.
func TestFlippedBitsAreFound(t *testing.T) {
	w := newWorld(t, 9)
	w.approved()
	w.edited()
	l := newLog(t, "log.example.com", w.events)
	part := l.export(Filter{ApprovalID: w.events[0].ApprovalID}, func(r Record) bool { return r.ApprovalID == w.events[0].ApprovalID })
	random := rand.New(rand.NewPCG(1, 2))
	for name, lines := range map[string][][]byte{"whole": l.whole(), "part": part} {
		text := bytes.Join(lines, nil)
		for i := range text {
			if !*long && i%5 != 0 {
				continue
			}
			bad := bytes.Clone(text)
			bad[i] ^= 1 << random.IntN(8)
			r := verify(l.verifier(), bytes.SplitAfter(bytes.TrimSuffix(bad, []byte("\n")), []byte("\n")))
			if len(r.Problems) == 0 && i < len(text)-1 { // the last line feed is no part of the line
				t.Fatalf("%s: byte %d (%q to %q) was not found in\n%s", name, i, text[i], bad[i], bad)
			}
		}
	}
}

// TestLines: lines removed, repeated, swapped, moved, cut off and spliced.
func TestLines(t *testing.T) {
	w := newWorld(t, 10)
	w.live(16)
	l := newLog(t, "log.example.com", w.events)
	whole := l.whole()
	n := len(whole)
	whole[n-1] = bytes.TrimSpace(whole[n-1])
	check := func(lines [][]byte, texts ...string) {
		t.Helper()
		mustName(t, verify(l.verifier(), lines), texts...)
	}
	for i := 1; i < n-1; i++ {
		removed := slices.Delete(slices.Clone(whole), i, i+1)
		switch i {
		case n - 2: // the count says it first
			check(removed, fmt.Sprintf("it has %d", n-3))
		default:
			check(removed, fmt.Sprintf("line %d: event %d ", i+1, i+1), fmt.Sprintf("event %d is missing before it", i))
		}
		check(slices.Insert(slices.Clone(whole), i, whole[i]), fmt.Sprintf("line %d: event %d ", i+2, i), "it is there twice")
		if i+1 < n-1 {
			swapped := slices.Clone(whole)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			check(swapped, fmt.Sprintf("line %d: event %d ", i+1, i+1), "missing before it")
		}
		// The tail cut between lines and within one.
		check(whole[:i], "was cut off")
		cut := append(slices.Clone(whole[:i]), whole[i][:len(whole[i])/2])
		check(cut, fmt.Sprintf("line %d: event %d: the line cannot be read", i+1, i))
	}
	reversed := slices.Clone(whole)
	slices.Reverse(reversed[1 : n-1])
	check(reversed, "missing before it")
	moved := slices.Insert(slices.Delete(slices.Clone(whole), 5, 6), 20, whole[5])
	check(moved, "line 6: event 6 ", "event 5 is missing before it")
	check(append(slices.Clone(whole), whole[3]), "something after the end")
	check(whole[1:], "line 1: it is no export of an audit log")
	check(nil, "the export is empty")
	check([][]byte{[]byte("")}, "it is no export of an audit log")
	check(append(slices.Clone(whole[:n-1]), whole[:1]...), "is no event with a place") // a second header for the end

	// Two exports of the same log, of different sizes.
	shorter := newLog(t, "log.example.com", w.events[:len(w.events)-7])
	former := shorter.whole()
	check(append(slices.Clone(former[:1]), whole[1:]...), "the checkpoint has")
	check(append(slices.Clone(whole[:1]), former[1:]...), "another header")
	check(append(slices.Clone(former[:len(former)-1]), whole[n-1]), "another header")
	check(append(slices.Clone(whole[:n-1]), former[1:]...), "it is there twice")

	// Whole and part taken for one another.
	parts := l.export(Filter{AgentID: "bot"}, func(r Record) bool { return r.AgentID == "bot" })
	check(append(slices.Clone(whole[:1]), parts[1:]...), "it has a proof where none belongs")
	check(append(slices.Clone(parts[:1]), whole[1:]...), "none where one does")
	all := l.export(Filter{}, func(Record) bool { return true })
	all[0] = whole[0]
	check(all, "it has a proof where none belongs")

	// Proofs swapped.
	proofs := slices.Clone(parts)
	proofs[1], proofs[2] = swapProofs(t, proofs[1], proofs[2])
	check(proofs, "line 2: event 1 ", "its proof does not show that the log has it")
}

// swapProofs gives two events each other's proof.
func swapProofs(t *testing.T, a, b []byte) ([]byte, []byte) {
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatal("no events")
	}
	x["proof"], y["proof"] = y["proof"], x["proof"]
	return recanon(t, x), recanon(t, y)
}

func recanon(t *testing.T, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	c, err := canon.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return append(c.Canonical(), '\n')
}

// TestCheckpoints: another key, another log, and former checkpoints that the log
// does not continue.
func TestCheckpoints(t *testing.T) {
	w := newWorld(t, 11)
	w.live(20)
	l := newLog(t, "log.example.com", w.events)
	n := len(w.events)
	check := func(v *Verifier, lines [][]byte, texts ...string) {
		t.Helper()
		mustName(t, verify(v, lines), texts...)
	}
	other := newLog(t, "other.example.com", w.events)
	check(l.verifier(), other.whole(), "the checkpoint is not to be believed: the log has not signed it: the key is log.example.com+")

	// Somebody without the key: everything anew, by a key of the same name.
	forged := slices.Clone(w.events)
	forged[3].Outcome = "ALLOW"
	thief := newLog(t, "log.example.com", forged)
	private, public, err := NewKey(rand.NewChaCha8([32]byte{2}), "log.example.com")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	thief.key, thief.public = keys[0], public
	check(l.verifier(), thief.whole(), "the checkpoint is not to be believed")
	if r := verify(&Verifier{}, newLog(t, "log.example.com", w.events).whole()); len(r.Problems) > 0 {
		t.Errorf("by the key that it names: %v", r.Problems[0].Error())
	}
	// Everything anew, under the checkpoint that there is.
	whole := thief.whole()
	whole[0] = l.whole()[0]
	check(l.verifier(), append(whole[:len(whole)-1], l.whole()[n+1]), "the events are not those that the checkpoint was signed for")
	// The header names other keys than the signer's.
	h := l.header(true, Filter{})
	h.Keys = []string{public}
	check(l.verifier(), append([][]byte{h.Line()}, append(l.whole()[1:n+1], EndLine(h, int64(n)))...), "the keys that it names are not those of the checkpoint")
	h.Keys = nil
	anonymous := append([][]byte{h.Line()}, append(l.whole()[1:n+1], EndLine(h, int64(n)))...)
	mustBeWell(t, verify(l.verifier(), anonymous))
	if r := verify(&Verifier{}, anonymous); !r.Keyless || len(r.Problems) > 0 {
		t.Errorf("without any key: %+v", r)
	}

	// Former checkpoints.
	at := func(l *log, size int) Checkpoint { return newLog(t, l.key.Name(), l.events[:size]).checkpoint() }
	for _, size := range []int{0, 1, 2, n / 2, n - 1, n} {
		v := l.verifier()
		v.Former = []Checkpoint{at(l, size)}
		mustBeWell(t, verify(v, l.whole()))
		if size < 4 {
			continue
		}
		rewritten := l.verifier()
		rewritten.Former = []Checkpoint{at(&log{TB: t, key: l.key, events: forged}, size)}
		if size == n {
			check(rewritten, l.whole(), "two different logs")
		} else {
			check(rewritten, l.whole(), fmt.Sprintf("event %d ", size), "it was rewritten or has forked")
		}
	}
	cut := l.verifier()
	cut.Former = []Checkpoint{l.checkpoint()}
	check(cut, newLog(t, "log.example.com", w.events[:n-1]).whole(), "its tail was cut")
	elsewhere := l.verifier()
	elsewhere.Former = []Checkpoint{at(other, 5)}
	check(elsewhere, l.whole(), "the former checkpoint of")
	// A part says nothing of what was before.
	part := l.verifier()
	part.Former = []Checkpoint{at(l, 5), l.checkpoint()}
	if r := mustBeWell(t, verify(part, l.export(Filter{AgentID: "bot"}, func(r Record) bool { return r.AgentID == "bot" }))); r.Unheld != 1 {
		t.Errorf("%d checkpoints were not held against a part", r.Unheld)
	}
}
