//go:build !nodev

package devserver

import (
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/server/common/primitives"

	"holdpoint/internal/postgres/pgtest"
)

// databases makes two of them.
func databases(t *testing.T) (main, visibility *pgx.ConnConfig) {
	t.Helper()
	main, err := pgx.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	visibility, err = pgx.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return main, visibility
}

// TestPortTakenDuringStart takes a port away between choosing and using it, upon which the server would have the process exit.
func TestPortTakenDuringStart(t *testing.T) {
	main, visibility := databases(t)
	stores := []store{
		{database: main.Database, schema: mainSchema, version: mainVersion, conns: mainConns},
		{database: visibility.Database, schema: visibilitySchema, version: visibilityVersion, conns: visibilityConns},
	}
	for _, store := range stores {
		if err := store.prepare(t.Context(), main, newLogger(slog.New(slog.DiscardHandler), nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, service := range []primitives.ServiceName{primitives.FrontendService, primitives.WorkerService} {
		t.Run(string(service), func(t *testing.T) {
			ports, err := choosePorts(0)
			if err != nil {
				t.Fatal(err)
			}
			thief, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(ports[service])))
			if err != nil {
				t.Fatal(err)
			}
			defer thief.Close()
			s := &Server{log: newLogger(slog.New(slog.DiscardHandler), nil), done: make(chan struct{})}
			err = s.run(t.Context(), configure(main, stores, ports), ports)
			if err == nil || !strings.Contains(err.Error(), "address already in use") {
				t.Errorf("got %v, want the reason", err)
			}
		})
	}
}

// TestPortTakenAtEachAttempt takes one port of each attempt to start but the last, and then of that one too.
func TestPortTakenAtEachAttempt(t *testing.T) {
	main, visibility := databases(t)
	cfg := Config{PostgresURL: pgtest.Server(t).SuperuserURL("postgres"), Database: main.Database, VisibilityDatabase: visibility.Database, Namespace: "holdpoint"}
	for thefts, want := range map[int]string{maxAttempts - 1: "", maxAttempts: "address already in use"} {
		stolen := 0
		s, err := start(t.Context(), cfg, func(preferred int) (ports, error) {
			ports, err := choosePorts(preferred)
			if err != nil || stolen == thefts {
				return ports, err
			}
			thief, err := net.Listen("tcp4", ports.address(services()[stolen]))
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { thief.Close() })
			stolen++
			return ports, nil
		})
		if err == nil {
			s.Stop()
		}
		if stolen != thefts || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d ports taken, of %d: %v, want %q", stolen, thefts, err, want)
		}
	}
}
