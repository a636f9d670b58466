package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"holdpoint/internal/auditlog"
)

const (
	eventsPage    = 100
	maxEventsPage = 1000
)

func (a auditDoor) auditEvents(c *call) error {
	f, limit, err := eventFilter(c.r.URL.Query())
	if err != nil {
		return err
	}
	records, err := a.Log.Records(c.r.Context(), f, limit)
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

// filtering reads the parameters of a search for events into f.
func filtering(f *auditlog.EventFilter) parameters {
	return parameters{
		"since":       moment(&f.Since),
		"until":       moment(&f.Until),
		"agent_id":    anyText(&f.AgentID),
		"tool_name":   anyText(&f.Tool),
		"outcome":     anyText(&f.Outcome),
		"type":        anyText(&f.Type),
		"actor_id":    anyText(&f.ActorID),
		"approval_id": anyText(&f.ApprovalID),
		"cursor": func(value string) error {
			if value == "" {
				return nil
			}
			return whole(&f.After, 0, 0)(value)
		},
	}
}

func eventFilter(query url.Values) (f auditlog.EventFilter, limit int, _ error) {
	limit = eventsPage
	p, order := filtering(&f), "asc"
	p["limit"], p["order"] = whole(&limit, 1, maxEventsPage), oneOf(&order, "asc", "desc")
	if err := p.read(query); err != nil {
		return f, 0, err
	}
	if err := f.Check(); err != nil {
		return f, 0, badQuery("Nothing is searched: " + err.Error() + ".")
	}
	f.Newest = order == "desc"
	return f, limit, nil
}
