package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"holdpoint/engine/shellword"
	"holdpoint/engine/source"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/setup"
	"holdpoint/schemas"
)

// prune is a flag: with “people” behind it, it is for people too.
type prune struct{ setup.Prune }

// Decode reads the word behind the flag, where it is one that belongs to it.
func (p *prune) Decode(ctx *kong.DecodeContext) error {
	p.Entries = true
	switch next := ctx.Scan.Peek(); {
	case next.Type == kong.FlagValueToken && fmt.Sprint(next.Value) != "people":
		return fmt.Errorf("want --prune, or --prune people, got %q", next.Value)
	case next.Value == "people":
		ctx.Scan.Pop()
		p.People = true
	}
	return nil
}

// IsBool says that the flag can stand alone.
func (p *prune) IsBool() bool { return true }

// setupFiles are the files that apply and diff read.
type setupFiles struct {
	approvable
	unknownRoles
	File      string `short:"f" required:"" help:"File, or directory of files that end in .yaml, .yml or .json." placeholder:"FILE|DIR"`
	Addresses string `type:"path" help:"File with the addresses of webhooks and Slack, which are secret." placeholder:"FILE"`
	Prune     prune  `help:"Revoke or disable what no file names, in the sections that files have. “--prune people” disables people, too."`
	JSON      bool   `name:"json" help:"Print JSON on standard output."`
}

// comparing reads the files. What it returns says, each time, what they would change in
// the system as it is then.
func (s *setupFiles) comparing(ctx context.Context, c *cli, as administers) (*admin.Admin, access.Initiator, func() (setup.Plan, error), error) {
	files, err := setupInputs(s.File)
	var addresses setup.Input
	if err == nil && s.Addresses != "" {
		addresses, err = setupInput(s.Addresses)
	}
	if err != nil {
		return nil, access.Initiator{}, nil, err
	}
	wanted, problems := setup.Read(files, addresses)
	if len(problems) > 0 {
		return nil, access.Initiator{}, nil, wrongFiles(problems)
	}
	a, by, err := as(ctx, c)
	if err != nil {
		return nil, by, nil, err
	}
	return a, by, func() (setup.Plan, error) {
		now, err := setup.Now(ctx, a)
		if err != nil {
			return setup.Plan{}, err
		}
		p, problems := setup.Compare(now, wanted, setup.Options{Prune: s.Prune.Prune, AllowUnknownRoles: s.AllowUnknownRole, CheckEndpoint: a.Endpoints.Check})
		if len(problems) > 0 {
			return setup.Plan{}, wrongFiles(problems)
		}
		return p, nil
	}, nil
}

// wrongFiles is the error that tells of every mistake.
func wrongFiles(problems []source.Problem) error {
	lines := make([]string, len(problems), len(problems)+1)
	for i, p := range problems {
		lines[i] = p.String()
	}
	return errors.New(strings.Join(append(lines, "nothing was changed"), "\n"))
}

func setupInput(path string) (setup.Input, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	return setup.Input{Name: path, Data: data}, err
}

// setupInputs reads a file, or every file of a directory that could be one.
func setupInputs(path string) ([]setup.Input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if info.IsDir() {
		paths = nil
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				paths = append(paths, filepath.Join(path, e.Name()))
			}
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("%s has no file that ends in .yaml, .yml or .json", path)
		}
	}
	files := make([]setup.Input, len(paths))
	for i, p := range paths {
		if files[i], err = setupInput(p); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// printPlan prints what is to be done: one line for each entry, and one for each field.
func printPlan(p setup.Plan) {
	for _, c := range p.Changes {
		fmt.Fprintf(terminal, "%s %s\n", c.Action, changeName(c))
		for _, f := range c.Fields {
			if c.Action == setup.Create {
				fmt.Fprintf(terminal, "    %s: %s\n", f.Name, shown(f.New))
			} else {
				fmt.Fprintf(terminal, "    %s: %s → %s\n", f.Name, shown(f.Old), shown(f.New))
			}
		}
	}
	for _, line := range p.StillRevoked {
		fmt.Fprintln(terminalError, line)
	}
}

func changeName(c setup.Change) string {
	if c.Name == "" {
		return c.Kind
	}
	return c.Kind + " " + strconv.Quote(c.Name)
}

// shown is a value of a field on one line.
func shown(v any) string {
	if v == nil {
		return "none"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?" // came from JSON
	}
	return string(text)
}

func counted(p setup.Plan) string {
	n := map[string]int{}
	for _, c := range p.Changes {
		n[c.Action]++
	}
	return fmt.Sprintf("%d to create, %d to change, %d to remove", n[setup.Create], n[setup.Update], n[setup.Remove])
}

type diffCommand struct{ setupFiles }

// Help is shown by "holdpoint diff --help".
func (diffCommand) Help() string {
	return `Ends with 0 when there is nothing to change, 2 when there is, 1 when a file is wrong
or something else failed.

Examples:
  holdpoint diff -f holdpoint.yaml
  holdpoint diff -f setup/ --prune --json | jq '.changes[].name'`
}

// exitDiffers is that of "diff" when there is something to change.
const exitDiffers = 2

// plannedChanges is what "diff --json" prints.
type plannedChanges struct {
	Changes []setup.Change `json:"changes"`
	Kept    []string       `json:"kept"`
}

func (d *diffCommand) Run(ctx context.Context, c *cli) error {
	_, _, compare, err := d.comparing(ctx, c, func(ctx context.Context, c *cli) (*admin.Admin, access.Initiator, error) {
		a, err := d.sealedReading(ctx, c)
		return a, access.Initiator{}, err // it changes nothing
	})
	if err != nil {
		return err
	}
	p, err := compare()
	if err != nil {
		return err
	}
	if d.JSON {
		if err := json.NewEncoder(os.Stdout).Encode(plannedChanges{append([]setup.Change{}, p.Changes...), append([]string{}, p.StillRevoked...)}); err != nil {
			return err
		}
	} else if printPlan(p); len(p.Changes) == 0 {
		fmt.Fprintln(terminal, "nothing to change")
	} else {
		fmt.Fprintln(terminal, counted(p))
	}
	if len(p.Changes) > 0 {
		return exitCode(exitDiffers)
	}
	return nil
}

type applyCommand struct {
	setupFiles
	Yes     bool   `help:"Do not ask."`
	Again   bool   `help:"Ask people again about changes that they were asked about before and did not approve."`
	Secrets string `type:"path" help:"New file for what is shown once: links by which people set a password, secrets of webhooks." placeholder:"FILE"`
}

// Help is shown by "holdpoint apply --help".
func (applyCommand) Help() string {
	return `Shows what it would change, asks, and does it: each change as the single command
does it, with the same events and refusals. What the files do not name stays as it
is. Run again, it does what is left. Passwords, keys and addresses are in no file:
agents' keys are made by “holdpoint key create --agent ID”.

Examples:
  holdpoint apply -f holdpoint.yaml
  holdpoint apply -f setup/ --addresses addresses.yaml --secrets made.jsonl --yes`
}

// appliedChange is what "apply --json" prints of each change, on a line of its own.
type appliedChange struct {
	setup.Change
	Status string `json:"status"` // done, refused or waits
	// Approval is what it waits for.
	Approval string `json:"approval,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (a *applyCommand) Run(ctx context.Context, c *cli) error {
	r, by, compare, err := a.comparing(ctx, c, a.sealedAdministration)
	if err != nil {
		return err
	}
	p, err := compare()
	if err != nil {
		return err
	}
	if !a.JSON {
		printPlan(p)
	}
	if len(p.Changes) == 0 {
		if !a.JSON {
			fmt.Fprintln(terminal, "nothing to change")
		}
		return nil
	}
	if err := a.mayShow(p); err != nil {
		return err
	}
	if !a.Yes {
		ask := func() error { return confirmed(counted(p)+": do it?", "changed") }
		if p, err = p.Confirm(ask, compare); err != nil {
			return err
		}
	}
	show, err := a.shows(p)
	if err != nil {
		return err
	}
	// Ctrl-C ends it behind a change, never within one.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return a.do(ctx, p, &setup.Applier{Admin: r, By: by, AllowUnknownRoles: a.AllowUnknownRole, Show: show, Reason: a.Reason, Again: a.Again})
}

// do does what a plan says, and tells exactly what was done.
func (a *applyCommand) do(ctx context.Context, p setup.Plan, applier *setup.Applier) error {
	started, told := time.Now(), 0
	progress := progressOf("applied")
	var printing error
	var keyless []string
	waiting, waitingFor := 0, map[string]int{}
	applier.Done = func(change setup.Change, err error) {
		told++
		progress(int64(told), int64(len(p.Changes)))
		status := appliedChange{Change: change, Status: "done"}
		if wait := (*admin.AlreadyPending)(nil); errors.As(err, &wait) {
			status.Status, status.Approval = "waits", wait.ApprovalID
			waiting++
			waitingFor[wait.ApprovalID]++
		} else if err != nil {
			status.Status, status.Error = "refused", plain(err).Error()
			fmt.Fprintf(terminalError, "not done: %s %s: %s\n", change.Action, changeName(change), status.Error)
		} else if change.Kind == "agent" && change.Action == setup.Create {
			keyless = append(keyless, change.Name)
		}
		if a.JSON && printing == nil {
			printing = json.NewEncoder(os.Stdout).Encode(status)
		}
	}
	done, refused, err := applier.Apply(ctx, p)
	if !a.JSON {
		fmt.Fprintf(terminal, "%d of %d changes done in %s\n", done, len(p.Changes), time.Since(started).Round(10*time.Millisecond))
		if len(keyless) > 0 {
			fmt.Fprintf(terminal, "new agents without a key: %d (%s)\n", len(keyless), a.command("key create --agent "+shellword.Quote(keyless[0])))
		}
	}
	for _, h := range applier.Held {
		fmt.Fprintf(terminalError, "%s waits for %d × %s until %s\n", h.ApprovalID, h.Needed, h.Role, h.ExpiresAt.Local().Format(time.RFC1123))
		delete(waitingFor, h.ApprovalID)
	}
	for _, id := range slices.Sorted(maps.Keys(waitingFor)) {
		fmt.Fprintf(terminalError, "%s waits already: %d of these changes are proposed in it\n", id, waitingFor[id])
	}
	switch {
	case err == nil && refused > 0 && refused == waiting:
		return fmt.Errorf("%d changes wait for their approval, and are not made yet", waiting)
	case err != nil:
		return fmt.Errorf("%d changes are left, from the one before on: run it again (%w)", len(p.Changes)-done-refused, err)
	case refused > 0:
		return fmt.Errorf("%d changes were refused, and are left", refused)
	}
	return printing
}

// mayShow refuses a plan whose secrets have nowhere to go: they go into the file that was
// named or to a terminal, and into no other output, where they would be kept.
func (a *applyCommand) mayShow(p setup.Plan) error {
	if a.Secrets != "" {
		if _, err := os.Lstat(a.Secrets); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("--secrets: %s is there already: name a new file; nothing was changed", a.Secrets), err)
		}
		return nil
	}
	info, err := os.Stdout.Stat()
	if n := p.Shows(); n > 0 && (err != nil || info.Mode()&os.ModeCharDevice == 0 || a.JSON) {
		return fmt.Errorf("this makes %d links or secrets that are shown once: say --secrets FILE, where they are written; nothing was changed", n)
	}
	return nil
}

// shows tells a secret, in a file before the next change is made. Only the file's owner
// reads it; it is made where the plan has secrets to show.
func (a *applyCommand) shows(p setup.Plan) (func(setup.Secret) error, error) {
	if a.Secrets == "" {
		return func(s setup.Secret) error {
			fmt.Fprintf(terminal, "%s %q, %s (shown only now): %s\n", s.Kind, s.Name, strings.ReplaceAll(s.What, "_", " "), s.Text)
			return nil
		}, nil
	}
	open := sync.OnceValues(func() (*os.File, error) {
		f, err := os.OpenFile(a.Secrets, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // #nosec G304 -- the user names the file
		if err != nil {
			err = fmt.Errorf("--secrets: %w", err)
		}
		return f, err
	})
	var err error
	if p.Shows() > 0 {
		_, err = open()
	}
	return func(s setup.Secret) error {
		f, err := open()
		if err != nil {
			return err
		}
		return errors.Join(json.NewEncoder(f).Encode(s), f.Sync())
	}, err
}

type exportCommand struct {
	databaseFlags
	Dir    string `type:"path" help:"New or empty directory for files of one section each, instead of standard output." placeholder:"DIR"`
	Schema bool   `help:"Print the JSON Schema of the file, for editors, and nothing else."`
}

// Help is shown by "holdpoint export --help".
func (exportCommand) Help() string {
	return `No secret is in it: no password, no key, no address of a webhook. “holdpoint apply”
of it makes of an empty system one that is set up alike.

Examples:
  holdpoint export > holdpoint.yaml
  holdpoint export --dir setup
  holdpoint export --schema > holdpoint.schema.json`
}

func (e *exportCommand) Run(ctx context.Context, c *cli) error {
	if e.Schema {
		text, err := schemas.FS.ReadFile(schemas.Setup)
		if err == nil {
			_, err = os.Stdout.Write(text)
		}
		return err
	}
	if e.Dir != "" {
		if list, err := os.ReadDir(e.Dir); err == nil && len(list) > 0 {
			return fmt.Errorf("--dir: %s is not empty", e.Dir)
		}
	}
	a, err := e.sealedReading(ctx, c)
	if err != nil {
		return err
	}
	now, err := setup.Now(ctx, a)
	if err != nil {
		return err
	}
	files, err := now.Export(e.Dir == "")
	if err != nil {
		return err
	}
	if e.Dir == "" {
		_, err := os.Stdout.Write(files[0].Data)
		return err
	}
	if err := os.MkdirAll(e.Dir, 0o750); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(e.Dir, f.Name)
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			return err
		}
		fmt.Fprintln(terminal, path)
	}
	return nil
}
