package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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
	// ApprovalID is of the approval without which the endpoint stays off, or as it is; "" for none.
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
// is off until then, or goes on as it is.
func (r Endpoints) SetAgentWebhook(ctx context.Context, by access.Initiator, w AgentWebhook, once *access.Idempotency[AgentSecret]) (AgentSecret, error) {
	id := AgentEndpoint(w.AgentID)
	_, err := r.Store.People.Agent(ctx, w.AgentID)
	if errors.Is(err, store.ErrNotFound) {
		return AgentSecret{}, &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such agent."}
	}
	if err != nil {
		return AgentSecret{}, err
	}
	_, err = r.Store.Endpoints.Get(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return AgentSecret{}, err
	}
	exists := err == nil
	event := func(code, message string) engine.Event {
		e := endpointEvent(by, code, message, id, notify.Webhook)
		e.AgentID = w.AgentID
		return e
	}
	done := func(s AgentSecret) (AgentSecret, *access.Idempotency[access.Done]) {
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
	target := notify.EndpointSecrets{URL: strings.TrimSpace(w.URL), Plain: w.Plain, Keys: []notify.Key{{Secret: channel.NewSecret()}}}
	settings := notify.Settings{Kinds: []engine.NotificationKind{engine.NotifyDecided}, Agents: []string{w.AgentID}, Format: w.Format, Host: target.Host()}
	if err := invalidEntry(append(settings.Check(notify.Webhook), r.reachable(notify.Webhook, target)...)); err != nil {
		return AgentSecret{}, err
	}
	encoded, secret, err := encodeEndpoint(settings, target)
	if err != nil {
		return AgentSecret{}, err
	}
	made := AgentSecret{EndpointID: id, Secret: target.Keys[0].Secret}
	added := event("ENDPOINT_ADDED", "An endpoint was added at which the agent is told how its approvals end.")
	rotated := event("ENDPOINT_ROTATED", "The agent's endpoint was given another address and secret.")
	fresh := store.Endpoint{ID: id, Kind: notify.Webhook, Name: endpointName(w.AgentID, id), Settings: encoded, CreatedBy: by.Actor.ID}
	_, guarded, err := r.guarded(ctx, by, store.EndpointsChange)
	if err != nil {
		return AgentSecret{}, err
	}
	if guarded {
		enabled := event("ENDPOINT_ENABLED", "The agent's endpoint was switched on.")
		return r.askAgentWebhook(ctx, by, fresh, target, made, agentWebhookEvents{added, rotated, enabled}, once)
	}
	answer, kept := done(made)
	if exists {
		err = r.Store.Endpoints.Change(ctx, id, encoded, secret, true, kept, rotated)
	} else {
		err = r.Store.Endpoints.Create(ctx, fresh, secret, false, kept, added)
	}
	if errors.Is(err, store.ErrConflict) {
		err = justSet
	}
	return answer, r.administered(ctx, err)
}

var justSet = &access.Refusal{Kind: access.Invalid, Code: "name_taken", Detail: "Somebody else has just set it, or another endpoint has its name. Look at the list of endpoints."}

type agentWebhookEvents struct{ added, rotated, enabled engine.Event }

// askAgentWebhook has people decide about an agent's own endpoint. What is written, the approval and
// the kept answer are one: no answer tells of an approval that there is not. What is applied from files, and is
// applied again while it waits, keeps its secret.
func (r Endpoints) askAgentWebhook(ctx context.Context, by access.Initiator, wanted store.Endpoint, target notify.EndpointSecrets, made AgentSecret, tells agentWebhookEvents, once *access.Idempotency[AgentSecret]) (AgentSecret, error) {
	secret, err := json.Marshal(target)
	if err != nil {
		return AgentSecret{}, fmt.Errorf("encode an endpoint: %w", err)
	}
	becomes := store.EndpointContent{Settings: wanted.Settings, Secret: secret}
	now, err := r.Store.Endpoints.Editions(ctx, wanted.ID)
	var a endpointAct
	switch {
	case errors.Is(err, store.ErrNotFound):
		a = endpointAct{is: store.EndpointEditions{Endpoint: wanted, Secret: secret, Edition: 1}, becomes: becomes, edition: 1, event: tells.enabled}
		a.meanwhile = "The endpoint is added, and off"
		a.write = func(ctx context.Context, opens *store.Submission) error {
			err := r.Store.Endpoints.CreateOff(ctx, wanted, secret, opens, tells.added)
			if errors.Is(err, store.ErrConflict) {
				err = justSet
			}
			return err
		}
	case err != nil:
		return AgentSecret{}, err
	case now.DisabledAt != nil:
		a = endpointAct{is: now, becomes: becomes, edition: now.Fresh(), event: tells.enabled, meanwhile: "The endpoint is off"}
		is := store.EndpointContent{Settings: now.Settings, Secret: now.Secret}
		if kept, same := withItsKeys(is, becomes); collects(ctx) && same {
			a.becomes, a.edition, made.Secret = kept, now.Edition, ""
			break
		}
		a.write = func(ctx context.Context, opens *store.Submission) error {
			return r.Store.Endpoints.Replace(ctx, now, becomes, opens, tells.rotated)
		}
	default:
		if now.Next != nil && collects(ctx) {
			if kept, same := withItsKeys(*now.Next, becomes); same {
				becomes, made.Secret = kept, ""
			}
		}
		a = r.inPlace(now, becomes, tells.rotated, func(time.Duration) (store.EndpointContent, error) { return becomes, nil })
	}
	answered := func(h PendingApproval) AgentSecret {
		made.ApprovalID = h.ApprovalID
		return made
	}
	held, err := r.ask(ctx, by, a, access.Adapt(once, answered))
	if err == nil {
		return answered(held), r.administered(ctx, nil)
	}
	if _, collected := WasCollected(err); collected {
		return made, err
	}
	return AgentSecret{}, err
}

// withItsKeys is wanted with the keys that sign now, and whether that is the same as now.
func withItsKeys(now, wanted store.EndpointContent) (store.EndpointContent, bool) {
	is, err1 := notify.ParseTarget(now.Secret)
	target, err2 := notify.ParseTarget(wanted.Secret)
	target.Keys = is.Keys
	secret, err3 := json.Marshal(target)
	if errors.Join(err1, err2, err3) != nil {
		return wanted, false
	}
	wanted.Secret = secret
	same, err := sameContent(now, wanted)
	return wanted, err == nil && same
}

// endpointName is what people read; two agents never share one.
func endpointName(agentID, id string) string {
	if len(agentID) > 100 {
		agentID = strings.ToValidUTF8(agentID[:100], "") + "…"
	}
	return fmt.Sprintf("Agent %s (%s)", agentID, id[len(id)-6:])
}

// reachable says what is wrong with where an endpoint leads.
func (r Endpoints) reachable(kind string, target notify.EndpointSecrets) []error {
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
