// Package auditlog is the audit log that proves itself, from the sequencer that
// gives events their places to the proofs and searches that people ask for. The
// format is engine/audit's. It never changes an event, and decides nothing.
package auditlog

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"holdpoint/internal/store"
)

// Config is what a Log is made of. Store is required.
type Config struct {
	Store *store.Store
	// Witnessed is how many witnesses have to have signed the checkpoint that is
	// served to everybody.
	Witnessed int
	// Wait is how long a read waits for events that have no place yet: 1.5 s.
	Wait   time.Duration
	Logger *slog.Logger
}

// Log reads the audit log, searches it and proves what is in it. It is safe for
// concurrent use.
type Log struct {
	Config
	stalled atomic.Int64 // when the log was last found to stand still, in ns; 0 for never
	// tiles are those that proofs have needed; readers and bundlers hold whoever
	// reads the public log.
	tiles             *tileCache
	readers, bundlers chan struct{}
}

// New returns a log over a store.
func New(cfg Config) *Log {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Wait = cmp.Or(cfg.Wait, placedWithin)
	return &Log{
		Config: cfg, tiles: newTileCache(keptTiles),
		readers: make(chan struct{}, logReaders), bundlers: make(chan struct{}, logBundlers),
	}
}

// EventFilter selects events of the log.
type EventFilter = store.EventFilter
