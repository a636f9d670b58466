package witness

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	chance "math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

// Names of what the process that is killed is told.
const (
	killState = "WITNESS_TEST_STATE"
	killKey   = "WITNESS_TEST_KEY"
	killLog   = "WITNESS_TEST_LOG"
)

// TestMain is the witness itself in the process that TestKill starts.
func TestMain(m *testing.M) {
	if os.Getenv(killState) == "" {
		os.Exit(m.Run())
	}
	signer, err := cosign.NewSigner(os.Getenv(killKey))
	if err != nil {
		panic(err)
	}
	logs, err := ParseLogs([]string{os.Getenv(killLog)})
	if err != nil {
		panic(err)
	}
	w, err := New(Config{Signer: signer, Logs: logs, State: os.Getenv(killState), Now: time.Now, Logger: quiet})
	if err != nil {
		panic(err)
	}
	fmt.Println(httptest.NewServer(w).URL)
	select {}
}

// TestKill kills a witness at any moment while it follows a log, many times over.
// It is never behind what it has cosigned, and never takes another tree of that
// size for its own.
func TestKill(t *testing.T) {
	log := newLog(t, "log.example/audit")
	skey, vkey, err := cosign.GenerateKey(rand.Reader, "killed.example")
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := cosign.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state.json")
	tr := (&tree{}).grow(1, "leaf")
	var cosigned int64 // the largest size of which a cosignature has arrived
	for round := range 12 {
		process := exec.CommandContext(t.Context(), os.Args[0])
		process.Env = append(os.Environ(), killState+"="+state, killKey+"="+skey, killLog+"="+log.vkey)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		url, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		client := &Client{URL: strings.TrimSpace(url), Verifier: verifier, HTTP: guarded()}
		add := func(tr *tree, from, to int64) error {
			checkpoint := log.sign(t, to, tr.root(to))
			_, err := client.Add(t.Context(), from, tr.prove(from, to), checkpoint)
			return err
		}

		// Where it is now.
		_, err = client.Add(t.Context(), cosign.MaxSize, nil, log.sign(t, cosign.MaxSize, tlog.Hash{}))
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.Size < cosigned || conflict.Size > tr.n {
			t.Fatalf("after %d kills the witness says %v, and has cosigned %d", round, err, cosigned)
		}
		at := conflict.Size
		var status *StatusError
		if err := add((&tree{}).grow(at, "other"), at, at); at > 0 && (!errors.As(err, &status) || status.Status != 422) {
			t.Fatalf("another tree of %d: %v", at, err)
		}
		began := time.Now()
		if err := add(tr, at, at); err != nil {
			t.Fatalf("the tree of %d: %v", at, err)
		}
		took := time.Since(began)

		// It dies while requests are under way; in which step is left to chance.
		killed := make(chan struct{})
		time.AfterFunc(took/2+chance.N(8*took), func() {
			_ = process.Process.Kill()
			_ = process.Wait()
			close(killed)
		})
		for {
			tr.grow(tr.n+1, "leaf")
			if err := add(tr, at, tr.n); err != nil {
				break
			}
			at, cosigned = tr.n, tr.n
		}
		<-killed
	}
	if cosigned == 0 {
		t.Error("it was killed before it had cosigned anything, each time")
	}
}
