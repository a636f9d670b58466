package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/dialect/aana"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// NewKey is an API key to create.
type NewKey struct {
	Kind  string
	Agent string // "" for an administrator's key
	Label string
	// Person is the e-mail address of the administrator whose own key it is; "" for nobody's in particular.
	Person string
	// MaxState and Scopes are what it may claim and what it is for, where that is
	// less than its kind's.
	MaxState  string
	Scopes    []string
	ExpiresIn time.Duration // 0 means never
	// AgentName and AgentOwner, an e-mail address, change what is registered of the
	// agent, unless they are "". An agent that is not registered yet is.
	AgentName, AgentOwner string
}

// Create creates an API key and returns its text, which is stored nowhere.
func (k Keys) Create(ctx context.Context, by access.Initiator, n NewKey) (store.Key, string, error) {
	key, text, err := identity.NewKey(n.Agent, n.Kind)
	if err != nil {
		return key, "", err
	}
	key.Label = n.Label
	if err := narrow(&key, n); err != nil {
		return key, "", err
	}
	if n.Person != "" {
		if key.PersonID, err = k.holder(ctx, key, n.Person); err != nil {
			return key, "", err
		}
	}
	if n.ExpiresIn > 0 {
		now, err := k.Store.Now(ctx)
		if err != nil {
			return key, "", err
		}
		expires := now.Add(n.ExpiresIn)
		key.ExpiresAt = &expires
	}
	if n.Agent != "" {
		if err := k.register(ctx, by, n); err != nil {
			return key, "", err
		}
	}
	return key, text, k.create(ctx, by, key)
}

// holder is whose own key it is to be: an administrator's, so that it gives nobody what they do not
// have, and what gives the role gives this, with whatever approval that takes.
func (k Keys) holder(ctx context.Context, key store.Key, email string) (string, error) {
	switch {
	case key.Kind != access.AdminKey:
		return "", fmt.Errorf("--person: a key of kind %s is an agent's; whoever answers for the agent is its --owner", key.Kind)
	case slices.Contains(key.Scopes, identity.ScopeSCIM):
		return "", errors.New("--person: a key for a directory is no person's")
	}
	p, err := People(k).Find(ctx, email)
	switch {
	case err != nil:
		return "", fmt.Errorf("--person: %w", err)
	case p.Disabled:
		return "", fmt.Errorf("--person: %s is disabled", p.Email)
	case !access.MayAdminister(p):
		return "", fmt.Errorf("--person: %s does not have the role %s, which such a key acts by: “holdpoint user set %s --add-role %s”", p.Email, access.AdminRole, p.Email, access.AdminRole)
	}
	return p.ID, nil
}

func (k Keys) create(ctx context.Context, by access.Initiator, key store.Key) error {
	return k.Store.Keys.Create(ctx, key, keyCreated(by, key))
}

// keyCreated records that a key was made, without its secret and its label.
func keyCreated(by access.Initiator, key store.Key) engine.Event {
	payload := map[string]any{"kind": key.Kind, "scopes": key.Scopes, "max_state": key.MaxState}
	if key.AgentID != "" {
		payload["agent"] = key.AgentID
	}
	if key.PersonID != "" {
		payload["holder"] = key.PersonID // the event is about the key
	}
	if key.ExpiresAt != nil {
		payload["expires_at"] = key.ExpiresAt.UTC()
	}
	return changed(by, "KEY_CREATED", "An API key of kind "+key.Kind+" was created.", key.ID, payload)
}

// narrow gives the key less than its kind has; more is a mistake.
func narrow(key *store.Key, n NewKey) error {
	if n.MaxState != "" {
		limit, err := aana.ParseState(key.MaxState)
		if err != nil {
			return err
		}
		if !limit.AtLeast(aana.State(n.MaxState)) {
			return fmt.Errorf("--max-state: a key of kind %s may claim at most %q", key.Kind, key.MaxState)
		}
		key.MaxState = n.MaxState
	}
	may := slices.Concat(key.Scopes, identity.Kinds()[key.Kind].Named)
	for _, scope := range n.Scopes {
		if !slices.Contains(may, scope) {
			return fmt.Errorf("--scope: a key of kind %s may have %s, not %q", key.Kind, strings.Join(may, ", "), scope)
		}
	}
	if len(n.Scopes) > 1 && slices.Contains(n.Scopes, identity.ScopeSCIM) {
		return fmt.Errorf("--scope: a key for a directory has %s alone", identity.ScopeSCIM)
	}
	if len(n.Scopes) > 0 {
		key.Scopes = n.Scopes
	}
	return nil
}

// register makes sure that the agent is registered, by the name and owner given.
func (k Keys) register(ctx context.Context, by access.Initiator, n NewKey) error {
	known, err := k.Store.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	agent, exists := known.Agents[n.Agent]
	if exists && n.AgentName == "" && n.AgentOwner == "" {
		return nil
	}
	if !exists {
		agent = NewAgent(n.Agent)
	}
	if n.AgentName != "" {
		agent.Name = n.AgentName
	}
	if n.AgentOwner != "" {
		owner, err := People(k).Find(ctx, n.AgentOwner)
		if err != nil {
			return fmt.Errorf("--owner: %w", err)
		}
		agent.Owner = owner.Email
	}
	return Registry(k).RegisterAgent(ctx, by, agent, nil)
}

// Restore creates the key whose text is known: NewKey's, of the same agent and
// kind. One that is there is given the scopes of its kind.
func (k Keys) Restore(ctx context.Context, by access.Initiator, text, agent, kind, label string) error {
	key, err := identity.RestoreKey(text, agent, kind)
	if err != nil {
		return err
	}
	key.Label = label
	known, err := k.Store.Keys.Get(ctx, key.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return k.create(ctx, by, key)
	case err != nil || slices.Equal(known.Scopes, key.Scopes):
		return err
	}
	return k.Store.Keys.SetScopes(ctx, key.ID, key.Scopes, changed(by, "KEY_CHANGED", "The key was given the scopes of its kind.", key.ID,
		map[string]any{"scopes_before": known.Scopes, "scopes": key.Scopes}))
}

// Revoke revokes an API key, or a signing key by its kid.
func (k Keys) Revoke(ctx context.Context, by access.Initiator, id string) error {
	var err error
	switch {
	case strings.HasPrefix(id, "key_"):
		err = k.Store.Keys.Revoke(ctx, id, changed(by, "KEY_REVOKED", "An API key was revoked.", id, nil))
	case len(id) == 43: // a SHA-256 in base64url
		err = k.Store.Keys.RevokeSigningKey(ctx, id, changed(by, "SIGNING_KEY_REVOKED", "A signing key was revoked.", id, nil))
	default:
		return fmt.Errorf("%q is neither key_… nor the kid of a signing key", id)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("there is no key %s that is not revoked already", id)
	case errors.Is(err, store.ErrConflict):
		return fmt.Errorf("the signing key %s is revoked already", id)
	}
	return err
}
