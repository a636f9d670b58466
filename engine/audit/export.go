package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/canon"
)

// An export is JSON Lines, each in its RFC 8785 form:
//
//	{"checkpoint":"…","filter":{…},"holdpoint":"export","keys":["…"],"v":1,"whole":true}
//	{…the event's document…,"leaf":"…"}
//	…
//	{"events":2,"header":"sha256:…","holdpoint":"end","v":1}
//
// The checkpoint is the signed note, leaf the base64 of the leaf's hash as the log
// has it. Whoever has the whole log can compute the tree from the events. Where it
// is a part ("whole" is false) each event has "proof" as well: that the tree of the
// checkpoint has it, as base64 of hashes from the leaf upwards. "keys" is there for
// looking only: a key that comes with what it is to prove proves nothing. The end's
// header is the digest of the first line without what was signed by whom, so that
// neither can be changed alone, and ends and beginnings cannot be mixed up.

// Header is the first line of an export.
type Header struct {
	// Checkpoint is the signed note.
	Checkpoint string
	// Whole says that the events are all of the checkpoint's tree.
	Whole  bool
	Filter Filter
	// Keys are the log's public keys, as whoever exports knows them.
	Keys []string
}

// Filter is what a part of the log was asked for by; empty fields ask for
// everything. Whether there is more that it fits nobody can tell from the part.
type Filter struct {
	Since, Until                                      time.Time
	AgentID, Tool, Outcome, Type, ActorID, ApprovalID string
}

// fields are the filter's names and what they were asked to be.
func (f Filter) fields() []canon.Member {
	var members []canon.Member
	add := func(name, value string) {
		if value != "" {
			members = append(members, canon.Member{Name: name, Value: text(value)})
		}
	}
	if !f.Since.IsZero() {
		add("since", Time(f.Since))
	}
	if !f.Until.IsZero() {
		add("until", Time(f.Until))
	}
	add("agent_id", f.AgentID)
	add("tool_name", f.Tool)
	add("outcome", f.Outcome)
	add("type", f.Type)
	add("actor_id", f.ActorID)
	add("approval_id", f.ApprovalID)
	return members
}

// JSON is the filter as the header has it.
func (f Filter) JSON() []byte { return canon.Object(f.fields()...).Canonical() }

func parseFilter(v canon.Value) (f Filter, err error) {
	for name, member := range v.All() {
		value := member.Str()
		switch name {
		case "since":
			f.Since, err = time.Parse(time.RFC3339Nano, value)
		case "until":
			f.Until, err = time.Parse(time.RFC3339Nano, value)
		case "agent_id":
			f.AgentID = value
		case "tool_name":
			f.Tool = value
		case "outcome":
			f.Outcome = value
		case "type":
			f.Type = value
		case "actor_id":
			f.ActorID = value
		case "approval_id":
			f.ApprovalID = value
		default:
			err = errors.New("there is no such filter")
		}
		if err != nil || value == "" {
			return f, fmt.Errorf("filter.%s cannot be read", name)
		}
	}
	return f, nil
}

// fits reports why an event is none that the filter asks for; nil when it is.
func (f Filter) fits(v canon.Value, at time.Time) error {
	if !f.Since.IsZero() && at.Before(f.Since) || !f.Until.IsZero() && !at.Before(f.Until) {
		return errors.New("its time is not what was asked for")
	}
	get := func(name string) string { m, _ := v.Get(name); return m.Str() }
	actor, _ := v.Get("actor")
	id, _ := actor.Get("id")
	for _, c := range []struct{ name, want, got string }{
		{"agent_id", f.AgentID, get("agent_id")},
		{"tool_name", f.Tool, get("tool_name")},
		{"outcome", f.Outcome, get("outcome")},
		{"type", f.Type, get("type")},
		{"approval_id", f.ApprovalID, get("approval_id")},
		{"actor_id", f.ActorID, id.Str()},
	} {
		if c.want != "" && c.want != c.got {
			return fmt.Errorf("its %s is not what was asked for", c.name)
		}
	}
	return nil
}

// Line is the header as a line of the export, with its line feed.
func (h Header) Line() []byte { return line(h.value()) }

func (h Header) value() canon.Value {
	keys := make([]canon.Value, len(h.Keys))
	for i, k := range h.Keys {
		keys[i] = text(k)
	}
	return canon.Object(
		canon.Member{Name: "holdpoint", Value: text("export")}, canon.Member{Name: "v", Value: canon.Number(Version)},
		canon.Member{Name: "checkpoint", Value: text(h.Checkpoint)}, canon.Member{Name: "whole", Value: canon.Bool(h.Whole)},
		canon.Member{Name: "filter", Value: canon.Object(h.Filter.fields()...)}, canon.Member{Name: "keys", Value: canon.Array(keys...)},
	)
}

// EventLine is an event as a line of the export: its document, the leaf that the
// log has for it, and the proof, nil for none. A document that is not an object
// panics; Record.Document makes none.
func EventLine(document []byte, leaf tlog.Hash, proof tlog.RecordProof, whole bool) []byte {
	v, err := canon.Parse(document)
	if err != nil {
		panic("audit: a document that cannot be read: " + err.Error())
	}
	return Line(v, leaf, proof, whole)
}

// Line is EventLine of a document that was read.
func Line(document canon.Value, leaf tlog.Hash, proof tlog.RecordProof, whole bool) []byte {
	members := append(document.Members(), canon.Member{Name: "leaf", Value: text(leaf.String())})
	if !whole {
		hashes := make([]canon.Value, len(proof))
		for i, h := range proof {
			hashes[i] = text(h.String())
		}
		members = append(members, canon.Member{Name: "proof", Value: canon.Array(hashes...)})
	}
	return line(canon.Object(members...))
}

// Digest is the digest of what the header says beside the signatures: those may
// have become more when an export goes on that was cut off.
func (h Header) Digest() string {
	h.Checkpoint, _, _ = strings.Cut(h.Checkpoint, "\n\n")
	return Digest(h.value().Canonical())
}

// EndLine is the last line of an export with this header and so many events.
func EndLine(h Header, events int64) []byte {
	return line(canon.Object(
		canon.Member{Name: "header", Value: text(h.Digest())},
		canon.Member{Name: "holdpoint", Value: text("end")}, canon.Member{Name: "v", Value: canon.Number(Version)},
		canon.Member{Name: "events", Value: canon.Number(float64(events))},
	))
}

func line(v canon.Value) []byte { return append(v.Canonical(), '\n') }

// ParseHeader reads the first line of an export.
func ParseHeader(v canon.Value) (h Header, err error) {
	get := func(name string) canon.Value { m, _ := v.Get(name); return m }
	if get("holdpoint").Str() != "export" {
		return h, errors.New("it is no export of an audit log: its first line is not a header")
	}
	if version := get("v").Float(); version != Version {
		return h, fmt.Errorf("it is an export of version %v, and this program knows version %d", version, Version)
	}
	h.Checkpoint, h.Whole = get("checkpoint").Str(), get("whole").Bool()
	for _, k := range get("keys").Elements() {
		h.Keys = append(h.Keys, k.Str())
	}
	if h.Filter, err = parseFilter(get("filter")); err != nil {
		return h, err
	}
	if h.Whole && len(h.Filter.fields()) > 0 {
		return h, errors.New("its header says that it is the whole log, and has a filter")
	}
	if string(h.Line()) != string(line(v)) {
		return h, errors.New("its header holds what no header of this version holds")
	}
	return h, nil
}

// parseProof reads hashes.
func parseProof(v canon.Value) (tlog.RecordProof, error) {
	proof := make(tlog.RecordProof, 0, v.Len())
	for _, member := range v.Elements() {
		h, err := parseHash(member.Str())
		if err != nil {
			return nil, err
		}
		proof = append(proof, h)
	}
	return proof, nil
}

func parseHash(s string) (h tlog.Hash, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != tlog.HashSize {
		return h, errors.New("a hash cannot be read")
	}
	copy(h[:], raw)
	return h, nil
}

// readCount reads a count.
func readCount(v canon.Value) (int64, bool) {
	n, ok := v.Int()
	return n, ok && n >= 0
}
