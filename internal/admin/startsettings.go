package admin

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Start is a program that starts, with its settings as keyed hashes by their names.
type Start struct {
	Program string // serve or worker
	Version string
	hashes  map[string]string
	sealer  *seal.Sealer
}

// NewStart is the start of a program with these settings.
func NewStart(program, version string, sealer *seal.Sealer, settings map[string][]byte) Start {
	s := Start{Program: program, Version: version, sealer: sealer, hashes: make(map[string]string, len(settings))}
	for name, value := range settings {
		s.hashes[name] = hex.EncodeToString(sealer.Row("setting", name, string(value)))
	}
	return s
}

// Settings is the short form of all settings together: processes that have the same ones have it,
// and nobody can tell from it what they are.
func (s Start) Settings() string { return s.of(s.hashes) }

func (s Start) of(hashes map[string]string) string {
	says := []string{"settings"}
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		says = append(says, name, hashes[name])
	}
	return hex.EncodeToString(s.sealer.Row(says...)[:8])
}

// Record has an event say so where the program was last started with other settings: which ones, and
// nothing of what they are. Of several that are started with the same, one records it.
func (s Start) Record(ctx context.Context, to store.Starts) error {
	return to.Started(ctx, s.Program, s.hashes, func(changed []string, former map[string]string) (engine.Event, error) {
		by := access.By{Actor: engine.Actor{Kind: engine.ServiceActor, ID: s.Program, Channel: "engine"}}
		e := by.Event("STARTED_OTHERWISE", "A program was started with other settings than the last time.", "", "")
		err := e.SetPayload(map[string]any{"program": s.Program, "version": s.Version, "changed": changed, "settings": s.Settings(), "former": s.of(former)})
		return e, err
	})
}
