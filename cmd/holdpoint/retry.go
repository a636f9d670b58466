package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	sdk "go.temporal.io/sdk/worker"

	"holdpoint/internal/config"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

// How long is waited between two attempts, and how often is said that it is waited.
const (
	firstPause    = 100 * time.Millisecond
	longestPause  = 2 * time.Second
	waitSaidEvery = time.Minute
)

// waitFor tries until there is no error, as long as later tells that a later attempt
// may succeed. say says that it is waited, since when, and why: once at the beginning,
// then now and then. The error is the last attempt's, or ctx's once that has ended.
func waitFor(ctx context.Context, try func() error, later func(error) bool, say func(waited time.Duration, err error)) error {
	began, pause := time.Now(), firstPause
	for next := time.Duration(0); ; {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !later(err) {
			return err
		}
		if waited := time.Since(began); waited >= next {
			say(waited.Round(time.Second), err)
			next = waited + waitSaidEvery
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// openOnce opens the database and what is in force there, and closes it again when
// check finds it wrong.
func openOnce(ctx context.Context, cfg config.Config, of store.Config, by string, check func(*store.Store) error) (*store.Store, *rules.Keeper, error) {
	s, err := openStore(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	var keeper *rules.Keeper
	if err = allowedRetention(ctx, s, cfg); err == nil {
		err = check(s)
	}
	if err == nil {
		keeper, err = openRules(ctx, cfg, s, of.Logger, by)
	}
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, keeper, nil
}

// open is openOnce for a Postgres that may have yet to come. What waiting does not
// mend, such as a wrong password or a missing schema, is an error at once; so is the
// end of ctx.
func open(ctx context.Context, cfg config.Config, of store.Config, by string, check func(*store.Store) error) (s *store.Store, keeper *rules.Keeper, err error) {
	began, waited := time.Now(), false
	err = waitFor(ctx, func() (err error) {
		s, keeper, err = openOnce(ctx, cfg, of, by, check)
		return err
	}, func(err error) bool { return errors.Is(err, store.ErrAway) }, func(since time.Duration, err error) {
		waited = true
		of.Logger.Warn("waiting for Postgres", "waited", since.String(), "error", err)
	})
	if err == nil && waited {
		of.Logger.Info("Postgres is there", "waited", time.Since(began).Round(time.Second).String())
	}
	return s, keeper, err
}

// startPolling starts a worker, however long Temporal and its namespace take to come:
// nil when ctx ended first. create makes one for each attempt, because a worker that has
// failed to start gives the same error again whatever has come meanwhile.
func startPolling(ctx context.Context, create func() sdk.Worker, cause func(error) error, log *slog.Logger) (w sdk.Worker) {
	err := waitFor(ctx, func() error {
		w = create()
		return cause(w.Start())
	}, func(error) bool { return true }, func(waited time.Duration, err error) {
		log.Warn("waiting for Temporal", "waited", waited.String(), "error", err)
	})
	if err != nil {
		return nil
	}
	return w
}
