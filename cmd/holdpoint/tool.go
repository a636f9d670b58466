package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"holdpoint/engine"
	"holdpoint/engine/registry"
)

type toolCommand struct {
	Set     toolSet     `cmd:"" help:"Register a tool, or change what is registered of it."`
	List    toolList    `cmd:"" help:"List tools."`
	Revoke  toolRevoke  `cmd:"" help:"Revoke a tool's registration: calls of it are refused."`
	Restore toolRestore `cmd:"" help:"Restore a revoked registration."`
}

type toolSet struct {
	approvable
	Name          string    `arg:"" help:"The tool's exact name."`
	Version       *string   `help:"Its version." placeholder:"VERSION"`
	Provider      *string   `help:"Where it comes from: built-in, mcp, langchain, custom." placeholder:"NAME"`
	ManifestHash  *string   `help:"SHA-256 of its manifest; a call that names another one is refused." placeholder:"HEX"`
	NeedManifest  *bool     `help:"Refuse calls that name no manifest." negatable:""`
	Verified      *bool     `help:"Say that somebody has looked at where it comes from." negatable:""`
	MinTrust      *string   `help:"The lowest trust level of agents that may call it." placeholder:"LEVEL"`
	Category      *string   `help:"What it does: public_read, private_read, write or unknown. Calls by every door are judged by it." placeholder:"NAME"`
	RiskDomain    *string   `help:"Its risk domain, such as finance; routing and policy look at it." placeholder:"NAME"`
	Label         *[]string `help:"A label of the data that its calls handle; may be given several times, and replaces those there were." placeholder:"LABEL"`
	IdentityBound *bool     `help:"Say that what it reads belongs to one person or account." negatable:""`
	SideEffects   *bool     `help:"Say that it changes something: its calls are writes." negatable:""`
	InputSchema   *string   `help:"File with the JSON Schema of its arguments, for the form in which reviewers change them; an empty name takes it away." placeholder:"FILE"`
	Stakes        *string   `help:"Template of the sentence that says what a call will do, such as 'Pay {amount|money:currency} to {*payee}'; an empty one takes it away." placeholder:"TEMPLATE"`
}

// Help is shown by "holdpoint tool set --help".
func (toolSet) Help() string {
	return `What is not given stays as it is.

Examples:
  holdpoint tool set create_transfer --category write --risk-domain finance --side-effects \
    --stakes 'Pay {amount|money:currency} to {*payee.name}, account {*payee.iban|account}'
  holdpoint tool set github.create_issue --provider mcp --verified \
    --manifest-hash "$(sha256sum manifest.json | cut -d' ' -f1)"`
}

func (t *toolSet) Run(ctx context.Context, c *cli) error {
	r, by, err := t.administration(ctx, c)
	if err != nil {
		return err
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	tool, exists := known.Tools[t.Name]
	tool.Name = t.Name
	set(&tool.Version, t.Version)
	set(&tool.Provider, t.Provider)
	set(&tool.ManifestHash, t.ManifestHash)
	set(&tool.NeedsManifest, t.NeedManifest)
	set(&tool.Verified, t.Verified)
	set(&tool.Category, t.Category)
	set(&tool.RiskDomain, t.RiskDomain)
	set(&tool.DataLabels, t.Label)
	set(&tool.IdentityBound, t.IdentityBound)
	set(&tool.SideEffects, t.SideEffects)
	set(&tool.Stakes, t.Stakes)
	if t.MinTrust != nil {
		if tool.MinTrust, err = engine.ParseTrust(*t.MinTrust); err != nil {
			return fmt.Errorf("--min-trust: %w: want %s", err, strings.Join(engine.TrustLevels(), ", "))
		}
	}
	if t.InputSchema != nil {
		tool.InputSchema = nil
		if *t.InputSchema != "" {
			if tool.InputSchema, err = os.ReadFile(*t.InputSchema); err != nil {
				return fmt.Errorf("--input-schema: %w", err)
			}
		}
	}
	if err := r.Registry.RegisterTool(ctx, by, tool, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s: %s\n", tool.Name, toolText(tool))
	if !exists { // or the name is mistyped, and the tool is as it was
		fmt.Fprintln(terminal, "it was not registered before")
	}
	return nil
}

// toolText is a line about a tool.
func toolText(t registry.Tool) string {
	parts := []string{"provider " + orText(t.Provider, "unknown"), map[bool]string{true: "verified", false: "not verified"}[t.Verified]}
	if t.ManifestHash != "" {
		parts = append(parts, "manifest "+t.ManifestHash[:12]+"…")
	}
	for _, fact := range []struct {
		there bool
		text  string
	}{
		{t.Category != "", "category " + t.Category},
		{t.RiskDomain != "", "risk domain " + t.RiskDomain},
		{len(t.DataLabels) > 0, "labels " + strings.Join(t.DataLabels, " ")},
		{t.IdentityBound, "bound to an identity"},
		{t.SideEffects, "has side effects"},
	} {
		if fact.there {
			parts = append(parts, fact.text)
		}
	}
	if len(t.InputSchema) > 0 {
		parts = append(parts, "with a schema of its arguments")
	}
	if t.Stakes != "" {
		parts = append(parts, "stakes "+strconv.Quote(t.Stakes))
	}
	if t.MinTrust > engine.Untrusted {
		parts = append(parts, "for "+t.MinTrust.String()+" agents")
	}
	return strings.Join(parts, ", ")
}

func orText(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

type toolList struct {
	databaseFlags
	listing
}

func (t *toolList) Run(ctx context.Context, c *cli) error {
	r, err := t.reading(ctx, c)
	if err != nil {
		return err
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	if t.JSON {
		return printEach(slices.Sorted(maps.Keys(known.Tools)), func(name string) registry.Tool { return known.Tools[name] })
	}
	if len(known.Tools) == 0 {
		fmt.Fprintln(terminal, "no tools yet:", t.command("tool set NAME --verified"))
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVERSION\tWHAT\tSTATE")
	for _, name := range slices.Sorted(maps.Keys(known.Tools)) {
		tool, state := known.Tools[name], "active"
		if tool.RevokedAt != nil {
			state = "revoked"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, tool.Version, toolText(tool), state)
	}
	return table.Flush()
}

type toolRevoke struct {
	databaseFlags
	Name string `arg:"" help:"The tool's exact name."`
}

func (t *toolRevoke) Run(ctx context.Context, c *cli) error {
	return revokeTool(ctx, t.administration, c, t.Name, true)
}

type toolRestore struct {
	approvable
	Name string `arg:"" help:"The tool's exact name."`
}

func (t *toolRestore) Run(ctx context.Context, c *cli) error {
	return revokeTool(ctx, t.administration, c, t.Name, false)
}

func revokeTool(ctx context.Context, as administers, c *cli, name string, revoke bool) error {
	r, by, err := as(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Registry.RevokeTool(ctx, by, name, revoke, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s %s\n", map[bool]string{true: "revoked", false: "restored"}[revoke], name)
	return nil
}
