package tests

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
		eventually(t, settleWithin, "the witness listens", func() bool {
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

// TestWitnessedExport has the program's own log witnessed: what is exported and
// packed carries the witness's signature, which is verified offline; and without the
// witness nothing is exported that would not.
func TestWitnessedExport(t *testing.T) {
	ownPrograms(t)
	top := t.TempDir()
	dir, key := devDir(t), filepath.Join(top, "witness.key")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	logKey := filepath.Join(dir, "log-key")
	must(t, nil, "", "key", "log", logKey, "--name", "log.example.com/witnessed")
	vkey := strings.TrimSpace(must(t, nil, "", "witness", "key", key, "--name", "witness.example.com/w1"))
	w, err := run(binary(t), top, "witness", environment(), nil,
		"witness", "--listen", "127.0.0.1:0", "--key", key, "--state", filepath.Join(top, "state.json"), "--log", strings.TrimSpace(fileText(logKey+".pub")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	var url string
	eventually(t, settleWithin, "the witness listens", func() bool {
		found := regexp.MustCompile(`listening on (http://\S+)\n`).FindStringSubmatch(w.text())
		if found != nil {
			url = found[1]
		}
		return url != ""
	})
	d := startDev(t, func(o *devOptions) {
		o.dir, o.policy = dir, sharedPolicy+"log_witnesses: [{url: '"+url+"', key: '"+vkey+"'}]\nlog_witnessed: 1\n"
	})
	a := d.agent(t).hold("pair_witnessed", nil)
	for i := range 2 {
		d.reviewer(t, i).vote(a, "approve").want(t, 200)
	}

	d.logged(t)
	whole := d.exported(t, "--witnessed", "1")
	part := d.exported(t, "--witnessed", "1", "--approval", a.ID)
	pack := filepath.Join(top, "pack.html")
	served := filepath.Join(top, "served.jsonl")
	if err := os.WriteFile(pack, d.admin(t).do("GET", "/v1/audit/evidence?approval_id="+a.ID, nil).want(t, 200).Body, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(served, d.admin(t).do("GET", "/v1/audit/export", nil).want(t, 200).Body, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stranger, err := cosign.GenerateKey(rand.Reader, "witness.example.com/w2")
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(top, "state")
	for name, args := range map[string][]string{"the whole log": {whole}, "a part": {part}, "a pack": {pack}, "the API's": {served}, "the served log": {"--url", d.URL, "--state", state}} {
		got := d.verified(t, append(args, "--witness", vkey)...)
		if got.code != 0 || !strings.Contains(got.out, "ok   witness.example.com/w1 has signed it too, on ") {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
		if got = d.verified(t, append(args, "--witness", stranger)...); got.code != 1 || !strings.Contains(got.out, "BAD ") || !strings.Contains(got.out, "no witness of 1") {
			t.Errorf("%s, by a witness that has not signed: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
		if got = d.verified(t, append(args, "--witness", stranger, "--witness", vkey)...); got.code != 1 || !strings.Contains(got.out, "not witness.example.com/w2") {
			t.Errorf("%s, by one too few: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
		if got = d.verified(t, append(args, "--witness", stranger, "--witness", vkey, "--witnessed", "1")...); got.code != 0 {
			t.Errorf("%s, by one of two: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
	}
	for want, args := range map[string][]string{
		"--witnessed: want 1 to 1":      {whole, "--witness", vkey, "--witnessed", "2"},
		"--witness: the key is of type": {whole, "--witness", logKey + ".pub"},
		"--witness: there is no file":   {whole, "--witness", "nothing.pub"},
	} {
		if got := d.verified(t, args...); got.code != 2 || !strings.Contains(got.err, want) {
			t.Errorf("%v: exit %d, %s", args, got.code, got.err)
		}
	}
	if got := cli(t, nil, "", "audit", "verify", whole, "--witness", vkey); got.code != 2 || !strings.Contains(got.err, "with --key only") {
		t.Errorf("without the log's key: exit %d\n%s%s", got.code, got.out, got.err)
	}
	text := fileText(whole)
	forged := filepath.Join(top, "forged.jsonl")
	i := strings.Index(text, "— witness.example.com/w1 ") + len("— witness.example.com/w1 ") + 40
	other := byte('A')
	if text[i] == other {
		other = 'B'
	}
	if err := os.WriteFile(forged, []byte(text[:i]+string(other)+text[i+1:]), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.verified(t, forged, "--witness", vkey); got.code != 1 || !strings.Contains(got.out, "cosignatures are not to be believed") {
		t.Errorf("a forged cosignature: exit %d\n%s%s", got.code, got.out, got.err)
	}

	w.kill()
	d.agent(t).hold("pair_alone", nil)
	d.logged(t)
	// Each waits a while for the witness.
	admin := d.admin(t)
	answers := make([]answer, 2)
	var got command
	together(3, func(k int) {
		if k == 2 {
			got = cli(t, nil, "", "audit", "export", "--data", d.dir, "-o", filepath.Join(top, "alone.jsonl"), "--witnessed", "1")
			return
		}
		answers[k] = admin.do("GET", []string{"/v1/audit/export", "/v1/audit/evidence?approval_id=" + a.ID}[k], nil)
	})
	for _, a := range answers {
		a.want(t, 409, "not_witnessed_yet")
	}
	if got.code != 1 || !strings.Contains(got.err, "too few witnesses have signed the log") {
		t.Errorf("without a witness: exit %d, %s", got.code, got.err)
	}
	if left, _ := filepath.Glob(filepath.Join(top, "alone*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}
