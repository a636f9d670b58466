package kms

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// KeySize is the size of a key in a file of keys, and of a wrapped file's own, in bytes.
const KeySize = 32

// file is a file of keys: 32 random bytes in base64 a line. The first encrypts, all of
// them decrypt.
type file struct {
	path string
	keys []fileKey
}

type fileKey struct {
	id   string
	aead cipher.AEAD
}

// NewFileKey makes a random key for a file of keys.
func NewFileKey() string {
	key := make([]byte, KeySize)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

func openFile(path string) (Service, error) {
	text, err := ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	f := file{path: path}
	for i, line := range strings.Fields(text) {
		key, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(key) != KeySize {
			return nil, fmt.Errorf("%s: line %d: want %d random bytes in base64 (holdpoint keys new --for kms FILE)", path, i+1, KeySize)
		}
		id, err := hkdf.Key(sha256.New, key, nil, "holdpoint kms id v1", 8)
		if err != nil {
			return nil, err
		}
		if key, err = hkdf.Key(sha256.New, key, nil, "holdpoint kms wrap v1", KeySize); err != nil {
			return nil, err
		}
		one := fileKey{id: "file:" + hex.EncodeToString(id)}
		if one.aead, err = gcm(key); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(f.keys, func(k fileKey) bool { return k.id == one.id }) {
			return nil, fmt.Errorf("%s: the key %s is there twice", path, one.id)
		}
		f.keys = append(f.keys, one)
	}
	if len(f.keys) == 0 {
		return nil, fmt.Errorf("%s: there is no key in it (holdpoint keys new --for kms FILE)", path)
	}
	return f, nil
}

func (f file) KeyID(context.Context) (string, error) { return f.keys[0].id, nil }

func (f file) Encrypt(_ context.Context, _ string, key []byte) (Sealed, error) {
	return Sealed{KeyID: f.keys[0].id, Ciphertext: encrypt(f.keys[0].aead, f.keys[0].id, key)}, nil
}

func (f file) Decrypt(_ context.Context, _ string, s Sealed) ([]byte, error) {
	i := slices.IndexFunc(f.keys, func(k fileKey) bool { return k.id == s.KeyID })
	if i < 0 {
		return nil, fmt.Errorf("%s has no key %s", f.path, s.KeyID)
	}
	key, err := decrypt(f.keys[i].aead, s.KeyID, s.Ciphertext)
	if err != nil {
		return nil, fmt.Errorf("the key %s has not encrypted it: %w", s.KeyID, err)
	}
	return key, nil
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// encrypt makes nonce ‖ ciphertext ‖ tag, bound to a text.
func encrypt(a cipher.AEAD, bound string, plain []byte) []byte {
	return a.Seal(nil, nil, plain, []byte(bound))
}

func decrypt(a cipher.AEAD, bound string, sealed []byte) ([]byte, error) {
	return a.Open(nil, nil, sealed, []byte(bound))
}
