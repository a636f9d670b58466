package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"holdpoint/internal/backup"
)

type backupCommand struct {
	databaseFlags
	To    string `required:"" type:"path" help:"The directory to make; it must not be there yet." placeholder:"DIR"`
	JSON  bool   `name:"json" help:"Print the manifest as JSON on standard output."`
	Quiet bool   `short:"q" help:"Say nothing of the progress."`
}

// Help is shown by "holdpoint backup --help".
func (backupCommand) Help() string {
	return `Copies the database, at one moment and while everything runs, into a directory:
database.dump (by pg_dump, which has to be installed), the audit log's checkpoint of
that moment, and a manifest with digests. Nothing of Temporal's is needed: the worker
makes it anew. It logs in as the owner.

The keys are not in it, and it is worth little without them: keep the files of
data_key_file, signing_keys_file, log_key_file, policy_secret_file and push_key_file
elsewhere. Keep the file of log_floor_file and the one that ends in .erased
elsewhere, too: they say what has happened since the copy was made. Whoever has the
copy and the data key reads everything.

Examples:
  holdpoint backup --to /var/backups/holdpoint/$(date +%F)
  holdpoint backup --to ./copy --json | jq .log.size`
}

func (b *backupCommand) Run(ctx context.Context, c *cli) error {
	url, err := b.url(c)
	if err != nil {
		return err
	}
	s, err := b.open(ctx, c, false)
	if err != nil {
		return err
	}
	c.opened = s
	making := backup.Options{Store: s, URL: url, Dir: b.To, Program: programVersion()}
	if !b.Quiet {
		making.Progress = progressOf("written byte")
	}
	m, err := backup.Make(ctx, making)
	if err != nil {
		return err
	}
	if b.JSON {
		return printIndented(m)
	}
	var size int64
	for _, f := range m.Files {
		size += f.Size
	}
	fmt.Fprintf(terminal, "%s: %s, made %s\n", b.To, inMegabytes(size), m.MadeAt.Format(time.RFC3339))
	if m.Log != nil {
		fmt.Fprintf(terminal, "the log %s up to event %d; %s without a place in it yet\n", m.Log.Origin, m.Log.Size, plural(m.Unplaced, "event"))
	}
	fmt.Fprintf(terminal, "%s waiting, %s not spent\n", plural(m.Waiting, "approval"), plural(m.Unspent, "permission"))
	fmt.Fprintln(terminal, "not in it, and needed: the files of these keys")
	for _, k := range []struct {
		name, none string
		ids        []string
	}{
		{"data keys   ", "the installation’s first", m.Keys.Data}, {"signing keys", "none", m.Keys.Signing}, {"log keys    ", "none", m.Keys.Log},
	} {
		named := strings.Join(k.ids, ", ")
		fmt.Fprintf(terminal, "  %s %s\n", k.name, cmp.Or(named, k.none))
	}
	return nil
}

func inMegabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func printIndented(v any) error {
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// programVersion is this build in one word.
func programVersion() string {
	b := thisBuild()
	if b.Commit == "unknown" {
		return b.Version
	}
	return b.Version + " " + b.Commit
}
