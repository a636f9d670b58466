// Package cosign is what a witness says of a log: a cosignature (C2SP
// tlog-cosignature, cosignature/v1), which is a signature of a note over a
// checkpoint and the time at which the witness had seen no larger tree.
//
// What is signed, with Ed25519 (RFC 8032):
//
//	cosignature/v1
//	time 1679315147
//	example.com/log             the checkpoint's text, as it is
//	20852163
//	CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
//
// The line that it makes in the note (C2SP signed-note):
//
//	— witness.example.com/w1 base64(key ID ‖ time ‖ signature)
//	                                4 bytes  8      64, big-endian
//
// The key ID is the start of SHA-256(name ‖ "\n" ‖ 0x04 ‖ public key). A key is
// written as the notes of golang.org/x/mod/sumdb/note write theirs, with the
// type 0x04:
//
//	name+hex(key ID)+base64(0x04 ‖ public key)
//	PRIVATE+KEY+name+hex(key ID)+base64(0x04 ‖ seed)
//
// The package reads and writes checkpoints (C2SP tlog-checkpoint) as well. It
// has no clock: the time is an argument. It never decides whether a checkpoint
// deserves to be signed; internal/witness does.
package cosign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// typeCosignature is the signature type of signed-note for cosignature/v1.
const typeCosignature = 0x04

// Lengths of what a signature's base64 holds.
const (
	idLen        = 4
	timeLen      = 8
	signatureLen = timeLen + ed25519.SignatureSize
)

const privatePrefix = "PRIVATE+KEY+"

// Signer cosigns checkpoints with one key.
type Signer struct {
	private ed25519.PrivateKey
	key     verifier
}

// GenerateKey makes a key for the witness called name, of 32 bytes of random:
// the private key, and the public one to hand out. A name is best a URL without
// its scheme, has neither space nor plus, and never changes.
func GenerateKey(random io.Reader, name string) (skey, vkey string, err error) {
	if !isName(name) {
		return "", "", errors.New("a key's name is not empty and has neither spaces nor plus signs")
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return "", "", fmt.Errorf("draw a key: %w", err)
	}
	s := newSigner(name, seed)
	return privatePrefix + s.key.text(seed), s.VerifierKey(), nil
}

func newSigner(name string, seed []byte) *Signer {
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	return &Signer{private: private, key: verifier{name: name, hash: keyID(name, public), public: public}}
}

// NewSigner reads a private key as GenerateKey writes it. Its errors quote
// nothing of it.
func NewSigner(skey string) (*Signer, error) {
	rest, ok := strings.CutPrefix(skey, privatePrefix)
	if !ok {
		return nil, errors.New("it is no private key of a note")
	}
	name, hash, seed, err := parseKey(rest)
	if err != nil {
		return nil, err
	}
	s := newSigner(name, seed)
	if s.key.hash != hash {
		return nil, errors.New("the key's ID does not fit the key")
	}
	return s, nil
}

// Name is the witness's name.
func (s *Signer) Name() string { return s.key.name }

// VerifierKey is the public key, as NewVerifier reads it.
func (s *Signer) VerifierKey() string { return s.key.text(s.key.public) }

// Verifier verifies what this signer signs.
func (s *Signer) Verifier() note.Verifier { return &s.key }

// Sign cosigns the text of a checkpoint: as of at, in whole seconds, this is the
// largest tree of the log that the signer knows. It refuses a text that is no
// checkpoint and a time that is not after 1970, and looks no further.
func (s *Signer) Sign(text string, at time.Time) (note.Signature, error) {
	if _, err := ParseCheckpoint(text); err != nil {
		return note.Signature{}, fmt.Errorf("cosign: %w", err)
	}
	seconds := at.Unix()
	if seconds <= 0 {
		return note.Signature{}, errors.New("cosign: the time is not after 1970")
	}
	data := binary.BigEndian.AppendUint32(nil, s.key.hash)
	data = binary.BigEndian.AppendUint64(data, uint64(seconds))
	data = append(data, ed25519.Sign(s.private, message(seconds, []byte(text)))...)
	return note.Signature{Name: s.key.name, Hash: s.key.hash, Base64: base64.StdEncoding.EncodeToString(data)}, nil
}

// Line is the signature as a line of a note, with its newline.
func Line(sig note.Signature) string { return "— " + sig.Name + " " + sig.Base64 + "\n" }

// Timestamp is the time that a cosignature names. It is worth something once the
// signature has been verified.
func Timestamp(sig note.Signature) (time.Time, error) {
	data, err := decode(sig.Base64)
	if err != nil || len(data) != idLen+signatureLen {
		return time.Time{}, errors.New("it is no cosignature/v1")
	}
	seconds, ok := seconds(data[idLen:])
	if !ok {
		return time.Time{}, errors.New("the cosignature's time is out of range")
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// verifier is a public key. It implements note.Verifier.
type verifier struct {
	name   string
	hash   uint32
	public ed25519.PublicKey
}

// NewVerifier reads a witness's public key, name+ID+base64, of the type 0x04. It
// can be given to note.Open beside a log's own key. It takes no other type: an
// Ed25519 key of 0x01 signs notes, and says nothing about time.
func NewVerifier(vkey string) (note.Verifier, error) {
	name, hash, public, err := parseKey(vkey)
	if err != nil {
		return nil, err
	}
	if keyID(name, public) != hash {
		return nil, errors.New("the key's ID does not fit the key")
	}
	return &verifier{name: name, hash: hash, public: public}, nil
}

func (v *verifier) Name() string    { return v.name }
func (v *verifier) KeyHash() uint32 { return v.hash }

// Verify reports whether sig, without the key ID, is this key's cosignature of
// msg, the text of a checkpoint.
func (v *verifier) Verify(msg, sig []byte) bool {
	if len(sig) != signatureLen {
		return false
	}
	if _, err := ParseCheckpoint(string(msg)); err != nil {
		return false
	}
	at, ok := seconds(sig)
	return ok && ed25519.Verify(v.public, message(at, msg), sig[timeLen:])
}

// text is the key's written form, around its public or its private part.
func (v *verifier) text(part []byte) string {
	return fmt.Sprintf("%s+%08x+%s", v.name, v.hash, base64.StdEncoding.EncodeToString(append([]byte{typeCosignature}, part...)))
}

// parseKey takes name+ID+base64(type ‖ 32 bytes) apart.
func parseKey(text string) (name string, hash uint32, part []byte, err error) {
	fields := strings.Split(text, "+")
	if len(fields) < 3 {
		return "", 0, nil, errors.New("it is no key of a note, which is name+ID+key")
	}
	// Base64 has pluses of its own.
	name, id, encoded := fields[0], fields[1], strings.Join(fields[2:], "+")
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != idLen || strings.ToLower(id) != id {
		return "", 0, nil, errors.New("the key's ID is not eight lower-case hexadecimal digits")
	}
	data, err := decode(encoded)
	switch {
	case !isName(name):
		return "", 0, nil, errors.New("a key's name is not empty and has neither spaces nor plus signs")
	case err != nil || len(data) == 0:
		return "", 0, nil, errors.New("the key is not in base64")
	case data[0] != typeCosignature:
		return "", 0, nil, fmt.Errorf("the key is of type %#02x, not %#02x, which is for cosignatures", data[0], typeCosignature)
	case len(data) != 1+ed25519.PublicKeySize:
		return "", 0, nil, errors.New("the key is not 32 bytes long")
	}
	return name, binary.BigEndian.Uint32(raw), slices.Clone(data[1:]), nil
}

func keyID(name string, public ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte{'\n', typeCosignature}, public))
	return binary.BigEndian.Uint32(sum[:])
}

// message is what is signed.
func message(at int64, text []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", at), text...)
}

// seconds reads the time at the start of a signature, which must not exceed
// 2^63-1.
func seconds(sig []byte) (int64, bool) {
	at := binary.BigEndian.Uint64(sig)
	return int64(at), at <= math.MaxInt64 // #nosec G115 -- false when it does not fit
}

// isName reports whether name may be the name of a key (C2SP signed-note).
func isName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r == '+' || unicode.IsSpace(r)
	})
}
