package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"

	"holdpoint/internal/config"
	"holdpoint/internal/store"
	"holdpoint/internal/stream"
)

// newStreams makes what sends the audit log to the receivers of the settings.
func newStreams(cfg config.Config, s *store.Store, log *slog.Logger) ([]*stream.Stream, error) {
	var streams []*stream.Stream
	for i, c := range cfg.LogStreams {
		encode, err := c.Encoder()
		if err != nil {
			return nil, fmt.Errorf("log_streams[%d].%w", i, err)
		}
		receiver, err := c.Receiver(cfg.AllowPrivate, sender(cfg))
		if err != nil {
			return nil, fmt.Errorf("log_streams[%d].%w", i, err)
		}
		streams = append(streams, &stream.Stream{Config: c, Store: s, Receiver: receiver, Encode: encode, Logger: log})
	}
	return streams, nil
}

// runStreams sends the log until ctx ends.
func runStreams(ctx context.Context, streams []*stream.Stream) {
	var running sync.WaitGroup
	for _, s := range streams {
		running.Go(func() { s.Run(ctx) })
	}
	running.Wait()
}

// sender is who messages say they come from: the installation, whichever worker
// sends them, so that a message is the same when another one sends it again.
func sender(cfg config.Config) string {
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// streams says how far each receiver of the audit log is behind.
func (d *checkup) streams(ctx context.Context, s *store.Store, cfg config.Config) {
	if len(cfg.LogStreams) == 0 {
		return
	}
	list, err := s.Streams.Positions(ctx)
	if err != nil {
		d.say("log streams", err, "")
		return
	}
	positions := map[string]store.StreamPosition{}
	for _, p := range list {
		positions[p.Name] = p
	}
	for _, c := range cfg.LogStreams {
		what, err := stream.Progress(c.Name, positions)
		d.say(what, err, "Is a worker running, and does it reach the receiver? docs/siem.md says what counts as taken.")
	}
}
