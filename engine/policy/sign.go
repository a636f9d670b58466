package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"holdpoint/engine/canon"
)

// What can be wrong with a signature.
var (
	// ErrUnsigned says that the bundle has no signature, or one that is not a text.
	ErrUnsigned = errors.New("the bundle is not signed")
	// ErrSignature says that the signature was not made of this bundle with this secret.
	ErrSignature = errors.New("the signature does not fit the bundle and the secret")
	// ErrNoSecret says that there is no secret to sign or verify with.
	ErrNoSecret = errors.New("there is no secret to sign or verify with")
)

// Sign is the signature of a bundle: 64 lower-case hex digits of the HMAC-SHA256
// under secret of its RFC 8785 form without the member "signature". Every value
// of the bundle counts, those that Holdpoint does not know too.
func Sign(v canon.Value, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(unsigned(v))
	return hex.EncodeToString(mac.Sum(nil))
}

// Verify reports whether the bundle's member "signature" is what Sign returns,
// in constant time. It has to be spelled alike: upper-case digits, white space
// or a prefix are refused, as one bundle has one signature. Errors are
// ErrNoSecret, ErrUnsigned and ErrSignature.
func Verify(v canon.Value, secret []byte) error {
	if len(secret) == 0 {
		return ErrNoSecret
	}
	signature, ok := v.Get("signature")
	if !ok || signature.Kind() != canon.StringKind || signature.Str() == "" {
		return ErrUnsigned
	}
	if !hmac.Equal([]byte(signature.Str()), []byte(Sign(v, secret))) {
		return ErrSignature
	}
	return nil
}
