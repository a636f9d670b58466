package config

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine/audit"
	"holdpoint/engine/token"
	"holdpoint/internal/kms"
	"holdpoint/internal/seal"
)

// keyDirectory has every file of keys of an installation, wrapped by a file of keys.
type keyDirectory struct {
	t    *testing.T
	dir  string
	env  []string
	keys map[string]string // setting → in clear
}

func wrappedKeys(t *testing.T) *keyDirectory {
	t.Helper()
	seed := sha256.Sum256([]byte(t.Name()))
	ring, err := token.Ring{}.Add(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	signing, err := ring.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	private, _, err := audit.NewKey(rand.Reader, "holdpoint.example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	k := &keyDirectory{t: t, dir: t.TempDir(), keys: map[string]string{
		"data_key": seal.NewKey(), "signing_keys": string(signing), "log_key": private, "policy_secret": rand.Text(), "policy_secret_former": rand.Text(),
		"smtp_password": rand.Text(), "database_url": "postgres://u:" + rand.Text() + "@h/d",
	}}
	k.write("kms", kms.NewFileKey())
	k.env = []string{"HOLDPOINT_KMS=file://" + k.path("kms"), "HOLDPOINT_SMTP_ADDR=h:25", "HOLDPOINT_SMTP_FROM=a@example.com", "HOLDPOINT_SMTP_USER=u"}
	for setting, text := range k.keys {
		k.env = append(k.env, "HOLDPOINT_"+strings.ToUpper(setting)+"_FILE="+k.path(setting))
		k.wrap(setting, text+"\n")
	}
	return k
}

func (k *keyDirectory) path(name string) string { return filepath.Join(k.dir, name) }

func (k *keyDirectory) write(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyDirectory) read(name string) string {
	k.t.Helper()
	text, err := os.ReadFile(k.path(name))
	if err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// wrap puts a wrapped secret into the file of a setting.
func (k *keyDirectory) wrap(setting, text string) {
	k.t.Helper()
	service, err := kms.Open("file://" + k.path("kms"))
	if err != nil {
		k.t.Fatal(err)
	}
	wrapped, err := kms.Wrap(context.Background(), service, strings.Replace(kind(setting), "smtp_", "smtp.", 1), []byte(text))
	if err != nil {
		k.t.Fatal(err)
	}
	k.write(setting, string(wrapped))
}

func (k *keyDirectory) check(more ...string) (Config, error) {
	k.t.Helper()
	c, err := Load("", slices.Concat(k.env, more))
	if err != nil {
		k.t.Fatal(err)
	}
	err = c.Check(Keys | Log | Database | DataKey)
	for _, secret := range k.keys {
		if err != nil && strings.Contains(err.Error(), secret) {
			k.t.Errorf("an error tells a secret: %v", err)
		}
	}
	return c, err
}

func TestWrappedFilesAreOpened(t *testing.T) {
	k := wrappedKeys(t)
	c, err := k.check()
	if err != nil {
		t.Fatal(err)
	}
	for setting, got := range map[string]string{
		"data_key": c.DataKey, "signing_keys": c.SigningKeys, "log_key": c.LogKey, "policy_secret": c.PolicySecret, "policy_secret_former": c.FormerPolicySecret,
		"smtp_password": c.SMTP.Password, "database_url": c.DatabaseURL,
	} {
		if got != k.keys[setting] {
			t.Errorf("%s is another one", setting)
		}
		if strings.Contains(k.read(setting), k.keys[setting]) {
			t.Errorf("%s is in clear", setting)
		}
	}
	if c.WrappedBy("data_key") == "" || c.WrappedBy("data_key") != c.WrappedBy("log_key") || c.WrappedBy("push_key") != "" {
		t.Errorf("wrapped by %q", c.WrappedBy("data_key"))
	}
	// A password of somebody else's may be in clear, and a value may stand in a variable.
	k.write("database_url", k.keys["database_url"])
	env := slices.DeleteFunc(slices.Clone(k.env), func(pair string) bool { return strings.HasPrefix(pair, "HOLDPOINT_DATA_KEY_FILE") })
	if k.env = append(env, "HOLDPOINT_DATA_KEY="+k.read("data_key")); err != nil {
		t.Fatal(err)
	}
	if c, err = k.check(); err != nil || c.DataKey != k.keys["data_key"] {
		t.Error(err)
	}
}

// TestWrappedFilesAreRefused: each in one line, which names the setting.
func TestWrappedFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*keyDirectory)
		want  string
	}{
		"swapped":             {func(k *keyDirectory) { k.write("log_key", k.read("data_key")) }, "log_key_file: it is a wrapped data_key, not a log_key: were two files swapped?"},
		"cut off":             {func(k *keyDirectory) { k.write("log_key", k.read("log_key")[:200]) }, "log_key_file: it is wrapped by a KMS, and not whole"},
		"in clear":            {func(k *keyDirectory) { k.write("log_key", k.keys["log_key"]) }, "log_key_file: PATH is in clear, and kms is set: holdpoint keys wrap wraps it"},
		"in clear, by itself": {func(k *keyDirectory) { k.env = append(k.env, "HOLDPOINT_PUSH_KEY=x") }, "push_key: it is in clear, and kms is set: name a file, which holdpoint keys wrap wraps"},
		"no kms":              {func(k *keyDirectory) { k.env = append(k.env, "HOLDPOINT_KMS=") }, "kms: it is missing: database_url_file is wrapped by one"},
		"another kms":         {func(k *keyDirectory) { k.write("kms", kms.NewFileKey()) }, "database_url_file: KEYS has no key file:"},
		"kms open to all":     {func(k *keyDirectory) { _ = os.Chmod(k.path("kms"), 0o644) }, "kms: KEYS: others on this machine may open it (-rw-r--r--): chmod 600 it"},
		"kms unreachable":     {func(k *keyDirectory) { k.env = append(k.env, "HOLDPOINT_KMS=unix:///nowhere/kms.sock") }, "kms: the KMS cannot be reached: stat /nowhere/kms.sock: no such file or directory"},
		"no such kms":         {func(k *keyDirectory) { k.env = append(k.env, "HOLDPOINT_KMS=vault") }, "kms: want unix:///"},
	} {
		t.Run(name, func(t *testing.T) {
			k := wrappedKeys(t)
			c.spoil(k)
			want := strings.NewReplacer("PATH", k.path("log_key"), "KEYS", k.path("kms")).Replace(c.want)
			_, err := k.check()
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("got %v\nwant %s", err, want)
			}
			lines := 1
			if name == "another kms" {
				lines = len(k.keys)
			}
			if got := len(strings.Split(err.Error(), "\n")); got != lines {
				t.Errorf("%d lines, want %d:\n%v", got, lines, err)
			}
		})
	}
}

// TestKMSGoesAway: what is in memory goes on, and a file that is new is not taken.
func TestKMSGoesAway(t *testing.T) {
	k := wrappedKeys(t)
	c, err := k.check()
	if err != nil {
		t.Fatal(err)
	}
	read := c.DataKeysReader()
	same, kept := k.read("data_key"), k.read("kms")
	both, err := seal.ParseKeys(k.keys["data_key"])
	if err != nil {
		t.Fatal(err)
	}
	added, err := seal.ParseKey(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	if both, err = both.Add(added); err != nil {
		t.Fatal(err)
	}
	k.wrap("data_key", string(both.Marshal()))
	next := k.read("data_key")
	if err := os.Remove(k.path("kms")); err != nil {
		t.Fatal(err)
	}
	if keys, err := read(); keys != nil || err == nil || !strings.HasPrefix(err.Error(), "data_key_file: kms: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, %v", keys, err)
	}
	k.write("data_key", same)
	if keys, err := read(); keys != nil || err != nil {
		t.Errorf("the file of before: %v, %v", keys, err)
	}
	k.write("data_key", k.keys["data_key"])
	if keys, err := read(); keys != nil || err == nil || !strings.Contains(err.Error(), "is in clear") {
		t.Errorf("a file in clear: %v, %v", keys, err)
	}
	k.write("kms", kept)
	k.write("data_key", next)
	if keys, err := read(); err != nil || keys == nil || len(keys.IDs()) != 2 {
		t.Errorf("with the KMS again: %v, %v", keys, err)
	}
}

// TestSecretsOfOthersAreOpened: a tracker's token, and the key of a certificate, which is
// read again for each connection, also when the KMS has gone away.
func TestSecretsOfOthersAreOpened(t *testing.T) {
	k := wrappedKeys(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, public, private)
	if err != nil {
		t.Fatal(err)
	}
	k.write("cert", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	k.wrap("temporal_tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	k.wrap("tickets.token", "hunter2-token\n")
	file := write(t, strings.NewReplacer("FILE", k.path("tickets.token"), "DIR", k.dir).Replace(trackerFile+"temporal_tls: {cert_file: DIR/cert, key_file: DIR/temporal_tls.key}\n"))
	c, err := Load(file, k.env)
	if err == nil {
		err = c.Check(Temporal)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.Tickets[0].Token != "hunter2-token" {
		t.Errorf("the token is %q", c.Tickets[0].Token)
	}
	if err := os.Remove(k.path("kms")); err != nil {
		t.Fatal(err)
	}
	pair, err := c.ToTemporal.GetClientCertificate(nil)
	if err != nil || !private.Equal(pair.PrivateKey) {
		t.Errorf("the certificate's key is another one: %v", err)
	}
	k.write("temporal_tls.key", k.read("tickets.token"))
	if _, err := c.ToTemporal.GetClientCertificate(nil); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a new file without the KMS: %v", err)
	}
}

// A command that writes a file of keys reads where the KMS is, and stumbles over nothing else.
func TestKMSAlone(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		path, env, want, fails string
	}{
		"nothing":              {"", "HOLDPOINT_LISTN=x", "", ""},
		"by variable":          {"", "HOLDPOINT_KMS=unix:///a", "unix:///a", ""},
		"by file":              {file("a.yaml", "listn: 1\ntoken_ttl: soon\nkms: unix:///b\n"), "HOLDPOINT_TOKEN_TTL=x", "unix:///b", ""},
		"the variable wins":    {file("b.yaml", "kms: unix:///b\n"), "HOLDPOINT_KMS=unix:///a", "unix:///a", ""},
		"an empty file":        {file("c.yaml", ""), "", "", ""},
		"no file, no need":     {filepath.Join(dir, "gone"), "HOLDPOINT_KMS=unix:///a", "unix:///a", ""},
		"a file that is gone":  {filepath.Join(dir, "gone"), "", "", "for its kms"},
		"a file that is none":  {file("d.yaml", "kms: [\n"), "", "", "d.yaml: [1:6]"},
		"kms that is no text":  {file("e.yaml", "kms: {a: 1}\n"), "", "", "e.yaml: "},
		"a list for a setting": {file("f.yaml", "- kms\n"), "", "", "f.yaml: "},
	} {
		got, err := KMS(c.path, []string{c.env})
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
