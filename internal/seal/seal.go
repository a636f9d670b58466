// Package seal keeps secrets: it encrypts records so that erasing one small
// key erases the record, and it makes the keyed hashes that stand for secrets
// where the secrets themselves must not be. It holds the data key in memory
// and never writes it anywhere.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the size of a data key, in bytes.
const KeySize = 32

// ErrErased is returned for a record whose own key is gone.
var ErrErased = errors.New("the record has been erased")

// Sealer encrypts records and makes keyed hashes under one data key.
type Sealer struct {
	wrap   cipher.AEAD
	digest []byte
	salt   []byte
	fact   []byte
	row    []byte
	check  []byte
}

// Box is a sealed record: AES-256-GCM under a key of its own, and that key
// wrapped by the data key. Both are nonce ‖ ciphertext ‖ tag and bound to the
// record's id.
type Box struct {
	Data []byte
	Key  []byte // nil once erased
}

// New makes a Sealer from a data key of KeySize bytes.
func New(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("a data key has %d bytes, this one has %d", KeySize, len(key))
	}
	derive := func(use string) ([]byte, error) {
		return hkdf.Key(sha256.New, key, nil, "holdpoint "+use+" v1", KeySize)
	}
	wrapKey, err := derive("wrap")
	if err != nil {
		return nil, fmt.Errorf("derive the wrapping key: %w", err)
	}
	s := &Sealer{}
	for use, into := range map[string]*[]byte{"digest": &s.digest, "salt": &s.salt, "fact": &s.fact, "row": &s.row, "check": &s.check} {
		if *into, err = derive(use); err != nil {
			return nil, fmt.Errorf("derive the %s key: %w", use, err)
		}
	}
	s.wrap, err = aead(wrapKey)
	return s, err
}

// ParseKey reads a data key as it stands in files and variables: base64, with
// or without padding, white space around it ignored.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("want %d random bytes in base64 (openssl rand -base64 %d)", KeySize, KeySize)
	}
	return key, nil
}

// NewKey makes a random data key, in the form that ParseKey reads.
func NewKey() string {
	key := make([]byte, KeySize)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// Check is a value that tells whether two Sealers have the same data key,
// without telling the key.
func (s *Sealer) Check() []byte { return s.check }

// Seal encrypts plain under a fresh key, bound to the record's id.
func (s *Sealer) Seal(id string, plain []byte) (Box, error) {
	key := make([]byte, KeySize)
	rand.Read(key)
	data, err := aead(key)
	if err != nil {
		return Box{}, err
	}
	return Box{Data: encrypt(data, id, plain), Key: encrypt(s.wrap, id, key)}, nil
}

// Open decrypts a box. It returns ErrErased when the record's key is gone, and
// an error that says nothing of the content when the box does not belong to
// the id or to this data key.
func (s *Sealer) Open(id string, b Box) ([]byte, error) {
	if b.Key == nil {
		return nil, ErrErased
	}
	key, err := decrypt(s.wrap, id, b.Key)
	if err != nil {
		return nil, fmt.Errorf("unwrap the key of record %s: %w", id, err)
	}
	data, err := aead(key)
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(data, id, b.Data)
	if err != nil {
		return nil, fmt.Errorf("decrypt record %s: %w", id, err)
	}
	return plain, nil
}

// Digest is the keyed hash that stands for a call's digest in the audit log:
// "hmac-sha256:" and 64 hex digits. Equal calls have equal ones, and without
// the data key nobody can try guesses against it.
func (s *Sealer) Digest(digest string) string {
	return "hmac-sha256:" + hex.EncodeToString(s.mac(s.digest, digest))
}

// Salt is 64 hex digits that are always the same for the same subject, and that
// nobody can tell in advance without the data key: what is hashed together with it
// cannot be found out by trying.
func (s *Sealer) Salt(of ...string) string { return hex.EncodeToString(s.mac(s.salt, of...)) }

// Fact is the keyed hash of a fact as its approval's log tells it, by which a row that
// the programs have not written is known.
func (s *Sealer) Fact(document []byte) []byte { return s.mac(s.fact, string(document)) }

// Row is the keyed hash of what a row says, by which one that the programs have not
// written is known.
func (s *Sealer) Row(says ...string) []byte { return s.mac(s.row, says...) }

// Request is the keyed hash of a request, for telling a repetition from a
// different request under the same Idempotency-Key.
func (s *Sealer) Request(parts ...string) []byte { return s.mac(s.digest, parts...) }

// mac hashes parts, each preceded by its length so that no two lists are alike.
func (s *Sealer) mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func encrypt(a cipher.AEAD, id string, plain []byte) []byte {
	nonce := make([]byte, a.NonceSize(), a.NonceSize()+len(plain)+a.Overhead())
	rand.Read(nonce)
	return a.Seal(nonce, nonce, plain, []byte(id))
}

func decrypt(a cipher.AEAD, id string, sealed []byte) ([]byte, error) {
	if len(sealed) < a.NonceSize() {
		return nil, errors.New("too short")
	}
	return a.Open(nil, sealed[:a.NonceSize()], sealed[a.NonceSize():], []byte(id))
}
