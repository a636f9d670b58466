package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holdpoint/internal/pkcs11/softhsmtest"
)

// hsm is a token of SoftHSM with a holdpoint-pkcs11 before it.
type hsm struct {
	*softhsmtest.Machine
	t      *testing.T
	bin    string
	dir    string // of the socket
	socket string
	plugin *program
}

func newHSM(t *testing.T) *hsm {
	t.Helper()
	h := &hsm{Machine: softhsmtest.New(t), t: t}
	dir, err := os.MkdirTemp("", "hsm") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h.dir, h.bin, h.socket = dir, filepath.Join(dir, "holdpoint-pkcs11"), filepath.Join(dir, "kms.sock")
	build := exec.Command("go", "build", "-o", h.bin, "holdpoint/cmd/holdpoint-pkcs11")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	return h
}

// start starts the plugin with a key, and waits until it serves.
func (h *hsm) start(token, label string) {
	h.t.Helper()
	var err error
	if h.plugin, err = run(h.bin, h.dir, newID("plugin-"), environment(h.Env), nil, "--socket", h.socket, h.URI(token, label)); err != nil {
		h.t.Fatal(err)
	}
	eventually(h.t, readyWithin, "the plugin serves", func() bool {
		if h.plugin.exited() {
			h.t.Fatal(h.plugin.tail())
		}
		return strings.Contains(h.plugin.text(), `"serving"`)
	})
	h.t.Cleanup(func() {
		if !h.plugin.exited() {
			h.stop()
		}
	})
}

func (h *hsm) stop() {
	h.t.Helper()
	if err := h.plugin.stop(); err != nil {
		h.t.Error(err)
	}
}

// keysUnderAKMS: a gate and a worker whose files of keys are wrapped by a key inside a
// token of SoftHSM go on without it, and start with it alone; the key is changed, and no
// other token, and no swapped file, is taken.
func keysUnderAKMS(t *testing.T, c *cluster) {
	t.Helper()
	h := newHSM(t)
	for _, token := range []string{"holdpoint", "other"} {
		h.Token(token)
		h.Key(token, "kek-2026", "01")
	}
	// The files are this gate's own: the others have theirs in clear.
	files := map[string]string{"DATA_KEY": "data_key", "SIGNING_KEYS": "signing-keys.json", "LOG_KEY": "log-key"}
	former, inClear := c.env, map[string]string{}
	env := append(slices.Clone(former), "HOLDPOINT_KMS=unix://"+h.socket, "HOLDPOINT_SIGNING_KEY_DELAY=0s", "HOLDPOINT_PUBLIC_URL="+c.where(0))
	path := func(name string) string { return filepath.Join(h.dir, name) }
	for setting, name := range files {
		text, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		inClear[name] = strings.TrimSpace(string(text))
		h.put(path(name), string(text))
		env = append(env, "HOLDPOINT_"+setting+"_FILE="+path(name))
	}
	own, database := path("database_url"), c.RuntimeURL // somebody else's secret, wrapped as well
	h.put(own, database)
	env = append(slices.DeleteFunc(env, func(pair string) bool { return strings.HasPrefix(pair, "HOLDPOINT_DATABASE_URL=") }), "HOLDPOINT_DATABASE_URL_FILE="+own)
	refused := func(what, want string) {
		t.Helper()
		got := cli(t, env, "", "serve")
		if got.code != 1 || !strings.HasPrefix(got.err, "holdpoint: "+want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s\nwant %s", what, got.code, got.err, want)
		}
	}

	refusedToWrap := cli(t, env, "", "keys", "wrap")
	if refusedToWrap.code == 0 || !strings.Contains(refusedToWrap.err, "the KMS cannot be reached") || h.get(path("log-key")) != inClear["log-key"] {
		t.Errorf("without a plugin: %s%s", refusedToWrap.out, refusedToWrap.err)
	}
	h.start("holdpoint", "kek-2026")
	if got := cli(t, env, "", "keys", "list"); got.code == 0 || strings.Count(got.err, "is in clear, and kms is set") != 3 {
		t.Errorf("keys in clear were taken: %s%s", got.out, got.err)
	}
	const first, second = "pkcs11:token=holdpoint;object=kek-2026;id=%01", "pkcs11:token=holdpoint;object=kek-2027;id=%02"
	if out := must(t, env, "", "keys", "wrap"); strings.Count(out, "is wrapped with "+first+"\n") != 4 {
		t.Errorf("got %s", out)
	}
	for name, text := range inClear {
		if strings.Contains(h.get(path(name)), text) {
			t.Errorf("%s is in clear", name)
		}
	}

	// A witness's key is made wrapped: it is opened before the log is looked at.
	must(t, env, "", "witness", "key", path("witness"), "--name", "w.example.com/1")
	if text := h.get(path("witness")); !strings.HasPrefix(text, `{"holdpoint_wrapped":1,"for":"witness_key",`) {
		t.Errorf("got %s", text)
	}
	if got := cli(t, env, "", "witness", "--key", path("witness"), "--state", path("state"), "--log", "x"); !strings.Contains(got.err, "holdpoint: --log: ") {
		t.Errorf("got %s", got.err)
	}

	// A gate and a worker.
	c.env = env
	defer func() { c.env = former }()
	c.startServe(binary(t))
	c.startWorker()
	last := len(c.serves) - 1
	gate, worker, url := c.serves[last], c.workers[len(c.workers)-1], c.urls[last]
	c.serves, c.urls, c.workers = c.serves[:last], c.urls[:last], c.workers[:len(c.workers)-1]
	defer func() {
		for _, p := range []*program{gate, worker} {
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		}
	}()
	loop := func() (kid string) {
		t.Helper()
		there, here := c.agent(t).at(url), c.agent(t).at(c.where(0))
		a := there.hold("wrapped_keys", nil)
		c.reviewer(t, 0).at(url).approve(a)
		token := there.wait(a.ID).Token
		here.redeem(token, "wrapped_keys", none()).want(t, 200)
		return strings.Split(token, ".")[0]
	}
	kid := loop()
	list := must(t, env, "", "keys", "list")
	if !strings.Contains(list, "WRAPPED BY") || strings.Count(list, first) < 3 {
		t.Errorf("got %s", list)
	}

	// While the KMS is away a new file is not taken, and nothing starts.
	before := h.get(path("signing-keys.json"))
	must(t, env, "", "keys", "new", "--for", "tokens", path("signing-keys.json"))
	after := h.get(path("signing-keys.json"))
	h.put(path("signing-keys.json"), before)
	h.stop()
	h.put(path("signing-keys.json"), after)
	hangUp(t, gate)
	eventually(t, settleWithin, "the gate says that it keeps its keys", func() bool {
		return strings.Contains(gate.text(), "the former ones go on signing") && strings.Contains(gate.text(), "the KMS cannot be reached")
	})
	if loop() != kid {
		t.Error("another key signs")
	}
	refused("without the KMS", "kms: the KMS cannot be reached: stat "+h.socket)

	// It comes back with another key, which opens what the former has wrapped.
	h.Key("holdpoint", "kek-2027", "02")
	h.start("holdpoint", "kek-2027")
	hangUp(t, gate)
	eventually(t, settleWithin, "the new signing key signs", func() bool { return loop() != kid })
	if out := must(t, env, "", "doctor"); strings.Count(out, "it is wrapped with "+first+", and "+second+" wraps now") != 4 {
		t.Errorf("doctor says %s", out)
	}
	if out := must(t, env, "", "keys", "wrap"); strings.Count(out, "is wrapped with "+second+", before with "+first) != 4 {
		t.Errorf("got %s", out)
	}
	h.Tool("--token-label", "holdpoint", "--delete-object", "--type", "secrkey", "--label", "kek-2026")
	if out := must(t, env, "", "doctor"); strings.Count(out, "wrapped with "+second) != 4 || strings.Contains(out, "in clear") {
		t.Errorf("doctor says %s", out)
	}
	if err := gate.stop(); err != nil {
		t.Error(err)
	}
	c.startServe(binary(t)) // with the second key alone
	gate, url = c.serves[last], c.urls[last]
	c.serves, c.urls = c.serves[:last], c.urls[:last]
	loop()

	// What is not this setting's, or not whole, or of another token's key, starts nothing.
	whole := h.get(path("log-key"))
	h.put(path("log-key"), h.get(path("data_key")))
	refused("swapped", "log_key_file: it is a wrapped data_key, not a log_key")
	h.put(path("log-key"), whole[:len(whole)/2])
	refused("half a file", "log_key_file: it is wrapped by a KMS, and not whole")
	h.put(path("log-key"), strings.Replace(whole, second, first, 1))
	refused("a key that is gone", "log_key_file: the KMS at "+h.socket+": decrypt with "+first+": there is no AES key")
	h.put(path("log-key"), whole)
	h.stop()
	h.Key("other", "kek-2027", "02")
	h.start("other", "kek-2027")
	if got := cli(t, env, "", "serve"); got.code != 1 || strings.Count(got.err, "no key of this token opens it") != 4 {
		t.Errorf("another token's key: exit %d\n%s", got.code, got.err)
	}
	h.stop()
	pin := strings.Replace(h.URI("holdpoint", "kek-2027"), "/pin", "/wrong", 1)
	h.Write("wrong", "no-such-pin-1\n")
	if code := h.refused(pin, "log in to the token \"holdpoint\": the PIN is wrong"); code != 78 {
		t.Errorf("a wrong PIN ends with %d", code)
	}
	if err := os.Chmod(h.Write("wrong", softhsmtest.PIN), 0o644); err != nil { //nolint:gosec // that is the test
		t.Fatal(err)
	}
	h.refused(pin, "the PIN: ")
	h.refused("pkcs11:object=a?pin-value=1234", "pin-value: everybody sees")
	h.refused("pkcs11:object=a?module-path=/nowhere.so", "open the PKCS#11 library")
	h.start("holdpoint", "kek-2027")

	// The way back, and nothing was ever told.
	if out := must(t, env, "", "keys", "unwrap"); strings.Count(out, "is in clear\n") != 4 || h.get(path("data_key")) != inClear["data_key"] {
		t.Errorf("got %s", out)
	}
	logs, err := filepath.Glob(filepath.Join(h.dir, "*.log"))
	if err != nil || len(logs) < 4 {
		t.Fatalf("%v %v", logs, err)
	}
	said := gate.text() + worker.text()
	for _, log := range logs {
		said += h.get(log)
	}
	for _, secret := range []string{inClear["data_key"], inClear["log-key"], database, softhsmtest.PIN} {
		if strings.Contains(said, secret) {
			t.Error("a log tells a secret")
		}
	}
}

// refused wants the plugin not to start.
func (h *hsm) refused(uri, want string) (code int) {
	h.t.Helper()
	cmd := exec.Command(h.bin, "--socket", h.socket+"2", uri)
	cmd.Env = environment(h.Env)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "holdpoint-pkcs11: "+want) || strings.Count(string(out), "\n") != 1 || strings.Contains(string(out), "1234") {
		h.t.Errorf("%s: %v\n%s\nwant %s", uri, err, out, want)
	}
	return cmd.ProcessState.ExitCode()
}

func (h *hsm) put(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// get is what is in a file, without the white space around it.
func (h *hsm) get(path string) string {
	h.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// hangUp has a program look at its files again.
func hangUp(t *testing.T, p *program) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
