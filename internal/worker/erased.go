package worker

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/store"
)

// Erased keeps a list of what was erased on request outside Postgres, and erases again
// what is on it and was brought back by an older copy of the database: at once, or when
// nothing keeps it any more. Any number may run.
type Erased struct {
	Store  *store.Store
	File   floor.Erased
	Logger *slog.Logger

	said    string    // the last trouble
	triedAt time.Time // when it last erased again
}

// erasedEvery is the pause between two looks. It is that of the floor's watch: what was erased
// is on the list as soon as a checkpoint is in its file.
const erasedEvery = 3 * time.Second

// eraseAgainEvery is how soon it tries again to erase what something keeps at the moment.
const eraseAgainEvery = time.Minute

// Run looks until ctx ends.
func (r *Erased) Run(ctx context.Context) {
	for {
		err := r.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.said = ""
		case r.said != err.Error():
			r.said = err.Error()
			r.Logger.WarnContext(ctx, "the list of what was erased cannot be kept outside the database; trying again", "error", err)
		}
		if !pause(ctx, erasedEvery) {
			return
		}
	}
}

// Look makes the list and the database alike.
func (r *Erased) Look(ctx context.Context) error {
	listed, err := r.File.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	asked, err := r.Store.Retention.AskedErasures(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(listed))
	for _, id := range listed {
		known[id] = true
	}
	var fresh []string
	for _, id := range asked {
		if !known[id] {
			fresh = append(fresh, id)
		}
	}
	if err := r.File.Add(fresh); err != nil {
		return err
	}
	if len(listed) <= len(asked)-len(fresh) || time.Since(r.triedAt) < eraseAgainEvery {
		return nil // all that is listed is erased, or was looked at just now
	}
	r.triedAt = time.Now()
	done, _, err := admin.EraseAgain(ctx, r.Store, admin.ByRetention(), listed)
	for _, e := range done {
		r.Logger.InfoContext(ctx, "erased again what an older copy of the database had brought back", "subject", e.Subject)
	}
	return err
}
