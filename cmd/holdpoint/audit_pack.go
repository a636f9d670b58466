package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"holdpoint/internal/auditlog"
	"holdpoint/internal/evidence"
	"holdpoint/internal/store"
	"holdpoint/web"
)

type auditPack struct {
	operatorFlags
	Data     string `type:"path" help:"Data directory of a running “holdpoint dev”; without it, the configuration says where." placeholder:"DIR"`
	Approval string `help:"The approval that it is about." placeholder:"ID"`
	periodFlag
	Since  moment `help:"Or: approvals that were opened from this time on, such as 2026-10-01T00:00:00Z." placeholder:"TIME"`
	Until  moment `help:"And before this time." placeholder:"TIME"`
	Output string `short:"o" required:"" type:"path" help:"The file to write." placeholder:"FILE.html"`
	Quiet  bool   `short:"q" help:"Say nothing of the progress."`
}

// Help is shown by "holdpoint audit pack --help".
func (auditPack) Help() string {
	return fmt.Sprintf(`One HTML file that tells who asked for what, by which rules, who saw what and when,
who decided, and what ran; with the proof in it. It needs nothing beside itself, and
prints. It holds the arguments in full: mind who gets it. That somebody has made it
is an event of the log.

A pack holds at most %d approvals and %d events. It needs the data key, to open
the arguments.

Examples:
  holdpoint audit pack --data .holdpoint --approval apr_… -o evidence.html
  holdpoint audit pack --period 2026-10 -o october.html
  holdpoint audit verify evidence.html --key log-key.pub`, evidence.MaxApprovals, evidence.MaxEvents)
}

func (a *auditPack) Run(ctx context.Context, c *cli) error {
	if err := a.fill(&a.Since, &a.Until); err != nil {
		return err
	}
	switch period := !a.Since.IsZero() || !a.Until.IsZero(); {
	case a.Output == "-":
		return errors.New("-o: name a file: a pack is finished or it is not there")
	case (a.Approval != "") == period:
		return errors.New("name either an --approval, or a period, by --period or by --since and --until")
	case period && (a.Since.IsZero() || a.Until.IsZero()):
		return errors.New("a period has both --since and --until")
	case period && !a.Since.Before(a.Until.Time):
		return errors.New("--since has to be before --until")
	}
	cfg, err := recordedConfig(c, a.Data, "")
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Config{URL: cfg.DatabaseURL, Sealer: cfg.Sealer, MaxConns: 4})
	if err != nil {
		return err
	}
	defer s.Close()
	x := &auditlog.Exporter{Store: s, Keys: publicKeysOfLog(cfg), Witnessed: cfg.LogWitnessed}
	key := "KEY"
	if a.Data != "" {
		running, err := readDevFile(a.Data)
		if err != nil {
			return err
		}
		x.Keys, key = keysOf(running.LogKey), filepath.Join(a.Data, "log-key.pub")
	}
	p := &evidence.Packer{Store: s, Sealer: cfg.Sealer, Exporter: x, Present: web.EvidenceCard}
	by, err := a.looking(ctx, s)
	if err != nil {
		return err
	}
	r := evidence.Request{ApprovalID: a.Approval, Since: a.Since.Time, Until: a.Until.Time, Actor: by.Actor}
	if !a.Quiet {
		r.Progress = progressOf("told approval")
	}
	done, err := a.write(ctx, p, r)
	switch {
	case errors.Is(err, evidence.ErrNotFound):
		return fmt.Errorf("there is no approval %s", a.Approval)
	case errors.Is(err, evidence.ErrTooMuch):
		return fmt.Errorf("%w: choose a shorter one", err)
	case err != nil:
		return err
	}
	fmt.Fprintf(terminalError, "%s: %s, with a proof of %s of a log of %d\ncheck it: holdpoint audit verify %s --key %s\n", a.Output, plural(done.Approvals, "approval"), plural(done.Events, "event"), done.Size, a.Output, key)
	return nil
}

// write writes to FILE.partial, which becomes FILE when it is complete.
func (a *auditPack) write(ctx context.Context, p *evidence.Packer, r evidence.Request) (evidence.Summary, error) {
	if _, err := os.Stat(a.Output); err == nil {
		return evidence.Summary{}, fmt.Errorf("%s is there already: name another file, or move it away", a.Output)
	}
	partial := a.Output + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- the user names the file
	if err != nil {
		return evidence.Summary{}, err
	}
	out := bufio.NewWriterSize(f, 1<<16)
	done, err := p.Write(ctx, out, r)
	if err = closed(f, out, err); err != nil {
		return done, errors.Join(err, os.Remove(partial)) // there is no going on with it
	}
	return done, os.Rename(partial, a.Output)
}
