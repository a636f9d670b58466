package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	for _, path := range []string{cfg.DataKeyFile, cfg.SigningKeysFile, cfg.LogKeyFile, cfg.PolicySecretFile, cfg.PushKeyFile} {
		if path == "" {
			continue
		}
		mode, all, err := openToAll(path)
		if err == nil && all {
			d.warn("permissions of "+path, fmt.Sprintf("everybody on this machine may open it (%s)", mode),
				"Give it to the user that serve and worker run as, and take it from others then (chmod 600); or put it into a directory that others may not enter.")
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.say("permissions of "+path, err, "")
		}
	}
}

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

// openToAll says whether everybody on this machine may open a file: by its mode, and by
// those of the directories that lead to it.
func openToAll(path string) (mode fs.FileMode, all bool, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return 0, false, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return 0, false, err
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return 0, false, err
	}
	mode = info.Mode().Perm()
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if info, err = os.Stat(path); err != nil || info.Mode().Perm()&0o001 == 0 {
			return mode, false, err
		}
	}
	return mode, true, nil
}
