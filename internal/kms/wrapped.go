package kms

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Wrapped is a secret that was wrapped: encrypted under a key of its own, which a service
// has encrypted. It stands in place of the secret, as one line of JSON:
//
//	{"holdpoint_wrapped":1,"for":"data_key","key_id":"…","key":"…","data":"…"}
//
// The data are nonce ‖ ciphertext ‖ tag of AES-256-GCM and bound to the name of the
// setting, so that no wrapped secret is taken for another one's.
type Wrapped struct {
	Format      int               `json:"holdpoint_wrapped"`
	For         string            `json:"for"`
	KeyID       string            `json:"key_id"`
	Key         []byte            `json:"key"`
	Annotations map[string][]byte `json:"annotations,omitempty"`
	Data        []byte            `json:"data"`
}

const (
	format = 1
	prefix = `{"holdpoint_wrapped":`
	// mostWrapped is the longest secret that is wrapped, in bytes.
	mostWrapped = 1 << 20
)

// IsWrapped says whether a text stands for a secret.
func IsWrapped(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), prefix) }

// Parse reads a wrapped secret. It asks nobody.
func Parse(text string) (w Wrapped, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return w, errors.New("it is wrapped by a KMS, and not whole")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return w, errors.New("it is wrapped by a KMS, and something follows it")
	}
	switch {
	case w.Format != format:
		return w, fmt.Errorf("it is wrapped in format %d, and this program knows %d", w.Format, format)
	case w.For == "" || !printable(w.For) || checkKeyID(w.KeyID) != nil || len(w.Key) == 0 || len(w.Data) == 0:
		return w, errors.New("it is wrapped by a KMS, and not whole")
	}
	return w, nil
}

// Wrap encrypts the secret of a setting, as one line for a file. It returns only what it could
// have the service decrypt again.
func Wrap(ctx context.Context, s Service, setting string, secret []byte) ([]byte, error) {
	if len(secret) == 0 || len(secret) > mostWrapped {
		return nil, fmt.Errorf("want 1 to %d bytes to wrap, got %d", mostWrapped, len(secret))
	}
	key := make([]byte, KeySize)
	rand.Read(key)
	defer clear(key)
	sealed, err := s.Encrypt(ctx, request(setting), key)
	if err != nil {
		return nil, err
	}
	a, err := gcm(key)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(Wrapped{Format: format, For: setting, KeyID: sealed.KeyID, Key: sealed.Ciphertext, Annotations: sealed.Annotations, Data: encrypt(a, bound(setting), secret)})
	if err != nil {
		return nil, err
	}
	again, err := Unwrap(ctx, s, setting, string(text))
	if err != nil {
		return nil, fmt.Errorf("it cannot be opened again: %w", err)
	}
	if subtle.ConstantTimeCompare(again, secret) != 1 {
		return nil, errors.New("what is opened again is something else")
	}
	return append(text, '\n'), nil
}

// Unwrap is the secret of a setting in clear.
func Unwrap(ctx context.Context, s Service, setting, text string) ([]byte, error) {
	w, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if w.For != setting {
		return nil, fmt.Errorf("it is a wrapped %s, not a %s: were two files swapped?", w.For, setting)
	}
	key, err := s.Decrypt(ctx, request(setting), Sealed{KeyID: w.KeyID, Ciphertext: w.Key, Annotations: w.Annotations})
	if err != nil {
		return nil, err
	}
	defer clear(key)
	if len(key) != KeySize {
		return nil, errors.New("the KMS gives back something else than a file's key")
	}
	a, err := gcm(key)
	if err != nil {
		return nil, err
	}
	secret, err := decrypt(a, bound(setting), w.Data)
	if err != nil {
		return nil, fmt.Errorf("it was changed since it was wrapped, or was wrapped as something else than a %s", setting)
	}
	return secret, nil
}

func bound(setting string) string { return "holdpoint wrapped v1 " + setting }

// request names one question to a service.
func request(setting string) string { return setting + "-" + rand.Text()[:12] }
