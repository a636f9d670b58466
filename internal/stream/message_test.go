package stream

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/notify/channel"
)

func TestLongEventsAreReduced(t *testing.T) {
	long := record(3, engine.Decided, engine.Deny, `{"a":"`+strings.Repeat("x", 5000)+`"}`)
	whole := message(t, long, nil, 0)
	if audit.Digest(whole.Body) != whole.Digest || len(whole.Body) < 5000 {
		t.Errorf("whole: %d bytes", len(whole.Body))
	}
	m := message(t, long, nil, 4000)
	if len(m.Body) > 1000 || m.Digest != whole.Digest || m.Seq != 4 {
		t.Errorf("reduced: %d bytes, %s, %d", len(m.Body), m.Digest, m.Seq)
	}
	var e struct {
		engine.Event
		Payload struct {
			Reduced struct {
				Bytes  int
				Digest string
			}
		} `json:"safe_payload"`
	}
	if err := json.Unmarshal(m.Body, &e); err != nil {
		t.Fatal(err)
	}
	if e.ID != eventID || e.Seq != 4 || e.Outcome != engine.Deny || e.AgentID != "bot" || e.Payload.Reduced.Bytes != len(whole.Body) || e.Payload.Reduced.Digest != whole.Digest {
		t.Errorf("%+v", e)
	}
	// However long each text of it is.
	long.ToolName = strings.Repeat("é", 10_000)
	long.Body = []byte(strings.Replace(string(long.Body), `"tool_name":"pay"`, `"tool_name":"`+long.ToolName+`"`, 1))
	if m := message(t, long, nil, 4000); len(m.Body) > 2000 {
		t.Errorf("a long name: %d bytes", len(m.Body))
	}
}

func TestEncoder(t *testing.T) {
	var given engine.Event
	encode := func(e engine.Event) ([]byte, error) {
		given = e
		return []byte(`{"seq":` + strconv.FormatInt(e.Seq, 10) + `}`), nil
	}
	r := record(3, engine.Voted, engine.Allow, `{"a":1}`)
	m := message(t, r, encode, 0)
	if string(m.Body) != `{"seq":4}` || m.Digest != audit.Digest(r.Document()) || string(given.SafePayload) != `{"a":1}` || !given.Timestamp.Equal(r.At) || given.Type != engine.Voted {
		t.Errorf("%s %s %+v", m.Body, m.Digest, given)
	}
	// One that does not take an event may take it reduced.
	picky := func(e engine.Event) ([]byte, error) {
		if strings.Contains(string(e.SafePayload), `"a"`) {
			return nil, errors.New("no a")
		}
		return encode(e)
	}
	if m = message(t, r, picky, 0); string(m.Body) != `{"seq":4}` || !strings.Contains(string(given.SafePayload), m.Digest) {
		t.Errorf("%s %+v", m.Body, given)
	}
	if _, err := newMessage(r, func(engine.Event) ([]byte, error) { return nil, errors.New("never") }, 0); err == nil {
		t.Error("an encoder that takes nothing")
	}
	// A record that is no event is sent as the log has it.
	r.Body = []byte("not JSON")
	if m = message(t, r, nil, 0); audit.Digest(m.Body) != m.Digest || !strings.Contains(string(m.Body), "unreadable") {
		t.Errorf("unreadable: %s", m.Body)
	}
	message(t, r, encode, 0)
	if given.ID != eventID || given.Seq != 4 || given.AgentID != "bot" {
		t.Errorf("unreadable: %+v", given)
	}
}

// Filters know every type and outcome that the engine has.
func TestFiltersKnowTheEngine(t *testing.T) {
	c := Config{Name: "hook", Kind: WebhookKind, URL: "https://siem.example.com/in", Secret: channel.NewSecret(), Types: names(engine.EventTypes()), Outcomes: names(engine.Outcomes())}
	if errs := c.Check(nil); len(errs) > 0 {
		t.Errorf("%d types and %d outcomes: %v", len(c.Types), len(c.Outcomes), errs)
	}
}
