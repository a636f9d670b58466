package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Key is a log's private key: it signs checkpoints, and knows its public half.
type Key struct {
	note.Signer
	// Public is the public key in the form that verifiers take:
	// name+hash+base64 (C2SP signed-note).
	Public string
}

// ParseKeys reads private keys, one a line, in the form that NewKey writes. The
// first is the log's own; further ones sign beside it. Errors never show a key.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		signer, err := note.NewSigner(line)
		if err != nil {
			return nil, fmt.Errorf("key %d is no private key of a log (make one with: holdpoint key log FILE)", len(keys)+1)
		}
		public, err := publicOf(line, signer)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(keys)+1, err)
		}
		keys = append(keys, Key{Signer: signer, Public: public})
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it (make one with: holdpoint key log FILE)")
	}
	for _, k := range keys[1:] {
		if k.Name() != keys[0].Name() {
			return nil, fmt.Errorf("its keys are of different logs, %q and %q", keys[0].Name(), k.Name())
		}
	}
	return keys, nil
}

// publicOf is the public half of a private key as note writes it: the last field
// is the algorithm's byte and the seed.
func publicOf(private string, signer note.Signer) (string, error) {
	// PRIVATE+KEY+name+hash+base64, and base64 has a plus, too.
	fields := strings.SplitN(private, "+", 5)
	if len(fields) != 5 {
		return "", errors.New("it is no Ed25519 key")
	}
	encoded := fields[4]
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("it is no Ed25519 key")
	}
	public, ok := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("it is no Ed25519 key")
	}
	return note.NewEd25519VerifierKey(signer.Name(), public)
}

// NewKey makes a key of the log of this name, which becomes the checkpoints'
// origin: the address of the log without its scheme is the custom. A name that no
// key can have, such as an empty one or one with blanks or plus signs, is refused.
func NewKey(random io.Reader, name string) (private, public string, err error) {
	private, public, err = note.GenerateKey(random, name)
	if err == nil {
		_, err = note.NewVerifier(public) // the library makes keys that it then does not read
	}
	if err != nil {
		return "", "", fmt.Errorf("make a key of the log %q: %w", name, err)
	}
	return private, public, nil
}

// Signers are the keys as what signs.
func Signers(keys []Key) []note.Signer {
	signers := make([]note.Signer, len(keys))
	for i, k := range keys {
		signers[i] = k
	}
	return signers
}

// ParseVerifiers reads public keys, one a line.
func ParseVerifiers(text string) ([]note.Verifier, error) {
	var verifiers []note.Verifier
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			if strings.HasPrefix(line, "PRIVATE+KEY+") {
				return nil, errors.New("this is a private key: want the public one, name+hash+base64")
			}
			return nil, fmt.Errorf("%q is no public key of a log: want name+hash+base64", line)
		}
		verifiers = append(verifiers, v)
	}
	if len(verifiers) == 0 {
		return nil, errors.New("there is no public key of a log in it")
	}
	return verifiers, nil
}
