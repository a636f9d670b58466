package api

import (
	"net/http"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// Hold is a legal hold on the wire.
type Hold struct {
	ID         string     `json:"id"`
	Covers     string     `json:"covers" enum:"approval,agent,person,everything"`
	Subject    string     `json:"subject" doc:"The id of what is held; \"\" for everything."`
	Reason     string     `json:"reason"`
	By         string     `json:"by"`
	At         time.Time  `json:"at"`
	ReleasedBy string     `json:"released_by,omitempty"`
	ReleasedAt *time.Time `json:"released_at,omitempty"`
}

// Holds lists legal holds.
type Holds struct {
	Holds []Hold `json:"holds"`
}

// HoldBody places a legal hold.
type HoldBody struct {
	Covers  string `json:"covers" enum:"approval,agent,person,everything"`
	Subject string `json:"subject,omitempty" maxLength:"254" doc:"An id, or a person's e-mail address; left out for everything."`
	Reason  string `json:"reason" minLength:"1" maxLength:"1000"`
}

// PlacedHold answers a hold that was placed.
type PlacedHold struct {
	ID      string `json:"id"`
	Covers  string `json:"covers"`
	Subject string `json:"subject"`
}

// ReleaseHoldBody releases a legal hold.
type ReleaseHoldBody struct {
	HoldID string `json:"hold_id"`
}

// ErasureBody asks to erase something.
type ErasureBody struct {
	ApprovalID string `json:"approval_id,omitempty" doc:"What an approval was about, and what people said of it; or"`
	Person     string `json:"person,omitempty" maxLength:"254" doc:"a person's name, address, means to sign in and words, by id or e-mail address."`
	Reason     string `json:"reason" minLength:"1" maxLength:"1000" doc:"It stays on record: name nobody in it."`
}

// Erasure is what was erased, when, by whom and why.
type Erasure struct {
	ID        string    `json:"id"`
	Covers    string    `json:"covers" enum:"approval,person"`
	Subject   string    `json:"subject"`
	Rule      string    `json:"rule" enum:"request,age"`
	OlderThan string    `json:"older_than,omitempty" doc:"What retention said, where it was erased by age."`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
	Parts     []string  `json:"parts"`
	EventID   string    `json:"event_id" doc:"The event that records it."`
}

// Erasures is a page of erasures.
type Erasures struct {
	Erasures   []Erasure `json:"erasures"`
	NextCursor string    `json:"next_cursor" doc:"Where the next page begins; \"\" at the end."`
}

// retention are the operations that erase, and that keep from being erased.
func (a retentionDoor) retention() []operation {
	change := []int{400, 401, 403, 404, 409, 413, 415, 422, 503}
	return []operation{
		{method: "GET", path: "/v1/admin/holds", summary: "List legal holds", scope: identity.ScopeAdmin, out: Holds{}, statuses: []int{200}, problems: []int{401, 403, 503}, handle: a.listHolds},
		{
			method: "POST", path: "/v1/admin/holds", summary: "Place a legal hold", scope: identity.ScopeAdmin, in: HoldBody{}, out: PlacedHold{}, statuses: []int{200}, problems: change, repeats: true, handle: a.placeHold,
			detail: "Once it answers, nothing that it covers is erased: not on request, and not by age.",
		},
		{
			method: "POST", path: "/v1/admin/holds/release", summary: "Release a legal hold", scope: identity.ScopeAdmin, in: ReleaseHoldBody{}, out: ReleaseHoldBody{}, statuses: []int{200}, problems: change, repeats: true, handle: a.releaseHold,
			detail: "Where that takes an approval, it holds on: 409 approval_required names the approval as successor.",
		},
		{
			method: "POST", path: "/v1/admin/erasures", summary: "Erase an approval, or a person", scope: identity.ScopeAdmin, in: ErasureBody{}, out: Erasure{}, statuses: []int{200}, problems: change, repeats: true, handle: a.erase,
			detail: "For good. Who decided what, and when, stays. 409 kept_held, kept_pending, kept_recent and so on: it cannot be erased now.",
		},
		{
			method: "GET", path: "/v1/audit/erasures", summary: "What was erased, when and by whom", scope: identity.ScopeAudit, out: Erasures{}, statuses: []int{200}, problems: []int{400, 401, 403, 503}, handle: a.listErasures,
			query: []parameter{{"cursor", "next_cursor of the page before."}, {"limit", "1 to 1000; 100 when left out."}},
		},
	}
}

func (a retentionDoor) listHolds(c *call) error {
	list, err := a.Admin.Retention.Holds(c.r.Context())
	if err != nil {
		return err
	}
	out := Holds{Holds: []Hold{}}
	for _, h := range list {
		out.Holds = append(out.Holds, Hold{
			ID: h.ID, Covers: h.Covers, Subject: h.Subject, Reason: h.Reason, By: h.By, At: h.At, ReleasedBy: h.ReleasedBy, ReleasedAt: h.ReleasedAt,
		})
	}
	return ok(c, out)
}

func (a retentionDoor) placeHold(c *call) error {
	var in HoldBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[admin.Hold]) (admin.Hold, error) {
		return a.Admin.Retention.PlaceHold(c.r.Context(), c.principal.Initiator(RequestID(c.r.Context())), admin.HoldRequest(in), once)
	}, func(h admin.Hold) (access.Reply, error) {
		return jsonReply(http.StatusOK, PlacedHold{ID: h.ID, Covers: h.Covers, Subject: h.Subject}, nil)
	})
}

func (a retentionDoor) releaseHold(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in ReleaseHoldBody, once *access.Idempotency[access.Done]) error {
		return a.Admin.Retention.ReleaseHold(c.r.Context(), by, in.HoldID, once)
	})
}

func (a retentionDoor) erase(c *call) error {
	var in ErasureBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[admin.Erasure]) (admin.Erasure, error) {
		return a.Admin.Retention.Erase(c.r.Context(), c.principal.Initiator(RequestID(c.r.Context())), admin.EraseRequest(in), once)
	}, func(done admin.Erasure) (access.Reply, error) {
		return jsonReply(http.StatusOK, wireErasure(done), nil)
	})
}

func wireErasure(e admin.Erasure) Erasure {
	out := Erasure{ID: e.ID, Covers: e.Covers, Subject: e.Subject, Rule: e.Rule(), Reason: e.Reason, By: e.By, At: e.At, Parts: e.Parts, EventID: e.EventID}
	if e.ByAge {
		out.OlderThan = e.Older.String()
	}
	return out
}

func (a retentionDoor) listErasures(c *call) error {
	limit, cursor := eventsPage, ""
	if err := (parameters{"limit": whole(&limit, 1, maxEventsPage), "cursor": anyText(&cursor)}).read(c.r.URL.Query()); err != nil {
		return err
	}
	page, next, err := a.Admin.Retention.Erasures(c.r.Context(), cursor, limit)
	if err != nil {
		return err
	}
	out := Erasures{Erasures: []Erasure{}, NextCursor: next}
	for _, e := range page {
		out.Erasures = append(out.Erasures, wireErasure(e))
	}
	return ok(c, out)
}
