package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

type killCommand struct {
	databaseFlags
	Agent  string `arg:"" optional:"" help:"Agent to stop."`
	All    bool   `help:"Stop every agent."`
	Reason string `help:"Why, for whoever finds everything refused." placeholder:"TEXT"`
	List   bool   `help:"Only list the switches that are on."`
	JSON   bool   `name:"json" help:"With --list: print one JSON object for each on standard output."`
}

// Help is shown by "holdpoint kill --help".
func (killCommand) Help() string {
	return `Activates a kill switch. Once this returns, no gate grants that agent anything any
more: no call, no approval, no redemption. What waits goes on waiting; what was
approved and not yet settled ends as denied. “holdpoint release” ends it.

Examples:
  holdpoint kill billing-bot --reason "sends the same invoice again and again"
  holdpoint kill --all --reason "incident 4711"
  holdpoint kill --list`
}

func (k *killCommand) Run(ctx context.Context, c *cli) error {
	if !k.List && (k.Agent == "") != k.All {
		return errors.New("name one agent, or say --all")
	}
	r, by, err := k.withoutKey(ctx, c) // what stops something waits for nothing
	if err != nil {
		return err
	}
	if !k.List {
		err := r.Registry.ThrowKillSwitch(ctx, by, k.Agent, k.Reason, nil)
		if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && refusal.Code == "not_found" {
			return fmt.Errorf("nothing was stopped: there is no agent %q: “%s” has them, and “%s” stops every one", k.Agent, k.command("agent list"), k.command("kill --all"))
		}
		if err != nil {
			return errors.Join(plain(err), inTheWay(ctx, r.Registry.Store, err))
		}
		fmt.Fprintf(terminal, "stopped: %s\n", orAll(k.Agent))
		return nil
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	if k.JSON {
		return printEach(slices.Sorted(maps.Keys(known.Kills)), func(id string) registry.Kill { return known.Kills[id] })
	}
	if len(known.Kills) == 0 {
		fmt.Fprintln(terminal, "no kill switch is on")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STOPPED\tSINCE\tBY\tREASON")
	for _, id := range slices.Sorted(maps.Keys(known.Kills)) {
		kill := known.Kills[id]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", orAll(id), kill.At.Format(time.RFC3339), kill.By, kill.Reason)
	}
	return table.Flush()
}

// inTheWay names the sessions of Postgres that a kill switch waited for in vain, nil for none.
func inTheWay(ctx context.Context, s *store.Store, err error) error {
	if !access.IsUnavailable(err) {
		return nil
	}
	holders, err := s.Registry.KillLockHolders(ctx)
	if err != nil || len(holders) == 0 {
		return nil // the database itself is away
	}
	var who []string
	for _, h := range holders {
		who = append(who, fmt.Sprintf("%d of %s", h.PID, h.Login))
	}
	return fmt.Errorf("nothing was stopped: it waits for the sessions %s of Postgres. Try again; if one of them stays, a superuser ends it by “SELECT pg_terminate_backend(PID)”, and docs/database.md says what else there is", strings.Join(who, ", "))
}

func orAll(agent string) string {
	if agent == "" {
		return "(every agent)"
	}
	return agent
}

type releaseCommand struct {
	databaseFlags
	Agent string `arg:"" optional:"" help:"Agent whose kill switch to release."`
	All   bool   `help:"Release the switch for every agent; those of single agents stay on."`
}

// Help is shown by "holdpoint release --help".
func (releaseCommand) Help() string {
	return `Examples:
  holdpoint release billing-bot
  holdpoint release --all`
}

func (k *releaseCommand) Run(ctx context.Context, c *cli) error {
	if (k.Agent == "") != k.All {
		return errors.New("name one agent, or say --all")
	}
	r, by, err := k.administration(ctx, c)
	if err != nil {
		return err
	}
	refused := r.Registry.ReleaseKillSwitch(ctx, by, k.Agent, nil)
	refusal := (*access.Refusal)(nil)
	if refused != nil && !(errors.As(refused, &refusal) && refusal.Code == "not_on") {
		return plain(refused)
	}
	known, err := r.Registry.Snapshot(ctx)
	if err != nil {
		return errors.Join(plain(refused), err)
	}
	on := slices.Sorted(maps.Keys(known.Kills))
	for i := range on {
		on[i] = orAll(on[i])
	}
	switch still := strings.Join(on, ", "); {
	case refused != nil && still == "":
		return fmt.Errorf("%w None is", plain(refused))
	case refused != nil:
		return fmt.Errorf("%w Stopped are: %s", plain(refused), still)
	case still == "":
		fmt.Fprintf(terminal, "released: %s\n", orAll(k.Agent))
	default: // one switch is enough to stop an agent
		fmt.Fprintf(terminal, "released: %s; still stopped: %s\n", orAll(k.Agent), still)
	}
	return nil
}
