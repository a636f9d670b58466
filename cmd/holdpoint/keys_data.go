package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// readDataKeys reads a file of data keys. fs.ErrNotExist: there is none.
func readDataKeys(ctx context.Context, f keyFile) (*seal.Keys, error) {
	data, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := seal.ParseKeys(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return keys, nil
}

// changing runs f, which reads a key file and replaces it, while no other process does so.
// A file that is not there yet is not locked.
func changing(path string, f func() error) error {
	for {
		lock, err := os.Open(path) // #nosec G304 -- the operator names the file
		if err != nil {
			return f() // which makes the file, or says why it cannot be read
		}
		same, err := locked(lock, path)
		if err == nil && same {
			err = f()
		}
		_ = lock.Close() // which ends the lock
		if err != nil || same {
			return err
		}
	}
}

// locked waits for the lock on an open file, and says whether it is still the one at path.
func locked(lock *os.File, path string) (bool, error) {
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	held, err := lock.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(held, now), err
}

func newDataKey(ctx context.Context, f keyFile) error {
	return changing(f.path, func() error { return addDataKey(ctx, f) })
}

// addDataKey adds a data key to a file, which opens and does not seal, or makes the file.
func addDataKey(ctx context.Context, f keyFile) error {
	fresh := seal.NewKey()
	keys, err := readDataKeys(ctx, f)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if keys, err = seal.ParseKeys(fresh); err != nil {
			return err
		}
		if err := f.write(ctx, keys.Marshal()); err != nil {
			return err
		}
		fmt.Fprintf(terminal, "made %s with the data key %s\n", f.path, keys.IDs()[0])
		return nil
	case err != nil:
		return err
	}
	key, err := seal.ParseKey(fresh)
	if err != nil {
		return err
	}
	if keys, err = keys.Add(key); err != nil {
		return err
	}
	if err := f.write(ctx, keys.Marshal()); err != nil {
		return err
	}
	ids := keys.IDs()
	fmt.Fprintf(terminal, "%s opens with %s as well now, and seals with %s as before\nwhen every serve and worker has this file: holdpoint keys use %s %s\n", f.path, ids[len(ids)-1], ids[0], f.path, ids[len(ids)-1])
	return nil
}

type keysUse struct {
	File string `arg:"" type:"path" help:"The file of data keys, which data_key_file names."`
	ID   string `arg:"" optional:"" help:"The key that is to seal, as “keys new” printed it."`
}

// Help is shown by "holdpoint keys use --help".
func (keysUse) Help() string {
	return `From then on new records are sealed with another data key of the file. First every
serve and worker has to have the file with that key, so that it opens what the others
seal. The same with the former id goes back. Without an id it says which keys
the file has.

Example:
  holdpoint keys use /etc/holdpoint/data_key 0f1e2d3c4b5a6978`
}

func (k *keysUse) Run(ctx context.Context, c *cli) error {
	f, err := c.keyFile("data_key", k.File)
	if err != nil {
		return err
	}
	return changing(k.File, func() error { return k.use(ctx, f) })
}

func (k *keysUse) use(ctx context.Context, f keyFile) error {
	keys, err := readDataKeys(ctx, f)
	if err != nil {
		return err
	}
	ids := keys.IDs()
	switch k.ID {
	case "":
		// Which of them is the newest is not in the file, and a former key must not seal again by mistake.
		return fmt.Errorf("say which key is to seal: of %s in %s the first does now", strings.Join(ids, ", "), k.File)
	case ids[0]:
		fmt.Fprintf(terminal, "%s seals with %s already\n", k.File, k.ID)
		return nil
	}
	if keys, err = keys.SealWith(k.ID); err != nil {
		return err
	}
	if err := f.write(ctx, keys.Marshal()); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "%s seals with %s; when every serve and worker has this file: holdpoint keys reseal\n", k.File, k.ID)
	return nil
}

type keysReseal struct {
	databaseFlags
	Progress bool `help:"Say how far it is, table by table."`
}

// Help is shown by "holdpoint keys reseal --help".
func (keysReseal) Help() string {
	return `Takes what is sealed with former data keys over to the one that seals, while
everything runs. It may be stopped and started again at any time, and run twice at
once. The arguments themselves are not written anew: each has a key of its own, and
that is sealed again. It logs in as the owner and takes the data keys of the settings.

Example:
  holdpoint keys reseal --progress`
}

// resealBlocks is how many of a table's blocks, of 8 KiB each, are done in one
// transaction.
const resealBlocks = 16

func (k *keysReseal) Run(ctx context.Context, c *cli) error {
	s, err := k.open(ctx, c, true)
	if err != nil {
		return err
	}
	defer s.Close()
	return reseal(ctx, s, k.Progress)
}

// reseal goes through all that is sealed until nothing is left under another key than the
// one that seals. What somebody works on is left out and looked at again.
func reseal(ctx context.Context, s *store.Store, progress bool) error {
	total := 0
	for {
		done, broken, err := resealOnce(ctx, s, progress)
		total += done
		if err != nil {
			return fmt.Errorf("%w\n%d records were sealed anew so far; run it again to go on", err, total)
		}
		left, err := resealLeft(ctx, s)
		if err != nil {
			return err
		}
		if n := len(broken); n > 0 && left <= int64(n) {
			return fmt.Errorf("%d records were sealed anew; %d cannot be opened with any key of the settings and stay as they are, such as %s (docs/keys.md)", total, n, broken[0])
		}
		if left == 0 {
			fmt.Fprintf(terminal, "%s sealed anew; everything is sealed with %s, nothing is left under a former data key\n", plural(total, "record"), s.DataKeys.Seals())
			return nil
		}
		fmt.Fprintf(terminal, "%d records are left, which others worked on or have sealed meanwhile\n", left)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func resealOnce(ctx context.Context, s *store.Store, progress bool) (done int, broken []string, err error) {
	parts, err := s.DataKeys.Parts(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, part := range parts {
		inPart := 0
		for from := int64(0); from < part.Blocks; from += resealBlocks {
			n, bad, err := s.DataKeys.Rewrap(ctx, part, from, min(from+resealBlocks, part.Blocks))
			broken = append(broken, bad...)
			if done, inPart = done+n, inPart+n; err != nil {
				return done, broken, err
			}
			if block := from / resealBlocks; progress && block > 0 && block%500 == 0 {
				fmt.Fprintf(terminal, "%s: %d%%, %s\n", part.Name, 100*from/part.Blocks, plural(inPart, "record"))
			}
		}
		if progress {
			fmt.Fprintf(terminal, "%s: 100%%, %s\n", part.Name, plural(inPart, "record"))
		}
	}
	return done, broken, nil
}

// resealLeft counts what is not under the key that seals.
func resealLeft(ctx context.Context, s *store.Store) (left int64, err error) {
	_, counts, err := s.DataKeys.Emptied(ctx)
	for id, n := range counts {
		if id != s.DataKeys.SealsAs() {
			left += n
		}
	}
	return left, err
}

type keysRetire struct {
	operatorFlags
	File string `arg:"" type:"path" help:"The file of data keys, which data_key_file names."`
}

// Help is shown by "holdpoint keys retire --help".
func (keysRetire) Help() string {
	return `Takes the data keys out of the file that nothing is sealed with, once no process has
had them seal for two minutes. Each is put into a file of its own beside it: keep that
for as long as you keep backups from before. It logs in as the owner.

Example:
  holdpoint keys retire /etc/holdpoint/data_key`
}

func (k *keysRetire) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(config.Admin)
	if err != nil {
		return err
	}
	f, err := c.keyFile("data_key", k.File)
	if err != nil {
		return err
	}
	keys, err := readDataKeys(ctx, f)
	if err != nil {
		return err
	}
	if len(keys.IDs()) == 1 {
		return fmt.Errorf("%s has one data key, which seals: there is none to retire", k.File)
	}
	s, err := openSchema(ctx, store.Config{URL: cfg.DatabaseAdminURL, Setting: "database_admin_url", Sealer: keys.Sealer(), MaxConns: 4})
	if err != nil {
		return err
	}
	defer s.Close()
	by, err := k.operator(ctx, s)
	if err != nil {
		return err
	}
	empty, counts, err := s.DataKeys.Emptied(ctx)
	if err != nil {
		return err
	}
	for _, id := range keys.IDs()[1:] {
		if !slices.Contains(empty, id) {
			err = errors.Join(err, notEmpty(ctx, s, keys, id, counts))
		}
	}
	for _, id := range empty {
		retired := k.File + ".retired-" + id
		if err := changing(k.File, func() error { return takeOut(ctx, f, id, retired) }); err != nil {
			return err
		}
		if err := s.DataKeys.Retired(ctx, id, admin.DataKeyRetired(id, by.Actor)); err != nil {
			return fmt.Errorf("%s is out of %s; put that on record: %w", id, k.File, err)
		}
		fmt.Fprintf(terminal, "retired %s; it is in %s: keep that as long as backups from before\n", id, retired)
	}
	return err
}

// takeOut takes one data key out of the file as it is now, and puts it into another: to
// count takes minutes, in which somebody may have changed the file.
func takeOut(ctx context.Context, f keyFile, id, retired string) error {
	keys, err := readDataKeys(ctx, f)
	if err != nil {
		return err
	}
	rest, gone, err := keys.Without(id)
	if err != nil {
		return fmt.Errorf("%s was changed meanwhile: %w", f.path, err)
	}
	aside := f
	aside.path = retired
	if err := aside.write(ctx, gone.Marshal()); err != nil {
		return err
	}
	return f.write(ctx, rest.Marshal())
}

// notEmpty says why a data key cannot be retired.
func notEmpty(ctx context.Context, s *store.Store, keys *seal.Keys, id string, counts map[string]int64) error {
	as := id
	if id == keys.First() {
		as = ""
	}
	if n := counts[as]; n > 0 {
		return fmt.Errorf("%d records are sealed with %s: run holdpoint keys reseal first", n, id)
	}
	known, err := s.DataKeys.List(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(known, func(k store.DataKey) bool { return k.ID == id }) {
		return fmt.Errorf("%s has not sealed yet: holdpoint keys use FILE %s has it seal", id, id)
	}
	return fmt.Errorf("a process seals with %s, or did within the last two minutes: has every serve and worker the file in which another key seals?", id)
}
