package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/registry"
)

type settingsCommand struct {
	approvable
	rates
	MaxDelegation *int     `help:"Longest delegation chain." placeholder:"N"`
	MinTrust      *string  `help:"The lowest trust level of agents whose calls are judged at all." placeholder:"LEVEL"`
	OnlyTools     *bool    `help:"Refuse tools that are not registered." negatable:"" name:"only-registered-tools"`
	AnyMCP        *bool    `help:"Let calls of MCP tools through that nobody has verified." negatable:"" name:"allow-unverified-mcp"`
	Issuer        []string `help:"Believe attestations of this issuer: NAME=KEY, an Ed25519 public key in base64. NAME= drops it." placeholder:"NAME=KEY"`
}

// Help is shown by "holdpoint settings --help".
func (settingsCommand) Help() string {
	return `Shows the settings for all agents, or changes what is given.

Examples:
  holdpoint settings
  holdpoint settings --calls 600 --per 1m --max-delegation 3
  holdpoint settings --issuer idp.example.com=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=`
}

func (s *settingsCommand) Run(ctx context.Context, c *cli) error {
	as := s.administration
	if s.rates == (rates{}) && s.MaxDelegation == nil && s.MinTrust == nil && s.OnlyTools == nil && s.AnyMCP == nil && len(s.Issuer) == 0 {
		as = s.withoutKey // it only looks
	}
	r, by, err := as(ctx, c)
	if err != nil {
		return err
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	settings, changed := known.Settings, s.rates != (rates{})
	settings.Limits = s.apply(settings.Limits)
	if s.MaxDelegation != nil || s.OnlyTools != nil || s.AnyMCP != nil {
		changed = true
	}
	set(&settings.MaxDelegation, s.MaxDelegation)
	set(&settings.OnlyRegisteredTools, s.OnlyTools)
	set(&settings.AllowUnverifiedMCP, s.AnyMCP)
	if s.MinTrust != nil {
		if settings.MinTrust, err = engine.ParseTrust(*s.MinTrust); err != nil {
			return fmt.Errorf("--min-trust: %w: want %s", err, strings.Join(engine.TrustLevels(), ", "))
		}
		changed = true
	}
	for _, pair := range s.Issuer {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("--issuer: want NAME=KEY, got %q", pair)
		}
		changed = true
		if text == "" {
			delete(settings.Issuers, name)
			continue
		}
		var key registry.Key
		if err := key.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("--issuer %s: %w", name, err)
		}
		if settings.Issuers == nil {
			settings.Issuers = map[string]registry.Key{}
		}
		settings.Issuers[name] = key
	}
	if changed {
		if err := r.Registry.PutSettings(ctx, by, settings, nil); err != nil {
			return plain(err)
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(settings)
}
