package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// mostKeys is how many API keys are listed, the newest first.
const mostKeys = 10_000

type keyList struct {
	databaseFlags
	JSON bool `name:"json" help:"Print one JSON object for each on standard output."`
}

// listedKey is what "key list --json" prints of a key.
type listedKey struct {
	ID        string     `json:"id"`
	Agent     string     `json:"agent,omitempty"`
	Person    string     `json:"person,omitempty"`
	Kind      string     `json:"kind"`
	Scopes    []string   `json:"scopes"`
	MaxState  string     `json:"max_state"`
	Label     string     `json:"label,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	// LastUsedAt is to the minute; there is none where no use is noted.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	// Dead says that it is revoked or expired, its agent disabled, or its person no administrator.
	Dead bool `json:"dead"`
}

func (k *keyList) Run(ctx context.Context, c *cli) error {
	a, err := k.reading(ctx, c)
	if err != nil {
		return err
	}
	keys, err := a.Keys.Store.Keys.List(ctx, mostKeys)
	if err != nil {
		return err
	}
	if k.JSON {
		out := json.NewEncoder(os.Stdout)
		for _, key := range keys {
			err := out.Encode(listedKey{
				ID: key.ID, Agent: key.AgentID, Person: key.PersonID, Kind: key.Kind, Scopes: key.Scopes, MaxState: key.MaxState, Label: key.Label,
				CreatedAt: key.CreatedAt.UTC(), ExpiresAt: key.ExpiresAt, RevokedAt: key.RevokedAt, LastUsedAt: key.LastUsedAt, Dead: key.Dead,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if len(keys) == 0 {
		fmt.Fprintln(terminal, "no keys yet:", k.command("key create --agent ID"))
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tOF\tKIND\tSCOPES\tCREATED\tEXPIRES\tLAST USED\tSTATE\tLABEL")
	now := time.Now()
	for _, key := range keys {
		expires, used, state := "never", "-", "active"
		if key.LastUsedAt != nil {
			used = key.LastUsedAt.UTC().Format("2006-01-02 15:04")
		}
		if key.ExpiresAt != nil {
			expires = key.ExpiresAt.UTC().Format(time.DateOnly)
		}
		switch {
		case key.RevokedAt != nil:
			state = "revoked " + key.RevokedAt.UTC().Format(time.DateOnly)
		case key.ExpiresAt != nil && !now.Before(*key.ExpiresAt):
			state = "expired"
		case key.Dead && key.PersonID != "":
			state = "void: its person is no administrator, or was not since"
		case key.Dead:
			state = "agent revoked"
		case key.ExpiresSoon(now):
			state = "expires soon"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, cmp.Or(key.AgentID, key.PersonName, key.PersonID, "-"), key.Kind, strings.Join(key.Scopes, ","),
			key.CreatedAt.UTC().Format(time.DateOnly), expires, used, state, key.Label)
	}
	return table.Flush()
}
