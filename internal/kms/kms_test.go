package kms

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, address string) Service {
	t.Helper()
	s, err := Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fails wants an error of one line that says what is wanted and tells no secret.
func fails(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret) {
		t.Errorf("%s: got %v\nwant %s", name, err, want)
	}
}

const secret = "a secret of 24 characters"

// TestFileOfKeys: what a former key has wrapped is opened, and what was changed is not.
func TestFileOfKeys(t *testing.T) {
	ctx := t.Context()
	path := write(t, NewFileKey())
	former := open(t, "file://"+path)
	wrapped, err := Wrap(ctx, former, "data_key", []byte(secret))
	if err != nil || !IsWrapped(string(wrapped)) || strings.Contains(string(wrapped), secret) || bytes.Count(wrapped, []byte("\n")) != 1 {
		t.Fatalf("%s %v", wrapped, err)
	}
	again, err := Wrap(ctx, former, "data_key", []byte(secret))
	if err != nil || bytes.Equal(again, wrapped) {
		t.Errorf("two wrapped files are the same: %v", err)
	}
	was, err := Parse(string(wrapped))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now := open(t, "file://"+write(t, NewFileKey()+"\n"+string(text)))
	if id, err := now.KeyID(ctx); err != nil || id == was.KeyID {
		t.Errorf("the key is still %q, %v", id, err)
	}
	if got, err := Unwrap(ctx, now, "data_key", string(wrapped)); err != nil || string(got) != secret {
		t.Errorf("%q, %v", got, err)
	}
	_, err = Unwrap(ctx, open(t, "file://"+write(t, NewFileKey())), "data_key", string(wrapped))
	fails(t, "another installation's", err, "has no key file:")

	_, err = Unwrap(ctx, now, "log_key", string(wrapped))
	fails(t, "another setting's", err, "it is a wrapped data_key, not a log_key: were two files swapped?")
	_, err = Unwrap(ctx, now, "log_key", strings.Replace(string(wrapped), `"for":"data_key"`, `"for":"log_key"`, 1))
	fails(t, "renamed", err, "it was changed since it was wrapped, or was wrapped as something else than a log_key")
	other, err := Parse(string(again))
	if err != nil {
		t.Fatal(err)
	}
	swap := func(field string, from, to []byte) string {
		return strings.Replace(string(wrapped), `"`+field+`":"`+base64.StdEncoding.EncodeToString(from), `"`+field+`":"`+base64.StdEncoding.EncodeToString(to), 1)
	}
	_, err = Unwrap(ctx, now, "data_key", swap("data", was.Data, other.Data))
	fails(t, "another one's data", err, "it was changed")
	_, err = Unwrap(ctx, now, "data_key", swap("key", was.Key, other.Key))
	fails(t, "another one's key", err, "it was changed")
	flipped := bytes.Clone(was.Key)
	flipped[20] ^= 1
	_, err = Unwrap(ctx, now, "data_key", swap("key", was.Key, flipped))
	fails(t, "a changed key", err, "has not encrypted it")
	for i := range wrapped[:len(wrapped)-1] {
		if _, err := Unwrap(ctx, now, "data_key", string(wrapped[:i])); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("cut off after %d bytes: %v", i, err)
		}
	}
	_, err = Unwrap(ctx, now, "data_key", string(wrapped)+string(again))
	fails(t, "two", err, "something follows it")
	_, err = Unwrap(ctx, now, "data_key", strings.Replace(string(wrapped), ":1,", ":2,", 1))
	fails(t, "a later format", err, "it is wrapped in format 2, and this program knows 1")
	for _, field := range []string{`"for":"`, `"key_id":"`} { // both are printed
		_, err = Parse(strings.Replace(string(wrapped), field, field+`\u001b[2J`, 1))
		fails(t, "control characters in "+field, err, "not whole")
	}
	_, err = Wrap(ctx, now, "data_key", nil)
	fails(t, "nothing", err, "want 1 to")
}

func TestAddresses(t *testing.T) {
	key := NewFileKey()
	public := write(t, key)
	if err := os.Chmod(public, 0o604); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"": "want unix:///", "vault": "want unix:///", "unix://run/kms.sock": "want unix:///", "unix:@abstract": "want unix:///", "https:///x": `got "https"`,
		"file:///nowhere/keys": "no such file", "file://" + public: "others on this machine may open it (-rw----r--)",
		"file://" + write(t, ""): "there is no key in it", "file://" + write(t, key+"\n"+key): "is there twice",
		"file://" + write(t, key+"\n"+key[:20]): "line 2: want 32 random bytes",
	} {
		_, err := Open(address)
		fails(t, address, err, want)
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error tells the key", address)
		}
	}
}

// liar is a plugin that the tests can make lie.
type liar struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	version, health, key string
	encrypt              func(*kmsapi.EncryptResponse)
	decrypt              func(*kmsapi.DecryptResponse)
	err                  error
	silent               chan struct{} // not nil: it answers when this is closed
}

// annotated is what the plugin wants to see again.
var annotated = map[string][]byte{"version.example.com": []byte("7")}

func (l *liar) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: l.version, Healthz: l.health, KeyId: l.key}, nil
}

func (l *liar) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	answer := &kmsapi.EncryptResponse{Ciphertext: flip(r.Plaintext), KeyId: l.key, Annotations: annotated}
	if l.encrypt != nil {
		l.encrypt(answer)
	}
	return answer, l.err
}

func (l *liar) Decrypt(ctx context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	if l.silent != nil {
		select {
		case <-l.silent:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if r.KeyId != l.key || !maps.EqualFunc(r.Annotations, annotated, bytes.Equal) {
		return nil, errors.New("that is not what was encrypted")
	}
	answer := &kmsapi.DecryptResponse{Plaintext: flip(r.Ciphertext)}
	if l.decrypt != nil {
		l.decrypt(answer)
	}
	return answer, nil
}

func flip(data []byte) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = b ^ 0x55
	}
	return out
}

// serving has a plugin listen, and returns its address.
func (l *liar) serving(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "kms.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + path
}

// TestPluginThatLies: whatever a plugin answers, no file is written that cannot be opened,
// and nothing is opened that is not what was wrapped. Package pkcs11 and tests have a true one.
func TestPluginThatLies(t *testing.T) {
	ctx := t.Context()
	honest := func() *liar {
		return &liar{version: "v2", health: "ok", key: "key 1"}
	}
	s := open(t, honest().serving(t))
	wrapped, err := Wrap(ctx, s, "data_key", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unwrap(ctx, s, "data_key", string(wrapped)); err != nil || string(got) != secret {
		t.Fatalf("%q, %v", got, err)
	}
	for name, c := range map[string]struct {
		lie  func(*liar)
		want string
	}{
		"says nothing encrypted": {func(l *liar) { l.encrypt = func(r *kmsapi.EncryptResponse) { r.Ciphertext = nil } }, "answers with 0 bytes"},
		"says too much":          {func(l *liar) { l.encrypt = func(r *kmsapi.EncryptResponse) { r.Ciphertext = make([]byte, 1<<20) } }, "answers with 1048576 bytes"},
		"annotates too much": {func(l *liar) {
			l.encrypt = func(r *kmsapi.EncryptResponse) { r.Annotations = map[string][]byte{"x": make([]byte, 1<<16)} }
		}, "and annotations of 65537"},
		"names no key":               {func(l *liar) { l.encrypt = func(r *kmsapi.EncryptResponse) { r.KeyId = "" } }, "no proper name"},
		"names a key with a line":    {func(l *liar) { l.encrypt = func(r *kmsapi.EncryptResponse) { r.KeyId = "a\nb" } }, "no proper name"},
		"names another key":          {func(l *liar) { l.encrypt = func(r *kmsapi.EncryptResponse) { r.KeyId = "key 2" } }, "it cannot be opened again: the KMS at "},
		"forgets what it encrypted":  {func(l *liar) { l.encrypt = func(r *kmsapi.EncryptResponse) { r.Ciphertext[0] ^= 1 } }, "it cannot be opened again: it was changed"},
		"gives a key of other bytes": {func(l *liar) { l.decrypt = func(r *kmsapi.DecryptResponse) { r.Plaintext = []byte("short") } }, "something else than a file's key"},
		"refuses in several lines":   {func(l *liar) { l.err = errors.New("no\nand\x1b[31m no\u202e again") }, "no and [31m no again"},
	} {
		l := honest()
		c.lie(l)
		_, err := Wrap(ctx, open(t, l.serving(t)), "data_key", []byte(secret))
		fails(t, name, err, c.want)
	}
	for want, l := range map[string]*liar{
		`speaks "v1beta1", not v2`:       {version: "v1beta1", health: "ok", key: "key 1"},
		"is not well: the token is away": {version: "v2", health: "the token is away", key: "key 1"},
		"no proper name":                 {version: "v2", health: "ok"},
	} {
		_, err := open(t, l.serving(t)).KeyID(ctx)
		fails(t, want, err, want)
	}

	silent := honest()
	silent.silent = make(chan struct{})
	defer close(silent.silent)
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = Unwrap(soon, open(t, silent.serving(t)), "data_key", string(wrapped))
	fails(t, "no answer", err, "has not answered in time")

	gone := honest().serving(t)
	path := strings.TrimPrefix(gone, "unix://")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, gone).KeyID(ctx)
	fails(t, "no socket", err, "the KMS cannot be reached: stat "+path)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, gone).KeyID(ctx)
	fails(t, "a file", err, "the KMS cannot be reached: "+path+" is no socket")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deaf, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	deaf.SetUnlinkOnClose(false)
	if err := deaf.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, gone).KeyID(ctx)
	fails(t, "nobody listens", err, "connection refused")
}
