package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
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
		by := engine.Actor{Kind: engine.ServiceActor, ID: name, Channel: "engine"}
		return s.DataKeys.Keep(ctx, id, dataKeyEvent("DATA_KEY_ADDED", "Records are sealed with another data key.", id, by))
	}
	if err := keep(ctx, s.DataKeys.Seals()); err != nil {
		return nil, err
	}
	read := cfg.DataKeysReader()
	return following(ctx, func(ctx context.Context, reload <-chan os.Signal) {
		tick := time.NewTicker(dataKeysEvery)
		defer tick.Stop()
		var next *seal.Keys // read and not taken yet
		var failed error    // of the last look; what was said once is not said again
		for {
			asked := false
			select {
			case <-ctx.Done():
				return
			case <-reload:
				asked = true
			case <-tick.C:
			}
			fresh, err := read()
			if fresh != nil {
				next = fresh
			}
			// What was refused is looked at again when somebody says so: it may count
			// everything that is sealed.
			if err == nil && next != nil && (asked || fresh != nil || access.IsUnavailable(failed)) {
				// Said before it seals: nobody starts without the key from then on.
				if err = cfg.Sealer.Fits(next); err == nil {
					err = s.DataKeys.Check(ctx, next)
				}
				if err == nil {
					err = keep(ctx, next.IDs()[0])
				}
				if err == nil {
					err = cfg.Sealer.Use(next)
				}
				if err == nil {
					log.Info("the data keys were read again", "seals", next.IDs()[0], "all", next.IDs())
					next = nil
				}
			} else if err == nil && next != nil {
				err = failed
			}
			if err != nil && ctx.Err() == nil && (asked || failed == nil || failed.Error() != err.Error()) {
				log.Error("the data keys stay as they are", "error", err)
			}
			failed = err
			if err := keep(ctx, s.DataKeys.Seals()); err != nil && ctx.Err() == nil {
				log.Warn("the data key's use cannot be noted", "error", err)
			}
		}
	}), nil
}

// dataKeyEvent is an event about a data key.
func dataKeyEvent(code, message, id string, by engine.Actor) engine.Event {
	return engine.Event{
		ID: store.NewEventID(), Type: engine.Admin, Outcome: engine.Allow, Reasons: []engine.Reason{{Code: code, Message: message}},
		SafePayload: fmt.Appendf(nil, `{"subject":%q}`, id), Actor: by,
	}
}
