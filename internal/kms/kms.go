// Package kms keeps files of secrets encrypted under the key of a key management service,
// which gives that key to nobody: a plugin of Kubernetes' KMS v2 protocol on a Unix socket
// (of a cloud's service, of a Vault, or holdpoint-pkcs11 for hardware), or, where there is
// none of these, a key in a file. It asks the service when a file is opened or wrapped, and
// never writes a secret in clear.
package kms

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Service encrypts a file's own key. What it returns may be kept by anybody.
type Service interface {
	// KeyID is the name of the key that Encrypt would use. It changes when that does.
	KeyID(ctx context.Context) (string, error)
	// Encrypt encrypts a key of 32 bytes; the name of the request is for the service's log.
	Encrypt(ctx context.Context, request string, key []byte) (Sealed, error)
	// Decrypt returns what Encrypt was given, also when another key encrypts by now.
	Decrypt(ctx context.Context, request string, s Sealed) ([]byte, error)
}

// Sealed is a key that a service has encrypted.
type Sealed struct {
	KeyID      string
	Ciphertext []byte
	// Annotations are the service's own, and part of what it needs to decrypt.
	Annotations map[string][]byte
}

// Wait is how long a service may take for an answer.
const Wait = 10 * time.Second

// Open returns the service at an address, without asking it: unix:///… is the socket of a
// plugin, file:///… a file of keys.
func Open(address string) (Service, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
		return nil, errors.New("want unix:///run/holdpoint-kms/kms.sock, the socket of a KMS plugin, or file:///…, a file of keys")
	}
	switch u.Scheme {
	case "unix":
		return plugin{u.Path}, nil
	case "file":
		return openFile(u.Path)
	}
	return nil, fmt.Errorf("want unix:///… or file:///…, got %q", u.Scheme)
}

// ReadPrivate reads a file that others on this machine must not be able to read, such as a
// PIN, without the white space around it.
func ReadPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o007 != 0 {
		return "", fmt.Errorf("%s: others on this machine may open it (%s): chmod 600 it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	return strings.TrimSpace(string(text)), err
}
