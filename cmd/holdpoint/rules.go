package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"holdpoint/activities"
	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/config"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

// openRules imports the files that the configuration names and reads what is in
// force.
func openRules(ctx context.Context, cfg config.Config, s *store.Store, log *slog.Logger, by string) (*rules.Keeper, error) {
	return rules.Open(ctx, rules.Config{
		Store: s, Environment: cfg.Environment, Routing: cfg.Routing, PolicyFile: cfg.PolicyFile, ContractsFile: cfg.ContractsFile,
		Secret: []byte(cfg.PolicySecret), Logger: log, By: by,
	})
}

// followRules follows every change of the rules until the returned function is
// called. SIGHUP makes it look at the files again.
func followRules(ctx context.Context, k *rules.Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx, reload) })
	return func() {
		signal.Stop(reload)
		cancel()
		running.Wait()
	}
}

// current judges again by the rules of the moment at which it is asked.
type current struct{ keeper *rules.Keeper }

func (c current) Again(a approval.Approval, document []byte, now time.Time) (engine.Decision, error) {
	if err := c.keeper.Usable(context.Background()); err != nil {
		return engine.Decision{}, fmt.Errorf("%w: %w", activities.ErrLater, err)
	}
	return c.keeper.Judge().Again(a, document, now)
}

func (c current) Reopen(a approval.Approval, d engine.Decision) (engine.Decision, approval.Terms) {
	return c.keeper.Judge().Reopen(a, d)
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
