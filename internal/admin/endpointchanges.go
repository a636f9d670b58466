package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/notify"
	"holdpoint/internal/store"
)

// An endpoint's settings and its address stand in no document: what people approve is an edition of
// the endpoint, of which the database counts one for each change and for each that is proposed. They
// are shown what one look has of that edition.

// takesApproval reports whether changes of an endpoint wait: where endpoints take an approval, those
// of one that is on.
func (r Endpoints) takesApproval(ctx context.Context, by access.Initiator, e store.Endpoint) (bool, error) {
	_, guarded, err := r.guarded(ctx, by, store.EndpointsChange)
	return guarded && e.DisabledAt == nil, err
}

// waiting are the approvals by which endpoints are changed or switched on once people have decided, by the
// endpoints' ids: of each the last.
func (r Endpoints) waiting(ctx context.Context) (map[string]string, error) {
	proposed, err := r.Store.Rules.ProposedEntries(ctx, store.EndpointsChange)
	if err != nil {
		return nil, err
	}
	waits := map[string]string{}
	for _, p := range proposed {
		if p.What == store.EndpointEntry && p.Status == approval.Pending {
			waits[p.ID] = p.ApprovalID
		}
	}
	return waits, nil
}

// endpointAct is what people are asked about an endpoint.
type endpointAct struct {
	is store.EndpointEditions
	on bool // it is on already
	// becomes is on, as edition.
	becomes   store.EndpointContent
	edition   int64
	event     engine.Event
	meanwhile string
	// write writes that edition, with the approval; nil where it is there already.
	write func(ctx context.Context, opens *store.Submission) error
}

// ask has people decide about an endpoint. once keeps the answer, together with what is written.
func (r Endpoints) ask(ctx context.Context, by access.Initiator, a endpointAct, once *access.Idempotency[PendingApproval]) (PendingApproval, error) {
	was := store.ProposedEndpoint{On: a.on, Edition: a.is.Edition}
	entry, err := store.NewEntry(store.EndpointEntry, a.is.ID, was, store.ProposedEndpoint{On: true, Edition: a.edition}, a.event)
	if err != nil {
		return PendingApproval{}, err
	}
	i := changeItem{Entry: entry, name: a.is.Kind + " " + a.is.Name, was: "off", meanwhile: a.meanwhile}
	becomes, target, err := reads(a.becomes)
	if err != nil {
		return PendingApproval{}, err
	}
	i.becomes = becomes
	if a.on {
		former := store.EndpointContent{Settings: a.is.Settings, Secret: a.is.Secret}
		text, before, err := reads(former)
		if err != nil {
			return PendingApproval{}, err
		}
		i.was, i.becomes = text, becomes+secretChanges(before, target)
	}
	settings, err := notify.ParseSettings(a.becomes.Settings)
	if err != nil {
		return PendingApproval{}, err
	}
	for _, address := range settings.To {
		p, _, err := r.Store.People.ByEmail(ctx, strings.ToLower(address))
		if err == nil {
			i.subjects = append(i.subjects, p.Identity)
		} else if !errors.Is(err, store.ErrNotFound) {
			return PendingApproval{}, err
		}
	}
	if collects(ctx) {
		if a.write != nil {
			if err := current(a.write(ctx, nil)); err != nil {
				return PendingApproval{}, err
			}
		}
		return PendingApproval{}, r.hold(ctx, by, store.EndpointsChange, "", i)
	}
	h := PendingChange{Kind: store.EndpointsChange, Reason: by.Reason, Idempotency: once}
	if a.write != nil {
		h.Submit = func(ctx context.Context, opens store.Submission) (store.SubmitResult, error) {
			return store.SubmitResult{}, current(a.write(ctx, &opens))
		}
	}
	held, err := r.open(ctx, by, h, []changeItem{i})
	held.meanwhile = a.meanwhile
	return held, err
}

// current refuses what was changed since it was looked at.
func current(err error) error {
	if errors.Is(err, store.ErrEdition) {
		return &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The endpoint has just been changed. Nobody was asked; look at it, and try again."}
	}
	return err
}

// reads is an endpoint that is on, as people read it: where it leads and what it tells, without what
// is secret.
func reads(c store.EndpointContent) (string, notify.EndpointSecrets, error) {
	target, err := notify.ParseTarget(c.Secret)
	text := "on, with these settings: " + readable(c.Settings)
	if leads := target.Leads(); leads != "" {
		text += "\nat " + leads
	}
	return text, target, err
}

// secretChanges says what changes of what nobody is shown.
func secretChanges(was, becomes notify.EndpointSecrets) (text string) {
	if was.URL != becomes.URL && was.Leads() == becomes.Leads() {
		text += "\nat another address there: it differs in what is secret"
	}
	if len(becomes.Keys) > 0 && (len(was.Keys) == 0 || was.Keys[0].Secret != becomes.Keys[0].Secret) {
		text += "\nsigned with another secret"
		if len(becomes.Keys) > 1 {
			text += ", and with the former one for a while"
		}
	}
	if was.Signing != becomes.Signing {
		text += "\nwith another signing secret of the Slack app"
	}
	return text
}

// askOn has people decide about switching an endpoint on. The error is never nil.
func (r Endpoints) askOn(ctx context.Context, by access.Initiator, id string) error {
	e, err := r.Store.Endpoints.Editions(ctx, id)
	if err != nil {
		return err
	}
	held, err := r.ask(ctx, by, endpointAct{
		is: e, becomes: store.EndpointContent{Settings: e.Settings, Secret: e.Secret}, edition: e.Edition,
		event: endpointEvent(by, "ENDPOINT_ENABLED", "The endpoint was switched on.", id, e.Kind),
	}, nil)
	if err != nil {
		return err
	}
	return held.refusal()
}

// askChange has people decide about what change makes of an endpoint that is on; wait is how long
// that may take. The same again is the same proposal, and nil is returned for what changes nothing.
func (r Endpoints) askChange(ctx context.Context, by access.Initiator, id string, event engine.Event, change func(settings json.RawMessage, secret []byte, wait time.Duration) (json.RawMessage, []byte, error)) error {
	e, err := r.Store.Endpoints.Editions(ctx, id)
	if err != nil {
		return err
	}
	after := func(wait time.Duration) (c store.EndpointContent, err error) {
		c.Settings, c.Secret, err = change(e.Settings, e.Secret, wait)
		return c, err
	}
	becomes, err := after(0)
	if err != nil {
		return err
	}
	if same, err := sameContent(store.EndpointContent{Settings: e.Settings, Secret: e.Secret}, becomes); same || err != nil {
		return err
	}
	held, err := r.ask(ctx, by, r.inPlace(e, becomes, event, after), nil)
	if err != nil {
		return err
	}
	return held.refusal()
}

// inPlace is what is asked about other content of an endpoint that is on; after is the content by how
// long people may take.
func (r Endpoints) inPlace(e store.EndpointEditions, becomes store.EndpointContent, event engine.Event, after func(wait time.Duration) (store.EndpointContent, error)) endpointAct {
	a := endpointAct{is: e, on: true, becomes: becomes, edition: e.Fresh(), event: event, meanwhile: "The endpoint goes on as it is"}
	if e.Next != nil {
		if same, err := sameContent(*e.Next, becomes); err == nil && same {
			a.edition = e.NextEdition
			return a
		}
	}
	a.write = func(ctx context.Context, opens *store.Submission) error {
		wait := time.Duration(0)
		if opens != nil {
			wait = opens.Opening.ExpiresIn
		}
		next, err := after(wait)
		if err != nil {
			return err
		}
		return r.Store.Endpoints.Propose(ctx, e, next, opens)
	}
	return a
}

// sameContent reports whether two contents tell the same of the same, in the same way.
func sameContent(a, b store.EndpointContent) (bool, error) {
	var texts [2][]byte
	for i, c := range []store.EndpointContent{a, b} {
		s, err1 := notify.ParseSettings(c.Settings)
		t, err2 := notify.ParseTarget(c.Secret)
		if err := errors.Join(err1, err2); err != nil {
			return false, err
		}
		settings, target, err := encodeEndpoint(s, t)
		if err != nil {
			return false, fmt.Errorf("compare an endpoint: %w", err)
		}
		texts[i] = append(settings, target...)
	}
	return bytes.Equal(texts[0], texts[1]), nil
}
