package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"holdpoint/internal/admin"
)

type holdCommand struct {
	Add     holdAdd     `cmd:"" help:"Place a legal hold."`
	List    holdList    `cmd:"" help:"List legal holds."`
	Release holdRelease `cmd:"" help:"Release a legal hold."`
}

type holdAdd struct {
	databaseFlags
	Approval   string `help:"Hold one approval." placeholder:"ID"`
	Agent      string `help:"Hold everything that this agent asked for." placeholder:"ID"`
	Person     string `help:"Hold a person, and everything with which they have to do." placeholder:"EMAIL"`
	Everything bool   `help:"Hold everything."`
	Reason     string `help:"Why." required:"" placeholder:"TEXT"`
}

// Help is shown by "holdpoint hold add --help".
func (holdAdd) Help() string {
	return `Once it returns, nothing that it covers is erased: not on request, not by age, not
by a worker that is erasing at this moment.

Examples:
  holdpoint hold add --agent billing-bot --reason "case 4711"
  holdpoint hold add --everything --reason "litigation"`
}

func (h *holdAdd) Run(ctx context.Context, c *cli) error {
	var asked []admin.HoldRequest
	for covers, subject := range map[string]string{admin.CoversApproval: h.Approval, admin.CoversAgent: h.Agent, admin.CoversPerson: h.Person} {
		if subject != "" {
			asked = append(asked, admin.HoldRequest{Covers: covers, Subject: subject, Reason: h.Reason})
		}
	}
	if h.Everything {
		asked = append(asked, admin.HoldRequest{Covers: admin.CoversEverything, Reason: h.Reason})
	}
	if len(asked) != 1 {
		return errors.New("say one of --approval, --agent, --person and --everything")
	}
	r, by, err := h.administration(ctx, c)
	if err != nil {
		return err
	}
	placed, err := r.Retention.PlaceHold(ctx, by, asked[0], nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "placed %s on %s %s\n", placed.ID, placed.Covers, placed.Subject)
	return nil
}

type holdList struct {
	databaseFlags
	listing
}

func (h *holdList) Run(ctx context.Context, c *cli) error {
	r, err := h.reading(ctx, c)
	if err != nil {
		return err
	}
	holds, err := r.Retention.Holds(ctx)
	if err != nil {
		return err
	}
	if h.JSON {
		return printEach(holds, holdListed)
	}
	if len(holds) == 0 {
		fmt.Fprintln(terminal, "no hold was ever placed")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOLD\tCOVERS\tSUBJECT\tSINCE\tBY\tRELEASED\tREASON")
	for _, one := range holds {
		released := ""
		if one.ReleasedAt != nil {
			released = one.ReleasedAt.UTC().Format(time.RFC3339) + " by " + one.ReleasedBy
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.ID, one.Covers, one.Subject, one.At.Format(time.RFC3339), one.By, released, one.Reason)
	}
	return table.Flush()
}

type holdRelease struct {
	approvable
	ID string `arg:"" help:"The hold, hold_…."`
}

func (h *holdRelease) Run(ctx context.Context, c *cli) error {
	r, by, err := h.administration(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Retention.ReleaseHold(ctx, by, h.ID, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "released %s\n", h.ID)
	return nil
}
