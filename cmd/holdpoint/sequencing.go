package main

import (
	"context"
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
	return q, auditlog.RefuseStart(q.Check(ctx), cfg.LogFloorFile)
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

// checkFloor refuses a database whose log is behind the floor, for a process that
// has not the log's key.
func checkFloor(ctx context.Context, cfg config.Config, s *store.Store) error {
	if cfg.LogFloorFile == "" {
		return nil
	}
	return auditlog.RefuseStart(auditlog.CheckFloor(ctx, s, floor.File{Path: cfg.LogFloorFile}), cfg.LogFloorFile)
}

// floorReader reads the checkpoint that the floor's file keeps; nil without such a file.
func floorReader(cfg config.Config) func(context.Context) ([]byte, error) {
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
	return keysOf(text)
}

// keysOf are public keys as a file has them, one a line.
func keysOf(text string) []string {
	var keys []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys
}
