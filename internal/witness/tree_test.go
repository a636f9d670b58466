package witness

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

// tree is a Merkle tree in memory.
type tree struct {
	n      int64
	hashes []tlog.Hash
}

func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = t.hashes[index]
	}
	return out, nil
}

func (t *tree) add(leaves ...string) *tree {
	for _, leaf := range leaves {
		hashes, err := tlog.StoredHashes(t.n, []byte(leaf), t)
		if err != nil {
			panic(err)
		}
		t.hashes, t.n = append(t.hashes, hashes...), t.n+1
	}
	return t
}

// grow adds leaves until there are n, each with its number and the word.
func (t *tree) grow(n int64, word string) *tree {
	for t.n < n {
		t.add(fmt.Sprint(word, " ", t.n))
	}
	return t
}

// fork is a tree of the same leaves, which can grow otherwise.
func (t *tree) fork() *tree {
	return &tree{n: t.n, hashes: append([]tlog.Hash(nil), t.hashes...)}
}

func (t *tree) root(n int64) tlog.Hash {
	root, err := tlog.TreeHash(n, t)
	if err != nil {
		panic(err)
	}
	return root
}

func (t *tree) prove(from, to int64) []tlog.Hash {
	if from == 0 {
		return nil
	}
	proof, err := tlog.ProveTree(to, from, t)
	if err != nil {
		panic(err)
	}
	return proof
}

// signingLog is a log that signs what it is told.
type signingLog struct {
	origin string
	signer note.Signer
	vkey   string
}

func newLog(t tester, name string) signingLog {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return signingLog{origin: name, signer: signer, vkey: vkey}
}

func (l signingLog) sign(t tester, size int64, root tlog.Hash, extensions ...string) []byte {
	t.Helper()
	text, err := cosign.FormatCheckpoint(cosign.Checkpoint{Origin: l.origin, Size: size, Root: root, Extensions: extensions})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// submission is the request that has tr grow to size.
func (l signingLog) submission(t tester, tr *tree, from, to int64) request {
	t.Helper()
	return request{old: from, proof: tr.prove(from, to), checkpoint: l.sign(t, to, tr.root(to))}
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

var (
	noon  = time.Unix(1790000000, 0)
	quiet = slog.New(slog.DiscardHandler)
)

// bench is a witness with its state in a directory of its own.
type bench struct {
	*Witness
	log    signingLog
	config Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := newBenchIn(t, t.TempDir())
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// newBenchIn is a bench that the caller closes.
func newBenchIn(t tester, dir string) *bench {
	t.Helper()
	skey, _, err := cosign.GenerateKey(rand.Reader, "witness.example/w1")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := cosign.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	log := newLog(t, "log.example/audit")
	logs, err := ParseLogs([]string{log.vkey})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{log: log, config: Config{
		Signer: signer, Logs: logs, State: filepath.Join(dir, "state.json"), Now: func() time.Time { return noon }, Logger: quiet,
	}}
	b.open(t)
	return b
}

func (b *bench) open(t tester) {
	t.Helper()
	w, err := New(b.config)
	if err != nil {
		t.Fatal(err)
	}
	b.Witness = w
}

// restart is what another process sees.
func (b *bench) restart(t tester) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.open(t)
}

// post sends a body to add-checkpoint.
func (b *bench) post(t tester, body string) *httptest.ResponseRecorder {
	t.Helper()
	rw := httptest.NewRecorder()
	b.ServeHTTP(rw, httptest.NewRequest(http.MethodPost, addPath, strings.NewReader(body)))
	if rw.Code != http.StatusOK && bytes.Contains(rw.Body.Bytes(), []byte("— ")) {
		t.Fatalf("an answer %d with a signature: %s", rw.Code, rw.Body)
	}
	return rw
}

// want posts and compares the status.
func (b *bench) want(t tester, status int, r request) *httptest.ResponseRecorder {
	t.Helper()
	rw := b.post(t, string(r.encode()))
	if rw.Code != status {
		t.Fatalf("the answer is %d %q, want %d", rw.Code, rw.Body, status)
	}
	if status == http.StatusOK {
		b.cosigned(t, r.checkpoint, rw.Body.String())
	}
	return rw
}

// cosigned checks that answer is one line, the witness's own, of noon.
func (b *bench) cosigned(t tester, checkpoint []byte, answer string) {
	t.Helper()
	n, err := note.Open([]byte(string(checkpoint)+answer), note.VerifierList(b.config.Signer.Verifier()))
	if err != nil || len(n.Sigs) != 1 || answer != cosign.Line(n.Sigs[0]) {
		t.Fatalf("the answer %q is no cosignature: %v", answer, err)
	}
	if at, err := cosign.Timestamp(n.Sigs[0]); err != nil || !at.Equal(noon) {
		t.Errorf("the cosignature is of %v, %v", at, err)
	}
}

// size is what the witness says it has cosigned, asked as a stranger would.
func (b *bench) size(t tester) string {
	t.Helper()
	// A checkpoint of a size that nothing has reached.
	rw := b.post(t, string(request{old: cosign.MaxSize, checkpoint: b.log.sign(t, cosign.MaxSize, tlog.Hash{})}.encode()))
	body, err := io.ReadAll(rw.Body)
	if err != nil || rw.Code != http.StatusConflict || rw.Header().Get("Content-Type") != "text/x.tlog.size" {
		t.Fatalf("the answer is %d %q %q, %v", rw.Code, rw.Header().Get("Content-Type"), body, err)
	}
	return strings.TrimSuffix(string(body), "\n")
}
