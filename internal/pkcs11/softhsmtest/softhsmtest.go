// Package softhsmtest makes tokens of SoftHSM for tests, by its own programs and OpenSC's.
// It never touches the tokens of the machine's user.
package softhsmtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Machine is a directory with tokens of its own.
type Machine struct {
	// Library is SoftHSM's PKCS#11 library.
	Library string
	// Env is what a program is to have in its environment to find the tokens.
	Env string

	t   testing.TB
	dir string
}

// PIN is the user's PIN of every token.
const PIN = "correct-pin-4711"

// New makes an empty machine. Without SoftHSM and OpenSC it is an error in CI, and a skip
// elsewhere.
func New(t testing.TB) *Machine {
	t.Helper()
	m := &Machine{t: t, dir: t.TempDir()}
	for _, path := range []string{"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so"} {
		if _, err := os.Stat(path); err == nil {
			m.Library = path
			break
		}
	}
	missing := ""
	if m.Library == "" {
		missing = "SoftHSM's library"
	}
	for _, program := range []string{"softhsm2-util", "pkcs11-tool"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = program
		}
	}
	if missing != "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed (Debian: softhsm2, opensc)", missing)
		}
		t.Skipf("%s is not installed (Debian: softhsm2, opensc)", missing)
	}
	conf := filepath.Join(m.dir, "softhsm2.conf")
	tokens := filepath.Join(m.dir, "tokens")
	if err := os.Mkdir(tokens, 0o700); err != nil {
		t.Fatal(err)
	}
	m.Write("softhsm2.conf", "directories.tokendir = "+tokens+"\nobjectstore.backend = file\nlog.level = ERROR\n")
	m.Env = "SOFTHSM2_CONF=" + conf
	return m
}

// Write writes a file that its owner alone reads, and returns its path.
func (m *Machine) Write(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// Token makes a token.
func (m *Machine) Token(label string) {
	m.t.Helper()
	m.run("softhsm2-util", "--init-token", "--free", "--label", label, "--so-pin", "so-pin-0815", "--pin", PIN)
}

// Key makes an AES key in a token, which never leaves it if args say nothing else. The id
// is in hexadecimal digits.
func (m *Machine) Key(token, label, id string, args ...string) {
	m.t.Helper()
	m.Tool(append([]string{"--token-label", token, "--keygen", "--key-type", "AES:32", "--label", label, "--id", id, "--sensitive", "--private"}, args...)...)
}

// Tool runs pkcs11-tool, logged in.
func (m *Machine) Tool(args ...string) {
	m.t.Helper()
	m.run("pkcs11-tool", append([]string{"--module", m.Library, "--login", "--pin", PIN}, args...)...)
}

// URI is the address of a key, with its library and a file with the PIN.
func (m *Machine) URI(token, label string) string {
	m.t.Helper()
	return fmt.Sprintf("pkcs11:token=%s;object=%s?module-path=%s&pin-source=file:%s", url.PathEscape(token), url.PathEscape(label), m.Library, m.Write("pin", PIN+"\n"))
}

func (m *Machine) run(program string, args ...string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), program, args...)
	cmd.Env = append(os.Environ(), m.Env)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s %v: %v\n%s", program, args, err, bytes.TrimSpace(out))
	}
}
