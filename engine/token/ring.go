package token

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Ring is an ordered set of Ed25519 keys. The first one signs; all of them
// verify, so that a key can be rotated while tokens signed with the former one
// live out their time.
type Ring struct{ keys []ringKey }

type ringKey struct {
	id      string
	private ed25519.PrivateKey // nil for a key that only verifies
	public  ed25519.PublicKey
}

// ParseRing reads a JSON Web Key Set (RFC 7517) of Ed25519 keys (RFC 8037): the
// first with its private part, the others with or without. A kid that is given
// must be the key's RFC 7638 thumbprint.
func ParseRing(data []byte) (Ring, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		return Ring{}, errors.New("it is not a JSON Web Key Set of Ed25519 keys")
	}
	var ring Ring
	for i, key := range set.Keys {
		var k ringKey
		switch material := key.Key.(type) {
		case ed25519.PrivateKey:
			k.private, k.public = material, material.Public().(ed25519.PublicKey)
		case ed25519.PublicKey:
			k.public = material
		default:
			return Ring{}, fmt.Errorf("keys[%d]: want kty OKP and crv Ed25519", i)
		}
		id, err := thumbprint(k.public)
		if err != nil {
			return Ring{}, fmt.Errorf("keys[%d]: %w", i, err)
		}
		if key.KeyID != "" && key.KeyID != id {
			return Ring{}, fmt.Errorf("keys[%d]: its kid is not its RFC 7638 thumbprint %s", i, id)
		}
		k.id = id
		if _, twice := ring.find(id); twice {
			return Ring{}, fmt.Errorf("keys[%d]: the key %s is there twice", i, id)
		}
		ring.keys = append(ring.keys, k)
	}
	if len(ring.keys) == 0 || ring.keys[0].private == nil {
		return Ring{}, errors.New("the first key must have its private part: it signs")
	}
	return ring, nil
}

// Add returns a ring in which a key signs that is made from seed
// (ed25519.SeedSize random bytes), and all former keys still verify.
func (r Ring) Add(seed []byte) (Ring, error) {
	if len(seed) != ed25519.SeedSize {
		return r, fmt.Errorf("a seed has %d bytes, this one has %d", ed25519.SeedSize, len(seed))
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	id, err := thumbprint(public)
	if err != nil {
		return r, err
	}
	return Ring{keys: append([]ringKey{{id: id, private: private, public: public}}, r.keys...)}, nil
}

// Marshal writes the whole ring, private parts included, in the form that
// ParseRing reads.
func (r Ring) Marshal() ([]byte, error) {
	return json.MarshalIndent(r.set(func(k ringKey) any {
		if k.private != nil {
			return k.private
		}
		return k.public
	}), "", "  ")
}

// PublicSet is the ring's JSON Web Key Set without private parts, leaving out
// the keys that are revoked.
func (r Ring) PublicSet(revoked []string) ([]byte, error) {
	public := Ring{keys: slices.DeleteFunc(slices.Clone(r.keys), func(k ringKey) bool { return slices.Contains(revoked, k.id) })}
	return json.Marshal(public.set(func(k ringKey) any { return k.public }))
}

// PublicKey is a key of a ring as others verify with it.
type PublicKey struct {
	ID    string
	Key   ed25519.PublicKey
	Signs bool // the ring has its private part
}

// Keys lists the ring's keys, the signing one first.
func (r Ring) Keys() []PublicKey {
	keys := make([]PublicKey, len(r.keys))
	for i, k := range r.keys {
		keys[i] = PublicKey{ID: k.id, Key: k.public, Signs: k.private != nil}
	}
	return keys
}

// SignedBy is the ring with the key of that id in front, so that it signs. The ring
// stays as it is when it has no private part for the id.
func (r Ring) SignedBy(id string) Ring {
	key, ok := r.find(id)
	if !ok || key.private == nil {
		return r
	}
	others := slices.DeleteFunc(slices.Clone(r.keys), func(k ringKey) bool { return k.id == id })
	return Ring{keys: append([]ringKey{key}, others...)}
}

// Verifying is the ring with one more key, which only verifies. A key that it has
// already changes nothing.
func (r Ring) Verifying(public ed25519.PublicKey) (Ring, error) {
	if len(public) != ed25519.PublicKeySize {
		return r, fmt.Errorf("a public key has %d bytes, this one has %d", ed25519.PublicKeySize, len(public))
	}
	id, err := thumbprint(public)
	if err != nil {
		return r, err
	}
	if _, there := r.find(id); there {
		return r, nil
	}
	return Ring{keys: append(slices.Clone(r.keys), ringKey{id: id, public: public})}, nil
}

// IDs lists the ids of the ring's keys, the signing one first.
func (r Ring) IDs() []string {
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id
	}
	return ids
}

func (r Ring) set(material func(ringKey) any) jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, len(r.keys))}
	for i, k := range r.keys {
		set.Keys[i] = jose.JSONWebKey{Key: material(k), KeyID: k.id, Algorithm: string(jose.EdDSA), Use: "sig"}
	}
	return set
}

func (r Ring) find(id string) (ringKey, bool) {
	i := slices.IndexFunc(r.keys, func(k ringKey) bool { return k.id == id })
	if i < 0 {
		return ringKey{}, false
	}
	return r.keys[i], true
}

// thumbprint is the RFC 7638 thumbprint, SHA-256, base64url.
func thumbprint(public ed25519.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("thumbprint: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// Keep returns the ring's first n keys.
func (r Ring) Keep(n int) Ring {
	if n < len(r.keys) {
		return Ring{keys: r.keys[:n:n]}
	}
	return r
}
