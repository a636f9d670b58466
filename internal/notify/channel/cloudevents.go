package channel

import (
	"encoding/json"
	"fmt"
	"net/url"

	"holdpoint/engine"
)

// CloudEvents is the format of webhooks by the CloudEvents 1.0 specification, in its
// structured JSON form. data is what is data otherwise.
const CloudEvents = "cloudevents"

// cloudEventType is its media type.
const cloudEventType = "application/cloudevents+json"

// cloudEvent is a webhook's body in an envelope of CloudEvents.
func cloudEvent(n Notification, body []byte) ([]byte, error) {
	var plain struct {
		Timestamp string          `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &plain); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	source := "urn:holdpoint"
	if u, err := url.Parse(n.Link); err == nil && u.Host != "" {
		source = u.Scheme + "://" + u.Host
	}
	event, err := json.Marshal(struct {
		SpecVersion string          `json:"specversion"`
		ID          string          `json:"id"`
		Source      string          `json:"source"`
		Type        string          `json:"type"`
		Subject     string          `json:"subject,omitempty"`
		Time        string          `json:"time"`
		ContentType string          `json:"datacontenttype"`
		Data        json.RawMessage `json:"data"`
	}{"1.0", n.ID, source, cloudEventKind(n), n.ApprovalID, plain.Timestamp, "application/json", plain.Data})
	if err != nil {
		return nil, fmt.Errorf("write body: %w", err)
	}
	return event, nil
}

// cloudEventKind is the event's type: of what is over, how it ended.
func cloudEventKind(n Notification) string {
	if n.Kind == engine.NotifyDecided {
		return "holdpoint.approval." + n.Status
	}
	return "holdpoint." + EventType(n.Kind)
}
