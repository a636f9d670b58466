package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/backup"
	"holdpoint/internal/config"
	"holdpoint/internal/store"
)

type restoreCommand struct {
	operatorFlags
	From     string   `required:"" type:"path" help:"The directory that “holdpoint backup” has made." placeholder:"DIR"`
	Floor    string   `type:"path" help:"The last checkpoint that is known of the log; without it, that of log_floor_file." placeholder:"FILE"`
	Erased   string   `type:"path" help:"What was erased on request, an id a line; without it, the file of log_floor_file with .erased behind it." placeholder:"FILE"`
	LoseTail string   `help:"How many events the log had when the floor was kept, if the backup has fewer; “unknown” where there is no floor." placeholder:"N"`
	Key      []string `help:"The log's public key (name+hash+base64), or a file of such; without it, that of the settings." placeholder:"KEY"`
	JSON     bool     `name:"json" help:"Print what was done as JSON on standard output."`
	Quiet    bool     `short:"q" help:"Say nothing of the progress."`
}

// Help is shown by "holdpoint restore --help".
func (restoreCommand) Help() string {
	return `Brings a backup back, into an empty database, as its owner: digests first, then the
contents, then the audit log is verified and held against the floor. Everybody's rights
come last: serve and worker cannot use the database until all of it is done. (pg_restore
has to be installed. The roles that log in are made before, as on the first day.)

A copy is older than what the world has seen. So
  - permissions that were not spent when it was made are taken back, because they may
    have been spent since; so are standing grants, links, and all sessions;
  - every agent is stopped. Look whether people, keys, agents and switches are as they
    should be, then “holdpoint release --all”;
  - what was erased on request since is erased again, by the list that the worker keeps
    beside the floor;
  - if the floor is ahead of the backup, the end of the log is lost. That has to be said
    by --lose-tail, and is an event in the log.

Examples:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint restore --from /var/backups/holdpoint/2026-11-23
  holdpoint restore --from ./copy --floor ./log-floor --key log-key.pub --lose-tail 81423`
}

func (r *restoreCommand) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(config.Admin)
	if err == nil && (cfg.DataKey != "" || cfg.DataKeyFile != "") {
		cfg, err = c.load(config.Admin | config.DataKey)
	}
	if err != nil {
		return err
	}
	restoring := backup.RestoreOptions{Dir: r.From, URL: cfg.DatabaseAdminURL, LoseTail: r.LoseTail, By: r.restores, Open: func(ctx context.Context) (*store.Store, error) {
		return store.Open(ctx, store.Config{URL: cfg.DatabaseAdminURL, Setting: "database_admin_url", Sealer: cfg.Sealer, MaxConns: 4, Timeout: restoreTimeout})
	}}
	if restoring.Keys, err = r.keys(cfg); err != nil {
		return err
	}
	own := r.Floor == "" && cfg.LogFloorFile != "" // the worker's own floor
	if own {
		r.Floor = cfg.LogFloorFile
	}
	if r.Floor != "" {
		if _, err := os.Stat(r.Floor); err == nil {
			restoring.Floor = floor.File{Path: r.Floor}
		} else if !own || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	listed, err := r.erased(cfg, &restoring)
	if err != nil {
		return err
	}
	if !r.Quiet {
		restoring.Progress = progressOf
	}
	done, err := backup.Restore(ctx, restoring)
	if err != nil {
		return err
	}
	aside := ""
	if own && done.Lost != nil {
		if aside, err = putAside(r.Floor, done.Lost.To); err != nil {
			return fmt.Errorf("the database is restored, and the worker does not start before %s is moved away: %w", r.Floor, err)
		}
	}
	if r.JSON {
		err = printIndented(done)
	} else {
		r.say(done, cfg, aside, listed)
	}
	return errors.Join(err, tryRuntime(ctx, cfg))
}

// restores is who restores, by the keys that are in the copy. It waits for no key: one that the copy
// does not have yet, or has as good for nothing, makes it the machine's login.
func (r *restoreCommand) restores(ctx context.Context, s *store.Store) (access.Initiator, error) {
	by, err := r.named(ctx, s)
	if unknown := (*unknownOperator)(nil); errors.As(err, &unknown) {
		fmt.Fprintf(terminalError, "careful: %v, by what was restored: the log names the login of this machine\n", err)
		return access.Initiator{Actor: operator()}, nil
	}
	return by, err
}

// restoreTimeout bounds a statement: an index of millions of rows is no outage.
const restoreTimeout = 10 * time.Minute

// keys are the log's public keys.
func (r *restoreCommand) keys(cfg config.Config) ([]note.Verifier, error) {
	from, named := r.Key, "--key"
	if len(from) == 0 {
		named = "log_public_key, log_key"
		if cfg.LogPublicKey == "" && cfg.LogKey != "" {
			private, err := audit.ParseKeys(cfg.LogKey)
			if err != nil {
				return nil, fmt.Errorf("log_key: %w", err)
			}
			cfg.LogKeys = private
		}
		from = publicKeysOfLog(cfg)
	}
	if len(from) == 0 {
		return nil, errors.New("the log's public key is missing: name it by --key, or by log_public_key_file in the settings")
	}
	return readVerifiers(named, from, func(line string) (note.Verifier, error) {
		one, err := audit.ParseVerifiers(line)
		if err != nil {
			return nil, err
		}
		return one[0], nil
	})
}

// erased reads the lists of what was erased, and reports whether there is one: that which
// was named, or those beside the floors.
func (r *restoreCommand) erased(cfg config.Config, restoring *backup.RestoreOptions) (listed bool, err error) {
	if r.Erased != "" {
		restoring.Erased, err = floor.Erased{Path: r.Erased}.Load()
		return err == nil, err
	}
	for _, path := range []string{r.Floor, cfg.LogFloorFile} {
		if path == "" {
			continue
		}
		ids, err := floor.ErasedBeside(path).Load()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		listed, restoring.Erased = true, append(restoring.Erased, ids...)
	}
	return listed, nil
}

// putAside moves a floor away that is ahead of the database. It stays: it shows what was lost.
func putAside(path string, size int64) (string, error) {
	aside := fmt.Sprintf("%s.lost-%d", path, size)
	if _, err := os.Lstat(aside); err == nil {
		return "", fmt.Errorf("%s is there already", aside)
	}
	return aside, os.Rename(path, aside)
}

func (r *restoreCommand) say(done backup.RestoreResult, cfg config.Config, aside string, listed bool) {
	fmt.Fprintf(terminal, "restored the backup of %s\n", done.Manifest.MadeAt.Format(time.RFC3339))
	fmt.Fprintf(terminal, "log: %s verified", plural(done.Verified, "event"))
	switch {
	case done.Lost != nil:
		fmt.Fprintf(terminal, "; %s, and an event says so\n", done.Lost)
	case done.Floor == nil:
		fmt.Fprintln(terminal, "; what came after is not known")
	default:
		fmt.Fprintf(terminal, "; it continues its floor, which has %d\n", done.Floor.Size)
	}
	if aside != "" {
		fmt.Fprintf(terminal, "the floor is now %s: keep it, it shows what was lost\n", aside)
	} else if done.Lost != nil && cfg.LogFloorFile != "" {
		fmt.Fprintf(terminal, "careful: the worker does not start before %s is moved away\n", cfg.LogFloorFile)
	}
	fmt.Fprintf(terminal, "taken back: %s, %s, %s\n", plural(len(done.Tokens), "permission"), plural(done.Grants, "standing grant"), plural(done.Sessions, "session"))
	fmt.Fprintf(terminal, "waiting again: %s. People may have decided some of them since the backup, and calls may have run: ask before you approve\n", plural(done.Waiting, "approval"))
	fmt.Fprintf(terminal, "erased again: %d\n", len(done.Erased))
	if !listed {
		fmt.Fprintln(terminal, "careful: there is no list of what was erased: what was erased on request after the backup is back. Erase it again")
	}
	for _, id := range slices.Sorted(maps.Keys(done.NotErased)) {
		fmt.Fprintf(terminal, "careful: %s was erased and is back. %s The worker erases it then\n", id, admin.NotErasableText(store.CoversOf(id), done.NotErased[id]))
	}
	if cfg.Sealer == nil {
		fmt.Fprintln(terminal, "careful: data_key_file is not set here, so nobody has tried whether the data key fits")
	}
	fmt.Fprintln(terminal, "every agent is stopped. Look at people, keys, agents and kill switches (holdpoint diff, doctor), then: holdpoint release --all")
}

// tryRuntime tries the logins of serve and worker, where they are known here.
func tryRuntime(ctx context.Context, cfg config.Config) error {
	if cfg.DatabaseURL == "" {
		return nil
	}
	s, err := openStore(ctx, store.Config{URL: cfg.DatabaseURL, MaxConns: 4})
	if err != nil {
		return fmt.Errorf("the database is restored, but serve and worker cannot use it: database_url: %s", strings.TrimSpace(err.Error()))
	}
	s.Close()
	return nil
}
