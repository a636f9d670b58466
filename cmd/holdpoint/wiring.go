package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/rules"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
	"holdpoint/web"
)

// judgedBy says what this process judges by, as the console knows it.
func judgedBy(k *rules.Keeper) func() web.InForce {
	return func() web.InForce {
		return web.InForce{Status: k.Status(), Registered: k.Judge().Registry}
	}
}

// rolesInForce are the roles that people may be given by what this process judges by.
func rolesInForce(k *rules.Keeper) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) {
		now := k.Judge().Rules
		return admin.KnownRoles(now.Policy, now.Routing, slices.Collect(maps.Values(k.Status().Guards))...), nil
	}
}

// sessions is the store as the console's sessions.
type sessions struct{ store *store.Store }

func (s sessions) Load(ctx context.Context, idHash []byte) (engine.Person, error) {
	p, err := s.store.Sessions.Person(ctx, idHash)
	if errors.Is(err, store.ErrNotFound) {
		return p, web.ErrNoSession
	}
	return p, err
}

func (s sessions) Save(ctx context.Context, idHash []byte, p engine.Person, lasting time.Duration) error {
	err := s.store.Sessions.Create(ctx, idHash, p, lasting)
	if errors.Is(err, store.ErrNotFound) {
		return web.ErrNoSession
	}
	return err
}

func (s sessions) Verified(ctx context.Context, idHash []byte, personID, verifiedBy string) error {
	err := s.store.Sessions.Verify(ctx, idHash, personID, verifiedBy)
	if errors.Is(err, store.ErrNotFound) {
		return web.ErrNoSession
	}
	return err
}

func (s sessions) Delete(ctx context.Context, idHash []byte) error {
	return s.store.Sessions.Delete(ctx, idHash)
}

// singleSignOn is the sign-in by the configured providers: nil for none.
func singleSignOn(cfg config.Config, s *store.Store, in *identity.SignIn, a *admin.Admin, log *slog.Logger) (web.SSO, error) {
	if len(cfg.SSO) == 0 {
		return nil, nil
	}
	providers, err := sso.New(cfg.SSO, cfg.PublicURL, cfg.Sealer, s.Clock, log)
	if err != nil {
		return nil, err
	}
	if cfg.SSOOnly {
		in.RequireSSO()
	}
	return identity.NewSSO(in, providers, a.People), nil
}

// directory is the provider whose directory tells of people: nil for none.
func directory(cfg config.Config) *sso.Config {
	i := slices.IndexFunc(cfg.SSO, func(p sso.Config) bool { return p.SCIM })
	if i < 0 {
		return nil
	}
	return &cfg.SSO[i]
}

// tracked is the configured trackers as the gate knows them: nil for none.
func tracked(cfg config.Config) gate.Tracker {
	if cfg.Trackers == nil {
		return nil
	}
	return cfg.Trackers
}

// keys tells the API that a key is unknown without an error.
type keys struct{ *identity.Keys }

func (k keys) Authenticate(ctx context.Context, text string) (access.Principal, bool, error) {
	p, err := k.Keys.Authenticate(ctx, text)
	if errors.Is(err, identity.ErrUnknown) {
		return p, false, nil
	}
	return p, err == nil, err
}
