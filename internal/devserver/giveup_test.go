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

// database makes one.
func database(t *testing.T) *pgx.ConnConfig {
	t.Helper()
	made, err := pgx.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestPortTakenDuringStart takes a port away between choosing and using it, upon which the server would have the process exit.
func TestPortTakenDuringStart(t *testing.T) {
	postgres := database(t)
	state := store{database: postgres.Database, schema: mainSchema, version: mainVersion, conns: conns}
	if err := state.prepare(t.Context(), postgres, newLogger(slog.New(slog.DiscardHandler), nil)); err != nil {
		t.Fatal(err)
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
			err = s.run(t.Context(), configure(postgres, state, ports), ports)
			if err == nil || !strings.Contains(err.Error(), "address already in use") {
				t.Errorf("got %v, want the reason", err)
			}
		})
	}
}

// TestPortTakenAtEachAttempt takes one port of each attempt to start but the last, and then of that one too.
func TestPortTakenAtEachAttempt(t *testing.T) {
	cfg := Config{PostgresURL: pgtest.Server(t).SuperuserURL("postgres"), Database: database(t).Database, Namespace: "holdpoint"}
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
