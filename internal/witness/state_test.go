package witness

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdpoint/engine/cosign"
)

func TestRestart(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(10, "leaf")
	other := (&tree{}).grow(10, "other")
	b.want(t, 200, b.log.submission(t, tr, 0, 7))
	before := b.monitor(t, b.log.origin)
	b.restart(t)
	if got := b.size(t); got != "7" || b.monitor(t, b.log.origin) != before {
		t.Fatalf("after a restart the witness is at %s", got)
	}
	b.want(t, 409, b.log.submission(t, other, 0, 7))
	b.want(t, 422, b.log.submission(t, other, 7, 10))
	b.want(t, 200, b.log.submission(t, tr, 7, 10))

	// A log that is taken out and comes back has not been forgotten.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	with := b.config.Logs
	stranger := newLog(t, "stranger.example")
	logs, err := ParseLogs([]string{stranger.vkey})
	if err != nil {
		t.Fatal(err)
	}
	b.config.Logs = logs
	b.open(t)
	b.want(t, 200, stranger.submission(t, other, 0, 3))
	b.want(t, 404, b.log.submission(t, tr, 10, 10))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.config.Logs = with
	b.open(t)
	if got := b.size(t); got != "10" {
		t.Errorf("the witness is at %s", got)
	}
}

// TestCrashBeforeRename: what was written and not put in place does not count,
// whole or half.
func TestCrashBeforeRename(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(10, "leaf")
	b.want(t, 200, b.log.submission(t, tr, 0, 5))
	former := read(t, b.config.State)
	for name, change := range map[string]func([]byte) []byte{
		"whole": func(data []byte) []byte { return data },
		"half":  func(data []byte) []byte { return data[:len(data)/2] },
		"empty": func([]byte) []byte { return nil },
	} {
		r := b.log.submission(t, tr, 5, 10)
		if err := b.state.stage(map[string]record{b.log.origin: {size: 10, root: tr.root(10), note: string(r.checkpoint)}}); err != nil {
			t.Fatal(err)
		}
		staged := b.state.staged()
		if err := os.WriteFile(staged, change([]byte(read(t, staged))), 0o600); err != nil {
			t.Fatal(err)
		}
		// Here the process dies: nothing is closed but what the system closes.
		if err := b.state.lock.Close(); err != nil {
			t.Fatal(err)
		}
		b.open(t)
		if got := b.size(t); got != "5" || read(t, b.config.State) != former {
			t.Errorf("%s: the witness is at %s", name, got)
		}
	}
	b.want(t, 200, b.log.submission(t, tr, 5, 10))
	b.restart(t)
	if got := b.size(t); got != "10" {
		t.Errorf("the witness is at %s", got)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestStateCannotBeWritten: then nothing is cosigned and nothing is remembered.
func TestStateCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := newBenchIn(t, dir)
	defer func() { _ = b.Close() }()
	tr, other := (&tree{}).grow(10, "leaf"), (&tree{}).grow(10, "other")
	for name, block := range map[string]func() (undo func()){
		"the directory is gone": func() func() {
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Rename(dir+".away", dir) }
		},
		"the new file is a directory": func() func() {
			_ = os.Remove(b.state.staged()) // what another case may have left, in whichever order they come
			if err := os.Mkdir(b.state.staged(), 0o700); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove(b.state.staged()) }
		},
		"the file itself has become a directory": func() func() {
			data := read(t, b.config.State)
			if err := errors.Join(os.Remove(b.config.State), os.Mkdir(b.config.State, 0o700)); err != nil {
				t.Fatal(err)
			}
			return func() {
				_ = os.Remove(b.config.State)
				_ = os.WriteFile(b.config.State, []byte(data), 0o600)
			}
		},
	} {
		undo := block()
		rw := b.post(t, string(b.log.submission(t, other, 0, 5).encode()))
		undo()
		if rw.Code != 500 || b.size(t) != "0" {
			t.Errorf("%s: %d %s, and the witness is at %s", name, rw.Code, rw.Body, b.size(t))
		}
	}
	b.want(t, 200, b.log.submission(t, tr, 0, 5))
	b.restart(t)
	if got := b.size(t); got != "5" {
		t.Errorf("the witness is at %s", got)
	}
}

// watching is an answer that looks at the state when its first byte leaves.
type watching struct {
	*httptest.ResponseRecorder
	path string
	seen []byte
}

func (w *watching) Write(p []byte) (int, error) {
	w.seen, _ = os.ReadFile(w.path)
	return w.ResponseRecorder.Write(p)
}

func (w *watching) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// TestCosignatureIsWrittenFirst: when the cosignature leaves, it is in the file.
func TestCosignatureIsWrittenFirst(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(3, "leaf")
	rw := &watching{ResponseRecorder: httptest.NewRecorder(), path: b.config.State}
	b.ServeHTTP(rw, httptest.NewRequest(http.MethodPost, addPath, strings.NewReader(string(b.log.submission(t, tr, 0, 3).encode()))))
	var file stateFile
	if err := json.Unmarshal(rw.seen, &file); err != nil {
		t.Fatal(err)
	}
	if got := file.Logs[b.log.origin]; rw.Code != 200 || !strings.HasSuffix(got, rw.Body.String()) {
		t.Errorf("%d %q left while the file had %q", rw.Code, rw.Body, got)
	}
}

// TestStateRefused: a state that is in use, damaged, or another key's.
func TestStateRefused(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(12, "leaf")
	b.want(t, 200, b.log.submission(t, tr, 0, 12))
	if w, err := New(b.config); err == nil {
		t.Errorf("two witnesses with one state: %v", w)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if rw := b.post(t, string(b.log.submission(t, tr, 12, 12).encode())); rw.Code != 500 {
		t.Errorf("a closed witness answers %d", rw.Code)
	}
	good := read(t, b.config.State)
	if info, err := os.Stat(b.config.State); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state's mode is %v, %v", info.Mode(), err)
	}
	// The log's signature is the first of the note, after its name and four bytes that say which key.
	at := strings.Index(good, `\n\n— `+b.log.origin+" ") + len(`\n\n— `+b.log.origin+" ") + 20
	other := "A"
	if good[at] == 'A' {
		other = "B"
	}
	for name, text := range map[string]string{
		"the log's signature": good[:at] + other + good[at+1:],
		"empty":               "",
		"no JSON":             "state",
		"no logs":             "{}",
		"null":                "null",
		"half":                good[:len(good)/2],
		"something behind":    good + good,
		"another field":       strings.Replace(good, "{", `{"version": 2, `, 1),
		"another size":        strings.Replace(good, `\n12\n`, `\n11\n`, 1),
		"another origin":      strings.Replace(good, `"`+b.log.origin+`": `, `"other": `, 1),
		"no signature":        fmt.Sprintf(`{"logs": {%q: %q}}`, b.log.origin, b.log.sign(t, 12, tr.root(12))),
		"nothing of a note":   fmt.Sprintf(`{"logs": {%q: ""}}`, b.log.origin),
	} {
		if text == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(b.config.State, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(b.config); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if got := read(t, b.config.State); got != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if err := os.WriteFile(b.config.State, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	skey, _, err := cosign.GenerateKey(rand.Reader, "witness.example/w1")
	if err != nil {
		t.Fatal(err)
	}
	config := b.config
	if config.Signer, err = cosign.NewSigner(skey); err != nil {
		t.Fatal(err)
	}
	if _, err := New(config); err == nil {
		t.Error("another key of the same name uses the state")
	}
	config = b.config
	config.State = filepath.Join(t.TempDir(), "nowhere", "state.json")
	if _, err := New(config); err == nil {
		t.Error("a state in a directory that is not there")
	}
	b.open(t)
	if got := b.size(t); got != "12" {
		t.Errorf("the witness is at %s", got)
	}
}

// TestRandomSubmissions submits at random, from honest logs, forked ones and strangers, with
// restarts between. Whatever happens, what has been cosigned is one growing log.
func TestRandomSubmissions(t *testing.T) {
	root, walk := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		walk++
		dir := filepath.Join(root, fmt.Sprint(walk))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b := newBenchIn(t, dir)
		defer func() { _ = b.Close() }()
		branches := []*tree{(&tree{}).grow(1, "leaf")}
		// What has been cosigned: on which branch, which is never another one
		// unless their leaves are the same so far.
		latest, size := (*tree)(nil), int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"grow": func(t *rapid.T) {
				tr := rapid.SampledFrom(branches).Draw(t, "branch")
				tr.grow(tr.n+rapid.Int64Range(1, 9).Draw(t, "leaves"), fmt.Sprintf("%p", tr))
			},
			"fork": func(t *rapid.T) {
				branches = append(branches, rapid.SampledFrom(branches).Draw(t, "branch").fork())
			},
			"restart": func(t *rapid.T) {
				b.restart(t)
			},
			"submit": func(t *rapid.T) {
				tr := rapid.SampledFrom(branches).Draw(t, "branch")
				to := rapid.Int64Range(0, tr.n).Draw(t, "to")
				from := min(size, to)
				if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
					from = rapid.Int64Range(0, to).Draw(t, "from")
				}
				r := b.log.submission(t, tr, from, to)
				want := 409
				if from == size {
					want = 422
					if latest == nil || tr.root(size) == latest.root(size) {
						want = 200
					}
				}
				b.want(t, want, r)
				if want == 200 {
					latest, size = tr.fork(), to
				}
			},
			"": func(t *rapid.T) {
				if got, _ := b.Latest(b.log.origin); got != size {
					t.Fatalf("the witness is at %d, want %d", got, size)
				}
			},
		})
	})
}
