package auditlog_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
	"holdpoint/engine/cosign"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/store"
	"holdpoint/internal/witness"
)

// witnessOf is a witness of the installation's log, which answers after a pause,
// or with an error while it is away.
type witnessOf struct {
	client *witness.Client
	away   atomic.Bool
}

func (in *installation) witness(name string, pause time.Duration) *witnessOf {
	in.t.Helper()
	private, public, err := cosign.GenerateKey(rand.Reader, name)
	must(in.t, err)
	signer, err := cosign.NewSigner(private)
	must(in.t, err)
	verifier, err := cosign.NewVerifier(public)
	must(in.t, err)
	logs, err := witness.ParseLogs([]string{in.keys[0].Public})
	must(in.t, err)
	w, err := witness.New(witness.Config{
		Signer: signer, Logs: logs, State: filepath.Join(in.t.TempDir(), "state.json"), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	must(in.t, err)
	of := &witnessOf{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		<-time.After(pause)
		if of.away.Load() {
			http.Error(rw, "away", http.StatusServiceUnavailable)
			return
		}
		w.ServeHTTP(rw, r)
	}))
	in.t.Cleanup(func() { server.Close(); must(in.t, w.Close()) })
	of.client = &witness.Client{URL: server.URL, Verifier: verifier, HTTP: server.Client()}
	return of
}

// witnessed runs what asks the witnesses, twice, as two workers do, until stop is
// called, and returns what it warns of. No round is over before all have answered,
// however long the machine stands still.
func (in *installation) witnessed(workers int, of ...*witnessOf) (warned *output, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	log, warned := newLog()
	for range workers {
		w := &auditlog.Witnessing{Store: openStore(in.t, in.app), Every: 20 * time.Millisecond, Round: time.Minute, Logger: log}
		for _, one := range of {
			w.Witnesses = append(w.Witnesses, one.client)
		}
		running.Go(func() { w.Run(ctx) })
	}
	stop = func() { cancel(); running.Wait() }
	in.t.Cleanup(stop)
	return warned, stop
}

// TestWitnessesSignTheSame: the log never rests, its witnesses are of different
// speeds, and still one checkpoint after the other has the signatures of all that
// answer.
func TestWitnessesSignTheSame(t *testing.T) {
	in := install(t)
	conn := connect(t, in.owner)
	in.run(in.sequencer(nil))
	writing, cancel := context.WithCancel(context.Background())
	writes, writer := sync.WaitGroup{}, connect(t, in.app)
	writes.Go(func() {
		for writing.Err() == nil {
			if err := write(context.Background(), writer, 1); err != nil {
				t.Error(err)
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	defer writes.Wait()
	defer cancel()
	quick, slow, other := in.witness("witness.example.com/quick", 0), in.witness("witness.example.com/slow", 70*time.Millisecond), in.witness("witness.example.com/other", 5*time.Millisecond)
	s := openStore(t, in.app)
	var last int64
	grows := func(by, times int) {
		t.Helper()
		for range times {
			// Whoever was away is asked again after half a minute at most.
			eventually(t, time.Minute, "a newer checkpoint is signed by all that answer", func() bool {
				c, err := s.Log.LatestCheckpoint(context.Background(), by)
				if err != nil || c.Size <= last {
					return false
				}
				last = c.Size
				names, err := audit.Witnesses{Keys: []note.Verifier{quick.client.Verifier, slow.client.Verifier, other.client.Verifier}, Needed: by}.Check(c.Signed())
				if err != nil || len(names) < by {
					t.Errorf("signed by %v: %v", names, err)
				}
				return true
			})
		}
	}
	warned, stop := in.witnessed(1, quick, slow, other)
	grows(3, 10)
	stop()
	var alone int
	must(t, conn.QueryRow(context.Background(), `SELECT count(*) FROM (SELECT FROM log_cosignatures GROUP BY size HAVING count(*) < 3 AND size < (SELECT max(size) FROM log_cosignatures)) s`).Scan(&alone))
	// One that fails for a moment, which a busy machine may make it, is not waited for.
	if alone > 0 && warned.String() == "" {
		t.Errorf("%d checkpoints were signed by some and not by others, and none of them failed", alone)
	}
	_, stop = in.witnessed(1, quick, slow, other)
	slow.away.Store(true)
	grows(2, 10)
	slow.away.Store(false)
	grows(3, 5)
	stop()
	in.witnessed(2, quick, slow, other)
	grows(2, 5)
	if n := size(t, conn); n < last {
		t.Errorf("the log has %d events, and %d were signed", n, last)
	}
}

// TestWitnessRemembers: a database that is behind what a witness has signed is said
// to be.
func TestWitnessRemembers(t *testing.T) {
	in := install(t)
	conn := connect(t, in.owner)
	in.run(in.sequencer(nil))
	must(t, write(context.Background(), conn, 10))
	in.placed(conn, goesOn)
	w := in.witness("witness.example.com/w1", 0)
	warned, stop := in.witnessed(1, w)
	s := openStore(t, in.app)
	eventually(t, 20*time.Second, "the witness has signed", func() bool {
		c, err := s.Log.LatestCheckpoint(context.Background(), 1)
		return err == nil && c.Size == 10
	})
	stop()
	if warned.String() != "" {
		t.Errorf("it warns of %s", warned)
	}

	// Another database with the same key, which has less: an older copy.
	older := install(t)
	older.key, older.keys = in.key, in.keys
	fewer := connect(t, older.owner)
	older.run(older.sequencer(nil))
	must(t, write(context.Background(), fewer, 3))
	older.placed(fewer, goesOn)
	warned, stop = older.witnessed(1, w)
	behind := openStore(t, older.app)
	eventually(t, 20*time.Second, "it is said that this is an older copy", func() bool {
		return strings.Contains(warned.String(), "signed a log of 10 events, and the database has 3")
	})
	stop()
	if _, err := behind.Log.LatestCheckpoint(context.Background(), 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the witness has signed an older copy: %v", err)
	}
}
