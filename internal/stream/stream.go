package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"holdpoint/internal/store"
)

// Receiver is the other side of a stream.
type Receiver interface {
	// Send hands over messages in their order. It returns how many of them, from the
	// first, the other side has taken; with fewer than all of them also why. What it
	// does not count may have arrived all the same. Its errors hold nothing that the
	// other side wrote, and no secret.
	Send(ctx context.Context, messages []Message) (taken int, err error)
}

// Receiver makes the other side of a stream whose configuration Check takes.
func (c Config) Receiver(private []netip.Prefix, hostname string) (Receiver, error) {
	if c.Kind == WebhookKind {
		return NewWebhook(c, private)
	}
	return NewSyslog(c, private, hostname)
}

// Stream sends the log to one receiver.
type Stream struct {
	Config   Config
	Store    *store.Store
	Receiver Receiver
	// Encode writes events in the configuration's format. Nil sends their documents.
	Encode Encoder
	Logger *slog.Logger
	// Pause is the shortest one after a failure, 1 s when 0. Each further failure
	// doubles it, up to 64 times.
	Pause time.Duration

	failures int
	logged   string // the failure that was logged last
	loggedAt time.Time
}

const (
	// windowSize bounds the bodies of a window, in bytes; one more may exceed it.
	windowSize = 1 << 20
	// lookAgain is how soon a follower tries to lead, and a leader looks at a log
	// that nobody has told it about.
	lookAgain = 2 * time.Second
	logEvery  = time.Minute
)

// Run streams until ctx ends, while no other process streams under this name.
func (s *Stream) Run(ctx context.Context) {
	changed := s.Store.Log.Changes(ctx)
	for ctx.Err() == nil {
		wait := lookAgain
		_, err := s.Store.Streams.Lead(ctx, s.Config.Name, func(ctx context.Context, l *store.StreamLeader) error { return s.lead(ctx, l, changed) })
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = s.failed(err)
		}
		pause(ctx, wait)
	}
}

// failed says so, once for an outage, and says how long to wait. Meanwhile this
// process does not lead: where the receiver is out of its reach alone, another
// one may reach it.
func (s *Stream) failed(err error) time.Duration {
	if err.Error() != s.logged {
		s.Logger.Warn("events are not taken by a receiver; trying again until they are", "stream", s.Config.Name, "error", err)
	}
	s.logged = err.Error()
	wait := cmp.Or(s.Pause, time.Second) << min(s.failures, 6)
	s.failures++
	var later *Later
	if errors.As(err, &later) {
		wait = max(wait, later.After)
	}
	return wait
}

// lead streams for as long as this process has the lead and the receiver takes
// what it is sent.
func (s *Stream) lead(ctx context.Context, l *store.StreamLeader, changed <-chan struct{}) error {
	for {
		began := time.Now()
		behind, err := s.window(ctx, l)
		switch {
		case errors.Is(err, store.ErrMoved):
			s.Logger.Info("a stream's position was set by somebody else; going on from there", "stream", s.Config.Name)
			continue
		case err != nil:
			return err
		case behind > 0:
			continue
		}
		pause(ctx, s.Config.every()-time.Since(began))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(lookAgain):
		}
	}
}

// window sends what comes next, and returns how many events are behind it.
func (s *Stream) window(ctx context.Context, l *store.StreamLeader) (behind int64, err error) {
	at, err := l.Position(ctx, s.Config.from() == FromBeginning)
	if err != nil {
		return 0, err
	}
	if at.Leaf > at.Size {
		return 0, s.saveError(ctx, l, fmt.Errorf("the position %d is behind the end of the log, which has %d events: somebody has set it", at.Leaf, at.Size))
	}
	records, upTo, err := l.Next(ctx, at.Leaf, store.StreamWanted{Types: s.Config.Types, Outcomes: s.Config.Outcomes}, s.Config.batch(), windowSize)
	if err != nil {
		return 0, err
	}
	if upTo == at.Leaf {
		return 0, nil
	}
	messages := make([]Message, 0, len(records))
	for _, r := range records {
		if r.ID == "" {
			continue // its event is gone, and its place is all that is left of it
		}
		m, err := newMessage(r, s.Encode, s.Config.maxEvent())
		if err != nil {
			return 0, s.saveError(ctx, l, err)
		}
		messages = append(messages, m)
	}
	if len(messages) > 0 {
		taken, err := s.Receiver.Send(ctx, messages)
		if err != nil {
			if taken > 0 {
				// A seq is the place after its own.
				if err := l.Taken(context.WithoutCancel(ctx), at.Leaf, messages[taken-1].Seq); err != nil {
					return 0, err
				}
			}
			return 0, s.saveError(ctx, l, err)
		}
	}
	// It was taken, whatever ends now.
	if err := l.Taken(context.WithoutCancel(ctx), at.Leaf, upTo); err != nil {
		return 0, err
	}
	behind = at.Size - upTo
	s.logProgress(behind, upTo)
	return behind, nil
}

// saveError keeps why a window was not taken, for "holdpoint doctor".
func (s *Stream) saveError(ctx context.Context, l *store.StreamLeader, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(cause, l.Failed(ctx, cause))
}

// logProgress logs how far the stream is behind: when it goes on after a failure, and now
// and then while it has not caught up.
func (s *Stream) logProgress(behind, leaf int64) {
	recovered := s.logged != ""
	if recovered || behind > 0 && time.Since(s.loggedAt) > logEvery {
		s.loggedAt = time.Now()
		s.Logger.Info("events are taken by a receiver", "stream", s.Config.Name, "seq", leaf, "behind", behind)
	}
	s.failures, s.logged = 0, ""
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
