// Package sshsig makes and checks signatures as "ssh-keygen -Y sign" does (OpenSSH's
// PROTOCOL.sshsig), so that people sign with keys that they have: in a file, in an
// agent, or on a security key. It never reads a file, and never says whose a key is.
//
//	blob    = "SSHSIG" ‖ uint32 1 ‖ string key ‖ string namespace ‖ string "" ‖ string hash ‖ string signature
//	signed  = "SSHSIG" ‖ string namespace ‖ string "" ‖ string hash ‖ string H(message)
package sshsig

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// Key is a public key of a person.
type Key struct {
	// Fingerprint is what "ssh-keygen -l" shows: "SHA256:" and 43 digits.
	Fingerprint string
	// Line is the key as a line of a .pub file, without its comment.
	Line string
}

// What can be wrong.
var (
	// ErrKind is the error of a key that is neither Ed25519 nor Ed25519 on a security key.
	ErrKind = errors.New("want a key of type ssh-ed25519, or sk-ssh-ed25519 on a security key (ssh-keygen -t ed25519)")
	// ErrSignature is the error of a signature that was not made of this message, for this
	// purpose, by the key that it names.
	ErrSignature = errors.New("the signature does not fit")
	// ErrMalformed is the error of what is no signature of this form.
	ErrMalformed = errors.New("it is no signature as “ssh-keygen -Y sign” makes them")
)

// MaxBytes bounds a signature.
const MaxBytes = 1024

const (
	magic   = "SSHSIG"
	version = 1
	hashing = "sha512"
)

// envelope is a signature behind the magic.
type envelope struct {
	Version                                     uint32
	Key                                         []byte
	Namespace, Reserved, HashAlgorithm, Written string
}

// signed is what a key signs, behind the magic.
type signed struct{ Namespace, Reserved, HashAlgorithm, Hash string }

// ParseKey reads a line of a .pub file. What stands behind the key is no part of it.
func ParseKey(line []byte) (Key, error) {
	public, _, options, rest, err := ssh.ParseAuthorizedKey(line)
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return Key{}, errors.New("want one line as in a .pub file: ssh-ed25519 AAAA…")
	}
	return keyOf(public)
}

func keyOf(public ssh.PublicKey) (Key, error) {
	if t := public.Type(); t != ssh.KeyAlgoED25519 && t != ssh.KeyAlgoSKED25519 {
		return Key{}, fmt.Errorf("%.40q: %w", t, ErrKind)
	}
	return Key{Fingerprint: ssh.FingerprintSHA256(public), Line: string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(public)))}, nil
}

func hashOf(algorithm string, message []byte) (string, bool) {
	switch algorithm {
	case "sha512":
		sum := sha512.Sum512(message)
		return string(sum[:]), true
	case "sha256":
		sum := sha256.Sum256(message)
		return string(sum[:]), true
	}
	return "", false
}

// Verify checks a signature over a message for a purpose, and returns the key that has made
// it. Whether that key means anything its caller knows. The errors are ErrMalformed, ErrKind
// and ErrSignature; with the last one the key is that which the signature names.
func Verify(blob []byte, namespace string, message []byte) (Key, error) {
	var e envelope
	var s ssh.Signature
	rest, ok := bytes.CutPrefix(blob, []byte(magic))
	if !ok || len(blob) > MaxBytes || ssh.Unmarshal(rest, &e) != nil || e.Version != version || ssh.Unmarshal([]byte(e.Written), &s) != nil {
		return Key{}, ErrMalformed
	}
	public, err := ssh.ParsePublicKey(e.Key)
	if err != nil {
		return Key{}, ErrMalformed
	}
	key, err := keyOf(public)
	if err != nil {
		return Key{}, err
	}
	hash, ok := hashOf(e.HashAlgorithm, message)
	// There is one way to write a key, and a signature of a key in a file has nothing behind it.
	if !ok || !bytes.Equal(public.Marshal(), e.Key) || public.Type() == ssh.KeyAlgoED25519 && len(s.Rest) > 0 {
		return Key{}, ErrMalformed
	}
	if e.Namespace != namespace || e.Reserved != "" || public.Verify(toSign(e.Namespace, e.HashAlgorithm, hash), &s) != nil {
		return key, ErrSignature
	}
	return key, nil
}

// Sign is the signature of a message for a purpose.
func Sign(random io.Reader, signer ssh.Signer, namespace string, message []byte) ([]byte, error) {
	if _, err := keyOf(signer.PublicKey()); err != nil {
		return nil, err
	}
	hash, _ := hashOf(hashing, message)
	s, err := signer.Sign(random, toSign(namespace, hashing, hash))
	if err != nil {
		return nil, err
	}
	e := envelope{Version: version, Key: signer.PublicKey().Marshal(), Namespace: namespace, HashAlgorithm: hashing, Written: string(ssh.Marshal(s))}
	return append([]byte(magic), ssh.Marshal(e)...), nil
}

func toSign(namespace, algorithm, hash string) []byte {
	return append([]byte(magic), ssh.Marshal(signed{namespace, "", algorithm, hash})...)
}
