//go:build !nodev

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdpoint/internal/config"
	"holdpoint/internal/devserver"
	"holdpoint/internal/postgres"
	"holdpoint/internal/store"
)

// withDev says that the embedded servers are in this build.
const withDev = true

type devCommand struct {
	Data     string `default:".holdpoint" type:"path" help:"Where everything is kept (default .holdpoint); the same directory again goes on where it stopped." placeholder:"DIR"`
	Listen   string `default:"127.0.0.1:8080" help:"Address to listen on (default 127.0.0.1:8080); port 0 for any." placeholder:"ADDR"`
	LogLevel string `default:"warn" enum:"debug,info,warn,error" help:"How much to tell: debug, info, warn or error."`
}

// Help is shown by "holdpoint dev --help".
func (devCommand) Help() string {
	return `Starts a private Postgres, an embedded Temporal that keeps its state in it, the
worker, the gate and the console, with example people, an example agent, an
example policy (DIR/policy.yaml, in force as soon as it is saved) and settings
(DIR/settings.yaml). DIR/contracts.yaml, if it is there, holds tool contracts.
When it is ready it prints where and how to sign in, and writes the same to
DIR/dev.json for programs.

Examples:
  holdpoint dev
  holdpoint dev --data /tmp/try --listen 127.0.0.1:0`
}

func (d *devCommand) Run(ctx context.Context, _ *cli) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(d.LogLevel)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	// Others may enter the directory, as Postgres does under another user; what
	// is secret in it is readable by its owner only.
	if err := os.MkdirAll(d.Data, 0o755); err != nil { // #nosec G301 -- see above
		return fmt.Errorf("make the data directory: %w", err)
	}
	unlock, err := lockDir(d.Data)
	if err != nil {
		return err
	}
	defer unlock()
	listener, err := listen(ctx, d.Listen)
	if err != nil {
		return err
	}
	// Whoever waits for the file must not find that of a former run.
	if err := os.Remove(filepath.Join(d.Data, "dev.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	m := &machine{dir: d.Data, log: log, listener: listener, url: "http://" + listener.Addr().String()}
	return m.run(ctx)
}

// machine is everything that "holdpoint dev" runs.
type machine struct {
	dir      string
	log      *slog.Logger
	listener net.Listener
	url      string
	state    devState
	people   []devReviewer // the example people as they are since this start

	mu       sync.Mutex
	postgres *postgres.Server
}

func progress(line string) { fmt.Fprintln(os.Stderr, line) }

func (m *machine) run(ctx context.Context) error {
	defer func() { _ = m.listener.Close() }()
	var err error
	if m.state, err = openState(ctx, m.dir); err != nil {
		return err
	}
	if m.postgres, err = postgres.Start(ctx, m.postgresConfig()); err != nil {
		return err
	}
	defer m.stopPostgres(ctx)
	if err := m.prepare(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	temporal, err := m.databases(ctx)
	if err != nil {
		return err
	}
	defer temporal.Stop()
	cfg, err := m.config(temporal.Address())
	if err != nil {
		return err
	}
	go m.keepPostgres(ctx)

	var running sync.WaitGroup
	ready := make(chan struct{}, 2)
	fail := func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	alone := cfg
	alone.MetricsListen = "" // serve has it
	running.Go(func() { fail(work(ctx, alone, m.log, func() { ready <- struct{}{} })) })
	running.Go(func() { fail(serve(ctx, cfg, m.log, m.listener, func() { ready <- struct{}{} })) })
	running.Go(func() {
		select {
		case <-temporal.Done():
			fail(fmt.Errorf("the embedded Temporal has stopped: %w", temporal.Err()))
		case <-ctx.Done():
		}
	})
	for range cap(ready) {
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		fail(m.announce(temporal.Address()))
	}
	<-ctx.Done()
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (m *machine) postgresConfig() postgres.Config {
	return postgres.Config{Dir: filepath.Join(m.dir, "postgres"), Logger: m.log, Progress: progress}
}

// databases migrates our database and starts Temporal on its own, both at once.
func (m *machine) databases(ctx context.Context) (*devserver.Server, error) {
	migrated := make(chan error, 1)
	go func() {
		_, err := store.Migrate(ctx, m.adminURL())
		if err == nil {
			m.people, err = m.state.seed(ctx, m.adminURL(), m.dir)
		} else if errors.Is(err, store.ErrBeforeBaseline) {
			err = fmt.Errorf("%w (remove %s, or start with another --data)", err, m.dir)
		}
		migrated <- err
	}()
	temporal, err := devserver.Start(ctx, devserver.Config{
		PostgresURL: m.postgres.URL(temporalRole, m.state.TemporalPassword, "temporal"),
		Database:    "temporal", Namespace: "holdpoint", Logger: m.log, Ending: ctx.Done(), FrontendPort: m.state.TemporalPort,
	})
	migration := <-migrated
	if err == nil && migration != nil {
		temporal.Stop()
		return nil, migration
	}
	return temporal, errors.Join(migration, err)
}

// keepPostgres starts Postgres again whenever it ends by itself: what depends
// on it refuses meanwhile and goes on afterwards.
func (m *machine) keepPostgres(ctx context.Context) {
	for {
		select {
		case <-m.postgres.Done():
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		m.log.Error("Postgres has ended; starting it again", "error", m.postgres.Err())
		if err := m.restartPostgres(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("Postgres does not start", "error", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// restartPostgres puts a new server in the place of the one that has ended, on
// the same port: everything else knows it by that.
func (m *machine) restartPostgres(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	former := m.adminURL()
	// What has ended still holds the directory.
	if err := m.postgres.Stop(ctx); err != nil {
		return err
	}
	again, err := postgres.Start(ctx, m.postgresConfig())
	if err != nil {
		return err
	}
	m.postgres = again
	if m.adminURL() != former {
		return errors.Join(errors.New("its port was taken meanwhile: start “holdpoint dev” again"), again.Stop(ctx))
	}
	return nil
}

func (m *machine) stopPostgres(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := m.postgres.Stop(ctx); err != nil {
		m.log.Warn("Postgres did not stop in time", "error", err)
	}
}

func (m *machine) adminURL() string {
	return m.postgres.URL(ownerRole, m.state.OwnerPassword, "holdpoint")
}

func (m *machine) runtimeURL() string {
	return m.postgres.URL(runtimeRole, m.state.RuntimePassword, "holdpoint")
}

// config is the configuration of serve and worker on this machine.
func (m *machine) config(temporal string) (config.Config, error) {
	cfg, err := devConfig(m.dir, devFile{URL: m.url, DatabaseURL: m.runtimeURL(), TemporalAddress: temporal},
		devKept{m.state.DataKey, m.postgres.URL(peopleRole, m.state.PeoplePassword, "holdpoint")})
	if err != nil {
		return cfg, err
	}
	if err := cfg.Check(config.Database | config.Keys | config.Temporal | config.HTTP | config.Log); err != nil {
		return cfg, fmt.Errorf("%s: %w", filepath.Join(m.dir, settingsFile), err)
	}
	if cfg.LogPublicKey == "" {
		cfg.LogPublicKey = publicLogKeys(cfg.LogKeys)
	}
	return cfg, nil
}

// announce writes dev.json and says where everything is.
func (m *machine) announce(temporal string) error {
	if _, port, err := net.SplitHostPort(temporal); err == nil {
		if n, err := strconv.Atoi(port); err == nil && n != m.state.TemporalPort {
			m.state.TemporalPort = n
			if err := m.state.save(m.dir); err != nil {
				return err
			}
		}
	}
	s := m.state
	public, err := os.ReadFile(filepath.Join(m.dir, logKeyFile+".pub"))
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(devFile{
		URL: m.url, AdminKey: s.AdminKey, AgentKey: s.AgentKey, RuntimeKey: s.RuntimeKey,
		Reviewers: s.Reviewers, Owner: s.Owner, Auditor: s.Auditor, DatabaseURL: m.runtimeURL(), DatabaseAdminURL: m.adminURL(),
		TemporalAddress: temporal, PID: os.Getpid(), LogKey: strings.TrimSpace(string(public)),
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSecret(filepath.Join(m.dir, "dev.json"), append(data, '\n')); err != nil {
		return fmt.Errorf("write dev.json: %w", err)
	}
	fmt.Printf("\nHoldpoint is ready: %s\n\nSign in as         password      who it is, and with which roles\n", m.url)
	for _, r := range m.people {
		fmt.Printf("  %-16s %-12s  %s: %s\n", r.Email, r.shownPassword(), r.Name, strings.Join(r.Roles, ", "))
		if r.TOTPSecret != "" {
			fmt.Printf("  %-16s to try a second factor: an authenticator app with the key\n  %-16s %s\n", "", "", r.TOTPSecret)
		}
	}
	fmt.Printf("\nTry it:    go run ./examples/agent%s\nAgents:    export HOLDPOINT_URL=%s HOLDPOINT_API_KEY=%s\nAPI:       %s/docs\nMore:      %s (keys, database, Temporal)\nPolicy:    %s\nStop:      Ctrl-C; run it again to go on\n\n",
		exampleFlag(m.dir), m.url, s.AgentKey, m.url, filepath.Join(m.dir, "dev.json"), filepath.Join(m.dir, policyFile))
	return nil
}

// exampleFlag is what the example agent must be told to find a directory that
// is not the usual one.
func exampleFlag(dir string) string {
	if usual, err := filepath.Abs(".holdpoint"); err == nil && usual == dir {
		return ""
	}
	return " -data " + (&url.URL{Path: dir}).Path
}
