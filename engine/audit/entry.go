package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/canon"
)

// Version is the version of the entry's format.
const Version = 1

// Record is an event as the database keeps it: its columns, and the body that
// was written.
type Record struct {
	// Leaf is the event's place in the log, from 0; negative when it has none yet.
	Leaf       int64
	ID         string // UUID
	At         time.Time
	Type       string
	Outcome    string
	AgentID    string
	ToolName   string
	ApprovalID string
	// Body is the event as JSON, without seq and timestamp.
	Body []byte
}

// Seq is the place of the event as everybody sees it; 0 for none.
func (r Record) Seq() int64 { return r.Leaf + 1 }

// Document is the event as everybody sees it, in its RFC 8785 form. It has a
// value for every record, and another one for every other record: what is not
// an event that agrees with its columns is shown as it is.
func (r Record) Document() []byte {
	document, _ := r.appendDocument(make([]byte, 0, len(r.Body)+128), new(canon.Reader))
	return document
}

// appendDocument appends Document to dst and returns Actor, for the price of reading the
// body once.
func (r Record) appendDocument(dst []byte, reader *canon.Reader) (document []byte, actor string) {
	v, readable, actor := r.read(reader)
	if !readable {
		return r.unreadable().AppendCanonical(dst), actor
	}
	var given [2]canon.Member
	return v.AppendCanonicalWith(dst, r.given(given[:0])...), actor
}

// Value is the document as a value, and who the event names as its actor; "" where
// it names nobody.
func (r Record) Value() (document canon.Value, actor string) {
	v, readable, actor := r.read(new(canon.Reader))
	if !readable {
		return r.unreadable(), actor
	}
	return v.With(r.given(nil)...), actor
}

// read reads the body. It is not readable where it is no event that agrees with its columns.
func (r Record) read(reader *canon.Reader) (body canon.Value, readable bool, actor string) {
	v, err := reader.Parse(r.Body)
	if err != nil {
		return v, false, ""
	}
	who, _ := v.Get("actor")
	id, _ := who.Get("id")
	return v, v.Kind() == canon.ObjectKind && r.agrees(v), id.Str()
}

// given appends what the log itself gives an event.
func (r Record) given(to []canon.Member) []canon.Member {
	to = append(to, canon.Member{Name: "timestamp", Value: text(Time(r.At))})
	if r.Leaf >= 0 {
		to = append(to, canon.Member{Name: "seq", Value: canon.Number(float64(r.Seq()))})
	}
	return to
}

// agrees reports whether the body says what the columns say, and nothing of
// what the log gives by itself.
func (r Record) agrees(v canon.Value) bool {
	for _, column := range [...]struct{ name, value string }{
		{"event_id", r.ID},
		{"type", r.Type},
		{"outcome", r.Outcome},
		{"agent_id", r.AgentID},
		{"tool_name", r.ToolName},
	} {
		if member, ok := v.Get(column.name); !ok || member.Kind() != canon.StringKind || member.Str() != column.value {
			return false
		}
	}
	member, ok := v.Get("approval_id")
	if ok != (r.ApprovalID != "") || ok && (member.Kind() != canon.StringKind || member.Str() != r.ApprovalID) {
		return false
	}
	for name := range v.All() {
		// However they are written: canon holds names that differ by case for one. The
		// last three are what exports add.
		for _, taken := range []string{"seq", "timestamp", "unreadable", "leaf", "proof", "holdpoint"} {
			if strings.EqualFold(name, taken) {
				return false
			}
		}
	}
	return true
}

func (r Record) unreadable() canon.Value {
	members := r.given(nil)
	for _, m := range []struct{ name, value string }{
		{"event_id", r.ID},
		{"type", r.Type},
		{"outcome", r.Outcome},
		{"agent_id", r.AgentID},
		{"tool_name", r.ToolName},
		{"approval_id", r.ApprovalID},
		{"unreadable", base64.StdEncoding.EncodeToString(r.Body)},
	} {
		members = append(members, canon.Member{Name: m.name, Value: text(m.value)})
	}
	return canon.Object(members...)
}

// text is a string value of any text: Postgres keeps no NUL and no invalid
// UTF-8, and what comes from elsewhere is shown without them.
func text(s string) canon.Value {
	return canon.String(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"))
}

// Entry is the leaf data of a record that has a place.
func (r Record) Entry() []byte { return NewEntry(r.Seq(), r.At, Digest(r.Document())) }

// LeafHasher hashes the leaves of one record after the other, in the same memory. The zero
// LeafHasher is ready. It is not safe for concurrent use.
type LeafHasher struct {
	reader          canon.Reader
	document, entry []byte
}

// Hash is the LeafHash of a record's Entry, and its Actor, for the price of reading the body
// once.
func (h *LeafHasher) Hash(r Record) (leaf tlog.Hash, actor string) {
	h.document, actor = r.appendDocument(h.document[:0], &h.reader)
	sum := sha256.Sum256(h.document)
	// Before its data a leaf has a zero (RFC 6962, 2.1).
	h.entry = append(append(h.entry[:0], "\x00{\"digest\":\""...), digestPrefix...)
	h.entry = appendEntryRest(hex.AppendEncode(h.entry, sum[:]), r.Seq(), r.At)
	return sha256.Sum256(h.entry), actor
}

// NewEntry is the leaf data of the event with this place, time and digest.
func NewEntry(seq int64, at time.Time, digest string) []byte {
	entry := append(make([]byte, 0, 160), `{"digest":"`...)
	return appendEntryRest(append(entry, digest...), seq, at)
}

// appendEntryRest appends what follows the digest.
func appendEntryRest(entry []byte, seq int64, at time.Time) []byte {
	entry = strconv.AppendInt(append(entry, `","seq":`...), seq, 10)
	entry = appendTime(append(entry, `,"time":"`...), at)
	entry = strconv.AppendInt(append(entry, `","v":`...), Version, 10)
	return append(entry, '}')
}

const digestPrefix = "sha256:"

// Digest is the digest of a document.
func Digest(document []byte) string {
	sum := sha256.Sum256(document)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// Time writes a time as events and entries have it: RFC 3339, UTC, to the
// microsecond, without trailing zeros.
func Time(at time.Time) string { return string(appendTime(make([]byte, 0, 32), at)) }

func appendTime(dst []byte, at time.Time) []byte {
	return at.UTC().Truncate(time.Microsecond).AppendFormat(dst, time.RFC3339Nano)
}

// maxClockSetBack is how far the times of a log may run backwards: the clock of the
// database is set right, and another machine's takes over.
const maxClockSetBack = time.Minute

// Clock follows the times of a log's events. The zero Clock has seen none.
type Clock struct{ latest time.Time }

// Follow returns an error when an event is of a time that is further back than
// maxClockSetBack from the latest before it, and goes on from there: the events that
// come after it are not to blame.
func (c *Clock) Follow(at time.Time) error {
	former := c.latest
	if at.Before(former.Add(-maxClockSetBack)) {
		c.latest = at
		return fmt.Errorf("it is of %s, and an event before it is of %s: times do not run backwards by more than %s", Time(at), Time(former), maxClockSetBack)
	}
	if at.After(former) {
		c.latest = at
	}
	return nil
}

// LeafHash is the RFC 6962 hash of a leaf with this data.
func LeafHash(entry []byte) tlog.Hash { return tlog.RecordHash(entry) }

// Entry is leaf data that was read.
type Entry struct {
	Digest string
	Seq    int64
	Time   time.Time
}

// ParseEntry reads leaf data. It accepts exactly what NewEntry writes.
func ParseEntry(data []byte) (Entry, error) {
	v, err := canon.Parse(data)
	if err != nil {
		return Entry{}, fmt.Errorf("read a log entry: %w", err)
	}
	get := func(name string) canon.Value { member, _ := v.Get(name); return member }
	e := Entry{Digest: get("digest").Str(), Seq: int64(get("seq").Float())}
	if e.Time, err = time.Parse(time.RFC3339Nano, get("time").Str()); err != nil {
		return Entry{}, fmt.Errorf("read a log entry: its time is not one")
	}
	if !isDigest(e.Digest) || e.Seq < 1 || !bytes.Equal(NewEntry(e.Seq, e.Time, e.Digest), data) {
		return Entry{}, fmt.Errorf("read a log entry: it is none of version %d", Version)
	}
	return e, nil
}

func isDigest(s string) bool {
	hexed, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(hexed) != 2*sha256.Size || strings.ToLower(hexed) != hexed {
		return false
	}
	_, err := hex.DecodeString(hexed)
	return err == nil
}

// Actor is who the event names as its actor; "" where it names nobody.
func (r Record) Actor() string {
	_, actor := r.Value()
	return actor
}
