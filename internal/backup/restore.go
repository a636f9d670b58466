package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/postgres"
	"holdpoint/internal/store"
)

// Unknown is what an operator says who has nothing that tells how far the log had come.
const Unknown = "unknown"

// RestoreOptions is what to restore, and what is known beside it.
type RestoreOptions struct {
	Dir string
	URL string // of the owner
	// Open opens the database as the owner, once the copy is in it.
	Open func(context.Context) (*store.Store, error)
	// Keys are the log's public keys.
	Keys []note.Verifier
	// Floor keeps the last checkpoint that was seen; nil for none.
	Floor auditlog.Floor
	// LoseTail names what is lost, as nobody does by accident: the size of the floor's
	// checkpoint, or Unknown where there is no floor.
	LoseTail string
	// Erased is what was erased on request, as the list outside the database has it.
	Erased []string
	// By says who restores, once the copy is in the database.
	By func(context.Context, *store.Store) (access.Initiator, error)
	// Progress, when set, begins to tell of a step.
	Progress func(step string) func(done, all int64)
}

// LostRange is the range of the log that the copy does not have: events From to To.
type LostRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// String says which events are lost, as “events 7 to 9 are lost” or “event 9 is lost”.
func (l LostRange) String() string { return l.events() + " " + l.is() + " lost" }

func (l LostRange) events() string {
	if l.From == l.To {
		return fmt.Sprintf("event %d", l.To)
	}
	return fmt.Sprintf("events %d to %d", l.From, l.To)
}

func (l LostRange) is() string {
	if l.From == l.To {
		return "is"
	}
	return "are"
}

// RestoreResult is what was done.
type RestoreResult struct {
	Manifest Manifest `json:"backup"`
	// Floor is the checkpoint that was kept outside; nil for none.
	Floor *Log       `json:"floor"`
	Lost  *LostRange `json:"lost"`
	// Verified is how many events of the log were verified.
	Verified int64 `json:"verified"`
	// Tokens are the approvals whose permission was taken back.
	Tokens   []string `json:"tokens"`
	Grants   int64    `json:"grants"`
	Sessions int64    `json:"sessions"`
	Waiting  int64    `json:"waiting"`
	// Erased is what was erased again, and Kept what could not be, each with why.
	Erased    []string          `json:"erased"`
	NotErased map[string]string `json:"not_erased"`
}

// Restore brings a copy back into an empty database. On an error the database is empty
// as before, or one that no program takes for its own.
func Restore(ctx context.Context, r RestoreOptions) (done RestoreResult, err error) {
	if r.Progress == nil {
		r.Progress = func(string) func(int64, int64) { return func(int64, int64) {} }
	}
	m, err := readManifest(r.Dir)
	if err != nil {
		return done, err
	}
	done.Manifest, done.Erased = m, []string{}
	if want := store.SchemaVersion(); m.Schema != want {
		return done, fmt.Errorf("the backup has a schema of version %d, and this program needs version %d: restore it by the program that made it (%s), then run holdpoint migrate of the newer one",
			m.Schema, want, m.Program)
	}
	dump, err := m.open(r.Dir, dumpFile, r.Progress("checked byte"))
	if err != nil {
		return done, err
	}
	defer func() { _ = dump.Close() }()
	known, floorNote, err := r.compareLog(ctx, m, &done)
	if err != nil {
		return done, err
	}
	pg, err := r.program(ctx, m)
	if err != nil {
		return done, err
	}
	contents, last, err := pg.lists(ctx, dump)
	if err == nil {
		err = pg.entries(ctx, dump, contents, r.Progress("restored byte"))
	}
	if err != nil {
		return done, fmt.Errorf("restore the database, which stays empty: %w", err)
	}
	if err = r.finish(ctx, &done, known, floorNote); err == nil {
		err = pg.entries(ctx, dump, last, func(int64, int64) {}) // from here on it is a database of Holdpoint's
	}
	if err != nil {
		return done, fmt.Errorf("%w\nThe database has the backup's contents, and no program takes it for its own. Drop it, and make an empty one for the next try", err)
	}
	return done, nil
}

// compareLog compares what the copy has of the log with what was seen of it.
func (r RestoreOptions) compareLog(ctx context.Context, m Manifest, done *RestoreResult) (known []audit.Checkpoint, floorNote []byte, err error) {
	var own audit.Checkpoint
	if m.Log != nil {
		f, err := m.open(r.Dir, checkpointFile, nil)
		if err != nil {
			return nil, nil, err
		}
		signed, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
		if own, err = audit.OpenCheckpoint(signed, r.Keys...); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", filepath.Join(r.Dir, checkpointFile), err)
		}
		if (Log{own.Origin, own.Size, own.Root.String()}) != *m.Log {
			return nil, nil, fmt.Errorf("%s is not the checkpoint that the manifest describes", filepath.Join(r.Dir, checkpointFile))
		}
		known = append(known, own)
	}
	var floor audit.Checkpoint
	if r.Floor != nil {
		if floor, floorNote, err = auditlog.OpenFloor(ctx, r.Floor, r.Keys); err != nil {
			return nil, nil, err
		}
	}
	if floorNote == nil {
		if r.LoseTail != Unknown {
			return nil, nil, fmt.Errorf("no checkpoint is known beside the backup, so that nobody can tell how many events after its %d are lost. "+
				"Name the file of log_floor_file, or a checkpoint that a witness or an auditor has, by --floor. If there is none, say --lose-tail %s", own.Size, Unknown)
		}
		return known, nil, nil
	}
	done.Floor = &Log{floor.Origin, floor.Size, floor.Root.String()}
	switch {
	case own.Size > 0 && floor.Origin != own.Origin:
		return nil, nil, fmt.Errorf("the floor is of the log %q, and the backup of %q", floor.Origin, own.Origin)
	case floor.Size == own.Size && floor.Root != own.Root:
		return nil, nil, fmt.Errorf("there are two different logs of %d events: that of the floor, and that of the backup. One of them was rewritten", own.Size)
	case floor.Size > own.Size && r.LoseTail != strconv.FormatInt(floor.Size, 10):
		return nil, nil, fmt.Errorf("the log had %d events when its last checkpoint was kept outside the database, and the backup has %d: %s if you restore it. "+
			"Look for a newer backup first. If there is none, say --lose-tail %d: the log will say what it has lost, and whoever has a checkpoint in between sees the break",
			floor.Size, own.Size, LostRange{own.Size + 1, floor.Size}, floor.Size)
	case floor.Size > own.Size:
		done.Lost = &LostRange{own.Size + 1, floor.Size}
	case r.LoseTail != "":
		return nil, nil, fmt.Errorf("--lose-tail: nothing is known to be lost: the floor has %d events, and the backup %d", floor.Size, own.Size)
	default:
		known = append(known, floor)
	}
	return known, floorNote, nil
}

// finish does what has to be done before anybody uses what was restored.
func (r RestoreOptions) finish(ctx context.Context, done *RestoreResult, known []audit.Checkpoint, floorNote []byte) error {
	s, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if head, err := s.Log.Head(ctx); err != nil {
		return err
	} else if done.Manifest.Log == nil && head.Size > 0 {
		return fmt.Errorf("the audit log that was restored has %d events, and the manifest knows none", head.Size)
	}
	if done.Manifest.Log != nil {
		report, err := auditlog.VerifyRestored(ctx, s, r.Keys, known, r.Progress("verified event"))
		if err != nil {
			return err
		}
		if len(report.Problems) > 0 {
			return fmt.Errorf("the audit log that was restored is not in order: %w", report.Problems[0])
		}
		if done.Verified = report.Events; report.Events != done.Manifest.Log.Size {
			return fmt.Errorf("the audit log that was restored has %d events, and the manifest says %d", report.Events, done.Manifest.Log.Size)
		}
	}
	reason := "restored from the backup of " + done.Manifest.MadeAt.Format("2006-01-02 15:04 MST")
	by, err := r.By(ctx, s)
	if err != nil {
		return err
	}
	closed, err := s.CloseRestored(ctx, by.Actor.ID, reason, func(c store.ClosedByRestore) ([]engine.Event, error) {
		return r.events(by, c, *done, floorNote, reason)
	})
	if err != nil {
		return fmt.Errorf("take back what may have been used since: %w", err)
	}
	done.Tokens, done.Grants, done.Sessions, done.Waiting = closed.Tokens, closed.Grants, closed.Sessions, closed.Waiting
	erased, kept, err := admin.EraseAgain(ctx, s, by, r.Erased)
	for _, e := range erased {
		done.Erased = append(done.Erased, e.Subject)
	}
	done.NotErased = kept
	return err
}

// maxNamed is how many permissions an event names.
const maxNamed = 1000

// events are those of a restore.
func (r RestoreOptions) events(by access.Initiator, c store.ClosedByRestore, done RestoreResult, floorNote []byte, reason string) ([]engine.Event, error) {
	message := "The database was restored from a backup. Permissions that were not spent, grants and sessions were taken back."
	told := map[string]any{
		"backup_made_at": done.Manifest.MadeAt, "events": int64(0), "tokens": c.Tokens[:min(maxNamed, len(c.Tokens))], "tokens_count": len(c.Tokens),
		"grants": c.Grants, "sessions": c.Sessions, "links": c.Links, "waiting": c.Waiting,
	}
	if done.Manifest.Log != nil {
		told["events"], told["root"] = done.Manifest.Log.Size, done.Manifest.Log.Root
	}
	switch {
	case done.Lost != nil:
		message += fmt.Sprintf(" The %s of the log, as others have seen it, %s lost: from event %d on this is another history.", done.Lost.events(), done.Lost.is(), done.Lost.From)
		told["lost"], told["floor"] = done.Lost, string(floorNote)
	case floorNote == nil:
		message += " How many events after the backup are lost is not known."
		told["lost"] = Unknown
	default:
		told["floor"] = string(floorNote)
	}
	restored := by.Event("RESTORED_FROM_BACKUP", message, "", "")
	if err := restored.SetPayload(told); err != nil || !c.Stopped {
		return []engine.Event{restored}, err
	}
	stopped := by.Event(registry.GlobalKill, "The kill switch for all agents was activated.", "", "")
	stopped.Outcome = engine.KillSwitch
	return []engine.Event{restored, stopped}, stopped.SetPayload(map[string]string{"reason": reason})
}

// restorer is pg_restore on one database.
type restorer struct {
	tool
	to string
}

// program finds pg_restore, and makes the database ready.
func (r RestoreOptions) program(ctx context.Context, m Manifest) (p restorer, err error) {
	server, err := store.PrepareRestore(ctx, r.URL)
	if err != nil {
		return p, err
	}
	if server < m.Postgres {
		return p, fmt.Errorf("the backup is of Postgres %d, and this server is %d: restore it into %[1]d or newer", m.Postgres, server)
	}
	if p.path, _, err = postgres.Client(ctx, "pg_restore", max(server, m.Dump)); err != nil {
		return p, err
	}
	p.to, p.env, err = connection(r.URL)
	return p, err
}

// lastEntries are what makes a database usable, in pg_restore's list of a dump: the
// versions of the schema, without which no program takes a database for its own, and the
// rights to tables, without which a program that looked before cannot go on either.
var (
	versionsEntry = regexp.MustCompile(`^[^;].* TABLE DATA \S+ ` + store.VersionTable + ` `)
	rightsEntry   = regexp.MustCompile(`^[^;]\S* \d+ \d+ ACL \S+ (TABLE|COLUMN) `)
	// systemEntry are rights to what is Postgres' own, which an administrator gives and takes, and the owner cannot.
	systemEntry = regexp.MustCompile(`^[^;]\S* \d+ \d+ ACL pg_catalog `)
)

// lists are the entries of a dump that everything and the last step restore.
func (p restorer) lists(ctx context.Context, dump *os.File) (contents, last string, err error) {
	var list bytes.Buffer
	if err := p.run(ctx, dump, &list, nil, "--list"); err != nil {
		return "", "", err
	}
	versions, rights := 0, 0
	for line := range strings.Lines(list.String()) {
		switch {
		case systemEntry.MatchString(line):
		case versionsEntry.MatchString(line):
			last += line
			versions++
		case rightsEntry.MatchString(line):
			last += line
			rights++
		default:
			contents += line
		}
	}
	if versions != 1 || rights == 0 {
		return "", "", errors.New("the dump is not of a database of Holdpoint's")
	}
	return contents, last, nil
}

// entries restores those of a list, or nothing.
func (p restorer) entries(ctx context.Context, dump *os.File, list string, progress func(done, all int64)) error {
	info, err := dump.Stat()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "holdpoint-restore-") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(list)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// The child reads by the same offset.
	tell := func() {
		if at, err := dump.Seek(0, io.SeekCurrent); err == nil {
			progress(at, info.Size()+1)
		}
	}
	err = p.run(ctx, dump, nil, tell, "--single-transaction", "--exit-on-error", "--no-owner", "--no-password", "--use-list="+f.Name(), "--dbname="+p.to)
	progress(info.Size(), info.Size())
	return err
}

// run runs pg_restore on a dump, from its beginning.
func (p restorer) run(ctx context.Context, dump *os.File, out io.Writer, progress func(), args ...string) error {
	if _, err := dump.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.tool.run(ctx, dump, out, progress, args...)
}
