package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

type keysCommand struct {
	List keysList `cmd:"" help:"List the keys of this installation, and which of them are in use."`
	New  keysNew  `cmd:"" help:"Put a new key into a key file; the former ones stay good."`
}

// Help is shown by "holdpoint keys --help".
func (keysCommand) Help() string {
	return `These are the keys of the installation itself; “holdpoint key” has those of agents and
administrators. docs/keys.md has the steps for changing each of them.

Examples:
  holdpoint keys list
  holdpoint keys new --for tokens /etc/holdpoint/signing-keys.json`
}

type keysNew struct {
	For  string `required:"" enum:"tokens" help:"tokens: what tokens are signed with."`
	File string `arg:"" type:"path" help:"The key file, which the settings name; made when it is not there."`
}

// Help is shown by "holdpoint keys new --help".
func (keysNew) Help() string {
	return `tokens: serve reads the file again by itself within seconds, or on SIGHUP. It publishes
the key, and signs with it when it has been published for signing_key_delay. Every
gate takes what any of them signs, whatever is in its own file.

Example:
  holdpoint keys new --for tokens /etc/holdpoint/signing-keys.json`
}

func (k *keysNew) Run(c *cli) error { return (&keyRotate{File: k.File, Keep: 3}).Run(c) }

type keysList struct {
	JSON bool `name:"json" help:"Print one JSON object for each on standard output."`
}

// Help is shown by "holdpoint keys list --help".
func (keysList) Help() string {
	return `Takes the settings of serve and changes nothing.

Example:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint keys list`
}

// listedSecret is what "keys list --json" prints of a key.
type listedSecret struct {
	For         string     `json:"for"`
	ID          string     `json:"id"`
	State       string     `json:"state"`
	PublishedAt *time.Time `json:"published_at,omitempty"`
	SeenAt      *time.Time `json:"seen_at,omitempty"`
}

func (k *keysList) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(config.Database | config.Keys)
	if err != nil {
		return err
	}
	s, err := openSchema(ctx, store.Config{URL: cfg.DatabaseURL, Sealer: cfg.Sealer, MaxConns: 4})
	if err != nil {
		return err
	}
	defer s.Close()
	tokens, err := gate.TokenKeyStates(ctx, s, cfg.Ring, time.Duration(cfg.SigningKeyDelay))
	if err != nil {
		return err
	}
	var list []listedSecret
	for _, key := range tokens {
		one := listedSecret{For: "tokens", ID: key.ID, State: tokenKeyState(key)}
		if !key.PublishedAt.IsZero() {
			one.PublishedAt, one.SeenAt = &key.PublishedAt, &key.SeenAt
		}
		list = append(list, one)
	}
	return printSecrets(list, k.JSON)
}

func tokenKeyState(k gate.TokenKey) string {
	switch {
	case k.Revoked:
		return "revoked"
	case k.PublishedAt.IsZero():
		return "not published yet"
	case k.Signs:
		return "signs"
	case k.Waiting > 0:
		return "signs in " + (k.Waiting.Truncate(time.Second) + time.Second).String()
	case k.Own:
		return "verifies"
	}
	return "verifies, not in this file"
}

func printSecrets(list []listedSecret, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		for _, one := range list {
			if err := out.Encode(one); err != nil {
				return err
			}
		}
		return nil
	}
	shown := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FOR\tID\tSTATE\tPUBLISHED\tLAST SEEN")
	for _, one := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", one.For, one.ID, one.State, shown(one.PublishedAt), shown(one.SeenAt))
	}
	return table.Flush()
}
