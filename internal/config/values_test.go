package config

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each setting of the file has its value, and no two settings the same name; what is read twice is the same.
func TestValues(t *testing.T) {
	file := write(t, `
public_url: https://hp.example.com
listen: 127.0.0.1:9999
smtp: {addr: "mail.example.com:25", password: hunter2}
routing: {default: {role: finance, needed: 2, expires_in: 1h}}
tickets: [{name: tracker, kind: jira, base_url: "https://tracker.example.com"}]
sso: [{name: corp, issuer: "https://login.example.com", client_id: x, client_secret: y, roles: {a: [b], c: [d], e: [f], g: [h], i: [j]}}]
log_streams: [{name: siem, url: "https://siem.example.com"}]
log_witnesses: [{url: "https://witness.example.com"}]
`)
	values := func(environ ...string) map[string][]byte {
		t.Helper()
		c, err := Load(file, environ)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Values()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := values()
	for range 20 {
		if again := values(); !maps.EqualFunc(first, again, bytes.Equal) || len(first) < 50 {
			t.Fatalf("%d settings, and %d", len(first), len(again))
		}
	}
	other := values("HOLDPOINT_SMTP_PASSWORD=hunter3", "HOLDPOINT_TOKEN_TTL=11m", "HOLDPOINT_LISTEN=localhost:1", "HOLDPOINT_METRICS_LISTEN=:9090", "HOLDPOINT_DATABASE_URL=postgres://x", "HOLDPOINT_SIGNING_KEYS=x", "HOLDPOINT_SECOND_FACTOR_ROLES=admin")
	var changed []string
	for name := range first {
		if !bytes.Equal(first[name], other[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if want := []string{"database_url", "metrics_listen", "second_factor_roles", "smtp", "token_ttl"}; !slices.Equal(changed, want) {
		t.Errorf("changed are %v, want %v", changed, want)
	}
}

func TestReach(t *testing.T) {
	for address, want := range map[string]string{
		"": "nobody", "127.0.0.1:8080": "this machine", "[::1]:80": "this machine", "localhost:0": "this machine", ":8080": "every network", "0.0.0.0:8080": "every network", "[::]:8080": "every network",
		"10.0.0.5:8080": "one network", "gate.internal:8080": "one network",
	} {
		if got := reach(address); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}

// A file of a secret that everybody may write is refused, and one that everybody may read is told of.
func TestOpenFiles(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "hp-open-") // whose own directories everybody may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	secret := filepath.Join(dir, "policy-secret")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(secret, []byte("a secret of sixteen and more"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]struct {
		refused bool
		open    int
	}{0o600: {}, 0o640: {}, 0o660: {}, 0o644: {false, 1}, 0o604: {false, 1}, 0o602: {true, 0}, 0o666: {true, 1}} {
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		c, err := Load("", []string{"HOLDPOINT_POLICY_SECRET_FILE=" + secret})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Check(0)
		if refused := err != nil && strings.Contains(err.Error(), "policy_secret: everybody on this machine may write "+secret); refused != want.refused || len(c.Open()) != want.open {
			t.Errorf("%o: open %v, %v", mode, c.Open(), err)
		}
	}
}
