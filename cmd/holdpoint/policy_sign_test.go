package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"holdpoint/engine/policy"
)

var signingSecret = []byte("a secret of some length")

const unsignedYAML = `# The policy of payments.
version: "1"   # raise it
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2036-01-01T00:00:00Z" # far away

# What nobody thought of.
defaults: {outcome: DENY}
rules:
  - id: a # the only one
    description: "signature: none"
    match: {tool_name: pay, environment: "*"}
    outcome: ALLOW
`

// TestSignedPolicy: signing changes the signature and nothing else, however the
// file is written.
func TestSignedPolicy(t *testing.T) {
	flat := strings.NewReplacer("version:", "  version:", "generated_at:", "  generated_at:", "expires_at:", "  expires_at:", "defaults:", "  defaults:", "rules:\n", "  rules:\n")
	const pretty = "{\n  \"version\": \"1\",\n  \"generated_at\": \"2026-01-01T00:00:00Z\",\n  \"expires_at\": \"2036-01-01T00:00:00Z\",\n" +
		"  \"defaults\": {\"outcome\": \"DENY\"},\n  \"rules\": [{\"id\": \"signature\", \"description\": \"\", \"match\": {\"tool_name\": \"a\", \"environment\": \"*\"}, \"outcome\": \"DENY\"}]\n}\n"
	for name, c := range map[string]struct {
		text     string
		replaces bool
	}{
		"YAML":                   {unsignedYAML, false},
		"no line break at end":   {strings.TrimSuffix(unsignedYAML, "\n"), false},
		"CR LF":                  {strings.ReplaceAll(unsignedYAML, "\n", "\r\n"), false},
		"CR LF in a text":        {strings.ReplaceAll(strings.Replace(unsignedYAML, "\"signature: none\"", "|\n      two\n      lines", 1), "\n", "\r\n"), false},
		"expires_at is last":     {strings.Replace(unsignedYAML, "expires_at: \"2036-01-01T00:00:00Z\" # far away\n", "", 1) + `expires_at: "2036-01-01T00:00:00Z"`, false},
		"indented":               {flat.Replace(unsignedYAML), false},
		"a document marker":      {"---\n" + unsignedYAML, false},
		"an empty signature":     {"signature: \"\"\n" + unsignedYAML, true},
		"nothing behind it":      {"signature:\n" + unsignedYAML, true},
		"a former one":           {unsignedYAML + "signature: \"00ff\" # by hand\n", true},
		"one in single quotes":   {unsignedYAML + "'signature' : '00ff'\n", true},
		"one without quotes":     {unsignedYAML + "signature: abcdef", true},
		"JSON":                   {pretty, false},
		"compact JSON":           {strings.Join(strings.Fields(pretty), ""), false},
		"JSON with a former one": {strings.Replace(pretty, "\"defaults\"", "\"signature\" : \"00ff\",\n  \"defaults\"", 1), true},
		"JSON with an empty one": {strings.Replace(pretty, "}]\n}", "}],\n  \"signature\": \"\"\n}", 1), true},
		"JSON with null":         {strings.Replace(pretty, "}]\n}", "}],\n  \"signature\":null}", 1), true},
	} {
		former, problems := policy.Load([]byte(c.text), policy.Options{})
		if former == nil {
			t.Fatalf("%s: %v", name, problems)
		}
		got, err := signedPolicy([]byte(c.text), "p", signingSecret)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, problems := policy.Load(got, policy.Options{Secret: signingSecret})
		if b == nil || b.Digest != former.Digest || !b.Signed {
			t.Errorf("%s: %v\n%s", name, problems, got)
			continue
		}
		again, err := signedPolicy(got, "p", signingSecret)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s: signing again changes it: %v\n%s", name, err, again)
		}
		// Everything else is there, byte for byte.
		v := string(got)
		for _, line := range strings.SplitAfter(c.text, "\n") {
			if !strings.Contains(line, "signature") && !strings.Contains(v, strings.TrimRight(line, "\r\n")) {
				t.Errorf("%s: %q is gone from\n%s", name, line, v)
			}
		}
		if !c.replaces && len(got)-len(c.text) < 64+len(`signature: ""`) {
			t.Errorf("%s: %d bytes were added", name, len(got)-len(c.text))
		}
	}
	got, err := signedPolicy([]byte(unsignedYAML), "p", signingSecret)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(got), "signature: \"")
	if _, rest, _ := strings.Cut(after, "\n"); !ok || before+rest != unsignedYAML {
		t.Errorf("something else was changed:\n%s", got)
	}
}

// What cannot be signed without touching more than the signature is refused.
func TestSignedPolicyRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a signature of two lines": "signature: >\n  00\n  ff\n" + unsignedYAML,
		"the value below":          "signature:\n  00ff\n" + unsignedYAML,
	} {
		got, err := signedPolicy([]byte(text), "p", signingSecret)
		if err != nil {
			continue
		}
		if b, _ := policy.Load(got, policy.Options{Secret: signingSecret}); b != nil {
			t.Errorf("%s: signed as\n%s", name, got)
		}
	}
}

// sshKey writes a key as ssh-keygen does, and returns where, and its fingerprint.
func sshKey(t *testing.T, passphrase string) (path, fingerprint string, private ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "id")
	for name, data := range map[string][]byte{path: pem.EncodeToMemory(block), path + ".pub": ssh.MarshalAuthorizedKey(signer.PublicKey())} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, ssh.FingerprintSHA256(signer.PublicKey()), private
}

// TestSignedByPeople: people sign one after another, with a key in a file or in an agent, and the
// shared secret last; nothing else of the file changes.
func TestSignedByPeople(t *testing.T) {
	ada, adas, _ := sshKey(t, "")
	ben, bens, private := sshKey(t, "a secret phrase")
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		for {
			conn, err := socket.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keys, conn) }() // until the client is gone
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", socket.Addr().String())

	for name, text := range map[string]string{
		"YAML": unsignedYAML, "CR LF": strings.ReplaceAll(unsignedYAML, "\n", "\r\n"), "an empty list": unsignedYAML + "signed_by: [] # who\n", "nothing behind it": "signed_by:\n" + unsignedYAML,
		"JSON": `{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","defaults":{"outcome":"DENY"},"rules":[]}`,
	} {
		data := []byte(text)
		for _, step := range []struct{ key, environment string }{{ada, "production"}, {ben + ".pub", "production"}, {ada, "staging"}, {ada, "production"}} {
			b, problems := policy.Load(data, policy.Options{})
			if b == nil {
				t.Fatalf("%s: %v", name, problems)
			}
			if data, _, err = signBy(data, "p", b, step.key, step.environment); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		data, err := signedPolicy(data, "p", signingSecret)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, problems := policy.Load(data, policy.Options{Secret: signingSecret})
		if b == nil || len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		var got []string
		for _, environment := range b.SignedEnvironments() {
			for _, key := range b.SignedFor(environment) {
				got = append(got, environment+" "+key.Fingerprint)
			}
		}
		if want := "production " + adas + ",production " + bens + ",staging " + adas; strings.Join(got, ",") != want {
			t.Errorf("%s: signed by %s, want %s", name, got, want)
		}
		before, _ := policy.Load([]byte(text), policy.Options{})
		if before.Digest != b.Digest {
			t.Errorf("%s: signing has changed the policy", name)
		}
	}
	b, _ := policy.Load([]byte(unsignedYAML), policy.Options{})
	for name, tt := range map[string]struct{ key, socket, says string }{
		"a passphrase":     {ben, socket.Addr().String(), "has a passphrase: run “ssh-add " + ben + "”"},
		"not in the agent": {ada + ".pub", socket.Addr().String(), "the SSH agent has not the private key of " + ada + ".pub"},
		"no agent":         {ben + ".pub", "", "no SSH agent runs"},
		"no key":           {noKey(t), "", "is no SSH key in a file"},
	} {
		t.Setenv("SSH_AUTH_SOCK", tt.socket)
		if _, _, err := signBy([]byte(unsignedYAML), "p", b, tt.key, "production"); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want one that says %q", name, err, tt.says)
		}
	}
}

// noKey is a file that is no key.
func noKey(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(path, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
