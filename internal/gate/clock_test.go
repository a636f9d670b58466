package gate_test

import (
	"context"
	"testing"
	"time"

	"holdpoint/engine/policy"
	"holdpoint/engine/token"
	"holdpoint/internal/gate"
	"holdpoint/internal/store/storetest"
)

// endingAt is a policy that has no objection to anything until it ends.
func endingAt(t *testing.T, end time.Time) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte(`{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"`+end.UTC().Format(time.RFC3339)+`","rules":[],"defaults":{"outcome":"ALLOW"}}`), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	return b
}

// However far a process's clock is from the database's, in either direction: tokens
// are timed, spent and refused, and calls judged, by the database's.
func TestOnlyTheDatabasesClockCounts(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			db := storetest.New(t)
			db.Ahead(ahead)
			h := harnessOn(t, db, routing(24*time.Hour, 1))
			config := h.config
			config.Store = db.Runtime()
			other, err := gate.New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			began, err := h.Store.Now(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if off := time.Until(began) - ahead; off.Abs() > ahead.Abs()/2 {
				t.Fatalf("the database's clock is %s off", off)
			}

			a := h.open(deferred)
			if err := h.vote("ada", a, true); err != nil {
				t.Fatal(err)
			}
			h.settle(a.ID)
			raw := h.get(a.ID).Token
			claims, _, err := token.Open(config.Ring, raw, config.Issuer, "test")
			if err != nil {
				t.Fatal(err)
			}
			ended, err := h.Store.Now(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if claims.IssuedAt < began.Unix() || claims.IssuedAt > ended.Unix() || claims.NotBefore != claims.IssuedAt || claims.Expires != claims.IssuedAt+600 {
				t.Errorf("the token is good from %d, %d to %d, the database's clock was at %d to %d", claims.IssuedAt, claims.NotBefore, claims.Expires, began.Unix(), ended.Unix())
			}
			// What is an hour from the database's now is no time at which this token is good.
			for name, shift := range map[string]int64{"expired": -3600, "not yet": 3600} {
				c := claims
				c.IssuedAt, c.NotBefore, c.Expires = c.IssuedAt+shift, c.NotBefore+shift, c.Expires+shift
				shifted, err := token.Sign(config.Ring, c)
				if err != nil {
					t.Fatal(err)
				}
				if got := code(h.redeem(h.agent, shifted, "pay", args)); got != "token_expired" {
					t.Errorf("%s: %s", name, got)
				}
			}
			if _, err := other.Redeem(ctx, h.agent, gate.RedeemRequest{Token: raw, Tool: "pay", Arguments: parse(t, args)}, nil); err != nil {
				t.Errorf("the other gate does not take it: %v", err)
			}

			for _, g := range []*gate.Gate{h.Gate, other} {
				if off := g.Store.Clock().Sub(ended); off.Abs() > time.Minute {
					t.Errorf("the gate thinks that the database's clock is %s elsewhere", off)
				}
				for _, of := range []struct {
					end  time.Duration
					want string
				}{{-ahead.Abs() / 2, "refuse"}, {ahead.Abs() / 2, "accept"}} {
					rules := h.rules
					rules.Policy = endingAt(t, ended.Add(of.end))
					h.judgeBy(rules)
					checked, err := g.PreToolCheck(ctx, h.agent, parse(t, harmless), gate.Request{}, nil)
					if err != nil || checked.Route.String() != of.want {
						t.Errorf("a policy that ends %s from now: %v, %v", of.end, checked.Route, err)
					}
				}
			}
		})
	}
}
