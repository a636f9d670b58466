package witness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

// state is the latest checkpoint that the witness has cosigned, for each log. It
// lives in one file, which is replaced as a whole:
//
//	{"logs": {"example.com/log": "example.com/log\n42\n…"}}
//
// Each checkpoint is kept as the note that it became, with the signatures that
// were verified and the witness's own: so a file that was damaged, edited, or
// belongs to another key is found out when it is read. A signature of a log's key that
// is not known any more cannot be verified again, and counts for nothing.
//
//	FILE       what counts
//	FILE.new   being written; whatever is left of it after a crash does not count
//	FILE.lock  held (flock) by the process that uses FILE
type state struct {
	path string
	lock *os.File

	mu   sync.Mutex
	logs map[string]record
}

// record is one log's latest checkpoint. Of a log that is not known yet it is
// the zero record: no leaf, no note.
type record struct {
	size int64
	root tlog.Hash
	note string
}

type stateFile struct {
	Logs map[string]string `json:"logs"`
}

// openState reads the file, or makes it, and keeps it from other processes until
// close. Every checkpoint in it must have been signed by own, and no signature in it by
// one of the log's keys, of which keys has those that are known, may be wrong.
func openState(path string, own note.Verifier, keys func(origin string) []note.Verifier) (_ *state, err error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, fmt.Errorf("open the state's lock: %w", err)
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w (is another witness using it?)", path, err)
	}
	s := &state{path: path, lock: lock, logs: map[string]record{}}
	data, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Made at once: what cannot be written is better known now.
		if err := s.save(s.logs); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("read the state: %w", err)
	default:
		if s.logs, err = parseState(data, own, keys); err != nil {
			return nil, fmt.Errorf("read the state %s: %w", path, err)
		}
	}
	return s, nil
}

func parseState(data []byte, own note.Verifier, keys func(origin string) []note.Verifier) (map[string]record, error) {
	var file stateFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a witness's state: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) || file.Logs == nil {
		return nil, errors.New("it is not the JSON of a witness's state")
	}
	logs := make(map[string]record, len(file.Logs))
	for origin, text := range file.Logs {
		n, err := note.Open([]byte(text), note.VerifierList(own))
		if err != nil {
			return nil, fmt.Errorf("the checkpoint of %q is not one that this witness's key has signed: %w", origin, err)
		}
		if wrong := (*note.InvalidSignatureError)(nil); len(keys(origin)) > 0 {
			if _, err := note.Open([]byte(text), note.VerifierList(keys(origin)...)); errors.As(err, &wrong) {
				return nil, fmt.Errorf("the checkpoint of %q: the signature of %s does not verify", origin, wrong.Name)
			}
		}
		checkpoint, err := cosign.ParseCheckpoint(n.Text)
		if err != nil {
			return nil, fmt.Errorf("the checkpoint of %q: %w", origin, err)
		}
		if checkpoint.Origin != origin {
			return nil, fmt.Errorf("the checkpoint of %q is one of %q", origin, checkpoint.Origin)
		}
		logs[origin] = record{size: checkpoint.Size, root: checkpoint.Root, note: text}
	}
	return logs, nil
}

// close lets other processes use the file.
func (s *state) close() error {
	// Nobody may be left halfway.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = nil
	return s.lock.Close()
}

var errClosed = errors.New("the witness has been closed")

// latest is what was last cosigned of a log.
func (s *state) latest(origin string) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.logs[origin]
	return r, ok
}

// advance replaces a log's record by what next makes of it. Nothing else happens
// to the state between the look at the former record and the moment when the new
// one is on disk. When it returns an error, the former record counts.
func (s *state) advance(origin string, next func(former record) (record, error)) (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs == nil {
		return record{}, errClosed
	}
	r, err := next(s.logs[origin])
	if err != nil {
		return record{}, err
	}
	logs := make(map[string]record, len(s.logs)+1)
	maps.Copy(logs, s.logs)
	logs[origin] = r
	if err := s.save(logs); err != nil {
		return record{}, err
	}
	s.logs = logs
	return r, nil
}

// save puts logs on disk. After an error the file holds either these or the
// former ones, whole; no cosignature has left, so both are true.
func (s *state) save(logs map[string]record) error {
	if err := s.stage(logs); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	if err := s.commit(); err != nil {
		return fmt.Errorf("replace the state: %w", err)
	}
	return nil
}

func (s *state) staged() string { return s.path + ".new" }

// stage writes the new file beside the one that counts.
func (s *state) stage(logs map[string]record) (err error) {
	file := stateFile{Logs: make(map[string]string, len(logs))}
	for origin, r := range logs {
		file.Logs[origin] = r.note
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(file); err != nil {
		return err
	}
	f, err := os.OpenFile(s.staged(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- beside the operator's file
	if err != nil {
		return err
	}
	_, err = f.Write(out.Bytes())
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// commit makes what was staged count.
func (s *state) commit() error {
	if err := os.Rename(s.staged(), s.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
