package store

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"holdpoint/engine"
)

// Bodies are the array that the driver would make of them, byte for byte.
func TestBodiesAreAnArray(t *testing.T) {
	events := []engine.Event{
		{ID: "1", Seq: 7, Type: engine.Decided, Outcome: engine.Allow, SafePayload: json.RawMessage(`{"a":1}`)},
		{ID: "2", Type: engine.Refusal, ToolName: string(bytes.Repeat([]byte("é"), 3*typicalBody)), SafePayload: json.RawMessage(`null`)},
		{ID: "3", SafePayload: json.RawMessage(`{}`)},
	}
	for n := 1; n <= len(events); n++ {
		got, err := bodiesOf(events[:n])
		if err != nil {
			t.Fatal(err)
		}
		list := make([][]byte, n)
		for i, e := range events[:n] {
			e.Seq = 0
			if list[i], err = json.Marshal(e); err != nil {
				t.Fatal(err)
			}
		}
		want, err := pgtype.NewMap().Encode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, list, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d events: got\n%x, want\n%x", n, got, want)
		}
	}
	if events[0].Seq != 7 {
		t.Error("an event was changed")
	}
	if _, err := bodiesOf([]engine.Event{{ID: "4", SafePayload: json.RawMessage(`{`)}}); err == nil {
		t.Error("a payload that is no JSON is taken")
	}
}
