package stream

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/engine/ocsf"
)

// Encoder writes an event in a format: one line of JSON in UTF-8, without the line
// break. It is a pure function: an event that is sent again is the same bytes.
type Encoder func(e engine.Event) ([]byte, error)

// encoders are those of the formats; nil sends the event's document.
var encoders = map[string]Encoder{
	JSONFormat: nil,
	OCSFFormat: func(e engine.Event) ([]byte, error) { return ocsf.Encode(e, ocsf.Holdpoint) },
}

// Encoder is that of the stream's format.
func (c Config) Encoder() (Encoder, error) {
	encode, known := encoders[c.format()]
	if !known {
		return nil, fmt.Errorf("format: this program has no %s", c.Format)
	}
	return encode, nil
}

// Message is an event on its way.
type Message struct {
	Seq     int64
	ID      string // the event's
	Type    engine.EventType
	Outcome engine.Outcome
	At      time.Time
	// Digest is that of the event's document, whatever the format.
	Digest string
	// Body is the event in the stream's format, on one line.
	Body []byte

	record audit.Record
	encode Encoder
}

// newMessage encodes a record; nil sends the document itself. An event that is
// longer than limit bytes, or that the encoder does not take, is reduced: one
// event must not keep all others from the receiver.
func newMessage(r audit.Record, encode Encoder, limit int) (Message, error) {
	document := r.Document()
	m := Message{
		Seq: r.Seq(), ID: r.ID, Type: engine.EventType(r.Type), Outcome: engine.Outcome(r.Outcome), At: r.At,
		Digest: audit.Digest(document), Body: document, record: r, encode: encode,
	}
	if encode != nil {
		var err error
		if m.Body, err = encode(eventOf(r, document)); err != nil {
			return m.reduced()
		}
	}
	if limit > 0 && len(m.Body) > limit {
		return m.reduced()
	}
	return m, nil
}

// eventOf reads a document. One that is no event any more is what the columns say.
func eventOf(r audit.Record, document []byte) engine.Event {
	var e engine.Event
	if err := json.Unmarshal(document, &e); err != nil || e.SafePayload == nil {
		e = engine.Event{
			ID: r.ID, Type: engine.EventType(r.Type), Outcome: engine.Outcome(r.Outcome), AgentID: r.AgentID, ToolName: r.ToolName, ApprovalID: r.ApprovalID,
			Reasons: []engine.Reason{}, SafePayload: json.RawMessage(`{"unreadable":true}`),
		}
	}
	e.Seq, e.Timestamp = r.Seq(), r.At.UTC()
	return e
}

// maxReduced bounds each text of a reduced event, in bytes.
const maxReduced = 256

// reduced is the message without what may be long: it says what happened, to
// whom, when and in which place, and by its digest what the whole event is.
func (m Message) reduced() (Message, error) {
	document := m.record.Document()
	e := eventOf(m.record, document)
	small := engine.Event{
		ID: e.ID, Seq: e.Seq, Timestamp: e.Timestamp, Type: e.Type, Outcome: e.Outcome, Reasons: []engine.Reason{},
		RequestID: clip(e.RequestID), AgentID: clip(e.AgentID), ToolName: clip(e.ToolName), ApprovalID: clip(e.ApprovalID),
		Actor:       engine.Actor{Kind: e.Actor.Kind, ID: clip(e.Actor.ID), Channel: clip(e.Actor.Channel)},
		SafePayload: fmt.Appendf(nil, `{"reduced":{"bytes":%d,"digest":"%s"}}`, len(document), m.Digest),
	}
	encode := m.encode
	if encode == nil {
		encode = plain
	}
	body, err := encode(small)
	if err != nil {
		return m, fmt.Errorf("encode event %d: %w", m.Seq, err)
	}
	m.Body = body
	return m, nil
}

// plain writes an event as its document would be.
func plain(e engine.Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	v, err := canon.Parse(data)
	if err != nil {
		return nil, err
	}
	return v.Canonical(), nil
}

func clip(text string) string {
	for len(text) > maxReduced {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text
}
