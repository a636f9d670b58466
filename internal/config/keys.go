package config

import (
	"errors"
	"fmt"

	"holdpoint/engine/token"
	"holdpoint/internal/seal"
)

func (c *Config) dataKey() []error {
	keys, err := seal.ParseKeys(c.DataKey)
	if c.DataKey == "" {
		return []error{fmt.Errorf("data_key: it is missing: want %d random bytes in base64 (openssl rand -base64 %d)", seal.KeySize, seal.KeySize)}
	}
	if err != nil {
		return []error{fmt.Errorf("data_key: %w", err)}
	}
	c.Sealer = keys.Sealer()
	return nil
}

func (c *Config) keys() []error {
	errs := c.dataKey()
	var err error
	if c.SigningKeys == "" {
		errs = append(errs, errors.New("signing_keys: it is missing: holdpoint key rotate FILE makes one"))
	} else if c.Ring, err = token.ParseRing([]byte(c.SigningKeys)); err != nil {
		errs = append(errs, fmt.Errorf("signing_keys: %w (holdpoint key rotate FILE makes one)", err))
	}
	return errs
}

func (c *Config) policySecrets() (errs []error) {
	for _, s := range []struct{ name, value string }{{"policy_secret", c.PolicySecret}, {"policy_secret_former", c.FormerPolicySecret}} {
		if s.value != "" && len(s.value) < minSecret {
			errs = append(errs, fmt.Errorf("%s: want at least %d characters: with a short one anybody could sign (openssl rand -base64 32)", s.name, minSecret))
		}
	}
	if c.FormerPolicySecret != "" && c.PolicySecret == "" {
		errs = append(errs, errors.New("policy_secret_former: there is no policy_secret that has followed it"))
	}
	return errs
}

// SigningKeysReader returns a function that reads the file of signing keys again. It
// returns nil when the file has not changed since, or when there is none.
func (c *Config) SigningKeysReader() func() (*token.Ring, error) {
	return reader(c.opener, "signing_keys", c.SigningKeysFile, c.SigningKeys, func(text string) (*token.Ring, error) {
		ring, err := token.ParseRing([]byte(text))
		return &ring, err
	})
}

// DataKeysReader is SigningKeysReader for the file of data keys.
func (c *Config) DataKeysReader() func() (*seal.Keys, error) {
	return reader(c.opener, "data_key", c.DataKeyFile, c.DataKey, seal.ParseKeys)
}

func reader[T any](opener *opener, setting, path, former string, parse func(string) (*T, error)) func() (*T, error) {
	return func() (*T, error) {
		if path == "" {
			return nil, nil
		}
		text, err := opener.readOwn(setting, path)
		if err != nil {
			return nil, fmt.Errorf("%s_file: %w", setting, err)
		}
		if text == former {
			return nil, nil
		}
		parsed, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s_file: %s: %w", setting, path, err)
		}
		former = text
		return parsed, nil
	}
}
