package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/config"
	"holdpoint/internal/outbound"
	"holdpoint/internal/store"
	"holdpoint/internal/witness"
)

// floors are where the settings have the log's checkpoints kept.
func floors(cfg config.Config, log *slog.Logger) []auditlog.Floor {
	var kept []auditlog.Floor
	if cfg.LogFloorFile != "" {
		kept = append(kept, floor.File{Path: cfg.LogFloorFile})
	}
	if cfg.LogFloorWebhook != "" {
		kept = append(kept, &floor.Webhook{
			URL: cfg.LogFloorWebhook, Client: outbound.New(outbound.Config{AllowPrivate: cfg.AllowPrivate, AllowHTTP: len(cfg.AllowPrivate) > 0, Timeout: 5 * time.Second}),
			Failed: func(err error) {
				log.Warn("a checkpoint did not reach the webhook; trying again until it does", "error", err)
			},
		})
	}
	return kept
}

// newSequencer makes what gives events their places, and refuses a database whose
// log is behind what is kept of it.
func newSequencer(ctx context.Context, cfg config.Config, s *store.Store, log *slog.Logger) (*auditlog.Sequencer, error) {
	q := &auditlog.Sequencer{Store: s, Keys: cfg.LogKeys, Floors: floors(cfg, log), Logger: log}
	return q, behind(cfg, q.Check(ctx))
}

// newWitnessing makes what has witnesses sign the log; nil for no witnesses.
func newWitnessing(cfg config.Config, s *store.Store, log *slog.Logger) *auditlog.Witnessing {
	if len(cfg.LogWitnesses) == 0 {
		return nil
	}
	client := outbound.New(outbound.Config{AllowPrivate: cfg.AllowPrivate, AllowHTTP: len(cfg.AllowPrivate) > 0, Timeout: 10 * time.Second})
	w := &auditlog.Witnessing{Store: s, Logger: log}
	for _, one := range cfg.LogWitnesses {
		w.Witnesses = append(w.Witnesses, &witness.Client{URL: one.URL, Verifier: one.Verifier, HTTP: client})
	}
	return w
}

// behind says what to do about a database that is behind its log's floor, or
// about a floor that cannot be read.
func behind(cfg config.Config, err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	if !errors.Is(err, auditlog.ErrBehind) {
		return fmt.Errorf("%w.\nNothing was started, and nothing was changed. Find out what has happened to %s before you move it away: "+
			"it is what shows that the database was rewritten, or restored from an older copy", err, cfg.LogFloorFile)
	}
	return fmt.Errorf("%w.\nNothing was started, and nothing was changed. Restore the newest copy of the database and keep this one for whoever investigates.\n"+
		"If the events are lost for good, say so where it will be found, then move %s away: the log goes on from what the database has, and every older checkpoint will show the break", err, cfg.LogFloorFile)
}

// checkFloor refuses a database whose log is behind the floor, for a process that
// has not the log's key.
func checkFloor(ctx context.Context, cfg config.Config, s *store.Store) error {
	if cfg.LogFloorFile == "" {
		return nil
	}
	return behind(cfg, auditlog.CheckFloor(ctx, s, floor.File{Path: cfg.LogFloorFile}))
}

// kept reads the checkpoint that the floor's file keeps; nil without such a file.
func kept(cfg config.Config) func(context.Context) ([]byte, error) {
	if cfg.LogFloorFile == "" {
		return nil
	}
	return floor.File{Path: cfg.LogFloorFile}.Load
}

// publicKeysOfLog are the log's public keys, one a line, as far as this process
// knows them: it is told, or has the private ones.
func publicKeysOfLog(cfg config.Config) []string {
	text := cfg.LogPublicKey
	if text == "" {
		text = publicLogKeys(cfg.LogKeys)
	}
	var keys []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys
}
