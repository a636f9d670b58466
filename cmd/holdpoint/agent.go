package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/engine/shellword"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

type agentCommand struct {
	Set     agentSet     `cmd:"" help:"Register an agent, or change what is registered of it."`
	List    agentList    `cmd:"" help:"List agents."`
	Revoke  agentRevoke  `cmd:"" help:"Revoke an agent's registration: within a second its calls are refused and its tokens worth nothing. To stop it at once: kill."`
	Restore agentRestore `cmd:"" help:"Restore a revoked registration."`
}

// rates are the limits of an agent, or of all of them.
type rates struct {
	Calls        *int           `help:"Calls within --per; 0 for any number." placeholder:"N"`
	Per          *time.Duration `help:"Window of --calls, such as 1m." placeholder:"DURATION"`
	ToolCalls    *int           `help:"Calls of any one tool within --tool-per." placeholder:"N"`
	ToolPer      *time.Duration `help:"Window of --tool-calls." placeholder:"DURATION"`
	SessionCalls *int           `help:"Calls of one session." placeholder:"N"`
	SessionFor   *time.Duration `help:"How long one session may last." placeholder:"DURATION"`
}

// apply changes what was given.
func (r rates) apply(l registry.Limits) registry.Limits {
	set(&l.Agent.Calls, r.Calls)
	set(&l.Tool.Calls, r.ToolCalls)
	set(&l.Session.Calls, r.SessionCalls)
	set(&l.Agent.Per, (*engine.Duration)(r.Per))
	set(&l.Tool.Per, (*engine.Duration)(r.ToolPer))
	set(&l.Session.Per, (*engine.Duration)(r.SessionFor))
	return l
}

// set changes a setting that was given.
func set[T any](setting, given *T) {
	if given != nil {
		*setting = *given
	}
}

type agentSet struct {
	approvable
	rates
	ID            string   `arg:"" help:"The agent's id, as its key has it."`
	Name          *string  `help:"Name to show."`
	Owner         *string  `help:"E-mail address of the person who answers for it, and so never decides on its calls." placeholder:"EMAIL"`
	Type          *string  `help:"ide_agent, pr_agent, chat_agent, workflow_agent, autonomous_agent, or your own." placeholder:"TYPE"`
	Trust         *string  `help:"untrusted, basic, verified, privileged or system." placeholder:"LEVEL"`
	Role          []string `help:"Role that policies may ask for; again for more. Replaces those there are." placeholder:"ROLE"`
	MaxDelegation *int     `help:"Longest delegation chain that may end with this agent." placeholder:"N"`
	Webhook       *string  `help:"Where the agent is told how its approvals end; “-” reads it from standard input, “off” ends it. Its secret is printed once." placeholder:"URL"`
	WebhookFormat string   `help:"How the webhook's body is written: cloudevents." placeholder:"FORMAT"`
	Attest        *bool    `help:"Refuse calls without a valid attestation." negatable:""`
	DefaultLimits bool     `help:"Drop the agent's own limits: those for all agents hold again."`
}

// Help is shown by "holdpoint agent set --help".
func (agentSet) Help() string {
	return `Policies see of an agent what is registered here, whatever its requests say.
What is not given stays as it is.

Examples:
  holdpoint agent set billing-bot --owner olga@example.com --trust verified --role finance.reader
  holdpoint agent set billing-bot --webhook https://billing.example.com/holdpoint
  holdpoint agent set billing-bot --calls 60 --per 1m --tool-calls 10 --tool-per 1m`
}

func (a *agentSet) Run(ctx context.Context, c *cli) error {
	administration := a.administration
	if a.Webhook != nil {
		administration = a.sealedAdministration
	}
	r, by, err := administration(ctx, c)
	if err != nil {
		return err
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	agent, exists := known.Agents[a.ID]
	if !exists {
		agent = admin.NewAgent(a.ID)
	}
	set(&agent.Name, a.Name)
	set(&agent.Owner, a.Owner)
	set(&agent.Type, a.Type)
	if a.Trust != nil {
		if agent.Trust, err = engine.ParseTrust(*a.Trust); err != nil {
			return fmt.Errorf("--trust: %w: want %s", err, strings.Join(engine.TrustLevels(), ", "))
		}
	}
	if a.Role != nil {
		agent.Roles = a.Role
	}
	if a.MaxDelegation != nil {
		agent.MaxDelegation = a.MaxDelegation
	}
	set(&agent.NeedsAttestation, a.Attest)
	switch {
	case a.DefaultLimits:
		agent.Limits = nil
	case a.rates != (rates{}):
		limits := a.apply(known.LimitsOf(a.ID))
		agent.Limits = &limits
	}
	if err := r.Registry.RegisterAgent(ctx, by, agent, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s: trust %s, roles %s, limits %s\n", agent.ID, agent.Trust, orNone(agent.Roles), limitsText(agent.Limits))
	if !exists {
		fmt.Fprintln(terminal, "it has no key yet:", a.command("key create --agent "+shellword.Quote(agent.ID)))
	}
	if a.Webhook == nil {
		return nil
	}
	return a.setWebhook(ctx, r, by)
}

// setWebhook has the agent told at its own address how its approvals end, or no more.
func (a *agentSet) setWebhook(ctx context.Context, r *admin.Admin, by access.Initiator) error {
	w := admin.AgentWebhook{AgentID: a.ID, URL: *a.Webhook, Format: a.WebhookFormat}
	switch w.URL {
	case "off":
		w.URL = ""
	case "-":
		interruptible()
		if _, err := fmt.Fscanln(os.Stdin, &w.URL); err != nil {
			return fmt.Errorf("read the address: %w", err)
		}
	}
	secret, err := r.Endpoints.SetAgentWebhook(ctx, by, w, nil)
	if err != nil {
		return plain(err)
	}
	if w.URL == "" {
		fmt.Fprintln(terminal, "it is told of nothing at an address of its own")
		return nil
	}
	if secret.ApprovalID != "" {
		fmt.Fprintf(terminal, "%s will be told how its approvals end once that is approved, as %s\n", a.ID, secret.ApprovalID)
		showSecret(secret.Secret)
		return nil
	}
	fmt.Fprintf(terminal, "%s is told how its approvals end\n", a.ID)
	showSecret(secret.Secret)
	fmt.Fprintln(terminal, "try it:", a.command("notify test "+secret.EndpointID))
	return nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ",")
}

// limitsText is a line of limits.
func limitsText(l *registry.Limits) string {
	if l == nil {
		return "as for all"
	}
	var parts []string
	for _, rate := range []struct {
		what string
		rate registry.Rate
	}{{"calls", l.Agent}, {"calls of one tool", l.Tool}, {"calls of one session", l.Session}} {
		per := time.Duration(rate.rate.Per)
		switch {
		case rate.rate.Calls > 0 && per > 0:
			parts = append(parts, fmt.Sprintf("%d %s in %s", rate.rate.Calls, rate.what, per))
		case rate.rate.Calls > 0:
			parts = append(parts, fmt.Sprintf("%d %s", rate.rate.Calls, rate.what))
		case per > 0:
			parts = append(parts, fmt.Sprintf("%s of one session", per))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

type agentList struct {
	databaseFlags
	listing
}

func (a *agentList) Run(ctx context.Context, c *cli) error {
	r, err := a.reading(ctx, c)
	if err != nil {
		return err
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return printEach(slices.Sorted(maps.Keys(known.Agents)), func(id string) listedAgent {
			_, stopped := known.Killed(id)
			return listedAgent{known.Agents[id], stopped}
		})
	}
	if len(known.Agents) == 0 {
		fmt.Fprintln(terminal, "no agents yet:", a.command("key create --agent ID"))
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tOWNER\tTRUST\tROLES\tLIMITS\tSTATE")
	for _, id := range slices.Sorted(maps.Keys(known.Agents)) {
		agent, state := known.Agents[id], "active"
		if agent.RevokedAt != nil {
			state = "revoked"
		}
		if _, killed := known.Killed(id); killed {
			state = "stopped"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", id, agent.Name, agent.Owner, agent.Trust, orNone(agent.Roles), limitsText(agent.Limits), state)
	}
	return table.Flush()
}

type agentRevoke struct {
	databaseFlags
	ID string `arg:"" help:"The agent's id."`
}

func (a *agentRevoke) Run(ctx context.Context, c *cli) error {
	return revokeAgent(ctx, a.administration, c, a.ID, true)
}

type agentRestore struct {
	approvable
	ID string `arg:"" help:"The agent's id."`
}

func (a *agentRestore) Run(ctx context.Context, c *cli) error {
	return revokeAgent(ctx, a.administration, c, a.ID, false)
}

func revokeAgent(ctx context.Context, as administers, c *cli, id string, revoke bool) error {
	r, by, err := as(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Registry.RevokeAgent(ctx, by, id, revoke, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "%s %s\n", map[bool]string{true: "revoked", false: "restored"}[revoke], id)
	return nil
}
