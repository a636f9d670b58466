package witness

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
	"holdpoint/internal/outbound"
)

// guarded is the client of production, which may ask this machine.
func guarded() *outbound.Client {
	return outbound.New(outbound.Config{AllowHTTP: true, AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

// client asks the server as the witness of b.
func (b *bench) client(t *testing.T, server *httptest.Server) *Client {
	t.Helper()
	verifier, err := cosign.NewVerifier(b.config.Signer.VerifierKey())
	if err != nil {
		t.Fatal(err)
	}
	return &Client{URL: server.URL, Verifier: verifier, HTTP: guarded()}
}

// TestEndToEnd has a log grow, with two witnesses, one of which joins late, is
// away for a while, and starts again.
func TestEndToEnd(t *testing.T) {
	first := newBench(t)
	log := first.log
	second := newBench(t)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	second.config.Logs = first.config.Logs
	second.open(t)
	tr := &tree{}
	known := map[*bench]int64{}
	// submit does as a log is to do: from what it knows, and after a conflict
	// from what the witness knows.
	submit := func(b *bench, client *Client) string {
		t.Helper()
		checkpoint := log.sign(t, tr.n, tr.root(tr.n))
		line, err := client.Add(t.Context(), known[b], tr.prove(known[b], tr.n), checkpoint)
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			known[b] = conflict.Size
			line, err = client.Add(t.Context(), known[b], tr.prove(known[b], tr.n), checkpoint)
		}
		if err != nil {
			t.Fatal(err)
		}
		known[b] = tr.n
		return line
	}
	servers := map[*bench]*httptest.Server{}
	for _, b := range []*bench{first, second} {
		// With a prefix, as behind a proxy.
		mux := http.NewServeMux()
		mux.Handle("/w/", http.StripPrefix("/w", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { b.ServeHTTP(rw, r) })))
		servers[b] = httptest.NewServer(mux)
		defer servers[b].Close()
	}
	clients := map[*bench]*Client{}
	for _, b := range []*bench{first, second} {
		clients[b] = b.client(t, servers[b])
		clients[b].URL += "/w/"
	}
	logKey, err := note.NewVerifier(log.vkey)
	if err != nil {
		t.Fatal(err)
	}
	keys := note.VerifierList(logKey, clients[first].Verifier, clients[second].Verifier)
	for round := range 40 {
		tr.grow(tr.n+int64(round%7), "leaf")
		lines := submit(first, clients[first])
		want := 2
		if round > 10 && round%5 != 0 {
			lines += submit(second, clients[second])
			want = 3
		}
		// What anybody can check with the three keys.
		n, err := note.Open(append(log.sign(t, tr.n, tr.root(tr.n)), lines...), keys)
		if err != nil || len(n.Sigs) != want {
			t.Fatalf("at %d: %d signatures, want %d, %v", tr.n, len(n.Sigs), want, err)
		}
		if round%8 == 3 {
			second.restart(t)
		}
		if round%11 == 6 {
			known[first] = 0 // the log has forgotten
		}
	}
	// The log's history is rewritten: no witness goes along.
	other := (&tree{}).grow(tr.n+5, "another history")
	for b, client := range clients {
		at, _ := b.Latest(log.origin)
		line, err := client.Add(t.Context(), at, other.prove(at, other.n), log.sign(t, other.n, other.root(other.n)))
		var status *StatusError
		if !errors.As(err, &status) || status.Status != 422 || line != "" {
			t.Errorf("a rewritten log: %q, %v", line, err)
		}
	}
	// A backup was restored: the witness knows more than the log.
	old := (&tree{}).grow(3, "leaf")
	_, err = clients[first].Add(t.Context(), 3, nil, log.sign(t, 3, old.root(3)))
	var conflict *ConflictError
	if !errors.As(err, &conflict) || conflict.Size != tr.n {
		t.Errorf("a restored log: %v", err)
	}
}

// TestClientErrors: each refusal of a real witness is a clear error.
func TestClientErrors(t *testing.T) {
	b := newBench(t)
	server := httptest.NewServer(b)
	defer server.Close()
	client := b.client(t, server)
	tr := (&tree{}).grow(9, "leaf")
	add := func(l signingLog, from, to int64, proof []tlog.Hash) error {
		line, err := client.Add(t.Context(), from, proof, l.sign(t, to, tr.root(to)))
		if (line == "") != (err != nil) {
			t.Errorf("both %q and %v", line, err)
		}
		return err
	}
	if err := add(b.log, 0, 5, nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"smaller":        {add(b.log, 5, 4, nil), 400},
		"another key":    {add(newLog(t, b.log.origin), 5, 9, tr.prove(5, 9)), 403},
		"an unknown log": {add(newLog(t, "stranger.example"), 0, 9, nil), 404},
		"no proof":       {add(b.log, 5, 9, nil), 422},
	} {
		var status *StatusError
		if !errors.As(c.err, &status) || status.Status != c.want || !strings.Contains(c.err.Error(), "witness.example/w1") {
			t.Errorf("%s: %v, want %d", name, c.err, c.want)
		}
	}
	var conflict *ConflictError
	if err := add(b.log, 4, 9, tr.prove(4, 9)); !errors.As(err, &conflict) || conflict.Size != 5 {
		t.Errorf("another size: %v", err)
	}
	// What no witness needs to be asked about.
	for name, err := range map[string]error{
		"a negative size": add(b.log, -1, 9, nil),
		"64 hashes":       add(b.log, 5, 9, make([]tlog.Hash, 64)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := client.Add(t.Context(), 0, nil, []byte("no note\n")); err == nil {
		t.Error("what is no note is submitted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Add(ctx, 5, tr.prove(5, 9), b.log.sign(t, 9, tr.root(9))); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request: %v", err)
	}
	server.Close()
	if err := add(b.log, 5, 9, tr.prove(5, 9)); err == nil {
		t.Error("a witness that is not there cosigns")
	}
	for _, url := range []string{"", "http://10.1.2.3:80", "file:///etc", "http://[::1"} {
		client.URL = url
		if err := add(b.log, 5, 9, tr.prove(5, 9)); err == nil {
			t.Errorf("%q cosigns", url)
		}
	}
}

// TestClientBelievesNothing gives the client what a malicious witness, or
// somebody in between, could say.
func TestClientBelievesNothing(t *testing.T) {
	b := newBench(t)
	tr := (&tree{}).grow(9, "leaf")
	checkpoint := b.log.sign(t, 9, tr.root(9))
	text, _, _ := strings.Cut(string(checkpoint), "\n\n")
	text += "\n"
	signed := func(s *cosign.Signer, text string) string {
		sig, err := s.Sign(text, noon)
		if err != nil {
			t.Fatal(err)
		}
		return cosign.Line(sig)
	}
	own := b.config.Signer
	good := signed(own, text)
	skey, _, err := cosign.GenerateKey(rand.Reader, own.Name())
	if err != nil {
		t.Fatal(err)
	}
	impostor, err := cosign.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	// A signature of the right key whose time was put back to nothing.
	data, err := base64.StdEncoding.DecodeString(strings.Fields(good)[2])
	if err != nil {
		t.Fatal(err)
	}
	moved := func(at uint64) string {
		out := append([]byte(nil), data...)
		binary.BigEndian.PutUint64(out[4:], at)
		return "— " + own.Name() + " " + base64.StdEncoding.EncodeToString(out) + "\n"
	}
	const typed = "text/x.tlog.size"
	for name, c := range map[string]struct {
		status  int
		kind    string
		body    string
		size    int64 // of a ConflictError
		success bool
	}{
		"a cosignature":                    {status: 200, body: good, success: true},
		"with others' cosignatures":        {status: 200, body: signed(impostor, text) + good + "— other.example AAAAAAA=\n", success: true},
		"nothing":                          {status: 200},
		"a page":                           {status: 200, kind: "text/html", body: "<html></html>\n"},
		"no newline":                       {status: 200, body: strings.TrimSuffix(good, "\n")},
		"another key of the name":          {status: 200, body: signed(impostor, text)},
		"a cosignature of another tree":    {status: 200, body: signed(own, strings.Replace(text, "\n9\n", "\n8\n", 1))},
		"a whole note":                     {status: 200, body: text + "\n" + good},
		"another text before it":           {status: 200, body: "\n" + good},
		"another time":                     {status: 200, body: moved(uint64(noon.Unix()) + 1)},
		"no time":                          {status: 200, body: moved(0)},
		"a time out of range":              {status: 200, body: moved(1 << 63)},
		"a bad one behind a good":          {status: 200, body: moved(0) + good},
		"a spoiled signature":              {status: 200, body: spoil(t, good)},
		"the log's own signature":          {status: 200, body: strings.SplitN(string(checkpoint), "\n\n", 2)[1]},
		"too much":                         {status: 200, body: good + strings.Repeat("— other.example AAAAAAA=\n", 10000)},
		"another 2xx":                      {status: 202, body: good},
		"a redirect":                       {status: 307, body: good},
		"a server's error":                 {status: 500, body: good},
		"a size":                           {status: 409, kind: typed, body: "7\n", size: 7},
		"a size larger than ours":          {status: 409, kind: typed, body: "70\n", size: 70},
		"a size of a type with parameters": {status: 409, kind: typed + "; charset=utf-8", body: "7\n", size: 7},
		"a size of no type":                {status: 409, kind: "text/plain", body: "7\n"},
		"a size without newline":           {status: 409, kind: typed, body: "7"},
		"a negative size":                  {status: 409, kind: typed, body: "-7\n"},
		"a size with a leading zero":       {status: 409, kind: typed, body: "07\n"},
		"a size out of range":              {status: 409, kind: typed, body: "99999999999999999999\n"},
		"a size and more":                  {status: 409, kind: typed, body: "7\n\n"},
		"no size":                          {status: 409, kind: typed},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if c.kind != "" {
				rw.Header().Set("Content-Type", c.kind)
			}
			rw.Header().Set("Location", "/elsewhere")
			rw.WriteHeader(c.status)
			_, _ = io.WriteString(rw, c.body)
		}))
		got, err := b.client(t, server).Add(t.Context(), 0, nil, checkpoint)
		server.Close()
		if c.success != (err == nil) || c.success && got != good || !c.success && got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		var conflict *ConflictError
		if errors.As(err, &conflict) != (c.size > 0) || conflict != nil && conflict.Size != c.size {
			t.Errorf("%s: %v, want the size %d", name, err, c.size)
		}
		if err != nil && strings.Contains(err.Error(), "html") {
			t.Errorf("%s: the error quotes the answer: %v", name, err)
		}
	}
}

// A witness that does not answer is given up when the caller's time is over.
func TestClientWaits(t *testing.T) {
	b := newBench(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	tr := (&tree{}).grow(1, "leaf")
	if line, err := b.client(t, server).Add(ctx, 0, nil, b.log.sign(t, 1, tr.root(1))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %q, %v", line, err)
	}
	// A plain client will do as well as the guarded one.
	plain := httptest.NewServer(b)
	defer plain.Close()
	client := b.client(t, plain)
	client.HTTP = plain.Client()
	line, err := client.Add(t.Context(), 0, nil, b.log.sign(t, 1, tr.root(1)))
	if err != nil || !strings.HasPrefix(line, fmt.Sprintf("— %s ", b.config.Signer.Name())) {
		t.Errorf("got %q, %v", line, err)
	}
}
