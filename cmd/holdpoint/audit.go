package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdpoint/internal/auditlog"
	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

type auditCommand struct {
	Export auditExport `cmd:"" help:"Write the audit log, or a part of it, to a file."`
	Pack   auditPack   `cmd:"" help:"Write an evidence pack: one HTML file that tells what happened, with the proof in it."`
	Report auditReport `cmd:"" help:"Answer what auditors ask of a period: who got which role, what was approved by whom, and more."`
	Verify auditVerify `cmd:"" help:"Check an export, or a served log, against the log's public key; needs no server."`
}

type auditExport struct {
	operatorFlags
	Data   string `type:"path" help:"Data directory of a running “holdpoint dev”; without it, HOLDPOINT_DATABASE_URL says where." placeholder:"DIR"`
	Format string `default:"jsonl" enum:"jsonl,csv,ocsf" help:"jsonl proves itself; csv and ocsf are for spreadsheets and SIEMs."`
	Output string `short:"o" required:"" type:"path" help:"The file to write; - for standard output." placeholder:"FILE"`
	periodFlag
	Since     moment `help:"Events from this time on, such as 2026-10-01T00:00:00Z." placeholder:"TIME"`
	Until     moment `help:"Events before this time." placeholder:"TIME"`
	Approval  string `help:"Events of one approval." placeholder:"ID"`
	Agent     string `help:"Events of one agent." placeholder:"ID"`
	Tool      string `help:"Events of one tool." placeholder:"NAME"`
	Person    string `help:"Events of one person (usr_…) or another actor." placeholder:"ID"`
	Outcome   string `help:"Events of one outcome, such as DENY." placeholder:"OUTCOME"`
	Type      string `help:"Events of one type, such as vote." placeholder:"TYPE"`
	Witnessed *int   `help:"Wait until so many witnesses have signed what is exported; without it, the setting log_witnessed says how many." placeholder:"N"`
	Resume    bool   `help:"Go on with an export to the same file that was cut off."`
	Quiet     bool   `short:"q" help:"Say nothing of the progress."`
}

// Help is shown by "holdpoint audit export --help".
func (auditExport) Help() string {
	return `JSON Lines hold the log's own checkpoint and, for a part of the log, a proof beside
each event: "holdpoint audit verify" needs nothing else. The file is FILE.partial
until it is complete. That somebody has exported is an event of the log.

Examples:
  holdpoint audit export --data .holdpoint -o log.jsonl
  holdpoint audit export --period 2026-10 --format csv -o october.csv
  holdpoint audit export --since 2026-10-01T08:00:00Z --until 2026-10-01T09:00:00Z -o hour.jsonl
  holdpoint audit export --approval apr_… -o - | holdpoint audit verify - --key log-key.pub`
}

// moment is a time on the command line (RFC 3339).
type moment struct{ time.Time }

// UnmarshalText reads it. A day alone is refused: whether it is meant to be in the
// period would be a guess.
func (m *moment) UnmarshalText(text []byte) (err error) {
	if m.Time, err = time.Parse(time.RFC3339Nano, string(text)); err != nil {
		return errors.New("want a time such as 2026-10-01T00:00:00Z; whole days are named by --period: 2026-10-01, 2026-10, 2026-Q4 or 2026")
	}
	return nil
}

func (a *auditExport) Run(ctx context.Context, c *cli) error {
	if err := a.fill(&a.Since, &a.Until); err != nil {
		return err
	}
	if a.Witnessed != nil && *a.Witnessed < 0 {
		return errors.New("--witnessed: want 0 or more")
	}
	if !a.Since.IsZero() && !a.Until.IsZero() && !a.Since.Before(a.Until.Time) {
		return errors.New("--since has to be before --until")
	}
	filter := store.EventFilter{
		Since: a.Since.Time, Until: a.Until.Time, AgentID: a.Agent, Tool: a.Tool, Outcome: a.Outcome, Type: a.Type, ActorID: a.Person, ApprovalID: a.Approval,
	}
	if strings.Contains(a.Person, "@") {
		return errors.New("--person: events have ids and no addresses: give the id, usr_… (holdpoint user list)")
	}
	if err := filter.Check(); err != nil {
		return err
	}
	x, err := a.open(ctx, c)
	if err != nil {
		return err
	}
	defer x.Store.Close()
	by, err := a.looking(ctx, x.Store)
	if err != nil {
		return err
	}
	r := auditlog.ExportRequest{Format: a.Format, Actor: by.Actor, Filter: filter}
	if !a.Quiet {
		r.Progress = progressOf("exported up to event")
	}
	write := a.toFile
	if a.Output == "-" {
		write = toStdout
	}
	done, err := write(ctx, x, r)
	if errors.Is(err, auditlog.ErrNotWitnessed) {
		return fmt.Errorf("%w: the worker's log says why (--witnessed 0 exports without them)", err)
	}
	if err != nil {
		return err
	}
	if a.Output != "-" {
		fmt.Fprintf(terminalError, "%s: %s, of a log of %d; %s\n", a.Output, plural(done.Events, "event"), done.Size, done.Digest)
	}
	if done.Events == 0 {
		// A name that nobody has is no mistake of its own: it may be one of the past.
		fmt.Fprintln(terminalError, "careful: no event fits. Filters are exact: a person is written as usr_…, an approval as apr_…")
	}
	if done.Mismatches > 0 {
		fmt.Fprintf(terminalError, "careful: %s, and there are %d such in all: the log's index (log_entries) was changed. What was exported is complete, but who searches by that does not find them\n", done.First, done.Mismatches)
	}
	if done.Unplaced > 0 {
		fmt.Fprintf(terminalError, "careful: %s no place in the log and never will have one: the table events was written around the program, or its numbers were set back. They are in no export\n", eventsHave(done.Unplaced))
	}
	if a.Format == auditlog.JSONL && a.Output != "-" {
		key := "KEY"
		if a.Data != "" {
			key = filepath.Join(a.Data, logKeyFile+".pub")
		}
		fmt.Fprintf(terminalError, "check it: holdpoint audit verify %s --key %s\n", a.Output, key)
	}
	return nil
}

// eventsHave begins a sentence about so many events.
func eventsHave(n int64) string {
	if n == 1 {
		return "1 event has"
	}
	return fmt.Sprintf("%d events have", n)
}

func toStdout(ctx context.Context, x *auditlog.Exporter, r auditlog.ExportRequest) (auditlog.ExportSummary, error) {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	done, err := x.Write(ctx, out, r)
	if err == nil {
		err = out.Flush()
	}
	return done, err
}

// toFile writes to FILE.partial, which becomes FILE when it is complete.
func (a *auditExport) toFile(ctx context.Context, x *auditlog.Exporter, r auditlog.ExportRequest) (auditlog.ExportSummary, error) {
	partial := a.Output + ".partial"
	if _, err := os.Stat(a.Output); err == nil {
		return auditlog.ExportSummary{}, fmt.Errorf("%s is there already: name another file, or move it away", a.Output)
	}
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	if a.Resume {
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(partial, flags, 0o600) // #nosec G304 -- the user names the file
	switch {
	case errors.Is(err, fs.ErrExist):
		return auditlog.ExportSummary{}, fmt.Errorf("%s is there already, of an export that was cut off: go on with it by --resume, or remove it", partial)
	case errors.Is(err, fs.ErrNotExist) && a.Resume:
		return auditlog.ExportSummary{}, fmt.Errorf("there is no %s to go on with", partial)
	case err != nil:
		return auditlog.ExportSummary{}, err
	}
	defer func() { _ = f.Close() }() // closed before, when all went well
	var former int64
	if a.Resume {
		if former, err = auditlog.Resume(f, &r); err != nil {
			return auditlog.ExportSummary{}, fmt.Errorf("%s: %w", partial, err)
		}
	}
	out := bufio.NewWriterSize(f, 1<<16)
	done, err := x.Write(ctx, out, r)
	if err = closed(f, out, err); err != nil {
		if info, is := os.Stat(partial); is == nil && (info.Size() == 0 || a.Format != auditlog.JSONL) {
			return done, errors.Join(err, os.Remove(partial)) // there is no going on with it
		}
		return done, fmt.Errorf("%w (what was written is in %s; go on with it by --resume)", err, partial)
	}
	done.Events += former
	return done, os.Rename(partial, a.Output)
}

// closed brings to disk what was written, also where err ended it: it can be gone on
// with. A disk that is full is told once.
func closed(f *os.File, out *bufio.Writer, err error) error {
	for _, step := range []func() error{out.Flush, f.Sync, f.Close} {
		if failed := step(); err == nil {
			err = failed
		}
	}
	return err
}

// open opens the database as the role that only reads and appends.
func (a *auditExport) open(ctx context.Context, c *cli) (*auditlog.Exporter, error) {
	known, err := auditlog.Encodings()
	if err != nil {
		return nil, err
	}
	x := &auditlog.Exporter{Encodings: known}
	var database string
	if a.Data != "" {
		running, err := readDevFile(a.Data)
		if err != nil {
			return nil, err
		}
		x.Keys, database = keysOf(running.LogKey), running.DatabaseURL
	} else {
		cfg, err := c.load(config.Database)
		if err != nil {
			return nil, orDataDir(err, "")
		}
		x.Keys, x.Witnessed, database = publicKeysOfLog(cfg), cfg.LogWitnessed, cfg.DatabaseURL
	}
	if a.Witnessed != nil {
		x.Witnessed = *a.Witnessed
	}
	x.Store, err = store.Open(ctx, store.Config{URL: database, MaxConns: 4})
	return x, err
}

// progressOf says how far it is, twice a second at a terminal: in one line, which
// is gone at the end. Elsewhere it says a line every ten seconds.
func progressOf(what string) func(done, all int64) {
	info, err := os.Stderr.Stat()
	live := err == nil && info.Mode()&os.ModeCharDevice != 0
	last, every := time.Now(), 10*time.Second
	if live {
		every = 500 * time.Millisecond
	}
	return func(done, all int64) {
		switch {
		case live && done >= all:
			fmt.Fprint(os.Stderr, "\r\x1b[K")
		case time.Since(last) < every:
		case live:
			last = time.Now()
			fmt.Fprintf(os.Stderr, "\r%s %d of %d\x1b[K", what, done, all)
		default:
			last = time.Now()
			fmt.Fprintf(os.Stderr, "%s %d of %d\n", what, done, all)
		}
	}
}

// readKeys reads public keys from a file, or takes the text for a key itself.
func readKeys(arg string) (string, error) {
	if strings.HasPrefix(arg, "PRIVATE+KEY+") {
		return "", errors.New("this is a private key, and it should not be in anybody's shell history now; give the public one (name+hash+base64)")
	}
	if strings.Count(arg, "+") >= 2 && !strings.ContainsAny(arg, "\n") {
		if _, err := os.Stat(arg); err != nil {
			return arg, nil
		}
	}
	data, err := os.ReadFile(arg) // #nosec G304 -- the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file %s, and it is no key either (name+hash+base64)", arg)
	}
	if err != nil {
		return "", err
	}
	if bytes.Contains(data, []byte("PRIVATE+KEY+")) {
		return "", fmt.Errorf("%s holds a private key; give the public one (%s.pub)", arg, arg)
	}
	return string(data), nil
}
