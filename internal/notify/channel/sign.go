package channel

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook, by the Standard Webhooks specification, version 1.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Tolerance is how far a webhook's timestamp may be from now, either way.
const Tolerance = 5 * time.Minute

const (
	secretPrefix  = "whsec_" // a shared secret, HMAC-SHA256
	privatePrefix = "whsk_"  // an Ed25519 private key: seed and public key
	publicPrefix  = "whpk_"  // an Ed25519 public key

	hmacVersion    = "v1"
	ed25519Version = "v1a"

	maxSignatures = 16
)

// encoding is strict: a key or signature has one spelling.
var encoding = base64.StdEncoding.Strict()

// NewSecret makes a shared secret of 32 random bytes, "whsec_…".
func NewSecret() string {
	var b [32]byte
	rand.Read(b[:])
	return secretPrefix + encoding.EncodeToString(b[:])
}

// NewEd25519 makes a key pair: "whsk_…", which signs and stays here, and
// "whpk_…", which verifies and is for the receiver.
func NewEd25519() (private, public string) {
	var seed [ed25519.SeedSize]byte
	rand.Read(seed[:])
	key := ed25519.NewKeyFromSeed(seed[:])
	return privatePrefix + encoding.EncodeToString(key), publicPrefix + encoding.EncodeToString(key[ed25519.SeedSize:])
}

// Public is the "whpk_…" of a "whsk_…".
func Public(private string) (string, error) {
	k, err := parseKey(private)
	if err != nil {
		return "", err
	}
	if k.private == nil {
		return "", errors.New("only a whsk_ key has a public one")
	}
	return publicPrefix + encoding.EncodeToString(k.public), nil
}

// key is one of the three kinds of keys. Its errors never hold what was given.
type key struct {
	shared  []byte
	private ed25519.PrivateKey
	public  ed25519.PublicKey
}

func parseKey(s string) (key, error) {
	prefix, text, _ := strings.Cut(s, "_")
	prefix += "_"
	if strings.ContainsAny(text, "\r\n") { // the decoder would skip them
		return key{}, errors.New("is not base64 on one line")
	}
	raw, err := encoding.DecodeString(text)
	if err != nil {
		return key{}, errors.New("is not base64 after its prefix")
	}
	switch prefix {
	case secretPrefix:
		if len(raw) < 24 || len(raw) > 64 {
			return key{}, errors.New("must be 24 to 64 bytes")
		}
		return key{shared: raw}, nil
	case privatePrefix:
		if len(raw) != ed25519.PrivateKeySize {
			return key{}, errors.New("must be 64 bytes, seed and public key")
		}
		private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !private.Equal(ed25519.PrivateKey(raw)) {
			return key{}, errors.New("its public key is not its seed's")
		}
		return key{private: private, public: ed25519.PublicKey(private[ed25519.SeedSize:])}, nil
	case publicPrefix:
		if len(raw) != ed25519.PublicKeySize {
			return key{}, errors.New("must be 32 bytes")
		}
		return key{public: raw}, nil
	}
	return key{}, errors.New("must begin with whsec_, whsk_ or whpk_")
}

// signers parses the keys that sign.
func signers(secrets []string) ([]key, error) {
	if len(secrets) == 0 {
		return nil, errors.New("there is no secret to sign with")
	}
	if len(secrets) > maxSignatures {
		return nil, fmt.Errorf("there are more than %d secrets", maxSignatures)
	}
	keys := make([]key, len(secrets))
	for i, s := range secrets {
		k, err := parseKey(s)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		if k.shared == nil && k.private == nil {
			return nil, fmt.Errorf("secret %d: a public key cannot sign", i+1)
		}
		if slices.Contains(secrets[:i], s) {
			return nil, fmt.Errorf("secret %d: is there twice", i+1)
		}
		keys[i] = k
	}
	return keys, nil
}

// Sign makes the three headers of a webhook. Each secret (whsec_ or whsk_) signs:
// while one replaces another, list both. The id must have no dot, because dots
// part what is signed.
func Sign(secrets []string, id string, at time.Time, body []byte) (http.Header, error) {
	keys, err := signers(secrets)
	if err != nil {
		return nil, fmt.Errorf("sign webhook: %w", err)
	}
	if err := checkMessageID(id); err != nil {
		return nil, fmt.Errorf("sign webhook: %w", err)
	}
	if at.Unix() <= 0 {
		return nil, errors.New("sign webhook: there is no time to sign for")
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	content := signed(id, stamp, body)
	signatures := make([]string, len(keys))
	for i, k := range keys {
		if k.private != nil {
			signatures[i] = ed25519Version + "," + encoding.EncodeToString(ed25519.Sign(k.private, content))
		} else {
			signatures[i] = hmacVersion + "," + encoding.EncodeToString(mac(k.shared, content))
		}
	}
	return http.Header{
		HeaderID: {id}, HeaderTimestamp: {stamp}, HeaderSignature: {strings.Join(signatures, " ")},
	}, nil
}

// Verify reports whether a webhook is genuine: signed with one of the keys (whsec_
// or whpk_), within Tolerance of now, and not to be read in two ways. It takes as
// long whichever key or signature fits. Signatures of versions that it does not
// know are passed over, as the specification has it. Whoever acts on a webhook
// must remember its id for as long as Tolerance, for it can be sent again.
func Verify(keys []string, h http.Header, body []byte, now time.Time) error {
	if len(keys) == 0 {
		return errors.New("verify webhook: there is no key to verify with")
	}
	parsed := make([]key, len(keys))
	for i, s := range keys {
		k, err := parseKey(s)
		if err == nil && k.private != nil {
			err = errors.New("is a private key, and only its sender should have it")
		}
		if err != nil {
			return fmt.Errorf("verify webhook: key %d: %w", i+1, err)
		}
		parsed[i] = k
	}
	var values [3]string
	for i, name := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		list := h.Values(name)
		if len(list) != 1 {
			return fmt.Errorf("verify webhook: header %s is there %d times", strings.ToLower(name), len(list))
		}
		values[i] = list[0]
	}
	id, stamp := values[0], values[1]
	if err := checkMessageID(id); err != nil {
		return fmt.Errorf("verify webhook: %w", err)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || seconds <= 0 || strconv.FormatInt(seconds, 10) != stamp || len(stamp) > 12 {
		return errors.New("verify webhook: the timestamp is not in seconds since 1970")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Tolerance || age < -Tolerance {
		return errors.New("verify webhook: the timestamp is too far from now")
	}
	list, err := parseSignatures(values[2])
	if err != nil {
		return fmt.Errorf("verify webhook: %w", err)
	}
	content := signed(id, stamp, body)
	genuine := false
	for _, k := range parsed {
		want := []byte(nil)
		if k.shared != nil {
			want = mac(k.shared, content)
		}
		for _, s := range list {
			switch {
			case s.version == hmacVersion && k.shared != nil:
				genuine = hmac.Equal(s.raw, want) || genuine
			case s.version == ed25519Version && k.public != nil:
				genuine = ed25519.Verify(k.public, content, s.raw) || genuine
			}
		}
	}
	if !genuine {
		return errors.New("verify webhook: no signature is by one of the keys")
	}
	return nil
}

type signature struct {
	version string
	raw     []byte
}

// parseSignatures reads a signature header. What is malformed is refused, even
// beside a signature that would do.
func parseSignatures(header string) ([]signature, error) {
	if header == "" {
		return nil, errors.New("there is no signature")
	}
	if len(header) > maxSignatures*128 {
		return nil, errors.New("there are too many signatures")
	}
	parts := strings.Split(header, " ")
	if len(parts) > maxSignatures {
		return nil, errors.New("there are too many signatures")
	}
	var list []signature
	for i, part := range parts {
		version, text, ok := strings.Cut(part, ",")
		if !ok || version == "" || text == "" {
			return nil, fmt.Errorf("signature %d has no version", i+1)
		}
		if slices.Contains(parts[:i], part) {
			return nil, fmt.Errorf("signature %d is there twice", i+1)
		}
		var size int
		switch version {
		case hmacVersion:
			size = sha256.Size
		case ed25519Version:
			size = ed25519.SignatureSize
		default:
			continue
		}
		raw, err := encoding.DecodeString(text)
		if err != nil || len(raw) != size || strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("signature %d is not %d bytes in base64", i+1, size)
		}
		list = append(list, signature{version, raw})
	}
	if list == nil {
		return nil, errors.New("there is no signature of a known version")
	}
	return list, nil
}

// checkMessageID refuses what could be read in two ways: with a dot in the id,
// the signature of one message would fit another.
func checkMessageID(id string) error {
	if id == "" || len(id) > 256 {
		return errors.New("the id must be 1 to 256 characters")
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7F || id[i] == '.' {
			return errors.New("the id may have neither dots nor blanks, and must be ASCII")
		}
	}
	return nil
}

func signed(id, stamp string, body []byte) []byte {
	content := make([]byte, 0, len(id)+len(stamp)+len(body)+2)
	content = append(content, id+"."+stamp+"."...)
	return append(content, body...)
}

func mac(secret, content []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(content)
	return h.Sum(nil)
}
