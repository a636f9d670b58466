package api

import (
	"net/http"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// OnCallBody says who is on call on a schedule.
type OnCallBody struct {
	People []string `json:"people" doc:"E-mail addresses; [] for nobody."`
	From   string   `json:"from,omitempty" doc:"RFC 3339; from now on when left out."`
	Until  string   `json:"until,omitempty" doc:"RFC 3339; may be left out where people is empty."`
}

// OnCall lists who is on call, and who will be.
type OnCall struct {
	Shifts []admin.Shift `json:"shifts"`
}

// onCall are the operations that say who is on call.
func (a peopleDoor) onCall() []operation {
	return []operation{
		{
			method: "GET", path: "/v1/on-call", summary: "Who is on call, and who will be", scope: identity.ScopeAdmin, out: OnCall{},
			statuses: []int{200}, problems: []int{401, 403, 503}, handle: a.listOnCall,
		},
		{
			method: "POST", path: "/v1/on-call/{schedule}", summary: "Say who is on call", scope: identity.ScopeAdmin, in: OnCallBody{}, out: OnCallBody{},
			statuses: []int{200}, problems: []int{400, 401, 403, 409, 413, 415, 422, 503}, repeats: true, handle: a.setOnCall,
			detail: "Replaces what is known of the schedule from that moment on. Whoever is on call has the role on-call/SCHEDULE for that time. With nobody on call, what waits for them escalates at once.",
		},
	}
}

func (a peopleDoor) listOnCall(c *call) error {
	shifts, err := a.Admin.OnCall.Shifts(c.r.Context())
	if err != nil {
		return err
	}
	return ok(c, OnCall{shifts})
}

func (a peopleDoor) setOnCall(c *call) error {
	return administer(a.API, c, func(by access.Initiator, in OnCallBody, once *access.Idempotency[access.Done]) error {
		q := admin.OnCallRequest{Schedule: c.r.PathValue("schedule"), Emails: in.People}
		for _, field := range []struct {
			name, text string
			into       *time.Time
		}{{"from", in.From, &q.From}, {"until", in.Until, &q.Until}} {
			if field.text == "" {
				continue
			}
			t, err := time.Parse(time.RFC3339, field.text)
			if err != nil {
				return &failure{
					Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: field.name + " has to be a time such as 2027-01-31T18:00:00Z.",
					Fields: []FieldError{{Path: "/" + field.name, Message: "must be an RFC 3339 time"}},
				}
			}
			*field.into = t
		}
		return a.Admin.OnCall.Set(c.r.Context(), by, q, once)
	})
}
