package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/token"
	"holdpoint/internal/store"
)

// TokenKeys are the keys that tokens are signed and verified with. Each process
// publishes those of its file in Postgres, and verifies by those of all:
//
//	file ──► published ──(KeyDelay)──► signs ──► followed by another ──► verifies
//	                                                                        │ out of every file
//	                                                       dropped ◄────────┘ for publishedFor
//
// So two processes with different files take each other's tokens. A key that is revoked
// neither signs, while there is another, nor verifies.
type TokenKeys struct {
	store *store.Store
	log   *slog.Logger
	delay time.Duration
	own   atomic.Pointer[token.Ring]
	now   atomic.Pointer[tokenKeys]
}

// tokenKeys are those of a moment.
type tokenKeys struct {
	ring    token.Ring // its first key signs
	revoked []string
}

const (
	// publishedFor is how long a key verifies that no process has any more: longer than
	// any token lives.
	publishedFor = token.MaxTTL + time.Hour
	// keysEvery is how often the file and Postgres are looked at.
	keysEvery = 15 * time.Second
)

func newTokenKeys(cfg Config) *TokenKeys {
	k := &TokenKeys{store: cfg.Store, log: cfg.Logger, delay: cfg.KeyDelay}
	k.own.Store(&cfg.Ring)
	k.now.Store(&tokenKeys{ring: cfg.Ring})
	return k
}

func (k *TokenKeys) ring() token.Ring { return k.now.Load().ring }

// Use takes the keys of the process's file from now on, and publishes them.
func (k *TokenKeys) Use(ctx context.Context, own token.Ring) error {
	k.own.Store(&own)
	return k.refresh(ctx)
}

// refresh publishes the process's own keys, and looks which of them signs.
func (k *TokenKeys) refresh(ctx context.Context) error {
	for _, key := range k.own.Load().Keys() {
		err := k.store.Keys.PublishSigningKey(ctx, key.ID, key.Key, publishedFor, engine.Event{
			ID: store.NewEventID(), Type: engine.Admin, Outcome: engine.Allow,
			Reasons:     []engine.Reason{{Code: "SIGNING_KEY_ADDED", Message: "A key that tokens are signed with was published."}},
			SafePayload: fmt.Appendf(nil, `{"subject":%q}`, key.ID),
			Actor:       engine.Actor{Kind: engine.ServiceActor, ID: "serve", Channel: "engine"},
		})
		if err != nil {
			return fmt.Errorf("publish the signing key %s: %w", key.ID, err)
		}
	}
	_, err := k.look(ctx)
	return err
}

// look reads which keys are published and revoked now.
func (k *TokenKeys) look(ctx context.Context) (*tokenKeys, error) {
	own := *k.own.Load()
	published, err := k.store.Keys.SigningKeys(ctx, publishedFor)
	if err != nil {
		return nil, err
	}
	revoked, err := k.store.Keys.RevokedSigningKeys(ctx)
	if err != nil {
		return nil, err
	}
	now := &tokenKeys{ring: own.SignedBy(signer(own, published, revoked, k.delay)), revoked: revoked}
	for _, key := range published {
		if now.ring, err = now.ring.Verifying(key.Public); err != nil {
			return nil, err
		}
	}
	if former := k.now.Swap(now); former.ring.IDs()[0] != now.ring.IDs()[0] {
		k.log.InfoContext(ctx, "tokens are signed with another key", "kid", now.ring.IDs()[0], "former", former.ring.IDs()[0])
	}
	return now, nil
}

// signer is the id of the key that signs: the first in the file that is not revoked and
// has been published for the delay. When none has, it is the one that was published
// first. With every key revoked it is "".
func signer(own token.Ring, published []store.SigningKey, revoked []string, delay time.Duration) string {
	var first store.SigningKey
	for _, key := range own.Keys() {
		i := slices.IndexFunc(published, func(p store.SigningKey) bool { return p.ID == key.ID })
		if i < 0 || !key.Signs || slices.Contains(revoked, key.ID) {
			continue
		}
		if published[i].For >= delay {
			return key.ID
		}
		if first.ID == "" || published[i].For > first.For {
			first = published[i]
		}
	}
	return first.ID
}

// openToken is token.Open with the keys of every process. ErrInvalid: the token is not
// ours; any other error: that could not be found out.
func (g *Gate) openToken(ctx context.Context, raw string) (token.Claims, string, error) {
	claims, kid, err := token.Open(g.keys.ring(), raw, g.Issuer, g.Judge().Environment)
	if !errors.Is(err, token.ErrUnknownKey) || len(kid) != store.SigningKeyID {
		return claims, kid, err
	}
	// Another process may have published it a moment ago.
	now, err := g.keys.look(ctx)
	if err != nil {
		return token.Claims{}, kid, fmt.Errorf("look up the key of a token: %w", err)
	}
	return token.Open(now.ring, raw, g.Issuer, g.Judge().Environment)
}

// Run keeps the keys current until ctx ends. It calls read every few seconds, and when
// reload says so; read returns nil when the file has not changed. A file that cannot be
// read changes nothing.
func (k *TokenKeys) Run(ctx context.Context, read func() (*token.Ring, error), reload <-chan os.Signal) {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	problem := ""
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-reload:
			asked = true
		}
		own, err := read()
		switch {
		case err != nil:
			if asked || err.Error() != problem {
				k.log.ErrorContext(ctx, "the signing keys cannot be read; the former ones go on signing", "error", err)
			}
			problem = err.Error()
		case own != nil:
			problem = ""
			k.own.Store(own)
			k.log.InfoContext(ctx, "the signing keys were read again", "kids", own.IDs())
		default:
			problem = ""
		}
		if err := k.refresh(ctx); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "the signing keys cannot be looked up; those known so far go on", "error", err)
		}
	}
}

// TokenKey is a key that tokens are signed or verified with, as whoever operates sees it.
type TokenKey struct {
	store.SigningKey
	// Own says that the process's own file has it, Signs that its tokens are signed with
	// it, and Revoked that nothing is.
	Own, Signs, Revoked bool
	// Waiting is how long it is yet to be published before it may sign.
	Waiting time.Duration
}

// TokenKeyStates lists the keys of every process, and those of this one's file that are
// not published yet, which have no time. It changes nothing.
func TokenKeyStates(ctx context.Context, s *store.Store, own token.Ring, delay time.Duration) ([]TokenKey, error) {
	published, err := s.Keys.SigningKeys(ctx, publishedFor)
	if err != nil {
		return nil, err
	}
	revoked, err := s.Keys.RevokedSigningKeys(ctx)
	if err != nil {
		return nil, err
	}
	signs := signer(own, published, revoked, delay)
	var list []TokenKey
	for _, key := range own.Keys() {
		if !slices.ContainsFunc(published, func(p store.SigningKey) bool { return p.ID == key.ID }) {
			published = append(published, store.SigningKey{ID: key.ID, Public: key.Key})
		}
	}
	for _, key := range published {
		i := slices.Index(own.IDs(), key.ID)
		k := TokenKey{SigningKey: key, Own: i >= 0, Signs: key.ID == signs, Revoked: slices.Contains(revoked, key.ID)}
		if k.Own && own.Keys()[i].Signs && !k.Signs {
			k.Waiting = max(0, delay-key.For)
		}
		list = append(list, k)
	}
	return list, nil
}
