package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// Problem is one thing that is wrong with a log or an export of it.
type Problem struct {
	// Line is where in the export, from 1; 0 for what is nowhere in particular.
	Line int64
	// Seq is the event's place; 0 for what is about no event.
	Seq int64
	// EventID is the event's id, as far as it can be read.
	EventID string
	What    string
}

// Error is the problem as one line.
func (p Problem) Error() string {
	where := ""
	if p.Line > 0 {
		where = fmt.Sprintf("line %d: ", p.Line)
	}
	if p.Seq > 0 {
		where += seqText(p.Seq)
		if p.EventID != "" {
			where += " (" + p.EventID + ")"
		}
		where += ": "
	}
	return where + p.What
}

// maxProblems is how many problems a Verifier keeps: the first names where to
// look, and a log that is rewritten has as many as events.
const maxProblems = 20

// Verifier checks an export, line by line, in memory that does not grow with it
// (but with the approvals that are open at one time). Give it every line, then ask
// Done.
//
// It checks that the checkpoint is signed by the log; that every event is the
// one that the log has in that place; that they come in order and, of a whole log,
// without a gap, and are all that there are; that nothing was cut off; and that
// approvals came about by the rules.
type Verifier struct {
	// Verifiers are the log's public keys. Without any, those that the export names
	// are taken: then it is only known that the export agrees with itself.
	Verifiers []note.Verifier
	// Former are checkpoints of the same log, signed and checked before: the export
	// has to continue them. It can be told only of a whole log.
	Former []Checkpoint

	header   Header
	point    Checkpoint
	lines    int64
	events   int64
	last     int64 // seq of the event before
	ended    bool
	dead     bool // nothing more can be said
	tree     Tree
	replay   Replay
	problems []Problem
	more     int64
}

// Report is what a Verifier has found.
type Report struct {
	// Problems are the first of them, in order; none means that all is well.
	Problems []Problem
	// More is how many there are beside those.
	More int64

	Checkpoint Checkpoint
	Header     Header
	Events     int64
	Approvals  ReplayCount
}

func (v *Verifier) say(p Problem) {
	if p.Line == 0 {
		p.Line = v.lines
	}
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, p)
	} else {
		v.more++
	}
}

// Line checks the next line, without its line feed.
func (v *Verifier) Line(data []byte) {
	v.lines++
	if v.dead {
		return
	}
	if v.ended {
		v.say(Problem{What: "there is something after the end"})
		v.dead = true
		return
	}
	value, err := canon.Parse(data)
	if err != nil {
		v.say(Problem{Seq: v.expected(), What: "the line cannot be read: " + err.Error()})
		v.last++
		return
	}
	if v.lines == 1 {
		v.begin(value)
		return
	}
	if kind, ok := value.Get("holdpoint"); ok {
		v.end(kind.Str(), value, data)
		return
	}
	v.event(value, data)
}

// expected is the place of the event that comes next, where that is known.
func (v *Verifier) expected() int64 {
	if v.header.Whole && v.lines > 1 {
		return v.last + 1
	}
	return 0
}

func (v *Verifier) begin(value canon.Value) {
	var err error
	if v.header, err = ParseHeader(value); err != nil {
		v.say(Problem{What: err.Error()})
		v.dead = true
		return
	}
	v.replay.Whole = v.header.Whole
	verifiers := v.Verifiers
	if len(verifiers) == 0 {
		for _, k := range v.header.Keys {
			if verifier, err := note.NewVerifier(k); err == nil {
				verifiers = append(verifiers, verifier)
			}
		}
	}
	if v.point, err = OpenCheckpoint([]byte(v.header.Checkpoint), verifiers...); err != nil {
		v.say(Problem{What: "the checkpoint is not to be believed: " + err.Error()})
		v.dead = true
		return
	}
	for _, former := range v.Former {
		switch {
		case former.Origin != v.point.Origin:
			v.say(Problem{What: fmt.Sprintf("it is of the log %q, and the former checkpoint of %q", v.point.Origin, former.Origin)})
		case former.Size > v.point.Size:
			v.say(Problem{What: fmt.Sprintf("the log has %d events and had %d: its tail was cut, or an older copy restored", v.point.Size, former.Size)})
		case former.Size == v.point.Size && former.Root != v.point.Root:
			v.say(Problem{What: fmt.Sprintf("there are two different logs of %d events: it was rewritten or has forked", v.point.Size)})
		}
	}
}

func (v *Verifier) end(kind string, value canon.Value, data []byte) {
	v.ended = true
	count, _ := value.Get("events")
	n, ok := whole(count)
	switch {
	case kind != "end" || !ok || !bytes.Equal(append(data, '\n'), EndLine(n)):
		v.say(Problem{What: "the line is neither an event nor the end"})
	case n != v.events:
		v.say(Problem{What: fmt.Sprintf("the export says that it has %d events, and it has %d", n, v.events)})
	}
}

func (v *Verifier) event(value canon.Value, data []byte) {
	v.events++
	get := func(name string) canon.Value { m, _ := value.Get(name); return m }
	seq, ok := whole(get("seq"))
	bad := func(format string, args ...any) {
		v.say(Problem{Seq: seq, EventID: get("event_id").Str(), What: fmt.Sprintf(format, args...)})
	}
	if !ok || seq < 1 {
		seq = v.expected()
		bad("the event has no place in the log")
		v.last++
		return
	}
	if !bytes.Equal(value.Canonical(), data) {
		bad("the line is not written as exports are: it was changed after it was exported")
	}
	v.order(seq, bad)
	at, err := time.Parse(time.RFC3339Nano, get("timestamp").Str())
	if err != nil || Time(at) != get("timestamp").Str() {
		bad("its time cannot be read")
		return
	}
	// What the log has is the document without what the export adds.
	members := value.Members()
	document := members[:0]
	for _, m := range members {
		if m.Name != "leaf" && m.Name != "proof" {
			document = append(document, m)
		}
	}
	bare := canon.Object(document...)
	leaf := LeafHash(NewEntry(seq, at, Digest(bare.Canonical())))
	v.place(seq, leaf, get("leaf"), value, bad)
	if err := v.header.Filter.fits(bare, at); err != nil {
		bad("%v", err)
	}
	if _, gone := value.Get("unreadable"); gone {
		bad("the record is not one event: it was written around the programs, or damaged")
		return
	}
	v.logic(bare, bad)
}

// order checks that an event comes after the former one, and in a whole log right
// after it.
func (v *Verifier) order(seq int64, bad func(string, ...any)) {
	switch {
	case v.header.Whole && seq > v.last+2:
		bad("events %d to %d are missing before it", v.last+1, seq-1)
	case v.header.Whole && seq == v.last+2:
		bad("event %d is missing before it", v.last+1)
	case seq <= v.last:
		bad("it comes after event %d: the order was changed, or it is there twice", v.last)
	case seq > v.point.Size:
		bad("the checkpoint has %d events only", v.point.Size)
	}
	v.last = seq
}

// place checks that an event is what the log has in its place.
func (v *Verifier) place(seq int64, leaf tlog.Hash, stated canon.Value, value canon.Value, bad func(string, ...any)) {
	claimed, err := parseHash(stated.Str())
	if err != nil {
		bad("what the log has in its place cannot be read")
	} else if claimed != leaf {
		bad("it is not the event that the log has in this place: it was changed after it was logged")
	}
	_, has := value.Get("proof")
	if has == v.header.Whole {
		bad("it has a proof where none belongs, or none where one does")
		return
	}
	if v.header.Whole {
		if seq != v.tree.Size()+1 {
			return // something before it is missing, and has been named
		}
		v.tree.Append(leaf, nil)
		for _, former := range v.Former {
			if v.tree.Size() == former.Size && v.tree.Root() != former.Root {
				bad("the log up to here is not the one of the former checkpoint of %d events: it was rewritten or has forked", former.Size)
			}
		}
		return
	}
	member, _ := value.Get("proof")
	proof, err := parseProof(member)
	if err == nil {
		err = tlog.CheckRecord(proof, v.point.Size, v.point.Root, seq-1, leaf)
	}
	if err != nil {
		bad("its proof does not show that the log has it: %v", err)
	}
}

func (v *Verifier) logic(document canon.Value, bad func(string, ...any)) {
	var e engine.Event
	if err := json.Unmarshal(document.Canonical(), &e); err != nil {
		bad("it is no event: %v", errors.Unwrap(err))
		return
	}
	if err := v.replay.Event(e); err != nil {
		bad("%v", err)
	}
	if v.events%1024 == 0 {
		v.replay.Forget(e.Timestamp)
	}
}

// Done says what was found, once every line was given.
func (v *Verifier) Done() Report {
	switch {
	case v.lines == 0:
		v.say(Problem{What: "it is empty"})
	case v.dead:
	case !v.ended:
		v.say(Problem{What: fmt.Sprintf("the export was cut off after %d events", v.events)})
	case v.header.Whole && v.last != v.point.Size:
		v.say(Problem{What: fmt.Sprintf("the last events are missing: the checkpoint has %d and the export ends with %d", v.point.Size, v.last)})
	case v.header.Whole && v.tree.Root() != v.point.Root && len(v.problems) == 0:
		v.say(Problem{What: "the events are not those that the checkpoint was signed for: some were changed together with what stands beside them"})
	}
	return Report{Problems: v.problems, More: v.more, Checkpoint: v.point, Header: v.header, Events: v.events, Approvals: v.replay.Done()}
}
