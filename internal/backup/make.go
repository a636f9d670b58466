package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/audit"
	"holdpoint/internal/postgres"
	"holdpoint/internal/store"
)

// Options is what a backup is made of.
type Options struct {
	Store *store.Store // of the owner
	URL   string       // of the owner
	// Dir is not there yet.
	Dir     string
	Program string
	// Progress, when set, is told how many bytes were written, and how many the database has.
	Progress func(done, all int64)
}

// catchUp is how long to wait for events that have only just been appended.
const catchUp = 2 * time.Second

// Make makes a backup: it is there as a whole, or not at all.
func Make(ctx context.Context, b Options) (m Manifest, err error) {
	if _, err := os.Lstat(b.Dir); err == nil {
		return m, fmt.Errorf("%s is there already: name a directory that is not", b.Dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	// What has a place in the log is proved by the checkpoint beside the copy.
	if _, err := b.Store.Log.CatchUp(ctx, catchUp); err != nil {
		return m, err
	}
	moment, err := b.Store.Snapshot(ctx)
	if err != nil {
		return m, err
	}
	defer moment.Close()
	path, version, err := postgres.Client(ctx, "pg_dump", moment.Server)
	if err != nil {
		return m, err
	}
	if m, err = described(moment); err != nil {
		return m, err
	}
	m.Program, m.Dump = b.Program, version
	partial := b.Dir + ".partial"
	if err := os.Mkdir(partial, 0o700); errors.Is(err, fs.ErrExist) {
		return m, fmt.Errorf("%s is there already, of a backup that was cut off or is being made: remove it if none is", partial)
	} else if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if m.Log != nil {
		f, err := written(partial, checkpointFile, func(w io.Writer) error { _, err := w.Write(moment.Checkpoint); return err })
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
	}
	dump, err := b.dump(ctx, partial, path, moment)
	if err != nil {
		return m, fmt.Errorf("copy the database: %w", err)
	}
	m.Files = append(m.Files, dump)
	_, err = written(partial, manifestFile, func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(m)
	})
	if err != nil {
		return m, err
	}
	if err := synced(partial); err != nil {
		return m, err
	}
	// A directory replaces nothing but an empty one.
	if err := os.Rename(partial, b.Dir); err != nil {
		return m, err
	}
	return m, synced(filepath.Dir(b.Dir))
}

func (b Options) dump(ctx context.Context, dir, path string, moment *store.Snapshot) (File, error) {
	to, env, err := connection(b.URL)
	if err != nil {
		return File{}, err
	}
	return written(dir, dumpFile, func(w io.Writer) error {
		f, _ := w.(*os.File)
		progress := func() {
			if info, err := f.Stat(); err == nil && b.Progress != nil {
				b.Progress(info.Size(), max(moment.Bytes, info.Size()+1))
			}
		}
		// Large objects are nobody's here: any login can make one, and pg_dump fails at what its own may not read.
		err := tool{path, env}.run(ctx, nil, f, progress, "--format=custom", "-B", "--no-password", "--snapshot="+moment.Name, "--dbname="+to)
		if err == nil && b.Progress != nil {
			b.Progress(moment.Bytes, moment.Bytes)
		}
		return err
	})
}

// described is the manifest of a moment.
func described(n *store.Snapshot) (Manifest, error) {
	m := Manifest{
		Format: Format, MadeAt: n.At.UTC(), Schema: store.SchemaVersion(), Installation: n.Installation, Postgres: n.Server,
		Unplaced: n.Unplaced, Waiting: n.Waiting, Unspent: n.Unspent, Keys: Keys{Data: n.DataKeys, Signing: n.SigningKeys, Log: []string{}},
	}
	if n.Checkpoint == nil {
		return m, nil
	}
	text, _, _ := strings.Cut(string(n.Checkpoint), "\n\n")
	c, err := audit.ParseCheckpoint(text + "\n")
	if err == nil && (c.Size != n.Head.Size || c.Root != n.Head.Root) {
		err = errors.New("it is not the log's last one")
	}
	if err != nil {
		return m, fmt.Errorf("read the audit log's checkpoint: %w", err)
	}
	m.Log = &Log{Origin: c.Origin, Size: c.Size, Root: c.Root.String()}
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(n.Checkpoint, note.VerifierList()); errors.As(err, &unverified) {
		for _, sig := range unverified.Note.UnverifiedSigs {
			m.Keys.Log = append(m.Keys.Log, fmt.Sprintf("%s+%08x", sig.Name, sig.Hash))
		}
	}
	return m, nil
}

// written writes a file, and is done once it is on disk.
func written(dir, name string, write func(io.Writer) error) (File, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the operator names the directory
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }() // closed before, when all went well
	if err := write(f); err != nil {
		return File{}, err
	}
	if err := f.Sync(); err != nil {
		return File{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return File{}, err
	}
	made, err := digest(f, name, 0, nil)
	if err != nil {
		return File{}, err
	}
	return made, f.Close()
}

// synced brings the names of a directory to disk.
func synced(dir string) error {
	f, err := os.Open(dir) // #nosec G304 -- the operator names the directory
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
