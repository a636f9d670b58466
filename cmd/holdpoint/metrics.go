package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"

	"holdpoint/api"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/config"
	"holdpoint/internal/metrics"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

// serveMetrics serves the handler at metrics_listen, if there is one, until the function
// that it returns is called. failed is told what ends it.
func serveMetrics(ctx context.Context, cfg config.Config, handler http.Handler, log *slog.Logger, failed func(error)) (end func(), err error) {
	if cfg.MetricsListen == "" {
		return func() {}, nil
	}
	own, err := listen(ctx, cfg.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("metrics_listen: %w", err)
	}
	log.Info("serving metrics", "listen", own.Addr().String())
	server := api.Server(handler, log)
	go func() { failed(server.Serve(own)) }()
	return func() { _ = server.Close() }, nil
}

// recordStart has it on record that a program starts with other settings than the last one, and shows in its
// metrics which ones it has, by a keyed hash.
func recordStart(ctx context.Context, cfg config.Config, s *store.Store, program string, registry *prometheus.Registry) error {
	start, err := startOf(cfg, program)
	if err != nil {
		return err
	}
	registry.MustRegister(metrics.NewSettings(program, start.Settings()))
	if !cfg.Recorded {
		return nil
	}
	return start.Record(ctx, s.Starts)
}

// startOf is the start of a program with these settings.
func startOf(cfg config.Config, program string) (admin.Start, error) {
	values, err := cfg.Values()
	if err != nil {
		return admin.Start{}, err
	}
	nothing := config.Default()
	defaults, err := nothing.Values()
	return admin.NewStart(program, version(), cfg.Sealer, values, defaults), err
}

// reachable asks whether Temporal is there.
func reachable(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
}

// stateOf is how things stand, of a process that has opened them.
func stateOf(cfg config.Config, s *store.Store, k *rules.Keeper, temporal func(context.Context) error, log *slog.Logger) *metrics.State {
	state := &metrics.State{Store: s, Logger: log, Temporal: temporal, Policy: func() metrics.Policy {
		p := metrics.Policy{Usable: k.Usable(context.Background()) == nil}
		if b := k.Judge().Policy; b != nil {
			p.Version, p.ExpiresAt = b.Version, b.ExpiresAt
		}
		return p
	}}
	if path := cfg.LogFloorFile; path != "" {
		state.Floor = func() (metrics.Floor, error) { return readFloor(path) }
	}
	return state
}

// readFloor reads which checkpoint the file keeps.
func readFloor(path string) (f metrics.Floor, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	size, err := auditlog.FloorSize(context.Background(), floor.File{Path: path})
	return metrics.Floor{Size: size, KeptAt: info.ModTime()}, err
}

// monitored is what a worker is asked for its readiness, from before it has reached
// anything.
type monitored struct {
	postgres, temporal atomic.Pointer[func(context.Context) error]
}

// probes ask what the worker cannot do its work without.
func (m *monitored) probes() []api.Probe {
	of := func(name string, p *atomic.Pointer[func(context.Context) error]) api.Probe {
		return api.Probe{Name: name, Required: true, Ask: func(ctx context.Context) error {
			ask := p.Load()
			if ask == nil {
				return errors.New("it has not been reached yet")
			}
			return (*ask)(ctx)
		}}
	}
	return []api.Probe{of("postgres", &m.postgres), of("temporal", &m.temporal)}
}

// reached says how to ask from now on.
func reached(p *atomic.Pointer[func(context.Context) error], ask func(context.Context) error) {
	p.Store(&ask)
}
