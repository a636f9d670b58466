package store

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"holdpoint/engine"
)

// Columns of events are the arrays that the driver would make of them, byte for byte.
func TestEventColumnsAreArrays(t *testing.T) {
	events := []*engine.Event{
		{ID: NewEventID(), Seq: 7, Type: engine.Decided, Outcome: engine.Allow, AgentID: "bot", SafePayload: json.RawMessage(`{"a":1}`)},
		{ID: NewEventID(), Type: engine.Refusal, ToolName: string(bytes.Repeat([]byte("é"), 4000)), ApprovalID: "apr_1", SafePayload: json.RawMessage(`null`)},
		{ID: NewEventID(), SafePayload: json.RawMessage(`{}`)},
	}
	for n := 1; n <= len(events); n++ {
		var ids []uuid.UUID
		var texts [5][]string
		var written [][]byte
		for _, e := range events[:n] {
			ids = append(ids, uuid.MustParse(e.ID))
			for i, text := range []string{string(e.Type), string(e.Outcome), e.AgentID, e.ToolName, e.ApprovalID} {
				texts[i] = append(texts[i], text)
			}
			without := *e
			without.Seq = 0
			body, err := json.Marshal(without)
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, body)
		}
		m := pgtype.NewMap()
		for i, want := range []struct {
			oid    uint32
			values any
		}{
			{pgtype.UUIDArrayOID, ids},
			{pgtype.TextArrayOID, texts[0]},
			{pgtype.TextArrayOID, texts[1]},
			{pgtype.TextArrayOID, texts[2]},
			{pgtype.TextArrayOID, texts[3]},
			{pgtype.TextArrayOID, texts[4]},
			{pgtype.ByteaArrayOID, written},
		} {
			wanted, err := m.Encode(want.oid, pgtype.BinaryFormatCode, want.values, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := eventColumnPlan{}.Encode(eventColumns(events[:n])[i], nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, wanted) {
				t.Errorf("%d events, column %d: got\n%x, want\n%x", n, i, got, wanted)
			}
		}
	}
	if events[0].Seq != 7 {
		t.Error("an event was changed")
	}
	for _, bad := range []*engine.Event{{ID: NewEventID(), SafePayload: json.RawMessage(`{`)}, {ID: "no UUID", SafePayload: json.RawMessage(`{}`)}} {
		failed := false
		for _, column := range eventColumns([]*engine.Event{bad}) {
			_, err := eventColumnPlan{}.Encode(column, nil)
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("%s with the payload %s is taken", bad.ID, bad.SafePayload)
		}
	}
}
