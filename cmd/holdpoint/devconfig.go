package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"

	"holdpoint/internal/config"
)

// Files of a data directory.
const (
	stateFile    = "secrets.json"
	signingFile  = "signing-keys.json"
	logFloorFile = "log-floor"
	pushKeyFile  = "push-key"
	// What used to be one file: the policy bundle, and the settings of serve.
	policyFile = "policy.yaml"
	// contractsFile is looked at when it is there.
	contractsFile = "contracts.yaml"
)

// peopleRole is a data directory's database role that changes accounts.
const peopleRole = "holdpoint_people_app"

// devKept is what serve and worker of a data directory need beside what dev.json says.
type devKept struct{ dataKey, databasePeopleURL string }

// devConfig is the configuration of serve and worker in a data directory, of which running says where they are. It is
// not checked yet.
func devConfig(dir string, running devFile, kept devKept) (config.Config, error) {
	settings := filepath.Join(dir, settingsFile)
	cfg, err := config.Load(settings, nil)
	if err != nil {
		return cfg, err
	}
	if cfg.KMS != "" {
		return cfg, fmt.Errorf("%s: kms: dev keeps its keys in clear; serve and worker take a KMS (docs/kms.md)", settings)
	}
	if cfg.PolicyFile == "" {
		cfg.PolicyFile = filepath.Join(dir, policyFile)
	}
	if cfg.ContractsFile == "" && !missing(dir, contractsFile) {
		cfg.ContractsFile = filepath.Join(dir, contractsFile)
	}
	at, err := url.Parse(running.URL)
	if err != nil {
		return cfg, fmt.Errorf("the address of “holdpoint dev”: %w", err)
	}
	cfg.Listen, cfg.PublicURL, cfg.Issuer, cfg.Environment = at.Host, running.URL, "urn:holdpoint:dev", devEnvironment
	cfg.DatabasePeopleURL = kept.databasePeopleURL
	cfg.DatabaseURL, cfg.TemporalAddress, cfg.TemporalNamespace = running.DatabaseURL, running.TemporalAddress, "holdpoint"
	// Receivers that somebody tries things with run on this machine.
	cfg.OutboundAllowPrivate = append(cfg.OutboundAllowPrivate, devNetworks...)
	cfg.DataKey, cfg.SigningKeysFile = kept.dataKey, filepath.Join(dir, signingFile)
	for _, network := range devNetworks {
		cfg.PushPrivate = append(cfg.PushPrivate, netip.MustParsePrefix(network))
	}
	if cfg.PushKey == "" && cfg.PushKeyFile == "" {
		cfg.PushKeyFile = filepath.Join(dir, pushKeyFile)
	}
	if cfg.LogKey == "" && cfg.LogKeyFile == "" {
		cfg.LogKeyFile = filepath.Join(dir, logKeyFile)
	}
	if cfg.LogFloorFile == "" {
		cfg.LogFloorFile = filepath.Join(dir, logFloorFile)
	}
	return cfg, nil
}

// runningConfig is the configuration of serve and worker of a running “holdpoint dev”, not checked yet.
func runningConfig(dir string, running devFile) (config.Config, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile)) // #nosec G304 -- the user names the directory
	if err != nil {
		return config.Config{}, fmt.Errorf("read what “holdpoint dev” keeps: %w", err)
	}
	var kept struct {
		DataKey        string `json:"data_key"`
		PeoplePassword string `json:"people_password"`
	}
	if err := json.Unmarshal(text, &kept); err != nil { // the error may quote a secret
		return config.Config{}, fmt.Errorf("read what “holdpoint dev” keeps: %s cannot be read", stateFile)
	}
	people, err := url.Parse(running.DatabaseURL)
	if err != nil {
		return config.Config{}, errors.New("read what “holdpoint dev” keeps: the address of the database in dev.json cannot be read")
	}
	people.User = url.UserPassword(peopleRole, kept.PeoplePassword)
	return devConfig(dir, running, devKept{kept.DataKey, people.String()})
}

func missing(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return errors.Is(err, fs.ErrNotExist)
}
