package witness

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

// TestWitnessedLogGrows walks through a log's life.
func TestWitnessedLogGrows(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(100, "leaf")
	sizes := []int64{0, 0, 1, 2, 3, 3, 7, 8, 64, 65, 100, 100}
	for i, size := range sizes[1:] {
		b.want(t, 200, b.log.submission(t, tr, sizes[i], size))
		if got, want := b.size(t), fmt.Sprint(size); got != want {
			t.Fatalf("the witness is at %s, want %s", got, want)
		}
		if got, ok := b.Latest(b.log.origin); !ok || got != size {
			t.Fatalf("the latest is %d, %t, want %d", got, ok, size)
		}
	}
}

func TestEmptyTree(t *testing.T) {
	empty, leaf := tlog.Hash(sha256.Sum256(nil)), tlog.RecordHash([]byte("leaf"))
	for name, c := range map[string]struct {
		size   int64
		root   tlog.Hash
		proof  []tlog.Hash
		status int
	}{
		"the empty tree":                  {0, empty, nil, 200},
		"a root of zeros":                 {0, tlog.Hash{}, nil, 422},
		"the root of something":           {0, leaf, nil, 422},
		"a proof for the empty tree":      {0, empty, []tlog.Hash{leaf}, 422},
		"the first leaf":                  {1, leaf, nil, 200},
		"a proof from nothing":            {1, leaf, []tlog.Hash{leaf}, 422},
		"any tree may be the first":       {cosign.MaxSize, leaf, nil, 200},
		"a proof of 63 lines and nothing": {5, leaf, make([]tlog.Hash, 63), 422},
	} {
		b := newBench(t)
		r := request{proof: c.proof, checkpoint: b.log.sign(t, c.size, c.root)}
		if rw := b.post(t, string(r.encode())); rw.Code != c.status {
			t.Errorf("%s: %d %s, want %d", name, rw.Code, rw.Body, c.status)
		}
		want := "0"
		if c.status == 200 {
			want = fmt.Sprint(c.size)
		}
		if c.size < cosign.MaxSize && b.size(t) != want {
			t.Errorf("%s: the witness is at %s, want %s", name, b.size(t), want)
		}
	}
}

// TestRefuses is every way not to get a cosignature from a witness at 10.
func TestRefuses(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(20, "leaf")
	other := (&tree{}).grow(20, "other")
	b.want(t, 200, b.log.submission(t, tr, 0, 10))

	good := b.log.submission(t, tr, 10, 15)
	proof := func(change func(p []tlog.Hash) []tlog.Hash) request {
		r := good
		r.proof = change(append([]tlog.Hash(nil), good.proof...))
		return r
	}
	stranger := newLog(t, "stranger.example")
	// The same name, another key.
	impostor := newLog(t, b.log.origin)
	// What a key of another log says under this log's origin.
	elsewhere := stranger
	elsewhere.origin = b.log.origin
	text, sigs, _ := bytes.Cut(good.checkpoint, []byte("\n\n"))
	checkpoint := func(text, sigs string) request {
		return request{old: 10, proof: good.proof, checkpoint: []byte(text + "\n\n" + sigs)}
	}
	spoiled := spoil(t, string(sigs))

	for name, c := range map[string]struct {
		request
		status int
	}{
		"another old size":              {b.log.submission(t, tr, 9, 15), 409},
		"a later old size":              {b.log.submission(t, tr, 11, 15), 409},
		"from nothing":                  {b.log.submission(t, tr, 0, 15), 409},
		"the same from nothing":         {b.log.submission(t, tr, 0, 10), 409},
		"smaller":                       {b.log.submission(t, tr, 5, 9), 409},
		"smaller, from where it is":     {request{old: 10, checkpoint: b.log.sign(t, 9, tr.root(9))}, 400},
		"empty, from where it is":       {request{old: 10, checkpoint: b.log.sign(t, 0, tr.root(0))}, 400},
		"a fork":                        {b.log.submission(t, other, 10, 15), 422},
		"a fork of the same size":       {b.log.submission(t, other, 10, 10), 422},
		"a proof for the same size":     {request{old: 10, proof: good.proof, checkpoint: b.log.sign(t, 10, tr.root(10))}, 422},
		"no proof":                      {proof(func([]tlog.Hash) []tlog.Hash { return nil }), 422},
		"a shorter proof":               {proof(func(p []tlog.Hash) []tlog.Hash { return p[:len(p)-1] }), 422},
		"a longer proof":                {proof(func(p []tlog.Hash) []tlog.Hash { return append(p, p[0]) }), 422},
		"a proof with another hash":     {proof(func(p []tlog.Hash) []tlog.Hash { p[0][31] ^= 1; return p }), 422},
		"a proof in another order":      {proof(func(p []tlog.Hash) []tlog.Hash { p[0], p[1] = p[1], p[0]; return p }), 422},
		"a proof for another size":      {proof(func([]tlog.Hash) []tlog.Hash { return tr.prove(10, 16) }), 422},
		"the root of another size":      {request{old: 10, proof: good.proof, checkpoint: b.log.sign(t, 15, tr.root(16))}, 422},
		"64 hashes":                     {proof(func([]tlog.Hash) []tlog.Hash { return make([]tlog.Hash, 64) }), 400},
		"an unknown log":                {stranger.submission(t, tr, 0, 15), 404},
		"another key of this name":      {impostor.submission(t, tr, 10, 15), 403},
		"another log's key":             {elsewhere.submission(t, tr, 10, 15), 403},
		"a signature of something else": {checkpoint(strings.Replace(string(text), "\n15\n", "\n16\n", 1), string(sigs)), 403},
		"a spoiled signature":           {checkpoint(string(text), spoiled), 403},
		"a spoiled one behind a good":   {checkpoint(string(text), string(sigs)+spoiled), 403},
		"a good one behind a spoiled":   {checkpoint(string(text), spoiled+string(sigs)), 403},
		"no signatures":                 {request{old: 10, proof: good.proof, checkpoint: append(text, '\n')}, 400},
		"a signature cut off":           {request{old: 10, proof: good.proof, checkpoint: good.checkpoint[:len(good.checkpoint)-1]}, 400},
		"a tree too large for anybody":  {request{old: 10, checkpoint: signText(t, b.log, b.log.origin+"\n4611686018427387905\n"+tr.root(1).String()+"\n")}, 400},
		"no root":                       {request{old: 10, checkpoint: signText(t, b.log, b.log.origin+"\n15\n")}, 400},
		"a size with a leading zero":    {request{old: 10, checkpoint: signText(t, b.log, b.log.origin+"\n015\n"+tr.root(15).String()+"\n")}, 400},
	} {
		rw := b.post(t, string(c.encode()))
		if rw.Code != c.status {
			t.Errorf("%s: %d %s, want %d", name, rw.Code, rw.Body, c.status)
		}
		if rw.Code == 409 && (rw.Body.String() != "10\n" || rw.Header().Get("Content-Type") != "text/x.tlog.size") {
			t.Errorf("%s: 409 with %q of type %s", name, rw.Body, rw.Header().Get("Content-Type"))
		}
		if got := b.size(t); got != "10" {
			t.Fatalf("%s: the witness is at %s", name, got)
		}
	}
	b.want(t, 200, good)
}

func signText(t *testing.T, l signingLog, text string) []byte {
	t.Helper()
	msg, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// spoil changes a bit in the first signature of lines.
func spoil(t *testing.T, lines string) string {
	t.Helper()
	line, rest, _ := strings.Cut(lines, "\n")
	i := strings.LastIndex(line, " ")
	data, err := base64.StdEncoding.DecodeString(line[i+1:])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	return line[:i+1] + base64.StdEncoding.EncodeToString(data) + "\n" + rest
}

// TestMalformed: what cannot be read is 400, whatever the state.
func TestMalformed(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(3, "leaf")
	good := string(b.log.submission(t, tr, 0, 3).encode())
	hash := tr.root(3).String()
	for name, body := range map[string]string{
		"nothing":              "",
		"no empty line":        "old 0\n",
		"only the head":        "old 0\n\n",
		"no old line":          strings.TrimPrefix(good, "old 0\n"),
		"new":                  strings.Replace(good, "old", "new", 1),
		"two spaces":           strings.Replace(good, "old 0", "old  0", 1),
		"a space behind":       strings.Replace(good, "old 0", "old 0 ", 1),
		"a tab":                strings.Replace(good, "old 0", "old\t0", 1),
		"a leading zero":       strings.Replace(good, "old 0", "old 00", 1),
		"negative":             strings.Replace(good, "old 0", "old -1", 1),
		"not decimal":          strings.Replace(good, "old 0", "old 0x0", 1),
		"out of range":         strings.Replace(good, "old 0", "old 18446744073709551616", 1),
		"CR LF":                strings.ReplaceAll(good, "\n", "\r\n"),
		"a hash in hex":        strings.Replace(good, "old 0\n", "old 0\n"+strings.Repeat("0", 64)+"\n", 1),
		"a hash without pad":   strings.Replace(good, "old 0\n", "old 0\n"+strings.TrimRight(hash, "=")+"\n", 1),
		"a hash and a space":   strings.Replace(good, "old 0\n", "old 0\n"+hash+" \n", 1),
		"two hashes on a line": strings.Replace(good, "old 0\n", "old 0\n"+hash+hash+"\n", 1),
		"a control character":  strings.Replace(good, "\n3\n", "\n3\n\x01", 1),
		"not UTF-8":            strings.Replace(good, "\n3\n", "\n3\n\xff", 1),
	} {
		if rw := b.post(t, body); rw.Code != 400 {
			t.Errorf("%s: %d %s", name, rw.Code, rw.Body)
		}
	}
	if rw := b.post(t, good+strings.Repeat("— a AAAAAAA=\n", maxRequest/14)); rw.Code != 413 {
		t.Errorf("too large: %d", rw.Code)
	}
	for method, want := range map[string]int{http.MethodGet: 405, http.MethodPut: 405} {
		rw := httptest.NewRecorder()
		b.ServeHTTP(rw, httptest.NewRequest(method, addPath, strings.NewReader(good)))
		if rw.Code != want {
			t.Errorf("%s: %d, want %d", method, rw.Code, want)
		}
	}
	if b.size(t) != "0" {
		t.Errorf("the witness is at %s", b.size(t))
	}
}

// TestSignatures: those of unknown keys are no hindrance and are not passed on;
// one key of several is enough.
func TestSignatures(t *testing.T) {
	b := newBench(t)
	next := newLog(t, b.log.origin)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := ParseLogs([]string{b.log.vkey, next.vkey})
	if err != nil || len(logs) != 1 || len(logs[0].Keys) != 2 {
		t.Fatalf("got %+v, %v", logs, err)
	}
	b.config.Logs = logs
	b.open(t)
	tr := (&tree{}).grow(9, "leaf")
	// Neither a signature of the largest kind that there is, nor many.
	unknown := "— other.example " + base64.StdEncoding.EncodeToString(make([]byte, 4+8+2420)) + "\n"
	for i := range 40 {
		unknown += fmt.Sprintf("— w%d.example %s\n", i, base64.StdEncoding.EncodeToString(make([]byte, 4+8+2420)))
	}
	for i, l := range []signingLog{b.log, next} {
		r := l.submission(t, tr, int64(i), int64(i)+1)
		text, sigs, _ := strings.Cut(string(r.checkpoint), "\n\n")
		r.checkpoint = []byte(text + "\n\n" + unknown + sigs + sigs)
		rw := b.want(t, 200, r)
		if got, want := b.monitor(t, b.log.origin), text+"\n\n"+sigs+rw.Body.String(); got != want {
			t.Errorf("monitors see\n%s\nwant\n%s", got, want)
		}
		b.restart(t)
	}
	// A log that signs as often as a note can hold leaves a state that can be
	// read.
	r := b.log.submission(t, tr, 2, 3)
	text, sigs, _ := strings.Cut(string(r.checkpoint), "\n\n")
	r.checkpoint = []byte(text + "\n\n" + strings.Repeat(sigs, 100))
	rw := b.post(t, string(r.encode()))
	if got, want := b.monitor(t, b.log.origin), text+"\n\n"+sigs+rw.Body.String(); rw.Code != 200 || got != want {
		t.Errorf("%d, monitors see\n%s\nwant\n%s", rw.Code, got, want)
	}
	b.restart(t)
}

// monitor gets the checkpoint of an origin as a monitor would.
func (b *bench) monitor(t *testing.T, origin string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(origin))
	rw := httptest.NewRecorder()
	b.ServeHTTP(rw, httptest.NewRequest(http.MethodGet, "/"+hex.EncodeToString(sum[:])+"/checkpoint", nil))
	if rw.Code != 200 {
		return fmt.Sprint(rw.Code)
	}
	return rw.Body.String()
}

func TestMonitor(t *testing.T) {
	b := newBench(t)
	if got := b.monitor(t, b.log.origin); got != "404" {
		t.Errorf("before the first checkpoint: %s", got)
	}
	tr := (&tree{}).grow(2, "leaf")
	r := b.log.submission(t, tr, 0, 2)
	rw := b.want(t, 200, r)
	want := string(r.checkpoint) + rw.Body.String()
	if got := b.monitor(t, b.log.origin); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A refusal changes nothing.
	b.want(t, 409, r)
	if got := b.monitor(t, b.log.origin); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := b.monitor(t, "other.example"); got != "404" {
		t.Errorf("an unknown log: %s", got)
	}
}

// TestExtensions: they are cosigned as they are.
func TestExtensions(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(2, "leaf")
	b.want(t, 200, request{checkpoint: b.log.sign(t, 2, tr.root(2), "an extension", "another")})
	b.want(t, 200, request{old: 2, checkpoint: b.log.sign(t, 2, tr.root(2), "something else")})
	b.restart(t)
	if got := b.monitor(t, b.log.origin); !strings.Contains(got, "\nsomething else\n") {
		t.Errorf("got %s", got)
	}
}

// TestForksAtOnce: of many requests that would each fork the log, exactly one
// gets a cosignature.
func TestForksAtOnce(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(10, "leaf")
	b.want(t, 200, b.log.submission(t, tr, 0, 10))
	for round := range int64(5) {
		old := 10 + 3*round
		const forks = 16
		trees, bodies := make([]*tree, forks), make([][]byte, forks)
		for i := range forks {
			// Half of them of one size, the others smaller and larger.
			size := old + 3
			trees[i] = tr.fork().grow(size, fmt.Sprint("fork ", i))
			bodies[i] = b.log.submission(t, trees[i], old, size-int64(i%4/2)).encode()
		}
		answers := make([]*httptest.ResponseRecorder, forks)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range forks {
			all.Go(func() {
				answers[i] = httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodPost, addPath, bytes.NewReader(bodies[i]))
				<-start
				b.ServeHTTP(answers[i], req)
			})
		}
		close(start)
		all.Wait()
		winner := -1
		for i, rw := range answers {
			switch {
			case rw.Code == 200 && winner < 0:
				winner = i
			case rw.Code == 200:
				t.Fatalf("forks %d and %d were both cosigned", winner, i)
			case rw.Code != 409:
				t.Fatalf("fork %d: %d %s", i, rw.Code, rw.Body)
			}
		}
		if winner < 0 {
			t.Fatal("no fork was cosigned")
		}
		tr = trees[winner]
		size, _ := b.Latest(b.log.origin)
		if !strings.Contains(b.monitor(t, b.log.origin), tr.root(size).String()) {
			t.Fatal("the state is not the winner's")
		}
		if next := old + 3; size < next {
			b.want(t, 200, b.log.submission(t, tr, size, next))
		}
	}
}

// TestEvidence: two signed trees of one size are kept, with both signatures.
func TestEvidence(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	b.Witness.config.Logger = slog.New(slog.NewTextHandler(&out, nil))
	tr, other := (&tree{}).grow(5, "leaf"), (&tree{}).grow(5, "other")
	b.want(t, 200, b.log.submission(t, tr, 0, 5))
	r := b.log.submission(t, tr, 5, 5)
	r.proof = []tlog.Hash{{}}
	b.want(t, 422, r)
	if strings.Contains(out.String(), "two trees") {
		t.Errorf("a stranger's proof is held against the log: %s", out.String())
	}
	b.want(t, 422, b.log.submission(t, other, 5, 5))
	for _, want := range []string{"two trees", tr.root(5).String(), other.root(5).String()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
}

// TestClock: without a time there is no cosignature, and nothing is recorded.
func TestClock(t *testing.T) {
	b := newBench(t)
	b.Witness.config.Now = func() time.Time { return time.Time{} }
	tr := (&tree{}).grow(2, "leaf")
	r := b.log.submission(t, tr, 0, 2)
	b.want(t, 500, r)
	if got := b.size(t); got != "0" {
		t.Errorf("the witness is at %s", got)
	}
}

func TestParseLogs(t *testing.T) {
	a, odd := newLog(t, "a.example"), newLog(t, "x=y")
	logs, err := ParseLogs([]string{a.vkey, "other=" + a.vkey, "1=2=" + odd.vkey, odd.vkey})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, log := range logs {
		got = append(got, log.Origin+" "+log.Keys[0].Name())
	}
	if want := "a.example a.example, other a.example, 1=2 x=y, x=y x=y"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, cosigner, err := cosign.GenerateKey(rand.Reader, "w")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "=", "a.example", "a.example=", a.vkey[1:], a.vkey + "A", "x=", cosigner} {
		if logs, err := ParseLogs([]string{text}); err == nil {
			t.Errorf("%q: %+v", text, logs)
		}
	}
	const secret = "PRIVATE+KEY+test+df4a5f4f+AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	if _, err := ParseLogs([]string{secret}); err == nil || strings.Contains(err.Error(), "AQABAgME") {
		t.Errorf("of a private key: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	b := newBench(t)
	a := newLog(t, "a.example")
	for name, texts := range map[string][]string{
		"no log":           nil,
		"the same twice":   {a.vkey, a.vkey},
		"an empty origin":  {"=" + a.vkey},
		"two lines":        {"a\nb=" + a.vkey},
		"the same as both": {a.vkey, "a.example=" + a.vkey},
	} {
		logs, err := ParseLogs(texts)
		if err != nil {
			t.Fatal(err)
		}
		config := b.config
		config.Logs, config.State = logs, t.TempDir()+"/state.json"
		if w, err := New(config); err == nil {
			t.Errorf("%s: %+v", name, w.logs)
		}
	}
}

// FuzzRequest: a body that can be read has one meaning, and is written the same.
func FuzzRequest(f *testing.F) {
	f.Add("old 0\n\nlog\n")
	f.Add("old 20852014\nPlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n\nexample.com/log\n1\n\n— a AAAAAAA=\n")
	f.Add("old 0\n\n\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		r, err := parseRequest(body)
		if err != nil {
			return
		}
		if got := string(r.encode()); got != body {
			t.Errorf("%q is written as %q", body, got)
		}
	})
}
