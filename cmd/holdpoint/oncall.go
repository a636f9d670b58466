package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/internal/admin"
)

type onCallCommand struct {
	Set  onCallSet  `cmd:"" help:"Say who is on call on a schedule from now on."`
	List onCallList `cmd:"" help:"List who is on call, and who will be."`
}

type onCallSet struct {
	approvable
	Schedule string        `arg:"" help:"The schedule; its role is on-call/SCHEDULE."`
	Person   []string      `help:"E-mail address of somebody who is on call; again for more." placeholder:"EMAIL"`
	Nobody   bool          `help:"Nobody is on call: what waits for them escalates at once."`
	From     time.Time     `help:"When it begins, RFC 3339; now when left out." placeholder:"TIME"`
	Until    time.Time     `help:"When it ends, RFC 3339." placeholder:"TIME"`
	For      time.Duration `help:"How long it lasts, instead of --until: 12h." placeholder:"DURATION"`
}

// Help is shown by "holdpoint on-call set --help".
func (onCallSet) Help() string {
	return `Replaces what is known of the schedule from then on. Votes of people whose shift
is over count no more in what still waits.

Examples:
  holdpoint on-call set payments --person ada@example.com --for 12h
  holdpoint on-call set payments --nobody`
}

func (o *onCallSet) Run(ctx context.Context, c *cli) error {
	switch {
	case (len(o.Person) == 0) != o.Nobody:
		return errors.New("name somebody with --person, or say --nobody")
	case !o.Until.IsZero() && o.For != 0:
		return errors.New("say either --until or --for")
	case len(o.Person) > 0 && o.Until.IsZero() && o.For <= 0:
		return errors.New("say how long, with --until or --for")
	}
	r, by, err := o.administration(ctx, c)
	if err != nil {
		return err
	}
	q := admin.OnCallRequest{Schedule: o.Schedule, Emails: o.Person, From: o.From, Until: o.Until}
	if o.For > 0 {
		from := o.From
		if from.IsZero() {
			from = r.OnCall.Store.Clock()
		}
		q.Until = from.Add(o.For)
	}
	if err := r.OnCall.Set(ctx, by, q, nil); err != nil {
		return plain(err)
	}
	if o.Nobody {
		fmt.Fprintf(terminal, "nobody is on call for %s\n", o.Schedule)
		return nil
	}
	fmt.Fprintf(terminal, "on call for %s until %s: %s\n", o.Schedule, q.Until.UTC().Format(time.RFC3339), strings.Join(o.Person, ", "))
	return nil
}

type onCallList struct {
	databaseFlags
	listing
}

func (o *onCallList) Run(ctx context.Context, c *cli) error {
	r, err := o.reading(ctx, c)
	if err != nil {
		return err
	}
	shifts, err := r.OnCall.Shifts(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		return printEach(shifts, asIs)
	}
	if len(shifts) == 0 {
		fmt.Fprintln(terminal, "nobody is on call:", o.command("on-call set SCHEDULE --person EMAIL --for 12h"))
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCHEDULE\tEMAIL\tFROM\tUNTIL\tSTATE")
	for _, s := range shifts {
		state := "later"
		switch {
		case s.Disabled:
			state = "disabled"
		case s.OnCall:
			state = "on call"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Schedule, s.Email, s.From.Format(time.RFC3339), s.Until.Format(time.RFC3339), state)
	}
	return table.Flush()
}
