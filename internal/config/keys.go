package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"holdpoint/engine/token"
	"holdpoint/internal/seal"
)

func (c *Config) dataKey() (errs []error) {
	key, err := seal.ParseKey(c.DataKey)
	if c.DataKey == "" {
		errs = append(errs, fmt.Errorf("data_key: it is missing: want %d random bytes in base64 (openssl rand -base64 %d)", seal.KeySize, seal.KeySize))
	} else if err != nil {
		errs = append(errs, fmt.Errorf("data_key: %w", err))
	} else if c.Sealer, err = seal.New(key); err != nil {
		errs = append(errs, fmt.Errorf("data_key: %w", err))
	}
	return errs
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

// SigningKeysReader returns a function that reads the file of signing keys again. It
// returns nil when the file has not changed since, or when there is none.
func (c *Config) SigningKeysReader() func() (*token.Ring, error) {
	path, former := c.SigningKeysFile, c.SigningKeys
	return func() (*token.Ring, error) {
		if path == "" {
			return nil, nil
		}
		data, err := os.ReadFile(path) // #nosec G304 -- the settings name it
		if err != nil {
			return nil, fmt.Errorf("signing_keys_file: %w", err)
		}
		text := strings.TrimSpace(string(data))
		if text == former {
			return nil, nil
		}
		ring, err := token.ParseRing([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("signing_keys_file: %s: %w", path, err)
		}
		former = text
		return &ring, nil
	}
}
