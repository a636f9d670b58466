package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// oneLine keeps what an export holds from looking like a line of its own.
var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// Error is the problem as one line.
func (p Problem) Error() string {
	where := ""
	if p.Line > 0 {
		where = fmt.Sprintf("line %d: ", p.Line)
	}
	if p.Seq > 0 {
		where += "event " + strconv.FormatInt(p.Seq, 10)
		if p.EventID != "" {
			where += " (" + p.EventID + ")"
		}
		where += ": "
	}
	return oneLine.Replace(where + p.What)
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
	// Witnesses have to have signed the export's checkpoint, too.
	Witnesses Witnesses

	cosigned []Cosignature
	header   Header
	point    Checkpoint
	keyless  bool // there is no key to check with
	unheld   int  // former checkpoints that a part cannot be held against
	partial  bool // not all events of an approval are among those asked for
	lines    int64
	events   int64
	last     int64 // seq of the event before
	clock    Clock
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
	// Approvals is what was computed again; Replayed is false where the events were
	// asked for by what tears approvals apart, so that nothing was.
	Approvals ReplayCount
	Replayed  bool
	// Signed is how many votes each passkey has signed, of those whose signatures are good.
	Signed map[Signer]int
	// Keyless says that nothing was checked: no key was given, and the export names
	// none.
	Keyless bool
	// Unheld is how many of the former checkpoints a part of the log could not be
	// held against.
	Unheld int
	// Cosigned is who of the witnesses that were asked for has signed the checkpoint.
	Cosigned []Cosignature
}

func (v *Verifier) say(p Problem) {
	p.Line = cmp.Or(p.Line, v.lines)
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
	if v.lines > v.point.Size+2 {
		// One of them has been named, and whoever goes on sending must not cost more.
		v.say(Problem{What: fmt.Sprintf("there are more events than the %d that the checkpoint has", v.point.Size)})
		v.dead = true
		return
	}
	value, err := canon.Parse(data)
	switch {
	case err != nil && v.lines == 1:
		v.say(Problem{What: "it is no export of an audit log (only the format jsonl is one that can be verified): its first line cannot be read: " + err.Error()})
		v.dead = true
	case err != nil:
		v.say(Problem{Seq: v.expected(), What: "the line cannot be read: " + err.Error()})
		v.last++
	case v.lines == 1:
		v.begin(value, data)
	case is(value, "end"):
		v.end(value, data)
	default:
		v.event(value, data)
	}
}

// Over reports whether nothing more can be said, whatever lines come.
func (v *Verifier) Over() bool { return v.dead }

// is reports whether a line says that it is the export's own, and no event.
func is(value canon.Value, what string) bool {
	kind, _ := value.Get("holdpoint")
	_, event := value.Get("event_id")
	return kind.Str() == what && !event
}

// expected is the place of the event that comes next, where that is known.
func (v *Verifier) expected() int64 {
	if v.header.Whole && v.lines > 1 {
		return v.last + 1
	}
	return 0
}

func (v *Verifier) begin(value canon.Value, data []byte) {
	var err error
	if v.header, err = ParseHeader(value); err == nil && !bytes.Equal(v.header.Line()[:len(v.header.Line())-1], data) {
		err = errors.New("its header is not written as exports are: it was changed")
	}
	if err != nil {
		v.say(Problem{What: err.Error()})
		v.dead = true
		return
	}
	f := v.header.Filter
	v.replay.Whole, v.partial = v.header.Whole, f.Type != "" || f.Outcome != "" || f.ActorID != ""
	named, err := v.named()
	if err != nil {
		v.say(Problem{What: err.Error()})
		v.dead = true
		return
	}
	verifiers := v.Verifiers
	if len(verifiers) == 0 {
		verifiers = named
	}
	if len(verifiers) == 0 {
		v.keyless, v.dead = true, true
		return
	}
	if v.point, err = OpenCheckpoint([]byte(v.header.Checkpoint), verifiers...); err != nil {
		v.say(Problem{What: "the checkpoint is not to be believed: " + err.Error()})
		v.dead = true
		return
	}
	if v.cosigned, err = v.Witnesses.Check([]byte(v.header.Checkpoint)); err != nil {
		v.say(Problem{What: "the checkpoint: " + err.Error()})
	}
	if _, err := OpenCheckpoint([]byte(v.header.Checkpoint), named...); len(named) > 0 && err != nil {
		v.say(Problem{What: "the keys that it names are not those of the checkpoint"})
	}
	for _, former := range v.Former {
		switch {
		case former.Origin != v.point.Origin:
			v.say(Problem{What: fmt.Sprintf("it is of the log %q, and the former checkpoint of %q", v.point.Origin, former.Origin)})
		case former.Size > v.point.Size:
			v.say(Problem{What: fmt.Sprintf("the log has %d events and had %d: its tail was cut, an older copy restored, or this is an older export", v.point.Size, former.Size)})
		case former.Size == v.point.Size && former.Root != v.point.Root:
			v.say(Problem{What: fmt.Sprintf("there are two different logs of %d events: it was rewritten or has forked", v.point.Size)})
		case former.Size < v.point.Size && former.Size > 0 && !v.header.Whole:
			v.unheld++
		}
	}
}

// named are the keys that the header names, each once.
func (v *Verifier) named() ([]note.Verifier, error) {
	var verifiers []note.Verifier
	for i, k := range v.header.Keys {
		verifier, err := note.NewVerifier(k)
		if err != nil || slices.Contains(v.header.Keys[:i], k) {
			return nil, errors.New("its header names what is no public key of a log, or one twice")
		}
		verifiers = append(verifiers, verifier)
	}
	return verifiers, nil
}

func (v *Verifier) end(value canon.Value, data []byte) {
	v.ended = true
	count, _ := value.Get("events")
	n, ok := readCount(count)
	switch header, _ := value.Get("header"); {
	case !ok:
		v.say(Problem{What: "the last line does not say how many events there are"})
	case header.Str() != v.header.Digest():
		v.say(Problem{What: "the last line is the end of an export with another header"})
	case !bytes.Equal(append(bytes.Clone(data), '\n'), EndLine(v.header, n)):
		v.say(Problem{What: "the last line holds what no end of an export holds"})
	case n != v.events:
		v.say(Problem{What: fmt.Sprintf("the export says that it has %d events, and it has %d", n, v.events)})
	}
}

func (v *Verifier) event(value canon.Value, data []byte) {
	v.events++
	get := func(name string) canon.Value { m, _ := value.Get(name); return m }
	seq, ok := readCount(get("seq"))
	bad := func(format string, args ...any) {
		v.say(Problem{Seq: seq, EventID: get("event_id").Str(), What: fmt.Sprintf(format, args...)})
	}
	if !ok || seq < 1 {
		seq = v.expected()
		bad("the line is no event with a place in the log, and not the end")
		v.last++
		return
	}
	at, err := time.Parse(time.RFC3339Nano, get("timestamp").Str())
	if err != nil || Time(at) != get("timestamp").Str() {
		v.misplaced(&seq)
		bad("its time cannot be read")
		return
	}
	line, document := split(value)
	leaf := LeafHash(NewEntry(seq, at, Digest(document)))
	if claimed, err := parseHash(get("leaf").Str()); err != nil {
		v.misplaced(&seq)
		bad("what the log has in its place cannot be read")
	} else if claimed != leaf {
		// Its seq is part of what may have been changed.
		v.misplaced(&seq)
		if gone, is := get("unreadable"), get("event_id"); gone.Kind() == canon.StringKind && gone.Str() == "" && is.Str() == "" {
			bad("the log has an event in this place, and the database has none any more: it was removed")
			return
		}
		bad("it is not the event that the log has in this place: it was changed after it was logged")
	} else {
		v.order(seq, bad)
	}
	if !bytes.Equal(line, data) {
		bad("the line is not written as exports are: it was changed after it was exported")
	}
	if err := v.clock.Follow(at); err != nil {
		bad("%v", err)
	}
	v.place(seq, leaf, value, bad)
	if err := v.header.Filter.fits(value, at); err != nil {
		bad("%v", err)
	}
	if _, gone := value.Get("unreadable"); gone {
		bad("the record is not one event: it was written around the programs, or damaged")
		return
	}
	v.logic(value, document, at, bad)
}

// split is the line's RFC 8785 form, and the document in it: what the log has,
// without what the export adds.
func split(value canon.Value) (line, document []byte) {
	last := ""
	line, document = []byte{'{'}, []byte{'{'}
	for name, member := range value.All() {
		if name <= last && last != "" || !ascii(name) {
			return canonically(value)
		}
		last = name
		if len(line) > 1 {
			line = append(line, ',')
		}
		at := len(line)
		line = append(canon.String(name).AppendCanonical(line), ':')
		line = member.AppendCanonical(line)
		if name == "leaf" || name == "proof" {
			continue
		}
		if len(document) > 1 {
			document = append(document, ',')
		}
		document = append(document, line[at:]...)
	}
	return append(line, '}'), append(document, '}')
}

// ascii reports whether a name's place among others is that of its bytes.
func ascii(name string) bool {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return false
		}
	}
	return true
}

// canonically is split for members in any order.
func canonically(value canon.Value) (line, document []byte) {
	members := slices.DeleteFunc(value.Members(), func(m canon.Member) bool { return m.Name == "leaf" || m.Name == "proof" })
	return value.Canonical(), canon.Object(members...).Canonical()
}

// misplaced takes an event that is not what the log has for the one that comes
// next, where that is known.
func (v *Verifier) misplaced(seq *int64) {
	if next := v.expected(); next > 0 {
		*seq = next
	}
	v.last = *seq
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

// place checks that the checkpoint's tree has an event in its place.
func (v *Verifier) place(seq int64, leaf tlog.Hash, value canon.Value, bad func(string, ...any)) {
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

func (v *Verifier) logic(value canon.Value, document []byte, at time.Time, bad func(string, ...any)) {
	if v.events%1024 == 0 {
		v.replay.Forget(at)
	}
	kind, _ := value.Get("type")
	id, _ := value.Get("approval_id")
	if v.partial || id.Str() == "" && !concerns(engine.EventType(kind.Str())) {
		return // it is about no approval
	}
	var e engine.Event
	if err := json.Unmarshal(document, &e); err != nil {
		bad("it is no event: %v", err)
		return
	}
	if err := v.replay.Event(e); err != nil {
		bad("%v", err)
	}
}

// Done says what was found, once every line was given.
func (v *Verifier) Done() Report {
	switch {
	case v.lines == 0:
		v.say(Problem{What: "the export is empty"})
	case v.dead:
	case !v.ended:
		v.say(Problem{What: fmt.Sprintf("the export was cut off after %d events: its end is missing", v.events)})
	case v.header.Whole && v.last != v.point.Size:
		v.say(Problem{What: fmt.Sprintf("the last events are missing: the checkpoint has %d and the export ends with %d", v.point.Size, v.last)})
	case v.header.Whole && v.tree.Root() != v.point.Root && len(v.problems) == 0:
		v.say(Problem{What: "the events are not those that the checkpoint was signed for: some were changed together with what stands beside them"})
	}
	return Report{
		Problems: v.problems, More: v.more, Checkpoint: v.point, Header: v.header, Events: v.events,
		Approvals: v.replay.Done(), Signed: v.replay.Signed(), Replayed: !v.partial, Keyless: v.keyless, Unheld: v.unheld, Cosigned: v.cosigned,
	}
}
