package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/outbound"
	"holdpoint/internal/store"
)

// AgentWebhook is where an agent is told how its approvals end.
type AgentWebhook struct {
	AgentID string
	// URL is its address; "" ends it.
	URL string
	// Plain allows http inside the house.
	Plain bool
	// Format is "" or channel.CloudEvents.
	Format string
}

// AgentSecret is what the agent verifies by. It is never shown again.
type AgentSecret struct {
	EndpointID, Secret string
	// ApprovalID is of the approval without which the endpoint stays off; "" for none.
	ApprovalID string
}

// AgentEndpoint is the id of an agent's own endpoint: there is one.
func AgentEndpoint(agentID string) string {
	sum := sha256.Sum256([]byte("agent webhook " + agentID))
	return "end_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// SetAgentWebhook has an agent told at its own address how its approvals end, by an
// endpoint that is told of nothing else. An address in place of another comes with
// another secret; the former one signs nothing any more. Where endpoints take an approval it
// is off until then.
func (r Endpoints) SetAgentWebhook(ctx context.Context, by access.By, w AgentWebhook, once *access.Once[AgentSecret]) (AgentSecret, error) {
	id := AgentEndpoint(w.AgentID)
	_, err := r.Store.People.Agent(ctx, w.AgentID)
	if errors.Is(err, store.ErrNotFound) {
		return AgentSecret{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such agent."}
	}
	if err != nil {
		return AgentSecret{}, err
	}
	known, err := r.Store.Endpoints.Get(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return AgentSecret{}, err
	}
	exists := err == nil
	event := func(code, message string) engine.Event {
		e := endpointEvent(by, code, message, id, notify.Webhook)
		e.AgentID = w.AgentID
		return e
	}
	done := func(s AgentSecret) (AgentSecret, *access.Once[access.Done]) {
		return s, access.Adapt(once, func(access.Done) AgentSecret { return s })
	}
	if w.URL == "" {
		answer, kept := done(AgentSecret{EndpointID: id})
		err := r.Store.Endpoints.Switch(ctx, id, true, kept, event("ENDPOINT_DISABLED", "The agent's endpoint was switched off."))
		if errors.Is(err, store.ErrNotFound) {
			return answer, nil // there is none, or it is off already
		}
		return answer, r.administered(ctx, err)
	}
	target := notify.Target{URL: strings.TrimSpace(w.URL), Plain: w.Plain, Keys: []notify.Key{{Secret: channel.NewSecret()}}}
	settings := notify.Settings{Kinds: []engine.NotificationKind{engine.NotifyDecided}, Agents: []string{w.AgentID}, Format: w.Format, Host: target.Host()}
	if err := unfitting(append(settings.Check(notify.Webhook), r.reachable(notify.Webhook, target)...)); err != nil {
		return AgentSecret{}, err
	}
	encoded, secret, err := encodeEndpoint(settings, target)
	if err != nil {
		return AgentSecret{}, err
	}
	_, guarded, err := r.guarded(ctx, by, store.EndpointsChange)
	if err == nil && exists {
		err = r.changeable(ctx, by, known)
	}
	if err != nil {
		return AgentSecret{}, err
	}
	made := AgentSecret{EndpointID: id, Secret: target.Keys[0].Secret}
	if guarded && !collects(ctx) {
		made.ApprovalID = store.NewID("apr")
	}
	answer, kept := done(made)
	if exists {
		err = r.Store.Endpoints.Change(ctx, id, encoded, secret, !guarded, kept, event("ENDPOINT_ROTATED", "The agent's endpoint was given another address and secret."))
	} else {
		err = r.Store.Endpoints.Create(ctx, store.Endpoint{ID: id, Kind: notify.Webhook, Name: endpointName(w.AgentID, id), Settings: encoded, CreatedBy: by.Actor.ID}, secret, guarded, kept,
			event("ENDPOINT_ADDED", "An endpoint was added at which the agent is told how its approvals end."))
	}
	if errors.Is(err, store.ErrConflict) {
		err = &access.Refusal{Kind: access.Invalid, Code: "name_taken", Detail: "Somebody else has just set it, or another endpoint has its name. Look at the list of endpoints."}
	}
	if err := r.administered(ctx, err); err != nil || !guarded {
		return answer, err
	}
	err = r.waits(ctx, by, id, "The endpoint is added, and off", made.ApprovalID)
	if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && refusal.Successor != "" {
		answer.ApprovalID, err = refusal.Successor, nil
	}
	return answer, err
}

// endpointName is what people read; two agents never share one.
func endpointName(agentID, id string) string {
	if len(agentID) > 100 {
		agentID = strings.ToValidUTF8(agentID[:100], "") + "…"
	}
	return fmt.Sprintf("Agent %s (%s)", agentID, id[len(id)-6:])
}

// reachable says what is wrong with where an endpoint leads.
func (r Endpoints) reachable(kind string, target notify.Target) []error {
	if err := target.Check(kind); err != nil {
		return []error{err}
	}
	if target.URL == "" {
		return nil
	}
	// The worker would refuse it each time; Check has judged the scheme.
	if _, err := (outbound.Config{AllowPrivate: r.AllowPrivate, AllowHTTP: true}).CheckURL(target.URL); err != nil {
		if errors.Is(err, outbound.ErrForbiddenAddress) {
			err = errors.New("the address is not a public one: outbound_allow_private has the networks that may be told all the same")
		}
		return []error{fmt.Errorf("url: %w", err)}
	}
	return nil
}
