package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Keys are the data keys of an installation. The first seals; all of them open. They
// stand in a file or a variable, a line or a word each, and after a change of keys with
// what the hashes are made with:
//
//	<base64 of 32 bytes>            the key that seals
//	<base64 of 32 bytes>            a key that opens
//	hashes:<base64 of 160 + 8 bytes>
//
// The hashes are made with five secrets derived from the first data key that an
// installation had. They are in the audit log and in rows that cannot be written again,
// so they outlive that key; the last 8 bytes are a checksum. A single key without the
// line is that first key.
type Keys struct {
	list   []dataKey
	hashes hashes
}

// hashes are the secrets that keyed hashes are made with.
type hashes struct{ digest, salt, fact, row, check []byte }

type dataKey struct {
	raw   []byte
	id    string // 16 hex digits
	wrap  cipher.AEAD
	first bool // the hashes were derived from it
}

const (
	hashesWord = "hashes:"
	checksum   = 8
	idSize     = 8
	// named begins what is wrapped by another key than the first, before the key's id.
	named = 1
	// wrappedSize is the size of a key that the first data key has wrapped.
	wrappedSize = 12 + KeySize + 16
)

func (h *hashes) all() []*[]byte { return []*[]byte{&h.digest, &h.salt, &h.fact, &h.row, &h.check} }

func derive(key []byte, use string) ([]byte, error) {
	return hkdf.Key(sha256.New, key, nil, "holdpoint "+use+" v1", KeySize)
}

func hashesOf(key []byte) (h hashes, err error) {
	for i, use := range []string{"digest", "salt", "fact", "row", "check"} {
		if *h.all()[i], err = derive(key, use); err != nil {
			return h, fmt.Errorf("derive the %s key: %w", use, err)
		}
	}
	return h, nil
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

// ParseKeys reads data keys. Its errors tell nothing of them.
func ParseKeys(text string) (*Keys, error) {
	var list [][]byte
	var from *hashes
	words := strings.Fields(text)
	for i, word := range words {
		if encoded, ok := strings.CutPrefix(word, hashesWord); ok {
			if i != len(words)-1 {
				return nil, errors.New("the hashes come last, and once")
			}
			h, err := parseHashes(encoded)
			if err != nil {
				return nil, err
			}
			from = &h
			continue
		}
		key, err := ParseKey(word)
		if err != nil {
			return nil, err
		}
		list = append(list, key)
	}
	return newKeys(list, from)
}

func parseHashes(encoded string) (h hashes, err error) {
	data, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(encoded, "="))
	if err != nil || len(data) != 5*KeySize+checksum {
		return h, errors.New("the line of hashes is not whole")
	}
	secrets := data[:5*KeySize]
	if sum := sha256.Sum256(secrets); !bytes.Equal(sum[:checksum], data[5*KeySize:]) {
		return h, errors.New("the line of hashes is not whole")
	}
	for i, into := range h.all() {
		*into = secrets[i*KeySize : (i+1)*KeySize]
	}
	return h, nil
}

// newKeys makes Keys of data keys, the sealing one first, and of the hashes: nil for
// those of an only key.
func newKeys(list [][]byte, from *hashes) (*Keys, error) {
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("want %d random bytes in base64 (openssl rand -base64 %d)", KeySize, KeySize)
	case len(list) > 1 && from == nil:
		return nil, errors.New("there are several data keys and no line of hashes: holdpoint keys new --for data FILE adds a key")
	}
	k := &Keys{}
	for _, raw := range list {
		if len(raw) != KeySize {
			return nil, fmt.Errorf("a data key has %d bytes, this one has %d", KeySize, len(raw))
		}
		own, err := hashesOf(raw)
		if err != nil {
			return nil, err
		}
		if from == nil {
			from = &own
		}
		id, err := derive(raw, "id")
		if err != nil {
			return nil, fmt.Errorf("derive the id: %w", err)
		}
		wrapKey, err := derive(raw, "wrap")
		if err != nil {
			return nil, fmt.Errorf("derive the wrapping key: %w", err)
		}
		one := dataKey{raw: raw, id: hex.EncodeToString(id[:idSize]), first: bytes.Equal(own.check, from.check)}
		if one.wrap, err = aead(wrapKey); err != nil {
			return nil, err
		}
		if slices.Contains(k.IDs(), one.id) {
			return nil, fmt.Errorf("the data key %s is there twice", one.id)
		}
		k.list = append(k.list, one)
	}
	k.hashes = *from
	return k, nil
}

// NewKey makes a random data key, in the form that ParseKey reads.
func NewKey() string {
	key := make([]byte, KeySize)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// Marshal is the keys as ParseKeys reads them.
func (k *Keys) Marshal() []byte {
	var b strings.Builder
	for _, one := range k.list {
		b.WriteString(base64.StdEncoding.EncodeToString(one.raw) + "\n")
	}
	if len(k.list) > 1 || !k.list[0].first {
		secrets := make([]byte, 0, 5*KeySize+checksum)
		for _, one := range k.hashes.all() {
			secrets = append(secrets, *one...)
		}
		sum := sha256.Sum256(secrets)
		b.WriteString(hashesWord + base64.StdEncoding.EncodeToString(append(secrets, sum[:checksum]...)) + "\n")
	}
	return []byte(b.String())
}

// IDs are the ids of the keys, the sealing one's first.
func (k *Keys) IDs() []string {
	ids := make([]string, len(k.list))
	for i, one := range k.list {
		ids[i] = one.id
	}
	return ids
}

// First is the id of the installation's first key, "" when it is not among them.
func (k *Keys) First() string {
	if i := slices.IndexFunc(k.list, func(one dataKey) bool { return one.first }); i >= 0 {
		return k.list[i].id
	}
	return ""
}

// Add is the keys with one more, which opens and does not seal.
func (k *Keys) Add(key []byte) (*Keys, error) {
	list := make([][]byte, 0, len(k.list)+1)
	for _, one := range k.list {
		list = append(list, one.raw)
	}
	return newKeys(append(list, key), &k.hashes)
}

// SealWith is the keys with the one of that id in front, so that it seals.
func (k *Keys) SealWith(id string) (*Keys, error) {
	i := slices.Index(k.IDs(), id)
	if i < 0 {
		return nil, fmt.Errorf("there is no data key %s", id)
	}
	others := slices.Delete(slices.Clone(k.list), i, i+1)
	return &Keys{list: append([]dataKey{k.list[i]}, others...), hashes: k.hashes}, nil
}

// Without is the keys without the one of that id, which must not be the one that seals,
// and that one by itself.
func (k *Keys) Without(id string) (rest, gone *Keys, err error) {
	i := slices.Index(k.IDs(), id)
	if i < 1 {
		return nil, nil, fmt.Errorf("%s is not a data key that opens only", id)
	}
	return &Keys{list: slices.Delete(slices.Clone(k.list), i, i+1), hashes: k.hashes}, &Keys{list: []dataKey{k.list[i]}, hashes: k.hashes}, nil
}

// wrap encrypts a record's key by the first of the keys:
//
//	nonce ‖ ciphertext ‖ tag                    by the installation's first data key
//	1 ‖ the data key's id ‖ nonce ‖ ciphertext ‖ tag        by any other
func (k *Keys) wrap(id string, key []byte) []byte {
	by := k.list[0]
	sealed := encrypt(by.wrap, id, key)
	if by.first {
		return sealed
	}
	name, _ := hex.DecodeString(by.id) // we have made it
	return slices.Concat([]byte{named}, name, sealed)
}

// WrappedBy is the id of the data key that a record's key is wrapped by, "" for the
// installation's first.
func WrappedBy(wrapped []byte) string {
	if len(wrapped) == 1+idSize+wrappedSize && wrapped[0] == named {
		return hex.EncodeToString(wrapped[1 : 1+idSize])
	}
	return ""
}

// UnknownKeyError is of a record under a data key that is not among the keys.
type UnknownKeyError struct{ ID string } // "" for the installation's first

func (e *UnknownKeyError) Error() string {
	if e.ID == "" {
		return "it is sealed with the installation's first data key, which is not in data_key"
	}
	return "it is sealed with the data key " + e.ID + ", which is not in data_key"
}

func (k *Keys) unwrap(id string, wrapped []byte) ([]byte, error) {
	by := WrappedBy(wrapped)
	i := slices.IndexFunc(k.list, func(one dataKey) bool { return by == one.id || by == "" && one.first })
	if i < 0 {
		return nil, &UnknownKeyError{by}
	}
	if by != "" {
		wrapped = wrapped[1+idSize:]
	}
	return decrypt(k.list[i].wrap, id, wrapped)
}
