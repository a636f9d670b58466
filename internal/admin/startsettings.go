package admin

import (
	"bytes"
	"context"
	"crypto/hmac"
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
	set     []string // names of those that are not as they are where nobody says anything
	sealer  *seal.Sealer
}

// NewStart is the start of a program with these settings; defaults are those of whoever says nothing.
func NewStart(program, version string, sealer *seal.Sealer, settings, defaults map[string][]byte) Start {
	s := Start{Program: program, Version: version, sealer: sealer, hashes: make(map[string]string, len(settings))}
	for name, value := range settings {
		s.hashes[name] = hex.EncodeToString(sealer.Row("setting", name, string(value)))
		if !bytes.Equal(value, defaults[name]) {
			s.set = append(s.set, name)
		}
	}
	slices.Sort(s.set)
	s.hashes[store.StartProof] = s.proof(s.hashes)
	return s
}

// proof is a keyed hash over what is kept of a start: whoever writes to the table without the key can put back what
// once was there, and take nothing out of it.
func (s Start) proof(hashes map[string]string) string {
	return hex.EncodeToString(s.sealer.Row(append([]string{"start", s.Program}, listed(hashes)...)...))
}

func (s Start) proves(hashes map[string]string) bool {
	return hmac.Equal([]byte(hashes[store.StartProof]), []byte(s.proof(hashes)))
}

// listed are the settings with their hashes, by their names.
func listed(hashes map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		if name != store.StartProof {
			list = append(list, name, hashes[name])
		}
	}
	return list
}

// Differing are the names of the settings that have another value than when the program was last started.
func (s Start) Differing(last map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.hashes)) {
		if was, known := last[name]; known && name != store.StartProof && was != s.hashes[name] {
			names = append(names, name)
		}
	}
	return names
}

// Settings is the short form of all settings together: processes that have the same ones have it,
// and nobody can tell from it what they are.
func (s Start) Settings() string { return s.of(s.hashes) }

func (s Start) of(hashes map[string]string) string {
	return hex.EncodeToString(s.sealer.Row(append([]string{"settings"}, listed(hashes)...)...)[:8])
}

// Record has an event say so where the program was last started with other settings, or where no start
// of it is on record: which ones, and nothing of what they are. Of several that are started with the same,
// one records it.
func (s Start) Record(ctx context.Context, to store.Starts) error {
	return to.Started(ctx, s.Program, s.hashes, s.set, s.proves, func(c store.StartChange) (engine.Event, error) {
		by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: s.Program, Channel: "engine"}}
		if c.First {
			e := by.Event("STARTED_FIRST", "A program was started, the first time that its settings are on record.", "", "")
			err := e.SetPayload(map[string]any{"program": s.Program, "version": s.Version, "set": s.set, "settings": s.Settings()})
			return e, err
		}
		message := "A program was started with other settings than the last time."
		if c.Unproved {
			message = "A program was started, and what is kept of the last time was not written by this version of it, or was changed since."
		}
		e := by.Event("STARTED_OTHERWISE", message, "", "")
		says := map[string]any{"program": s.Program, "version": s.Version, "changed": append([]string{}, c.Changed...), "settings": s.Settings(), "former": s.of(c.Former)}
		if len(c.New) > 0 {
			says["new"] = c.New
		}
		if c.Unproved {
			says["unproved"] = true
		}
		err := e.SetPayload(says)
		return e, err
	})
}
