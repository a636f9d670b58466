package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"holdpoint/engine/audit"
	"holdpoint/internal/chromium"
)

// page is a tab of a real browser.
type page struct {
	t   *testing.T
	ctx context.Context
}

func (p page) open(url string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		p.t.Fatal(err)
	}
}

// eval is a script's value, a promise's once it is there.
func (p page) eval(script string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[any](script))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	if s, ok := v.(string); ok {
		return s
	}
	encoded, _ := json.Marshal(v)
	return string(encoded)
}

func (p page) until(what, script string) {
	p.t.Helper()
	for began := time.Now(); p.eval(script) != "true"; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			p.t.Fatalf("not within 20 s: %s\n%s", what, p.eval(`document.body.innerText`))
		}
	}
}

// verify presses the button, with a key when it is not "-", and returns the
// verdict and the steps.
func (p page) verify(key string) (verdict, steps string) {
	p.t.Helper()
	if key != "-" {
		encoded, _ := json.Marshal(key)
		p.eval(`(() => { const f = document.querySelector(".verifyform input[name=key]"); f.value = ` + string(encoded) + `; f.dispatchEvent(new Event("input")); return true })()`)
	}
	p.eval(`document.querySelector("[data-testid=verify-run]").click()`)
	p.until("a verdict", `Boolean(document.getElementById("verify").dataset.verdict) && !document.querySelector("[data-testid=verify-run]").disabled`)
	return p.eval(`document.getElementById("verify").dataset.verdict + ": " + document.querySelector("[data-testid=verify-verdict]").innerText`),
		p.eval(`document.querySelector("[data-testid=verify-steps]").innerText`)
}

// TestBrowserVerifies: the script in the page finds a good proof good, and nothing
// else: whatever single value of the proof is another one, the check fails.
func TestBrowserVerifies(t *testing.T) {
	m := newFakeGate()
	l := newFakeLog(t, m)
	for range 3 {
		l.sample(t)
	}
	other := newFakeLog(t, m)
	private, _, err := audit.NewKey(ones{}, logOrigin)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	other.key = keys[0]
	for range 3 {
		other.sample(t)
	}
	c, err := New(Config{Log: l, LogKeys: []string{l.key.Public}, Inbox: m, History: m, Cards: m, Votes: m, Contributions: m, Requirements: m, Edits: m, CallSessions: m, Outcomes: m, Changes: m, Agents: m.registry, Tools: m.registry, Settings: m.registry, InForce: m.registry.inForce, SignIn: m, Sessions: m, Names: m, Clock: m.now})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.Register(mux)
	mux.HandleFunc("GET /v1/audit/events/{id}/proof", l.proof)
	mux.HandleFunc("GET /as", func(w http.ResponseWriter, r *http.Request) {
		s, _ := c.site.sessions.Get(r, c.site.sessions.name())
		s.Values[personKey{}] = m.people["aude@example.com"]
		if err := s.Save(r, w); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(Guard(mux, GuardConfig{}))
	t.Cleanup(server.Close)
	var b chromium.Browser
	t.Cleanup(b.Close)
	p := page{t, b.Open(t)}
	p.open(server.URL + "/as")

	// Every leaf, and so every shape of proof there is in this tree.
	for i, r := range l.records {
		if i > 0 && i < len(l.records)-1 && i%5 != 0 {
			continue
		}
		p.open(server.URL + eventURL(r.ID))
		verdict, steps := p.verify("-")
		if !strings.HasPrefix(verdict, "fair: ") || !strings.Contains(verdict, "with the key that this server states") {
			t.Errorf("event %d: %s\n%s", i+1, verdict, steps)
		}
	}

	good := l.key.Public
	verdict, steps := p.verify(good)
	if !strings.Contains(verdict, "the weaker check") {
		t.Errorf("the server's own key is no better by being pasted: %s\n%s", verdict, steps)
	}
	// A key that the server does not state, and then remembers.
	stateKeys(c)
	p.open(server.URL + eventURL(l.records[4].ID))
	if verdict, _ := p.verify(""); !strings.HasPrefix(verdict, "part: ") || !strings.Contains(verdict, "not verified") {
		t.Errorf("without a key: %s", verdict)
	}
	p.eval(`document.querySelector(".verifyform input[name=remember]").checked = true`)
	if verdict, steps := p.verify(good); !strings.HasPrefix(verdict, "good: ") || !strings.Contains(verdict, "with the key that you gave") {
		t.Errorf("with a key of one's own: %s\n%s", verdict, steps)
	}
	stateKeys(c, other.key.Public) // the server has another one now
	p.open(server.URL + eventURL(l.records[4].ID))
	if verdict, _ := p.verify("-"); !strings.HasPrefix(verdict, "good: ") || !strings.Contains(verdict, "has remembered since") {
		t.Errorf("with a key that is remembered: %s", verdict)
	}
	if says := p.eval(`document.getElementById("key-origin").innerText`); !strings.Contains(says, "not the key that this server states") {
		t.Errorf("of the server's new key it says %q", says)
	}

	for what, key := range map[string]string{
		"another key": other.key.Public, "no key": "nonsense", "a key with a letter wrong": good[:len(good)-3] + "AA=",
		"a key of another log": rename(t, l.key, "elsewhere.example.com/log"),
	} {
		verdict, steps := p.verify(key)
		if !strings.HasPrefix(verdict, "bad: ") && !strings.HasPrefix(verdict, "none: ") {
			t.Errorf("%s: %s\n%s", what, verdict, steps)
		}
	}

	text := func(name string, change func(string) string) func(map[string]any) {
		return func(a map[string]any) { a[name] = change(a[name].(string)) }
	}
	flip := func(s string) string {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		raw[7] ^= 1
		return base64.StdEncoding.EncodeToString(raw)
	}
	event := func(name string, value any) func(map[string]any) {
		return func(a map[string]any) {
			var e map[string]any
			if err := json.Unmarshal(a["event"].(json.RawMessage), &e); err != nil {
				t.Fatal(err)
			}
			e[name] = value
			a["event"] = e
		}
	}
	for what, bend := range map[string]func(map[string]any){
		"another outcome":   event("outcome", "ALLOW"),
		"another time":      event("timestamp", "2020-01-01T00:00:00Z"),
		"one more member":   event("extra", 1),
		"another seq":       event("seq", 6),
		"another entry":     text("entry", func(s string) string { return strings.Replace(s, `"v":1`, `"v":2`, 1) }),
		"another leaf hash": text("leaf_hash", flip),
		"another root":      text("root", flip),
		"another leaf":      func(a map[string]any) { a["leaf_index"] = a["leaf_index"].(int64) + 1 },
		"a larger tree":     func(a map[string]any) { a["tree_size"] = a["tree_size"].(int64) + 1 },
		"a huge tree":       func(a map[string]any) { a["tree_size"] = 1e300 },
		"no leaf":           func(a map[string]any) { a["leaf_index"] = -1 },
		"a hash changed":    func(a map[string]any) { a["proof"].([]any)[1] = flip(a["proof"].([]any)[1].(string)) },
		"a hash missing":    func(a map[string]any) { a["proof"] = a["proof"].([]any)[1:] },
		"a hash too many":   func(a map[string]any) { a["proof"] = append(a["proof"].([]any), a["proof"].([]any)[0]) },
		"a hash twice":      func(a map[string]any) { a["proof"].([]any)[1] = a["proof"].([]any)[0] },
		"no proof":          func(a map[string]any) { a["proof"] = []any{} },
		"another log's":     func(a map[string]any) { a["checkpoint"] = string(other.notes[len(other.notes)-1].Note) },
		"an older one":      func(a map[string]any) { a["checkpoint"] = string(l.notes[20].Note) },
		"not signed":        text("checkpoint", func(s string) string { return s[:strings.Index(s, "\n\n")+2] }),
		"a signature bent":  text("checkpoint", bendSignature(t)),
		"a size bent":       text("checkpoint", func(s string) string { return strings.Replace(s, "\n36\n", "\n37\n", 1) }),
		"an origin bent":    text("checkpoint", func(s string) string { return strings.Replace(s, "log.example.com", "log.example.org", 1) }),
		"everything forged": forge(t, l, other),
	} {
		l.bend = bend
		verdict, steps := p.verify(good)
		if !strings.HasPrefix(verdict, "bad: ") && !strings.HasPrefix(verdict, "none: ") {
			t.Errorf("%s: %s\n%s", what, verdict, steps)
		}
	}
	// What is on the page is what is proved, and not what the server proves.
	l.bend = nil
	l.records[4].Body = []byte(strings.Replace(string(l.records[4].Body), "req_vote", "req_note", 1))
	verdict, steps = p.verify(good)
	if !strings.HasPrefix(verdict, "bad: ") || !strings.Contains(steps, "The event of the proof is the one on this page") {
		t.Errorf("the page is older than the event: %s\n%s", verdict, steps)
	}
	p.open(server.URL + eventURL(l.records[4].ID))
	if verdict, steps := p.verify(good); !strings.HasPrefix(verdict, "bad: ") {
		t.Errorf("the event was changed in the database: %s\n%s", verdict, steps)
	}
	p.eval(`crypto.subtle.importKey = async () => { throw new Error("unheard of") }`)
	l.records[4].Body = []byte(strings.Replace(string(l.records[4].Body), "req_note", "req_vote", 1))
	p.open(server.URL + eventURL(l.records[4].ID))
	p.eval(`crypto.subtle.importKey = async () => { throw new Error("unheard of") }`)
	if verdict, _ := p.verify(good); !strings.HasPrefix(verdict, "part: ") || !strings.Contains(verdict, "knows no Ed25519") {
		t.Errorf("a browser without Ed25519: %s", verdict)
	}
}

type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 1
	}
	return len(b), nil
}

// rename is the same public key as another log's.
func rename(t *testing.T, k audit.Key, name string) string {
	t.Helper()
	_, encoded, _ := strings.Cut(k.Public, "+")
	_, encoded, _ = strings.Cut(encoded, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append([]byte(name+"\n"), raw...))
	return name + "+" + hexOf(sum[:4]) + "+" + encoded
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// bendSignature changes one bit of the last byte of a note's signature.
func bendSignature(t *testing.T) func(string) string {
	return func(note string) string {
		at := strings.LastIndex(note, " ")
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(note[at+1:]))
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)-1] ^= 1
		return note[:at+1] + base64.StdEncoding.EncodeToString(raw) + "\n"
	}
}

// forge is a proof by another log of the same name that has the same event, all of
// it right but for who signed it.
func forge(t *testing.T, l, other *fakeLog) func(map[string]any) {
	return func(a map[string]any) {
		for id, r := range l.records {
			if r.Leaf == a["leaf_index"].(int64) {
				w := httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.SetPathValue("id", l.records[id].ID)
				other.proof(w, req)
				if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
					t.Error(err)
				}
				return
			}
		}
	}
}

// stateKeys makes these the log's keys that the server states.
func stateKeys(c *Console, keys ...string) {
	for _, g := range c.groups {
		if h, ok := g.(*eventHandler); ok {
			h.keys = keys
		}
	}
}
