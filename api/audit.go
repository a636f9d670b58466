package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"holdpoint/internal/gate"
)

const (
	eventsPage    = 100
	maxEventsPage = 1000
)

func (a *API) auditEvents(c *call) error {
	f, limit, err := eventFilter(c.r.URL.Query())
	if err != nil {
		return err
	}
	records, err := a.Gate.Records(c.r.Context(), f, limit)
	if err != nil {
		return err
	}
	// As they were logged, every member: whoever has one can compute its digest.
	page := struct {
		Events     []json.RawMessage `json:"events"`
		NextCursor string            `json:"next_cursor"`
	}{Events: make([]json.RawMessage, len(records))}
	for i, r := range records {
		page.Events[i] = r.Document()
	}
	if len(records) == limit && records[limit-1].Seq() > 0 {
		page.NextCursor = strconv.FormatInt(records[limit-1].Seq(), 10)
	}
	reply, err := jsonReply(http.StatusOK, page, nil)
	if err != nil {
		return err
	}
	writeReply(c.w, reply)
	return nil
}

// eventFilter reads a query; what it does not know is a mistake, not nothing.
func eventFilter(query url.Values) (f gate.EventFilter, limit int, err error) {
	limit = eventsPage
	for name, values := range query {
		value := values[0]
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
		case "order":
			if f.Newest = value == "desc"; !f.Newest && value != "asc" {
				err = fmt.Errorf("want asc or desc")
			}
		case "approval_id":
			f.ApprovalID = value
		case "cursor":
			if value != "" {
				f.After, err = strconv.ParseInt(value, 10, 64)
			}
		case "limit":
			if limit, err = strconv.Atoi(value); err == nil && (limit < 1 || limit > maxEventsPage) {
				err = fmt.Errorf("want 1 to %d", maxEventsPage)
			}
		default:
			// Whatever stands there is the caller's own, and none of the log's business.
			return f, 0, &failure{Status: http.StatusBadRequest, Code: "bad_query", Detail: "There is a query parameter that this address does not have."}
		}
		if err != nil || len(values) > 1 {
			return f, 0, &failure{Status: http.StatusBadRequest, Code: "bad_query", Detail: fmt.Sprintf("The query parameter %q cannot be read.", name)}
		}
	}
	return f, limit, nil
}
