package bench

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// bareServer makes the test program a server that does nothing but read a body and
// answer; its value is the file for its address. With bareDatabase, a URL, it inserts
// pgbench's row before it answers, in a commit of its own.
const (
	bareServer   = "HOLDPOINT_BENCH_BARE"
	bareDatabase = "HOLDPOINT_BENCH_BARE_DATABASE"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(bareServer); file != "" {
		serveBare(file, os.Getenv(bareDatabase))
		return
	}
	os.Exit(m.Run())
}

// serveBare answers like the gate, to whatever is asked.
func serveBare(file, database string) {
	insert := func(context.Context) error { return nil }
	if database != "" {
		config, err := pgxpool.ParseConfig(database)
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
		config.MaxConns = 64
		pool, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
		insert = func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `INSERT INTO bench_rows (agent, tool, body) VALUES ($1, $2, $3)`, "agent", "tool", insertedRow)
			return err
		}
	}
	answer := append([]byte(`{"gate_decision":"pass","padding":"`), append(bytes.Repeat([]byte("x"), 2400), `"}`...)...)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if err := insert(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(file, []byte("http://"+listener.Addr().String()), 0o600)
	}
	if err == nil {
		err = server.Serve(listener)
	}
	println(err.Error())
	os.Exit(1)
}

// startBare starts the server that does nothing, or only inserts rows of a database, as a
// process of its own, as the gate is.
func startBare(b *testing.B, database string) machine {
	b.Helper()
	file := filepath.Join(b.TempDir(), "address")
	bare := exec.Command(os.Args[0], "-test.run", "^$") // #nosec G204 -- itself
	bare.Env = append(os.Environ(), bareServer+"="+file, bareDatabase+"="+database)
	bare.Stderr = os.Stderr
	if err := bare.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = bare.Process.Kill()
		_ = bare.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if address, err := os.ReadFile(file); err == nil && len(address) > 0 {
			return machine{URL: string(address), PID: bare.Process.Pid}
		}
		if time.Now().After(deadline) {
			b.Fatal("the bare server is not ready")
		}
	}
}
