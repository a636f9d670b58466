package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"holdpoint/api"
	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

// openRules imports the files that the configuration names and reads what is in
// force.
func openRules(ctx context.Context, cfg config.Config, s *store.Store, log *slog.Logger, by string) (*rules.Keeper, error) {
	return rules.Open(ctx, rules.Config{
		Store: s, Environment: cfg.Environment, Routing: cfg.Routing, PolicyFile: cfg.PolicyFile, ContractsFile: cfg.ContractsFile,
		Secret: []byte(cfg.PolicySecret), FormerSecret: []byte(cfg.FormerPolicySecret), Logger: log, By: by, Sealer: cfg.Sealer,
	})
}

// followRules follows every change of the rules until the returned function is
// called. SIGHUP makes it look at the files again.
func followRules(ctx context.Context, k *rules.Keeper) (stop func()) {
	return following(ctx, k.Run)
}

// followSigningKeys publishes the signing keys, and follows their file as followRules
// follows the rules'.
func followSigningKeys(ctx context.Context, cfg config.Config, k *gate.TokenKeys) (stop func(), err error) {
	if err := k.Use(ctx, cfg.Ring); err != nil {
		return nil, err
	}
	read := cfg.SigningKeysReader()
	return following(ctx, func(ctx context.Context, reload <-chan os.Signal) { k.Run(ctx, read, reload) }), nil
}

// following runs what looks at files again on SIGHUP, until the returned function is
// called.
func following(ctx context.Context, run func(ctx context.Context, reload <-chan os.Signal)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	var running sync.WaitGroup
	running.Go(func() { run(ctx, reload) })
	return func() {
		signal.Stop(reload)
		cancel()
		running.Wait()
	}
}

// inForce says what calls are judged by.
func inForce(k *rules.Keeper) func() api.RulesInForce {
	return func() api.RulesInForce {
		s := k.Status()
		out := api.RulesInForce{Digest: s.Digest, Problem: s.Problem}
		if b := s.Policy; b != nil {
			out.PolicyVersion, out.PolicyDigest, out.PolicySigned, out.PolicyExpiresAt = b.Version, b.Digest, b.Signed, &b.ExpiresAt
		}
		if s.Contracts != nil {
			out.ContractsDigest = s.Contracts.Digest()
		}
		return out
	}
}
