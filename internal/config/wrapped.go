package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"holdpoint/internal/kms"
)

// SecretFile is a file with a secret that the settings name. A KMS may have wrapped it.
type SecretFile struct {
	// Setting is the secret's, without "_file"; what is wrapped is bound to it.
	Setting string
	Path    string
}

// secret is a setting whose value is a secret, or the public key that is read as one is.
type secret struct {
	name, path  string
	value       *string
	own, public bool
}

func (c *Config) secrets() []secret {
	return []secret{
		{name: "database_url", path: c.DatabaseURLFile, value: &c.DatabaseURL},
		{name: "database_admin_url", path: c.DatabaseAdminFile, value: &c.DatabaseAdminURL},
		{name: "database_people_url", path: c.DatabasePeopleFile, value: &c.DatabasePeopleURL},
		{name: "data_key", path: c.DataKeyFile, value: &c.DataKey, own: true},
		{name: "signing_keys", path: c.SigningKeysFile, value: &c.SigningKeys, own: true},
		{name: "policy_secret", path: c.PolicySecretFile, value: &c.PolicySecret, own: true},
		{name: "policy_secret_former", path: c.FormerPolicySecretFile, value: &c.FormerPolicySecret, own: true},
		{name: "smtp.password", path: c.SMTP.PasswordFile, value: &c.SMTP.Password},
		{name: "push_key", path: c.PushKeyFile, value: &c.PushKey, own: true},
		{name: "temporal_api_key", path: c.TemporalKeyFile, value: &c.TemporalKey},
		{name: "log_key", path: c.LogKeyFile, value: &c.LogKey, own: true},
		{name: "log_public_key", path: c.LogPublicKeyFile, value: &c.LogPublicKey, public: true},
	}
}

// kind is what a wrapped secret is bound to: a former policy secret was one.
func kind(setting string) string { return strings.TrimSuffix(setting, "_former") }

// SecretFiles are the files of secrets that the settings name, and retired data keys beside
// theirs. Check reads some of the settings away: ask before.
func (c *Config) SecretFiles() (files []SecretFile) {
	add := func(setting, path string) {
		if path != "" {
			files = append(files, SecretFile{Setting: kind(setting), Path: path})
		}
	}
	for _, s := range c.secrets() {
		if !s.public {
			add(s.name, s.path)
		}
	}
	if c.DataKeyFile != "" {
		retired, _ := filepath.Glob(c.DataKeyFile + ".retired-*") // no pattern but our own
		for _, path := range retired {
			add("data_key", path)
		}
	}
	add("temporal_tls.key", c.TemporalTLS.KeyFile)
	for _, t := range c.Tickets {
		add("tickets.token", t.TokenFile)
	}
	for _, p := range c.SSO {
		add("sso.client_secret", p.ClientSecretFile)
	}
	for _, s := range c.LogStreams {
		add("log_streams.secret", s.SecretFile)
		add("log_streams.token", s.TokenFile)
		add("log_streams.key", s.KeyFile)
	}
	return files
}

// SecretSettings are the settings whose secrets a KMS may wrap, and a witness's key, which
// is no setting.
func SecretSettings() (names []string) {
	for _, s := range new(Config).secrets() {
		if !s.public && kind(s.name) == s.name {
			names = append(names, s.name)
		}
	}
	return append(names, "witness_key", "temporal_tls.key", "tickets.token", "sso.client_secret", "log_streams.secret", "log_streams.token", "log_streams.key")
}

// WrappedBy is the name of the KMS's key by which a setting's value was wrapped when Check
// read it; "" for one that was in clear.
func (c *Config) WrappedBy(setting string) string { return c.wrappedBy[setting] }

// readSecrets reads the files of secrets into their settings, and opens what a KMS has
// wrapped. If it is over with that, nothing else is known of what the settings hold.
func (c *Config) readSecrets() (errs []error, over bool) {
	bad := func(setting, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
	}
	c.opener, c.wrappedBy = &opener{address: c.KMS, opened: map[[sha256.Size]byte]string{}}, map[string]string{}
	if _, err := kms.Open(c.KMS); c.KMS != "" && err != nil {
		return []error{fmt.Errorf("kms: %w", err)}, true
	}
	asked := false
	for _, s := range c.secrets() {
		where := s.name
		if s.path != "" {
			where += "_file"
			if *s.value != "" {
				bad(s.name, "it is given both by itself and as a file; give one")
				continue
			}
			data, err := os.ReadFile(s.path)
			if err != nil {
				bad(where, "%v", err)
				continue
			}
			*s.value = strings.TrimSpace(string(data))
		}
		switch wrapped := kms.IsWrapped(*s.value); {
		case *s.value == "", s.public:
		case !wrapped && s.own && c.KMS != "" && s.path != "":
			bad(where, "%v", inClear(s.path))
		case !wrapped && s.own && c.KMS != "":
			bad(where, "it is in clear, and kms is set: name a file, which holdpoint keys wrap wraps")
		case wrapped:
			if c.KMS == "" {
				return append(errs, fmt.Errorf("kms: it is missing: %s is wrapped by one", where)), true
			}
			if !asked {
				if err := c.opener.ask(); err != nil {
					return append(errs, fmt.Errorf("kms: %w", err)), true
				}
				asked = true
			}
			w, err := kms.Parse(*s.value)
			if err == nil {
				c.wrappedBy[s.name] = w.KeyID
				*s.value, err = c.opener.open(s.name, *s.value)
			}
			if err != nil {
				bad(where, "%v", err)
				over = true
			}
		}
	}
	return errs, over
}

// opener opens what a KMS has wrapped. What it has opened once it knows: a KMS that goes
// away takes nothing from a process that runs.
type opener struct {
	address string // "" for none

	mu     sync.Mutex
	opened map[[sha256.Size]byte]string
}

// ask asks the KMS whether it is well.
func (o *opener) ask() error {
	service, err := kms.Open(o.address)
	if err == nil {
		_, err = service.KeyID(context.Background())
	}
	return err
}

// read reads the file of a secret that is no key of Holdpoint's own: it may be in clear.
func (o *opener) read(setting, path string) (string, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the settings name it
	if err != nil {
		return "", err
	}
	return o.open(setting, strings.TrimSpace(string(data)))
}

// readOwn reads the file of a key of Holdpoint's own: where there is a KMS, it is wrapped.
func (o *opener) readOwn(setting, path string) (string, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the settings name it
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if o != nil && o.address != "" && text != "" && !kms.IsWrapped(text) {
		return "", inClear(path)
	}
	return o.open(setting, text)
}

func inClear(path string) error {
	return fmt.Errorf("%s is in clear, and kms is set: holdpoint keys wrap wraps it", path)
}

// open is a setting's secret in clear: the text itself, if nothing has wrapped it.
func (o *opener) open(setting, text string) (string, error) {
	if !kms.IsWrapped(text) {
		return text, nil
	}
	if o == nil || o.address == "" {
		return "", errors.New("it is wrapped by a KMS, and kms is not set")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	known := sha256.Sum256([]byte(kind(setting) + "\x00" + text))
	if secret, ok := o.opened[known]; ok {
		return secret, nil
	}
	service, err := kms.Open(o.address)
	if err != nil {
		return "", fmt.Errorf("kms: %w", err)
	}
	secret, err := kms.Unwrap(context.Background(), service, kind(setting), text)
	if err != nil {
		return "", err
	}
	o.opened[known] = strings.TrimSpace(string(secret))
	return o.opened[known], nil
}
