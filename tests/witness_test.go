package tests

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
	"holdpoint/internal/witness"
)

// leafLog is a log of small leaves, in memory.
type leafLog struct {
	hashes []tlog.Hash
	n      int64
	signer note.Signer
}

func (l *leafLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = l.hashes[index]
	}
	return out, nil
}

// grow adds leaves of the word, until there are n.
func (l *leafLog) grow(t *testing.T, n int64, word string) {
	t.Helper()
	for ; l.n < n; l.n++ {
		hashes, err := tlog.StoredHashes(l.n, fmt.Append(nil, word, l.n), l)
		if err != nil {
			t.Fatal(err)
		}
		l.hashes = append(l.hashes, hashes...)
	}
}

// submit asks the witness to go from one size to all there is.
func (l *leafLog) submit(t *testing.T, c *witness.Client, from int64) (checkpoint []byte, line string, err error) {
	t.Helper()
	root, err := tlog.TreeHash(l.n, l)
	if err != nil {
		t.Fatal(err)
	}
	text, err := cosign.FormatCheckpoint(cosign.Checkpoint{Origin: l.signer.Name(), Size: l.n, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	if checkpoint, err = note.Sign(&note.Note{Text: text}, l.signer); err != nil {
		t.Fatal(err)
	}
	var proof tlog.TreeProof
	if from > 0 {
		if proof, err = tlog.ProveTree(l.n, from, l); err != nil {
			t.Fatal(err)
		}
	}
	line, err = c.Add(t.Context(), from, proof, checkpoint)
	return checkpoint, line, err
}

// TestWitness has the program witness a log: started, stopped, killed, started
// again on the same state.
func TestWitness(t *testing.T) {
	dir := t.TempDir()
	key, state := filepath.Join(dir, "witness.key"), filepath.Join(dir, "state.json")
	vkey := strings.TrimSpace(must(t, nil, "", "witness", "key", key, "--name", "witness.example.com/w1"))
	verifier, err := cosign.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	skey, logKey, err := note.GenerateKey(rand.Reader, "log.example.com")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	log, other := &leafLog{signer: signer}, &leafLog{signer: signer}
	var size int64
	for round := range 4 {
		p, err := run(binary(t), dir, fmt.Sprint("witness-", round), environment(), nil,
			"witness", "--listen", "127.0.0.1:0", "--key", key, "--state", state, "--log", logKey)
		if err != nil {
			t.Fatal(err)
		}
		var url string
		eventually(t, 30*time.Second, "the witness listens", func() bool {
			if p.exited() {
				t.Fatal(p.tail())
			}
			found := regexp.MustCompile(`listening on (http://\S+)\nlog log\.example\.com: (.*)\n`).FindStringSubmatch(p.text())
			if found == nil {
				return false
			}
			url = found[1]
			if want := fmt.Sprint("cosigned at size ", size); size > 0 && found[2] != want {
				t.Errorf("it says %q, want %q", found[2], want)
			}
			return true
		})
		client := &witness.Client{URL: url, Verifier: verifier, HTTP: http.DefaultClient}
		log.grow(t, log.n+5, "leaf")
		other.grow(t, log.n, "other")
		var conflict *witness.ConflictError
		if size > 0 {
			if _, _, err := log.submit(t, client, 0); !errors.As(err, &conflict) || conflict.Size != size {
				t.Errorf("from nothing: %v, want a conflict at %d", err, size)
			}
			var status *witness.StatusError
			if _, _, err := other.submit(t, client, size); !errors.As(err, &status) || status.Status != http.StatusUnprocessableEntity {
				t.Errorf("a fork: %v", err)
			}
		}
		checkpoint, line, err := log.submit(t, client, size)
		if err != nil {
			t.Fatal(err)
		}
		size = log.n
		if got, want := fetchCheckpoint(t, url), string(checkpoint)+line; got != want {
			t.Errorf("monitors see %s, want %s", got, want)
		}
		if round%2 == 0 {
			p.kill()
		} else if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}

// fetchCheckpoint gets the checkpoint of log.example.com as monitors do.
func fetchCheckpoint(t *testing.T, url string) string {
	t.Helper()
	// The SHA-256 of the origin.
	resp, err := http.Get(url + "/ad09f5b958e8a8c8d52406674379854832d78963651b6b3e591fda689fb95c30/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
