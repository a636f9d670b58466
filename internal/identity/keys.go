// Package identity says who somebody is: it makes and checks API keys and
// passwords. It never decides what they may do, and it keeps no secret: of a
// key only the SHA-256 is stored, of a password only its argon2id hash.
package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// ErrUnknown is returned for every credential that is not good, whatever the reason.
var ErrUnknown = errors.New("unknown credential")

// Scopes say what a key is for.
const (
	ScopeCheck     = "check"     // propose calls
	ScopeApprovals = "approvals" // read, answer and cancel its agent's approvals
	ScopeRedeem    = "redeem"    // spend tokens and report executions
	ScopeAudit     = "audit"     // read the audit log
	ScopeAdmin     = "admin"     // change agents, tools, limits and kill switches
	ScopeSCIM      = "scim"      // tell of a directory's people and groups
)

// Kind is what a kind of key may do unless its maker says less.
type Kind struct {
	Scopes   []string
	MaxState string
	// Named are scopes that a key has only where its maker names them.
	Named []string
}

// Kinds are the kinds of API key.
func Kinds() map[string]Kind {
	calls := []string{ScopeCheck, ScopeApprovals, ScopeRedeem}
	return map[string]Kind{
		access.AgentKey:   {Scopes: calls, MaxState: "authenticated"},
		access.RuntimeKey: {Scopes: calls, MaxState: "confirmed"},
		access.AdminKey:   {Scopes: []string{ScopeApprovals, ScopeAudit, ScopeAdmin}, MaxState: "none", Named: []string{ScopeSCIM}},
	}
}

// A key's text is "hp_", the 26 characters of its id, "_", and 26 characters of
// secret (130 random bits each).
const (
	keyPrefix  = "hp_"
	partLength = 26
)

// NewKey makes a key and its text. The text is shown to its holder once and
// stored nowhere.
func NewKey(agentID, kind string) (store.Key, string, error) {
	k, ok := Kinds()[kind]
	if !ok {
		return store.Key{}, "", fmt.Errorf("unknown kind of key %q: want agent, runtime or admin", kind)
	}
	if (agentID == "") != (kind == access.AdminKey) {
		return store.Key{}, "", errors.New("an agent's and a runtime's key belong to an agent, an admin key to none")
	}
	text := keyPrefix + strings.ToLower(rand.Text()) + "_" + strings.ToLower(rand.Text())
	key, err := parseKey(text)
	key.AgentID, key.Kind, key.Scopes, key.MaxState = agentID, kind, k.Scopes, k.MaxState
	return key, text, err
}

// RestoreKey makes the key again whose text is known: NewKey's, for the same
// agent and kind.
func RestoreKey(text, agentID, kind string) (store.Key, error) {
	key, err := parseKey(text)
	k := Kinds()[kind]
	key.AgentID, key.Kind, key.Scopes, key.MaxState = agentID, kind, k.Scopes, k.MaxState
	return key, err
}

// parseKey takes id and secret out of a key's text.
func parseKey(text string) (store.Key, error) {
	rest, ok := strings.CutPrefix(text, keyPrefix)
	if !ok || len(rest) != 2*partLength+1 || rest[partLength] != '_' {
		return store.Key{}, ErrUnknown
	}
	if strings.ContainsFunc(rest, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') && r != '_' }) {
		return store.Key{}, ErrUnknown
	}
	hash := sha256.Sum256([]byte(rest[partLength+1:]))
	return store.Key{ID: "key_" + rest[:partLength], SecretHash: hash[:]}, nil
}

// Keys checks API keys, remembering each for at most a moment and forgetting
// all of them as soon as the database says that any has changed. It notes when
// each was last used, to the minute.
type Keys struct {
	store *store.Store

	mu    sync.Mutex
	known map[string]knownKey
	// When each key's use was noted last, those of which it is to be noted, and that there are any.
	noted  map[string]time.Time
	used   map[string]struct{}
	noting chan struct{}
}

type knownKey struct {
	key    store.Key
	when   time.Time
	asking bool // somebody asks the database again
}

// remembered bounds for how long a revoked key could still be believed when the
// database's word of it is lost, and how many keys are remembered.
const (
	remembered    = 500 * time.Millisecond
	mostRemembers = 10_000
)

// NewKeys returns a checker that listens for changes until ctx ends.
func NewKeys(ctx context.Context, s *store.Store) *Keys {
	k := &Keys{store: s, known: map[string]knownKey{}, noted: map[string]time.Time{}, used: map[string]struct{}{}, noting: make(chan struct{}, 1)}
	go k.note(ctx)
	changes := s.Keys.Changes(ctx)
	go func() {
		for {
			select {
			case <-changes:
				k.forget()
			case <-ctx.Done():
				return
			}
		}
	}()
	return k
}

func (k *Keys) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.known)
}

// Authenticate returns whose key the text is. ErrUnknown: nobody's, or it is
// revoked, expired, its agent disabled, or its person no administrator. Any other error is an outage.
func (k *Keys) Authenticate(ctx context.Context, text string) (access.Principal, error) {
	claimed, err := parseKey(text)
	if err != nil {
		return access.Principal{}, err
	}
	key, err := k.lookup(ctx, claimed.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return access.Principal{}, err
	}
	// For an unknown id the comparison is with nothing and fails.
	if subtle.ConstantTimeCompare(claimed.SecretHash, key.SecretHash) != 1 || key.Dead {
		return access.Principal{}, ErrUnknown
	}
	k.mu.Lock()
	k.use(key.ID, time.Now())
	k.mu.Unlock()
	return access.Principal{KeyID: key.ID, AgentID: key.AgentID, PersonID: key.PersonID, Kind: key.Kind, Scopes: slices.Clone(key.Scopes), MaxState: key.MaxState}, nil
}

func (k *Keys) lookup(ctx context.Context, id string) (store.Key, error) {
	asked := time.Now()
	if key, ok := k.recall(id, asked); ok {
		return key, nil
	}
	key, err := k.store.Keys.Get(ctx, id)
	if err != nil {
		return store.Key{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= mostRemembers {
		clear(k.known)
	}
	k.known[id] = knownKey{key: key, when: asked}
	return key, nil
}

// recall is what is remembered of a key. Halfway through, one of its callers is to ask again,
// so that they do not all come to ask at once.
func (k *Keys) recall(id string, now time.Time) (key store.Key, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.known[id]
	age := now.Sub(known.when)
	switch {
	case !ok || age >= remembered:
		return key, false
	case age >= remembered/2 && !known.asking:
		known.asking = true
		k.known[id] = known
		return key, false
	}
	return known.key, true
}
