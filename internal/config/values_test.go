package config

import (
	"bytes"
	"maps"
	"slices"
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
	other := values("HOLDPOINT_SMTP_PASSWORD=hunter3", "HOLDPOINT_TOKEN_TTL=11m", "HOLDPOINT_LISTEN=127.0.0.1:1", "HOLDPOINT_DATABASE_URL=postgres://x", "HOLDPOINT_SIGNING_KEYS=x", "HOLDPOINT_SECOND_FACTOR_ROLES=admin")
	var changed []string
	for name := range first {
		if !bytes.Equal(first[name], other[name]) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if want := []string{"database_url", "second_factor_roles", "smtp", "token_ttl"}; !slices.Equal(changed, want) {
		t.Errorf("changed are %v, want %v", changed, want)
	}
}
