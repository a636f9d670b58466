package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// Key is an API key as administrators look at it.
type Key = store.Key

// Bounds of keys that are made in the console.
const (
	maxKeyLabel = 200
	maxKeyAge   = 10 * 366 * 24 * time.Hour
	// mostKeys is how many keys are listed, the newest first.
	mostKeys = 10_000
)

// Refusals of keys.
var (
	keysByCommand = &access.Refusal{Kind: access.Invalid, Code: "by_command", Detail: "API keys are made and revoked by command here: “holdpoint key --help”. Whoever runs Holdpoint can allow it in the console: database_people_url."}
	notKeyAdmin   = &access.Refusal{Kind: access.Forbidden, Code: "not_an_administrator", Detail: "Only administrators make and revoke API keys."}
	noSuchKey     = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such API key that is not revoked already."}
	noSuchAgent   = &access.Refusal{Kind: access.Invalid, Code: "unknown_agent", Detail: "There is no such agent for which you answer, or its registration is revoked. Here its owner makes keys of an agent, who never decides on its calls; for anybody else it is “holdpoint key create --agent ID”."}
)

// MayBeChanged reports whether keys can be made and revoked from here.
func (k Keys) MayBeChanged() bool { return People(k).MayBeChanged() }

// List lists the API keys, the newest first, without their secrets.
func (k Keys) List(ctx context.Context) ([]Key, error) { return k.Store.Keys.List(ctx, mostKeys) }

// Issue creates an API key as a person in the console wants it, who administers, and
// returns its text, which is stored nowhere. Its agent is one that there is.
func (k Keys) Issue(ctx context.Context, by access.Initiator, n NewKey) (Key, string, error) {
	if !k.MayBeChanged() {
		return Key{}, "", keysByCommand
	}
	n.Agent, n.Label = strings.TrimSpace(n.Agent), strings.TrimSpace(n.Label)
	wrong := func(code, detail string) (Key, string, error) {
		return Key{}, "", &access.Refusal{Kind: access.Invalid, Code: code, Detail: detail}
	}
	kind, known := identity.Kinds()[n.Kind]
	switch {
	case !known:
		return wrong("unknown_kind", "A key is an agent's, its runtime's, or an administrator's.")
	case (n.Agent == "") != (n.Kind == access.AdminKey):
		return wrong("unknown_agent", "An agent's and a runtime's key belong to an agent; an administrator's key belongs to none.")
	case n.Kind == access.AdminKey && !slices.Equal(n.Scopes, []string{identity.ScopeAudit}):
		return wrong("by_command", "Here an administrator’s key is made for reading the audit log, and for nothing else: who holds one that administers acts as nobody in particular. “holdpoint key create --kind admin” makes it.")
	case len(n.Label) > maxKeyLabel || !utf8.ValidString(n.Label) || strings.ContainsFunc(n.Label, unicode.IsControl):
		return wrong("unfit_label", fmt.Sprintf("A label has at most %d bytes, on one line.", maxKeyLabel))
	case n.ExpiresIn < 0 || n.ExpiresIn > maxKeyAge:
		return wrong("unfit_lifetime", "A key lives at most ten years, or for ever.")
	case !utf8.ValidString(n.Agent) || strings.ContainsRune(n.Agent, 0):
		return Key{}, "", noSuchAgent
	}
	key, text, err := identity.NewKey(n.Agent, n.Kind)
	if err != nil {
		return key, "", err
	}
	key.Label, key.Scopes = n.Label, kind.Scopes
	if err := narrow(&key, n); err != nil {
		return wrong("unfit_scope", "A key of this kind is not for that: "+err.Error()+".")
	}
	if n.ExpiresIn > 0 {
		now, err := k.Store.Now(ctx)
		if err != nil {
			return key, "", err
		}
		expires := now.Add(n.ExpiresIn)
		key.ExpiresAt = &expires
	}
	err = k.Store.Keys.Issue(ctx, key, by.Actor.ID, access.AdminRole, mayKeepKeys, keyCreated(by, key))
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchAgent
	}
	return key, text, k.administered(ctx, err)
}

// Withdraw revokes an API key for a person in the console, who administers.
func (k Keys) Withdraw(ctx context.Context, by access.Initiator, id string) error {
	if !k.MayBeChanged() {
		return keysByCommand
	}
	if !strings.HasPrefix(id, "key_") || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return noSuchKey
	}
	err := k.Store.Keys.Withdraw(ctx, id, by.Actor.ID, access.AdminRole, mayKeepKeys, changed(by, "KEY_REVOKED", "An API key was revoked.", id, nil))
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchKey
	}
	return k.administered(ctx, err)
}

func mayKeepKeys(administers bool) error {
	if !administers {
		return notKeyAdmin
	}
	return nil
}
