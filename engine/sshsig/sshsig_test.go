package sshsig_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"

	"holdpoint/engine/sshsig"
)

const purpose = "holdpoint-policy"

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// armoured is a signature as OpenSSH writes it.
func armoured(t testing.TB, name string) []byte {
	t.Helper()
	block, _ := pem.Decode(read(t, name))
	if block == nil || block.Type != "SSH SIGNATURE" {
		t.Fatalf("%s is no signature", name)
	}
	return block.Bytes
}

// TestOpenSSH: what OpenSSH has signed is verified, and nothing beside it.
func TestOpenSSH(t *testing.T) {
	key, err := sshsig.ParseKey(read(t, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"message.sig", "message.sha256.sig"} {
		blob := armoured(t, name)
		if got, err := sshsig.Verify(blob, purpose, []byte("the message")); err != nil || got != key {
			t.Errorf("%s: %v, %v, want %v", name, got, err, key)
		}
		for what, try := range map[string]struct {
			purpose, message string
		}{"another message": {purpose, "the message "}, "no message": {purpose, ""}, "another purpose": {"file", "the message"}, "no purpose": {"", "the message"}} {
			if got, err := sshsig.Verify(blob, try.purpose, []byte(try.message)); !errors.Is(err, sshsig.ErrSignature) || got != key {
				t.Errorf("%s, %s: %v, %v", name, what, got, err)
			}
		}
		for i := range blob {
			changed := bytes.Clone(blob)
			changed[i] ^= 1
			if got, err := sshsig.Verify(changed, purpose, []byte("the message")); err == nil {
				t.Errorf("%s: with byte %d changed it is a signature by %v", name, i, got)
			}
			if _, err := sshsig.Verify(blob[:i], purpose, []byte("the message")); !errors.Is(err, sshsig.ErrMalformed) {
				t.Errorf("%s: cut at byte %d: %v", name, i, err)
			}
		}
		if _, err := sshsig.Verify(append(bytes.Clone(blob), 0), purpose, []byte("the message")); !errors.Is(err, sshsig.ErrMalformed) {
			t.Errorf("%s: with a byte behind it: %v", name, err)
		}
	}
}

func TestParseKey(t *testing.T) {
	line := read(t, "key.pub")
	key, err := sshsig.ParseKey(line)
	if err != nil || key.Fingerprint != "SHA256:"+fingerprint(t, line) || !bytes.HasPrefix(line, []byte(key.Line+" ")) {
		t.Fatalf("%+v, %v", key, err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&other.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sshsig.ParseKey(ssh.MarshalAuthorizedKey(public)); !errors.Is(err, sshsig.ErrKind) {
		t.Errorf("an ECDSA key: %v", err)
	}
	for what, text := range map[string][]byte{
		"nothing": nil, "no key": []byte("ssh-ed25519 AAAA"), "two keys": append(bytes.Clone(line), line...), "options": append([]byte(`command="x" `), line...),
	} {
		if got, err := sshsig.ParseKey(text); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func fingerprint(t testing.TB, line []byte) string {
	t.Helper()
	public, _, _, _, err := ssh.ParseAuthorizedKey(line) //nolint:dogsled // the key alone
	if err != nil {
		t.Fatal(err)
	}
	return ssh.FingerprintSHA256(public)[len("SHA256:"):]
}

// securityKey signs as a FIDO authenticator does, touched or not.
type securityKey struct {
	public  ssh.PublicKey
	private ed25519.PrivateKey
	flags   byte
}

func (k securityKey) PublicKey() ssh.PublicKey { return k.public }

const application = "ssh:"

func newSecurityKey(t testing.TB, flags byte) securityKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePublicKey(ssh.Marshal(struct {
		Name        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, application}))
	if err != nil {
		t.Fatal(err)
	}
	return securityKey{key, private, flags}
}

func (k securityKey) Sign(_ io.Reader, data []byte) (*ssh.Signature, error) {
	of, message := sha256.Sum256([]byte(application)), sha256.Sum256(data)
	rest := ssh.Marshal(struct {
		Flags   byte
		Counter uint32
	}{k.flags, 7})
	return &ssh.Signature{Format: ssh.KeyAlgoSKED25519, Blob: ed25519.Sign(k.private, bytes.Join([][]byte{of[:], rest, message[:]}, nil)), Rest: rest}, nil
}

// TestSign: what is signed here is verified, by keys in files and on security keys that were
// touched; no other kind of key signs.
func TestSign(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := sshsig.Sign(rand.Reader, signer, purpose, []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sshsig.Verify(blob, purpose, []byte("m")); err != nil || got.Fingerprint != ssh.FingerprintSHA256(signer.PublicKey()) {
		t.Errorf("%v, %v", got, err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = ssh.NewSignerFromKey(other); err != nil {
		t.Fatal(err)
	}
	if _, err := sshsig.Sign(rand.Reader, signer, purpose, []byte("m")); !errors.Is(err, sshsig.ErrKind) {
		t.Errorf("an ECDSA key signs: %v", err)
	}
	for flags, want := range map[byte]error{1: nil, 0: sshsig.ErrSignature} {
		k := newSecurityKey(t, flags)
		blob, err := sshsig.Sign(rand.Reader, k, purpose, []byte("m"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sshsig.Verify(blob, purpose, []byte("m")); !errors.Is(err, want) {
			t.Errorf("a security key with flags %d: %v, want %v", flags, err, want)
		}
	}
}

// FuzzVerify: whatever is given, there is an answer; and what counts as a signature is written in one way.
func FuzzVerify(f *testing.F) {
	f.Add(armoured(f, "message.sig"), []byte("the message"))
	f.Add(armoured(f, "message.sha256.sig"), []byte("x"))
	f.Add([]byte("SSHSIG"), []byte(nil))
	f.Fuzz(func(t *testing.T, blob, message []byte) {
		key, err := sshsig.Verify(blob, purpose, message)
		if (err == nil || errors.Is(err, sshsig.ErrSignature)) == (key.Fingerprint == "") {
			t.Fatalf("%v, %v", key, err)
		}
	})
}
