package store

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"holdpoint/engine"
)

// eventColumn is what events have in one column, as a parameter that is an array. The gate
// writes one of each for every commit, in the form in which Postgres takes it: the driver
// would box and grow its own element by element, which leaves five times as much garbage
// behind as there is to send.
type eventColumn struct {
	events []*engine.Event
	// element is the type of an element, and typical how many bytes are enough for most.
	element uint32
	typical int
	add     func(dst []byte, e *engine.Event) ([]byte, error)
}

// eventColumns are the parameters of append_events, for one event at least.
func eventColumns(events []*engine.Event) []any {
	texts := func(of func(*engine.Event) string) any {
		return &eventColumn{events, pgtype.TextOID, 16, func(dst []byte, e *engine.Event) ([]byte, error) { return append(dst, of(e)...), nil }}
	}
	return []any{
		&eventColumn{events, pgtype.UUIDOID, 16, func(dst []byte, e *engine.Event) ([]byte, error) {
			id, err := uuid.Parse(e.ID)
			return append(dst, id[:]...), err
		}},
		texts(func(e *engine.Event) string { return string(e.Type) }),
		texts(func(e *engine.Event) string { return string(e.Outcome) }),
		texts(func(e *engine.Event) string { return e.AgentID }),
		texts(func(e *engine.Event) string { return e.ToolName }),
		texts(func(e *engine.Event) string { return e.ApprovalID }),
		&eventColumn{events, pgtype.ByteaOID, 1280, appendBody},
	}
}

// appendBody appends an event as JSON, without what the database gives it.
func appendBody(dst []byte, e *engine.Event) ([]byte, error) {
	without := *e
	without.Seq, without.Timestamp = 0, time.Time{}
	return without.AppendJSON(dst)
}

// GoString says what it is where the driver cannot send it.
func (c *eventColumn) GoString() string { return "a column of events" }

// appendTo appends the array: one dimension, no NULLs, elements of that type, so many of
// them, counted from 1.
func (c *eventColumn) appendTo(dst []byte) (_ []byte, err error) {
	dst = slices.Grow(dst, 20+len(c.events)*(4+c.typical))
	for _, part := range [...]uint32{1, 0, c.element, uint32(len(c.events)), 1} { // #nosec G115 -- a commit has few
		dst = binary.BigEndian.AppendUint32(dst, part)
	}
	for _, e := range c.events {
		at := len(dst)
		if dst, err = c.add(append(dst, 0, 0, 0, 0), e); err != nil {
			return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4)) // #nosec G115 -- a table takes no longer ones than 256 KiB
	}
	return dst, nil
}

// arraysCodec is the codec of arrays of one type, which also takes eventColumns.
type arraysCodec struct{ pgtype.Codec }

// takesEventColumns teaches a connection to take eventColumns.
func takesEventColumns(conn *pgx.Conn) {
	types := conn.TypeMap()
	for _, oid := range []uint32{pgtype.UUIDArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID} {
		if arrays, ok := types.TypeForOID(oid); ok {
			types.RegisterType(&pgtype.Type{Name: arrays.Name, OID: arrays.OID, Codec: arraysCodec{arrays.Codec}})
		}
	}
}

// PlanEncode is called by pgx.
func (c arraysCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(*eventColumn); ok && format == pgtype.BinaryFormatCode {
		return eventColumnPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type eventColumnPlan struct{}

// Encode is called by pgx.
func (eventColumnPlan) Encode(value any, buf []byte) ([]byte, error) {
	c, ok := value.(*eventColumn)
	if !ok {
		return nil, fmt.Errorf("a plan for a column of events is given a %T", value)
	}
	return c.appendTo(buf)
}
