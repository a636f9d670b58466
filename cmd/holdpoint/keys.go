package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

type keysCommand struct {
	List   keysList   `cmd:"" help:"List the keys of this installation, and which of them are in use."`
	New    keysNew    `cmd:"" help:"Put a new key into a key file; the former ones stay good."`
	Use    keysUse    `cmd:"" help:"Have another data key seal."`
	Reseal keysReseal `cmd:"" help:"Take what is sealed with former data keys over to the one that seals."`
	Retire keysRetire `cmd:"" help:"Take data keys out of their file that nothing is sealed with."`
	Wrap   keysWrap   `cmd:"" help:"Wrap files of keys with the KMS's key, also when that has changed."`
	Unwrap keysUnwrap `cmd:"" help:"Put files of keys back in clear."`
}

// Help is shown by "holdpoint keys --help".
func (keysCommand) Help() string {
	return `These are the keys of the installation itself; “holdpoint key” has those of agents and
administrators. docs/keys.md has the steps for changing each of them.

Examples:
  holdpoint keys list
  holdpoint keys new --for tokens /etc/holdpoint/signing-keys.json
  holdpoint keys reseal --progress
  holdpoint keys wrap`
}

type keysNew struct {
	For  string `required:"" enum:"tokens,data,log,kms" help:"tokens: what tokens are signed with. data: what arguments are encrypted with. log: what the audit log is signed with. kms: what files of keys are wrapped with."`
	File string `arg:"" type:"path" help:"The key file, which the settings name; made when it is not there."`
}

// Help is shown by "holdpoint keys new --help".
func (keysNew) Help() string {
	return `tokens: serve reads the file again by itself within seconds, or on SIGHUP. It publishes
the key, and signs with it when it has been published for signing_key_delay. Every
gate takes what any of them signs, whatever is in its own file.
data: the new key opens, and seals nothing before “keys use”.
log: a worker that is started with the file signs with all keys in it. FILE.pub has
the public keys. “key log” makes the first one.
kms: for the setting kms: file:///FILE. The new key wraps from now on, and the others
open; “keys wrap” takes the files over to it.
Where kms is set, every file but that one is written wrapped.

Examples:
  holdpoint keys new --for tokens /etc/holdpoint/signing-keys.json
  holdpoint keys new --for data /etc/holdpoint/data_key`
}

func (k *keysNew) Run(ctx context.Context, c *cli) error {
	setting := map[string]string{"data": "data_key", "log": "log_key"}[k.For]
	switch k.For {
	case "tokens":
		return (&keyRotate{File: k.File, Keep: 3}).Run(ctx, c)
	case "kms":
		return changing(k.File, func() error { return addKMSKey(k.File) })
	}
	f, err := c.keyFile(setting, k.File)
	if err != nil {
		return err
	}
	if k.For == "log" {
		return addLogKey(ctx, f)
	}
	return newDataKey(ctx, f)
}

type keysList struct {
	JSON bool `name:"json" help:"Print one JSON object for each on standard output."`
}

// Help is shown by "holdpoint keys list --help".
func (keysList) Help() string {
	return `Takes the settings of serve, or of the worker, and changes nothing. It counts what is
sealed with each data key, which reads whole tables.

Example:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint keys list`
}

// listedSecret is what "keys list --json" prints of a key.
type listedSecret struct {
	For        string     `json:"for"`
	ID         string     `json:"id"`
	State      string     `json:"state"`
	Since      *time.Time `json:"since,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	// Records is how many are sealed with a data key.
	Records *int64 `json:"records,omitempty"`
	// WrappedBy is the KMS's key that has wrapped the file that this key is in.
	WrappedBy string `json:"wrapped_by,omitempty"`
}

func (k *keysList) Run(ctx context.Context, c *cli) error {
	cfg, err := config.Load(c.Config, os.Environ())
	need := config.Database | config.Keys
	if cfg.LogKey != "" || cfg.LogKeyFile != "" {
		need |= config.Log // the worker's settings
	}
	if err = checked(&cfg, err, need); err != nil {
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
		if key.Own {
			one.WrappedBy = cfg.WrappedBy("signing_keys")
		}
		if !key.PublishedAt.IsZero() {
			one.Since, one.LastUsedAt = &key.PublishedAt, &key.SeenAt
		}
		list = append(list, one)
	}
	data, err := listDataKeys(ctx, s, cfg.Sealer.Keys())
	if err != nil {
		return err
	}
	for i := range min(len(data), len(cfg.Sealer.Keys().IDs())) {
		data[i].WrappedBy = cfg.WrappedBy("data_key")
	}
	list = append(list, data...)
	for _, key := range cfg.LogKeys {
		list = append(list, listedSecret{For: "log", ID: fmt.Sprintf("%s+%08x", key.Name(), key.KeyHash()), State: "signs", WrappedBy: cfg.WrappedBy("log_key")})
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

// listDataKeys lists the data keys of the settings and those that the database knows.
func listDataKeys(ctx context.Context, s *store.Store, keys *seal.Keys) ([]listedSecret, error) {
	known, err := s.DataKeys.List(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := s.DataKeys.Count(ctx)
	if err != nil {
		return nil, err
	}
	if first := keys.First(); first != "" {
		counts[first] = counts[""]
	}
	ids := slices.Clone(keys.IDs())
	for _, k := range known {
		if !slices.Contains(ids, k.ID) {
			ids = append(ids, k.ID)
		}
	}
	var list []listedSecret
	for i, id := range ids {
		n := counts[id]
		one := listedSecret{For: "data", ID: id, State: "opens", Records: &n}
		switch {
		case i == 0:
			one.State = "seals"
		case i >= len(keys.IDs()):
			one.State = "not in data_key"
		}
		if j := slices.IndexFunc(known, func(k store.DataKey) bool { return k.ID == id }); j >= 0 {
			one.Since, one.LastUsedAt = &known[j].CreatedAt, &known[j].SealedAt
			if known[j].Empty() && i >= len(keys.IDs()) {
				one.State = "retired"
			}
		}
		list = append(list, one)
	}
	return list, nil
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
	wrapped := slices.ContainsFunc(list, func(one listedSecret) bool { return one.WrappedBy != "" })
	fmt.Fprint(table, "FOR\tID\tSTATE\tSINCE\tLAST USED\tRECORDS")
	if wrapped {
		fmt.Fprint(table, "\tWRAPPED BY")
	}
	fmt.Fprintln(table)
	for _, one := range list {
		records := "-"
		if one.Records != nil {
			records = strconv.FormatInt(*one.Records, 10)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s", one.For, one.ID, one.State, shown(one.Since), shown(one.LastUsedAt), records)
		if wrapped {
			fmt.Fprintf(table, "\t%s", cmp.Or(one.WrappedBy, "-"))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}
