package mcpproxy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdpoint/engine/canon"
)

// taskFiles says of tasks, in a file each, which approval they wait for, so that a host
// finds one by its id also when the proxy was started anew:
//
//	proposed ─► the file, on the disk ─► the host is told the task's id ─► waits ─┬─► the file's name says that it begins ─► redeems, runs
//	                                                                              └─► cancelled: no file
//
// A proxy that finds a task there goes on with that very approval, by its token, which is
// spent once whoever else may try. It never proposes anything for it: what was denied, is
// over or has run is told as that. Of all proxies one may cancel the task, or any begin it:
// whichever is first, by the name of the file. It goes when the task is cancelled, or its
// time is over; it has no result. It is sealed under the agent's key: who has that may have
// the call anyway.
type taskFiles struct {
	dir  string
	seal cipher.AEAD
}

// storedTask is what is in the file of a task.
type storedTask struct {
	Approval string          `json:"approval"` // "" for a call that was accepted without one, and may have run
	Name     string          `json:"name"`     // the call's, of the tool as it was described
	Params   json.RawMessage `json:"params"`
	Created  time.Time       `json:"created"`
	TTL      time.Duration   `json:"ttl"`
}

// openTaskFiles keeps the tasks of an agent's key in a directory.
func openTaskFiles(dir, key string) (*taskFiles, error) {
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte("tasks of holdpoint mcp-proxy"))
	block, err := aes.NewCipher(sum.Sum(nil))
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep tasks: %w", err)
	}
	k := &taskFiles{dir, seal}
	k.removeOld(time.Now().Add(-longestTTL))
	return k, nil
}

// removeOld removes files of tasks that are older than a task can be. What cannot be removed stays.
func (k *taskFiles) removeOld(before time.Time) {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return
	}
	for _, f := range files {
		id := strings.TrimSuffix(f.Name(), beginning)
		if k.file(id) == "" && !strings.HasPrefix(id, unfinished) {
			continue // no file of ours
		}
		if info, err := f.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(k.dir, f.Name()))
		}
	}
}

// unfinished begins the names of files that are being written.
const unfinished = "new-"

// file is where a task is kept; "" for what is the id of none.
func (k *taskFiles) file(id string) string {
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') }) {
		return ""
	}
	return filepath.Join(k.dir, id)
}

// write makes the file of a task, whole and on the disk, or not at all.
func (k *taskFiles) write(id string, one storedTask) error {
	data, err := json.Marshal(one)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(k.dir, unfinished) // which is made for its owner alone
	if err != nil {
		return err
	}
	_, err = f.Write(k.seal.Seal(nil, nil, data, []byte(id)))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), k.file(id))
	}
	if err == nil {
		err = k.sync()
	}
	if err != nil {
		_ = os.Remove(f.Name())
		_ = os.Remove(k.file(id))
	}
	return err
}

// sync has the disk know which files there are.
func (k *taskFiles) sync() error {
	dir, err := os.Open(k.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// read is a task that is kept. What is sealed otherwise, or for another id, is none.
func (k *taskFiles) read(id string) (one storedTask, err error) {
	if k == nil || k.file(id) == "" {
		return one, fs.ErrNotExist
	}
	data, err := os.ReadFile(k.file(id)) // #nosec G304 -- the id is one
	if errors.Is(err, fs.ErrNotExist) {
		data, err = os.ReadFile(k.file(id) + beginning) // #nosec G304 -- the id is one
	}
	if err == nil {
		data, err = k.seal.Open(nil, nil, data, []byte(id))
	}
	if err == nil {
		err = json.Unmarshal(data, &one)
	}
	return one, err
}

// beginning ends the name of the file of a task whose call is about to run, or has begun.
const beginning = ".begun"

// begin says that a task's call begins: nobody can cancel it any more. Where there is no
// file of it, somebody has.
func (k *taskFiles) begin(id string) error {
	err := os.Rename(k.file(id), k.file(id)+beginning)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(k.file(id) + beginning) // here, or by another proxy: the token is spent once
	}
	return err
}

// cancel removes the file of a task, if there is one: no proxy begins it. errBegun if one has.
func (k *taskFiles) cancel(id string) error {
	err := os.Remove(k.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(k.file(id) + beginning); err == nil {
			return errBegun
		}
	} else if err != nil {
		return err
	}
	return k.sync()
}

// forget removes the file of a task, if there is one: no proxy goes on with it.
func (k *taskFiles) forget(id string) error {
	if k == nil {
		return nil
	}
	for _, file := range []string{k.file(id), k.file(id) + beginning} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget a task: %w", err)
		}
	}
	return k.sync()
}

// withoutProgress are a call's parameters for another host than its own, which knows nothing
// of the first one's progressToken.
func withoutProgress(params canon.Value) canon.Value {
	var kept []canon.Member
	for name, v := range params.All() {
		if name == "_meta" && v.Kind() == canon.ObjectKind {
			var meta []canon.Member
			for name, v := range v.All() {
				if name != "progressToken" {
					meta = append(meta, canon.Member{Name: name, Value: v})
				}
			}
			v = canon.Object(meta...)
		}
		kept = append(kept, canon.Member{Name: name, Value: v})
	}
	return canon.Object(kept...)
}

// errBegun says why a task is not cancelled.
var errBegun = errors.New("the task is over already, or its call has begun: its result says what became of it")
