// Package webpush writes what a push service of a browser is sent: who sends it
// (VAPID), and what only that browser can read.
//
//	Key ── signs ──► JSON Web Token, ES256: for one service, for some hours   RFC 8292
//	Subscription ── P-256, a secret of the browser's ──► key, nonce           RFC 8291
//	                          text ── AES-128-GCM, one record ──► body        RFC 8188
//
// The service learns that a push comes, when and how urgent it is, and nothing of what
// it says: short texts are all as long as each other. The package sends nothing, and
// keeps nothing.
package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// Sizes of what a browser gives, and of what it takes, in bytes.
const (
	publicSize = 65 // an uncompressed point of P-256
	authSize   = 16
	saltSize   = 16
	recordSize = 4096
	headerSize = saltSize + 4 + 1 + publicSize
	// MaxText is the longest text that every push service takes (RFC 8291, section 4):
	// a record, without its header, its authentication tag and its delimiter.
	MaxText = recordSize - headerSize - 16 - 1
	// padding is what texts are filled up to, or a multiple of it: that one is about a
	// payment and another one about a change of access shows in their lengths.
	padding = 1024
)

// tokenLasts is how long a token is good for; services refuse more than a day.
const tokenLasts = 12 * time.Hour

var base64url = base64.RawURLEncoding

// Subscription is where and how a browser is reached, as the browser's own
// PushSubscription says it. All of it is secret: who knows it can push there.
type Subscription struct {
	Endpoint string `json:"endpoint"`
	P256DH   string `json:"p256dh"` // the browser's public key, in base64url
	Auth     string `json:"auth"`   // a secret that it shares, in base64url
}

// Check says what is wrong with the keys of a subscription, without quoting them.
func (s Subscription) Check() error {
	_, _, err := s.keys()
	return err
}

func (s Subscription) keys() (*ecdh.PublicKey, []byte, error) {
	point, err := base64url.DecodeString(s.P256DH)
	if err != nil || len(point) != publicSize {
		return nil, nil, errors.New("p256dh: is no public key")
	}
	public, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, nil, errors.New("p256dh: is no public key")
	}
	auth, err := base64url.DecodeString(s.Auth)
	if err != nil || len(auth) != authSize {
		return nil, nil, errors.New("auth: is no secret of 16 bytes")
	}
	return public, auth, nil
}

// Encrypt encrypts a text of at most MaxText bytes for the subscription's browser.
func Encrypt(s Subscription, text []byte) ([]byte, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	salt := make([]byte, saltSize)
	rand.Read(salt)
	return encrypt(s, text, padding, key, salt)
}

// encrypt fills the text, with its delimiter, up to a multiple of fill bytes, or as far as a record goes.
func encrypt(s Subscription, text []byte, fill int, key *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the text has %d bytes; at most %d can be sent", len(text), MaxText)
	}
	public, auth, err := s.keys()
	if err != nil {
		return nil, err
	}
	shared, err := key.ECDH(public)
	if err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	aead, nonce, err := derive(shared, auth, salt, public.Bytes(), key.PublicKey().Bytes())
	if err != nil {
		return nil, err
	}
	filled := make([]byte, min((len(text)+fill)/fill*fill, MaxText+1))
	copy(filled, text)
	filled[len(text)] = 2 // ends the last record; nothing but padding comes after it
	body := make([]byte, 0, headerSize+len(filled)+16)
	body = append(body, salt...)
	body = binary.BigEndian.AppendUint32(body, recordSize)
	body = append(body, publicSize)
	body = append(body, key.PublicKey().Bytes()...)
	return aead.Seal(body, nonce, filled, nil), nil
}

// Decrypt is what a browser does with the body of a push: private and auth are those
// of its subscription.
func Decrypt(body []byte, private *ecdh.PrivateKey, auth []byte) ([]byte, error) {
	if len(body) < headerSize || body[saltSize+4] != publicSize {
		return nil, errors.New("the body has no header of aes128gcm with a public key")
	}
	if size := binary.BigEndian.Uint32(body[saltSize:]); uint64(len(body)-headerSize) > uint64(size) {
		return nil, errors.New("the body has more than one record")
	}
	sender, err := ecdh.P256().NewPublicKey(body[saltSize+5 : headerSize])
	if err != nil {
		return nil, errors.New("the header's key is none")
	}
	shared, err := private.ECDH(sender)
	if err != nil {
		return nil, fmt.Errorf("agree on a key: %w", err)
	}
	aead, nonce, err := derive(shared, auth, body[:saltSize], private.PublicKey().Bytes(), sender.Bytes())
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nonce, body[headerSize:], nil)
	if err != nil {
		return nil, errors.New("the body is not for this subscription")
	}
	for len(text) > 0 && text[len(text)-1] == 0 { // padding
		text = text[:len(text)-1]
	}
	if len(text) == 0 || text[len(text)-1] != 2 {
		return nil, errors.New("the record has no end")
	}
	return text[:len(text)-1], nil
}

// derive makes key and nonce of what both sides know (RFC 8291, section 3.4).
func derive(shared, auth, salt, browser, sender []byte) (cipher.AEAD, []byte, error) {
	input, err := hkdf.Key(sha256.New, shared, auth, "WebPush: info\x00"+string(browser)+string(sender), sha256.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("derive keys: %w", err)
	}
	key, err1 := hkdf.Key(sha256.New, input, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce, err2 := hkdf.Key(sha256.New, input, salt, "Content-Encoding: nonce\x00", 12)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("derive keys: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, fmt.Errorf("derive keys: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	return aead, nonce, err
}

// Key is what pushes are signed with. Browsers subscribe to its public half, and take
// pushes of no other. The zero Key is none.
type Key struct{ private *ecdsa.PrivateKey }

// NewKey makes a key and returns it as ParseKey reads it: 32 bytes in base64url.
func NewKey(random io.Reader) (string, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	raw, err := private.Bytes()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return base64url.EncodeToString(raw), nil
}

// ParseKey reads a private key. Its error does not quote it.
func ParseKey(text string) (Key, error) {
	raw, err := base64url.DecodeString(text)
	if err != nil {
		return Key{}, errors.New("want 32 bytes in base64url")
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return Key{}, errors.New("want a private key of P-256: 32 bytes in base64url")
	}
	return Key{private}, nil
}

// There reports whether it is a key.
func (k Key) There() bool { return k.private != nil }

// Public is the public half as browsers take it (applicationServerKey), in base64url;
// "" for no key.
func (k Key) Public() string {
	if k.private == nil {
		return ""
	}
	point, err := k.private.PublicKey.Bytes()
	if err != nil {
		return "" // a key that was read or made is on its curve
	}
	return base64url.EncodeToString(point)
}

// Authorization is the header that says to the push service of the endpoint who sends.
// contact is where the service reaches whoever runs this, mailto: or https:; "" says
// nothing.
func (k Key) Authorization(endpoint, contact string, now time.Time) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "", errors.New("the endpoint is no absolute URL")
	}
	claims, err := json.Marshal(struct {
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub,omitempty"`
	}{u.Scheme + "://" + u.Host, now.Add(tokenLasts).Unix(), contact})
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	signed := base64url.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + base64url.EncodeToString(claims)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return "vapid t=" + signed + "." + base64url.EncodeToString(signature) + ", k=" + k.Public(), nil
}
