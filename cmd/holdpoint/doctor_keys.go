package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/kms"
	"holdpoint/internal/store"
)

// keys looks at the keys of the installation: which of them are in use, and who can
// read their files.
func (d *checkup) keys(ctx context.Context, s *store.Store, cfg config.Config) {
	list, err := gate.TokenKeyStates(ctx, s, cfg.Ring, time.Duration(cfg.SigningKeyDelay))
	what := "signing keys"
	good := err != nil
	for _, key := range list {
		good = good || key.Own && !key.Revoked
		switch {
		case key.Signs:
			what = fmt.Sprintf("signing keys: %s signs, published %s ago", key.ID, key.For.Round(time.Second))
		case key.Own && key.PublishedAt.IsZero() && !key.Revoked:
			d.warn("signing key "+key.ID, "it is in the file and not published", "A running serve publishes it within seconds. Does it read this file?")
		}
	}
	if !good {
		err = errors.New("every key of the file is revoked")
	}
	d.say(what, err, "holdpoint keys new --for tokens FILE makes one; docs/keys.md has all steps.")
	known, err := s.DataKeys.List(ctx)
	d.say(fmt.Sprintf("data key: %s seals, of %d in use", cfg.Sealer.Keys().IDs()[0], len(cfg.Sealer.Keys().IDs())), err, "")
	for _, k := range known {
		if i := slices.Index(cfg.Sealer.Keys().IDs(), k.ID); i > 0 && !k.Empty() {
			d.warn("data key "+k.ID, fmt.Sprintf("it is there since %s and does not seal any more", k.CreatedAt.UTC().Format(time.DateOnly)), "holdpoint keys reseal, then holdpoint keys retire FILE, finish the change of keys.")
		}
	}
}

// apiKeys looks for API keys that are in use and expire soon: nothing else says so before whoever
// signs in with one is turned away.
func (d *checkup) apiKeys(ctx context.Context, s *store.Store) {
	list, err := s.Keys.List(ctx, mostKeys)
	if err != nil {
		d.say("API keys", err, "")
		return
	}
	var first store.Key
	n, now := 0, time.Now()
	for _, k := range list {
		if k.LastUsedAt == nil || now.Sub(*k.LastUsedAt) > store.KeyExpiresSoon || !k.ExpiresSoon(now) {
			continue
		}
		if n++; n == 1 || k.ExpiresAt.Before(*first.ExpiresAt) {
			first = k
		}
	}
	if n > 0 {
		d.warn("API keys that are in use and expire soon", fmt.Sprintf("%d, first %s of %s, at %s", n, first.ID, cmp.Or(first.AgentID, first.PersonName, first.Label, "nobody in particular"), first.ExpiresAt.UTC().Format(time.RFC3339)),
			"From then on it is refused. Make another one with “holdpoint key create” before, and bring it to whoever uses it; “holdpoint key list” has all.")
	}
}

// exposed looks at who else may open the files of secrets.
func (d *checkup) exposed(files []config.SecretFile) {
	looked := map[string]bool{}
	for _, f := range files {
		if looked[f.Path] {
			continue
		}
		looked[f.Path] = true
		what := "permissions of " + f.Path
		switch e, err := config.Exposed(f.Path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			d.say(what, err, "")
		case e.Written: // the configuration says so
		case e.Read:
			d.warn(what, fmt.Sprintf("everybody on this machine may open it (%s)", e.Mode), closeIt)
		}
	}
}

const closeIt = "Give it to the user that serve and worker run as, and take it from others then (chmod 600); or put it into a directory that others may not enter."

// wrapped looks at the KMS, and which files of secrets its key has wrapped.
func (d *checkup) wrapped(ctx context.Context, cfg config.Config, files []config.SecretFile) {
	if cfg.KMS == "" {
		return
	}
	now := ""
	service, err := kms.Open(cfg.KMS)
	if err == nil {
		now, err = service.KeyID(ctx)
	}
	if !d.say("KMS at "+cfg.KMS, err, "Is its plugin running, and may this user open the socket? What runs goes on with the keys that it has; nothing starts.") {
		return
	}
	for _, f := range files {
		what := fmt.Sprintf("%s in %s", f.Setting, f.Path)
		text, err := os.ReadFile(f.Path)
		if err != nil {
			continue // the configuration says so
		}
		if !kms.IsWrapped(string(text)) {
			d.warn(what, "it is in clear", "holdpoint keys wrap wraps it.")
			continue
		}
		switch w, err := kms.Parse(string(text)); {
		case err != nil:
			continue
		case w.KeyID != now:
			d.warn(what, "it is wrapped with "+w.KeyID+", and "+now+" wraps now", "holdpoint keys wrap takes it over. Keep the former key for as long as backups of such files.")
		default:
			d.say(what+": wrapped with "+now, nil, "")
		}
	}
}

// starts compares the settings here with those that serve and worker were last started with.
func (d *checkup) starts(ctx context.Context, c *cli, s *store.Store) {
	for _, p := range []struct {
		program string
		need    config.Need
	}{{"serve", serveNeeds}, {"worker", workerNeeds}} {
		cfg, err := c.load(p.need)
		if err != nil {
			continue // its settings are not here
		}
		if p.program == "worker" {
			cfg = withoutFiles(cfg)
		}
		what := "settings of " + p.program
		last, since, err := s.Starts.Last(ctx, p.program)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		start, of := startOf(cfg, p.program)
		if err = errors.Join(err, of); err != nil {
			d.say(what, err, "")
			continue
		}
		at := since.UTC().Format(time.RFC3339)
		if differing := start.Differing(last); len(differing) > 0 {
			d.warn(what, fmt.Sprintf("since %s it is started with others than these: %s", at, strings.Join(differing, ", ")),
				"A start with these is on record then (STARTED_OTHERWISE). If they are not to be others: is this the file, and are these the variables, that it is started with?")
			continue
		}
		d.say(what+": those that it is started with since "+at, nil, "")
	}
}
