package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

// allowedRetention refuses a setting that the database's floor does not allow.
func allowedRetention(ctx context.Context, s *store.Store, cfg config.Config) error {
	if cfg.KeepFor == 0 {
		return nil
	}
	minimum, err := s.Retention.Minimum(ctx)
	if err != nil {
		return err
	}
	if err := minimum.Allows(cfg.KeepFor); err != nil {
		return fmt.Errorf("retention: %w", err)
	}
	return nil
}

type retentionCommand struct {
	Show     retentionShow     `cmd:"" help:"Show the floor, and what is due to be erased next."`
	SetFloor retentionSetFloor `cmd:"" name:"set-floor" help:"Say how long after its end a record cannot be erased by anybody."`
}

type retentionShow struct {
	databaseFlags
	listing
	Limit int `help:"How many to list." default:"20"`
}

// Help is shown by "holdpoint retention show --help".
func (retentionShow) Help() string {
	return `How long approvals are kept is the worker's setting “retention”. Lists those that
ended first and have not been erased, with what keeps them.

Example:
  holdpoint retention show`
}

func (r *retentionShow) Run(ctx context.Context, c *cli) error {
	a, err := r.reading(ctx, c)
	if err != nil {
		return err
	}
	minimum, err := a.Retention.Minimum(ctx)
	if err != nil {
		return err
	}
	if !r.JSON {
		fmt.Fprintf(terminal, "floor: nothing can be erased sooner than %s after its end (set %s)\n", minimum.Shortest, minimum.ChangedAt.Format(time.RFC3339))
	}
	due, err := a.Retention.NextDue(ctx, min(max(r.Limit, 1), 1000))
	if err != nil {
		return err
	}
	if r.JSON {
		return printEach(due, dueListed)
	}
	if len(due) == 0 {
		fmt.Fprintln(terminal, "no ended approval is there that has not been erased")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "APPROVAL\tENDED\tAGENT\tTOOL\tKEPT")
	for _, d := range due {
		why := "no: it is erased when it is old enough"
		if d.Why != "" {
			why = admin.NotErasableText(admin.CoversApproval, d.Why)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", d.ID, d.EndedAt.Format(time.RFC3339), d.AgentID, d.Tool, why)
	}
	return table.Flush()
}

type retentionSetFloor struct {
	approvable
	Floor time.Duration `arg:"" help:"Such as 72h."`
}

// Help is shown by "holdpoint retention set-floor --help".
func (retentionSetFloor) Help() string {
	return `Below the floor nobody can erase anything, whatever the setting “retention” says
and whoever asks: it is what somebody finds after a weekend in which the right to
erase was misused. Workers whose retention is shorter refuse to start.

Example:
  holdpoint retention set-floor 72h`
}

func (r *retentionSetFloor) Run(ctx context.Context, c *cli) error {
	a, by, err := r.administration(ctx, c)
	if err != nil {
		return err
	}
	if err := a.Retention.SetMinimum(ctx, by, r.Floor); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "the floor is %s now\n", r.Floor)
	return nil
}
