package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdpoint/engine/policy"
	"holdpoint/internal/config"
	"holdpoint/internal/seal"
	"holdpoint/internal/simulation"
	"holdpoint/internal/store"
)

// simulateRecorded judges the approvals of the database that dir or the
// configuration names.
func simulateRecorded(ctx context.Context, c *cli, dir string, next, against *policy.Bundle) (simulation.Result, error) {
	cfg, err := recordedConfig(c, dir, ", or a file of calls with --calls")
	if err != nil {
		return simulation.Result{}, unreadable(err)
	}
	s, err := store.Open(ctx, store.Config{URL: cfg.DatabaseURL, Sealer: cfg.Sealer, MaxConns: 4})
	if err != nil {
		return simulation.Result{}, unreadable(err)
	}
	defer s.Close()
	found, err := simulation.Run(ctx, simulation.Config{Store: s, Sealer: cfg.Sealer, Next: next, Against: against})
	if err != nil {
		return found, unreadable(err)
	}
	return found, nil
}

// recordedConfig says where the database is and has its data key.
func recordedConfig(c *cli, dir, besides string) (config.Config, error) {
	if dir == "" {
		cfg, err := c.load(config.Database)
		if err == nil {
			// The signing keys, which serve needs besides, are nobody's business here.
			cfg.Sealer, err = sealerOf(cfg.DataKey)
		}
		if err != nil {
			err = orDataDir(err, besides)
		}
		return cfg, err
	}
	var cfg config.Config
	running, err := readDevFile(dir)
	if err != nil {
		return cfg, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "secrets.json")) // #nosec G304 -- the user names the directory
	if err != nil {
		return cfg, err
	}
	var state struct {
		DataKey string `json:"data_key"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return cfg, fmt.Errorf("read %s/secrets.json: %w", dir, err)
	}
	cfg.DatabaseURL = running.DatabaseURL
	if cfg.Sealer, err = sealerOf(state.DataKey); err != nil {
		return cfg, fmt.Errorf("read %s/secrets.json: %w", dir, err)
	}
	return cfg, nil
}

func sealerOf(dataKey string) (*seal.Sealer, error) {
	if dataKey == "" {
		return nil, errors.New("data_key: it is missing, and recorded calls cannot be read without it")
	}
	keys, err := seal.ParseKeys(dataKey)
	if err != nil {
		return nil, fmt.Errorf("data_key: %w", err)
	}
	return keys.Sealer(), nil
}
