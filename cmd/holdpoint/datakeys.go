package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// dataKeysEvery is how often a process says which data key it seals with, and looks at
// their file.
const dataKeysEvery = 15 * time.Second

// followDataKeys says which data key this process, serve or worker, seals with, and takes
// those of a file that has changed, as followRules does with the rules.
func followDataKeys(ctx context.Context, cfg config.Config, s *store.Store, name string, log *slog.Logger) (stop func(), err error) {
	keep := func(ctx context.Context, id string) error {
		return s.DataKeys.Keep(ctx, id, admin.DataKeyAdded(id, engine.Actor{Kind: engine.ServiceActor, ID: name, Channel: "engine"}))
	}
	if err := keep(ctx, s.DataKeys.Seals()); err != nil {
		return nil, err
	}
	taking := dataKeysTaking{read: cfg.DataKeysReader(), take: func(ctx context.Context, keys *seal.Keys) error {
		// Said before it seals: nobody starts without the key from then on.
		err := cfg.Sealer.Fits(keys)
		if err == nil {
			err = s.DataKeys.Check(ctx, keys)
		}
		if err == nil {
			err = keep(ctx, keys.IDs()[0])
		}
		if err == nil {
			err = cfg.Sealer.Use(keys)
		}
		if err == nil {
			log.Info("the data keys were read again", "seals", keys.IDs()[0], "all", keys.IDs())
		}
		return err
	}}
	return following(ctx, func(ctx context.Context, reload <-chan os.Signal) {
		// By itself: taking a file may count everything that is sealed.
		var noting sync.WaitGroup
		noting.Go(func() {
			noteDataKey(ctx, func() {
				if err := keep(ctx, s.DataKeys.Seals()); err != nil && ctx.Err() == nil {
					log.Warn("the data key's use cannot be noted", "error", err)
				}
			})
		})
		defer noting.Wait()
		tick := time.NewTicker(dataKeysEvery)
		defer tick.Stop()
		var said error // of the last look; what was said once is not said again
		for {
			asked := false
			select {
			case <-ctx.Done():
				return
			case <-reload:
				asked = true
			case <-tick.C:
			}
			err := taking.look(ctx, asked)
			if err != nil && ctx.Err() == nil && (asked || said == nil || said.Error() != err.Error()) {
				log.Error("the data keys stay as they are", "error", err)
			}
			said = err
		}
	}), nil
}

// dataKeysTaking takes data keys that are new.
type dataKeysTaking struct {
	read    func() (*seal.Keys, error) // nil for what it has read before
	take    func(context.Context, *seal.Keys) error
	next    *seal.Keys // read and not taken yet
	refused error      // why next was not taken
}

// look takes what is new. What was refused is looked at again when somebody asks for it,
// or when the database could not be asked: it may count everything that is sealed.
func (t *dataKeysTaking) look(ctx context.Context, asked bool) error {
	fresh, err := t.read()
	if err != nil {
		return err
	}
	if fresh != nil {
		t.next, t.refused = fresh, nil
	}
	if t.next == nil {
		return nil
	}
	if t.refused == nil || asked || access.IsUnavailable(t.refused) {
		if t.refused = t.take(ctx, t.next); t.refused == nil {
			t.next = nil
		}
	}
	return t.refused
}

// noteDataKey notes again and again, until ctx ends, which data key this process seals with.
func noteDataKey(ctx context.Context, note func()) {
	tick := time.NewTicker(dataKeysEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			note()
		}
	}
}

// sealing opens the database for a command that seals, and notes that it does for as long
// as ctx lasts. The file of the machine that it runs on may be older than those of serve
// and worker: a data key that was retired is refused.
func (w operatorFlags) sealing(ctx context.Context, cfg store.Config) (*store.Store, error) {
	s, err := openSchema(ctx, cfg)
	if err != nil {
		return nil, err
	}
	by, err := w.named(ctx, s)
	if err != nil {
		s.Close()
		return nil, err
	}
	id := s.DataKeys.Seals()
	use := func() error {
		return s.DataKeys.Use(ctx, id, admin.DataKeyAdded(id, by.Actor))
	}
	if err = use(); err != nil {
		s.Close()
		if errors.Is(err, store.ErrRetired) {
			err = fmt.Errorf("data_key: %w: bring the file of serve and worker to this machine; if that is it, have them read it first (docs/keys.md)", err)
		}
		return nil, err
	}
	go noteDataKey(ctx, func() { _ = use() }) // what is sealed fails, too, without Postgres
	return s, nil
}
