package api

import (
	"net/http"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/notify"
)

// Endpoint is where people or programs are told. What is secret about it is not here.
type Endpoint struct {
	ID         string           `json:"id"`
	Kind       string           `json:"kind" enum:"webhook,email,slack,push"`
	Name       string           `json:"name"`
	On         bool             `json:"on"`
	Settings   EndpointSettings `json:"settings"`
	CreatedAt  time.Time        `json:"created_at"`
	DisabledAt *time.Time       `json:"disabled_at,omitempty"`
	Sent       int              `json:"sent"`
	Waiting    int              `json:"waiting" doc:"Notifications that are still to be sent."`
	Dead       int              `json:"dead" doc:"Notifications that were given up."`
	LastAt     *time.Time       `json:"last_at,omitempty" doc:"When the last one was sent."`
	ApprovalID string           `json:"approval_id,omitempty" doc:"The approval that a change of it waits for, or its being switched on; until then it is as it says here."`
}

// EndpointSettings are what an endpoint is told, and where.
type EndpointSettings notify.Settings

// Endpoints lists them.
type Endpoints struct {
	Endpoints []Endpoint `json:"endpoints" doc:"By name."`
}

// EndpointBody changes an endpoint; what is left out stays.
type EndpointBody struct {
	Tells   *[]string        `json:"tells,omitempty" doc:"What it is told, such as opened or decided; none of them is everything."`
	Roles   *[]string        `json:"roles,omitempty" doc:"Only approvals that ask one of these roles."`
	Tools   *[]string        `json:"tools,omitempty" doc:"Only these tools; a prefix ends in *."`
	Agents  *[]string        `json:"agents,omitempty" doc:"Only these agents."`
	To      *[]string        `json:"to,omitempty" doc:"Of e-mail: addresses, or reviewers."`
	Own     *bool            `json:"own,omitempty" doc:"Of e-mail: each address only what is its owner's own."`
	Digest  *engine.Duration `json:"digest,omitempty" doc:"For how long things are gathered, as in 15m; 0s tells at once."`
	Format  *string          `json:"format,omitempty" doc:"Of a webhook: cloudevents, or empty for Holdpoint's own form."`
	Decide  *string          `json:"decide,omitempty" doc:"Of Slack: the highest danger that is decided there, low or medium; empty for none."`
	URL     string           `json:"url,omitempty" doc:"Another address, of a webhook or Slack. It is a secret: nobody is shown it again."`
	Plain   bool             `json:"plain,omitempty" doc:"With url: allow http, to networks that outbound_allow_private names."`
	Signing string           `json:"signing,omitempty" doc:"Another signing secret of the Slack app."`
	Reason  string           `json:"reason,omitempty" maxLength:"1000" doc:"Why, for those who have to approve it, where that takes an approval."`
}

// EndpointReason says why an endpoint is switched.
type EndpointReason struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for those who have to approve it, where that takes an approval."`
}

// ChangedEndpoint is an endpoint that was changed.
type ChangedEndpoint struct {
	ID string `json:"id"`
}

// endpoints are the operations of administrators about where notifications go.
func (a endpointDoor) endpoints() []operation {
	const path = "/v1/admin/endpoints"
	change := func(at, summary, detail string, in any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: path + at, summary: summary, detail: detail, scope: identity.ScopeAdmin, in: in, out: ChangedEndpoint{},
			statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true, handle: handle,
		}
	}
	return []operation{
		{method: "GET", path: path, summary: "List the endpoints of notifications", scope: identity.ScopeAdmin, out: Endpoints{}, statuses: []int{200}, problems: []int{401, 403, 503}, handle: a.listEndpoints, detail: "Endpoints are added by the console, by command and by holdpoint apply, which show what the receiver verifies by."},
		{method: "GET", path: path + "/{id}", summary: "Read an endpoint", scope: identity.ScopeAdmin, out: Endpoint{}, statuses: []int{200}, problems: []int{401, 403, 404, 503}, handle: a.getEndpoint},
		change("/{id}", "Change what an endpoint is told, and where it leads", "What a webhook is signed with stays. Where endpoints take an approval, one that is on goes on as it is: 409 approval_required names the approval as successor. The same again is the same approval.", EndpointBody{}, a.changeEndpoint),
		change("/{id}/disable", "Switch an endpoint off", "At once, also where endpoints take an approval.", EndpointReason{}, a.switchEndpoint(true)),
		change("/{id}/enable", "Switch an endpoint on again", "Where endpoints take an approval, it stays off: 409 approval_required names the approval as successor.", EndpointReason{}, a.switchEndpoint(false)),
	}
}

func wireEndpoint(e admin.Endpoint) Endpoint {
	w := Endpoint{
		ID: e.ID, Kind: e.Kind, Name: e.Name, On: e.DisabledAt == nil, Settings: EndpointSettings(e.Settings), CreatedAt: e.CreatedAt.UTC(), DisabledAt: e.DisabledAt,
		Sent: e.Sent, Waiting: e.Waiting, Dead: e.Dead, LastAt: e.LastAt, ApprovalID: e.ApprovalID,
	}
	return w
}

func (a endpointDoor) listEndpoints(c *call) error {
	all, _, err := a.Admin.Endpoints.Overview(c.r.Context(), 0)
	if err != nil {
		return err
	}
	out := Endpoints{Endpoints: []Endpoint{}}
	for _, e := range all {
		out.Endpoints = append(out.Endpoints, wireEndpoint(e))
	}
	return ok(c, out)
}

func (a endpointDoor) getEndpoint(c *call) error {
	all, _, err := a.Admin.Endpoints.Overview(c.r.Context(), 0)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(e admin.Endpoint) bool { return e.ID == c.r.PathValue("id") })
	if at < 0 {
		return &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such endpoint."}
	}
	return ok(c, wireEndpoint(all[at]))
}

// settings replaces what was given.
func (b EndpointBody) settings(s *notify.Settings) {
	if b.Tells != nil {
		s.Kinds = nil
		for _, kind := range *b.Tells {
			s.Kinds = append(s.Kinds, engine.NotificationKind(kind))
		}
	}
	for _, list := range []struct {
		to    *[]string
		given *[]string
	}{{&s.Roles, b.Roles}, {&s.Tools, b.Tools}, {&s.Agents, b.Agents}, {&s.To, b.To}} {
		if list.given != nil {
			*list.to = slices.Clip(*list.given)
		}
	}
	replace(&s.Own, b.Own)
	replace(&s.Digest, b.Digest)
	replace(&s.Format, b.Format)
	replace(&s.Decide, b.Decide)
}

func replace[T any](value, given *T) {
	if given != nil {
		*value = *given
	}
}

func (a endpointDoor) changeEndpoint(c *call) error {
	var in EndpointBody
	return endpointChanged(a, c, &in, func(by access.Initiator, once *access.Idempotency[access.Done]) error {
		by.Reason = in.Reason
		return a.Admin.Endpoints.Change(c.r.Context(), by, c.r.PathValue("id"), admin.EndpointChange{Settings: in.settings, URL: in.URL, Plain: in.Plain, Signing: in.Signing, Idempotency: once})
	})
}

// switchEndpoint needs no answer that is kept: done again, it is so already.
func (a endpointDoor) switchEndpoint(off bool) func(*call) error {
	return func(c *call) error {
		var in EndpointReason
		return endpointChanged(a, c, &in, func(by access.Initiator, _ *access.Idempotency[access.Done]) error {
			by.Reason = in.Reason
			return a.Admin.Endpoints.Switch(c.r.Context(), by, c.r.PathValue("id"), off)
		})
	}
}

func endpointChanged(a endpointDoor, c *call, in any, do func(access.Initiator, *access.Idempotency[access.Done]) error) error {
	body, err := readInto(c, in)
	if err != nil {
		return err
	}
	id := c.r.PathValue("id")
	return answer(a.API, c, body, func(once *access.Idempotency[ChangedEndpoint]) (ChangedEndpoint, error) {
		changed := ChangedEndpoint{ID: id}
		return changed, do(c.principal.Initiator(RequestID(c.r.Context())), access.Adapt(once, func(access.Done) ChangedEndpoint { return changed }))
	}, func(e ChangedEndpoint) (access.Reply, error) { return jsonReply(http.StatusOK, e, nil) })
}
