package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"holdpoint/engine"
)

// bodies are the bodies of events in the form in which Postgres takes an array of bytea.
// The gate writes one for each commit: the driver grows its own element by element, which
// leaves five times as much garbage behind as there is to send.
type bodies []byte

// typicalBody is how many bytes are enough for most bodies.
const typicalBody = 1280

// bodiesOf encodes events, of which there is one at least, without what the database
// gives them.
func bodiesOf(events []engine.Event) (bodies, error) {
	b := make([]byte, 0, 20+len(events)*typicalBody)
	// One dimension, no NULLs, elements of bytea, so many of them, counted from 1.
	for _, part := range [...]uint32{1, 0, pgtype.ByteaOID, uint32(len(events)), 1} { // #nosec G115 -- a commit has few
		b = binary.BigEndian.AppendUint32(b, part)
	}
	for i := range events {
		e := events[i]
		e.Seq, e.Timestamp = 0, time.Time{}
		at := len(b)
		var err error
		if b, err = e.AppendJSON(append(b, 0, 0, 0, 0)); err != nil {
			return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4)) // #nosec G115 -- a table takes no longer ones than 256 KiB
	}
	return b, nil
}

// bodiesCodec is the codec of arrays of bytea, which also takes bodies.
type bodiesCodec struct{ pgtype.Codec }

// takesBodies teaches a connection to take bodies.
func takesBodies(conn *pgx.Conn) {
	types := conn.TypeMap()
	if arrays, ok := types.TypeForOID(pgtype.ByteaArrayOID); ok {
		types.RegisterType(&pgtype.Type{Name: arrays.Name, OID: arrays.OID, Codec: bodiesCodec{arrays.Codec}})
	}
}

// PlanEncode is called by pgx.
func (c bodiesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(bodies); ok && format == pgtype.BinaryFormatCode {
		return bodiesPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type bodiesPlan struct{}

// Encode is called by pgx.
func (bodiesPlan) Encode(value any, buf []byte) ([]byte, error) {
	b, ok := value.(bodies)
	if !ok {
		return nil, fmt.Errorf("a plan for bodies is given a %T", value)
	}
	return append(buf, b...), nil
}
