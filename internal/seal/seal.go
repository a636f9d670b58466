// Package seal keeps secrets: it encrypts records so that erasing one small
// key erases the record, and it makes the keyed hashes that stand for secrets
// where the secrets themselves must not be. It holds the data keys in memory
// and never writes them anywhere.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"sync"
	"sync/atomic"
)

// KeySize is the size of a data key, in bytes.
const KeySize = 32

// ErrErased is returned for a record whose own key is gone.
var ErrErased = errors.New("the record has been erased")

// Sealer encrypts records under data keys, and makes keyed hashes. Its data keys may
// change while it is used (Use); its hashes never do.
type Sealer struct {
	keys   atomic.Pointer[Keys]
	hashes hashes
	// digests are keyed hashes for Digest that nobody uses: making one takes longer than
	// hashing a digest.
	digests sync.Pool
}

// Box is a sealed record: AES-256-GCM under a key of its own, and that key
// wrapped by a data key. Both are nonce ‖ ciphertext ‖ tag and bound to the
// record's id; what a later data key wraps has its id before that (wrapped).
type Box struct {
	Data []byte
	Key  []byte // nil once erased
}

// New makes a Sealer from one data key of KeySize bytes.
func New(key []byte) (*Sealer, error) {
	keys, err := newKeys([][]byte{key}, nil)
	if err != nil {
		return nil, err
	}
	return keys.Sealer(), nil
}

// Sealer makes a Sealer that has these keys.
func (k *Keys) Sealer() *Sealer {
	s := &Sealer{hashes: k.hashes}
	s.keys.Store(k)
	return s
}

// Fits reports whether the data keys are of the same installation.
func (s *Sealer) Fits(k *Keys) error {
	if !bytes.Equal(k.hashes.check, s.hashes.check) {
		return errors.New("these data keys are of another installation: their hashes are other ones")
	}
	return nil
}

// Use takes other data keys from now on. They have to fit.
func (s *Sealer) Use(k *Keys) error {
	if err := s.Fits(k); err != nil {
		return err
	}
	s.keys.Store(k)
	return nil
}

// Keys are the data keys that the Sealer has now.
func (s *Sealer) Keys() *Keys { return s.keys.Load() }

// Check is a value that tells whether two Sealers are of the same installation,
// without telling a key.
func (s *Sealer) Check() []byte { return s.hashes.check }

// Seal encrypts plain under a fresh key, bound to the record's id.
func (s *Sealer) Seal(id string, plain []byte) (Box, error) {
	key := make([]byte, KeySize)
	rand.Read(key)
	data, err := aead(key)
	if err != nil {
		return Box{}, err
	}
	return Box{Data: encrypt(data, id, plain), Key: s.Keys().wrap(id, key)}, nil
}

// Open decrypts a box. It returns ErrErased when the record's key is gone, and
// an error that says nothing of the content when the box does not belong to
// the id or to this data key.
func (s *Sealer) Open(id string, b Box) ([]byte, error) {
	if b.Key == nil {
		return nil, ErrErased
	}
	key, err := s.Keys().unwrap(id, b.Key)
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

// Rewrap wraps a record's own key by the data key that seals now. What is encrypted
// under it stays as it is.
func (s *Sealer) Rewrap(id string, wrapped []byte) ([]byte, error) {
	keys := s.Keys()
	key, err := keys.unwrap(id, wrapped)
	if err != nil {
		return nil, fmt.Errorf("unwrap the key of record %s: %w", id, err)
	}
	return keys.wrap(id, key), nil
}

// Digest is the keyed hash that stands for a call's digest in the audit log:
// "hmac-sha256:" and 64 hex digits. Equal calls have equal ones, and without
// the data key nobody can try guesses against it.
func (s *Sealer) Digest(digest string) string {
	h, ok := s.digests.Get().(hash.Hash)
	if !ok {
		h = hmac.New(sha256.New, s.hashes.digest)
	}
	h.Reset()
	const prefix = "hmac-sha256:"
	var out [len(prefix) + 2*sha256.Size]byte
	var sum [sha256.Size]byte
	named := hex.AppendEncode(append(out[:0], prefix...), macInto(h, sum[:0], digest))
	s.digests.Put(h)
	return string(named)
}

// Salt is 64 hex digits that are always the same for the same subject, and that
// nobody can tell in advance without the data key: what is hashed together with it
// cannot be found out by trying.
func (s *Sealer) Salt(of ...string) string { return hex.EncodeToString(s.mac(s.hashes.salt, of...)) }

// Fact is the keyed hash of a fact as its approval's log tells it, by which a row that
// the programs have not written is known.
func (s *Sealer) Fact(document []byte) []byte { return s.mac(s.hashes.fact, string(document)) }

// Row is the keyed hash of what a row says, by which one that the programs have not
// written is known.
func (s *Sealer) Row(says ...string) []byte { return s.mac(s.hashes.row, says...) }

// Request is the keyed hash of a request, for telling a repetition from a
// different request under the same Idempotency-Key.
func (s *Sealer) Request(parts ...string) []byte { return s.mac(s.hashes.digest, parts...) }

// mac hashes parts, each preceded by its length so that no two lists are alike.
func (s *Sealer) mac(key []byte, parts ...string) []byte {
	return macInto(hmac.New(sha256.New, key), nil, parts...)
}

// macInto appends what a keyed hash makes of parts to dst.
func macInto(h hash.Hash, dst []byte, parts ...string) []byte {
	room := make([]byte, 0, 96)
	for _, p := range parts {
		h.Write(append(append(strconv.AppendInt(room[:0], int64(len(p)), 10), ':'), p...))
	}
	return h.Sum(dst)
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
