package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdpoint/engine/policy"
)

// Signatures are checked by a file of people's public keys alone, as ssh-keygen has it.
func TestAllowedSigners(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(file, []byte("version: \"7\"\ngenerated_at: 2026-01-01T00:00:00Z\nexpires_at: 2036-01-01T00:00:00Z\ndefaults: {outcome: DENY}\nrules:\n  - {id: all, description: Everything., match: {tool_name: \"*\", environment: \"*\"}, outcome: DENY}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, who := range []string{"ada", "ben", "eve"} {
		path, _, _ := sshKey(t, "")
		public, err := os.ReadFile(path + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		lines[who] = strings.TrimSpace(string(public))
		if who == "eve" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, problems := policy.Load(data, policy.Options{File: file})
		if b == nil {
			t.Fatal(problems)
		}
		if data, _, err = signBy(data, file, b, path, "production"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := filepath.Join(dir, "allowed")
	check := func(text, environment string, needed int) error {
		t.Helper()
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		signers, err := readAllowedSigners(from)
		if err != nil {
			return err
		}
		b, err := loadPolicy(file, policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return signedByAllowed(b, file, environment, from, needed, signers)
	}
	both := "# who signs\n\nada@example.com " + lines["ada"] + "\nben@example.com namespaces=\"git,holdpoint-policy\" " + lines["ben"] + " of his laptop\r\n"
	for _, c := range []struct {
		text, environment string
		needed            int
		want              string
	}{
		{both, "production", 2, ""},
		{both, "production", 3, "want the signatures of 3 of"},
		{both, "staging", 1, "got 0; it is signed for production"},
		{"eve@example.com " + lines["eve"], "production", 1, "got 0"},
		{"ada@example.com " + lines["ada"] + "\nada@example.com " + lines["ben"], "production", 2, "got 1"}, // two keys are one voice
		{"ada@example.com namespaces=\"git\" " + lines["ada"] + "\nben@example.com " + lines["ben"], "production", 2, "got 1"},
		{"ada@example.com " + lines["ada"] + "\neve@example.com " + lines["ada"], "production", 1, "allowed:2: the key SHA256:"},
		{lines["ada"], "production", 1, "allowed:1: want a person and a public key"},
		{"*@example.com " + lines["ada"], "production", 1, "want one person, and no pattern"},
		{"ada@example.com valid-before=\"20300101\" " + lines["ada"], "production", 1, "valid-before: it is not known here"},
		{"ada@example.com cert-authority " + lines["ada"], "production", 1, "cert-authority: it is not known here"},
		{"ada@example.com ssh-ed25519 AAAA", "production", 1, "want a person and a public key"},
		{"ada@example.com namespaces=\"git\" " + lines["ada"], "production", 1, "no key that signs policies"},
		{"", "production", 1, "no key that signs policies"},
	} {
		if err := check(c.text, c.environment, c.needed); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %s, %d: %v, want %q", c.text, c.environment, c.needed, err, c.want)
		}
	}
}
