package hook

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	holdpoint "holdpoint.example/client"
)

// forgotten is how long the files of a session are kept that nobody touches.
const forgotten = 30 * 24 * time.Hour

// session is what is known of a session's calls, in a directory of its own. A file is
// made or removed at once or not at all, so that runs of the program beside one another
// see whole ones. Names are digests: what a host calls its calls is no path.
type session struct{ dir string }

func (g *Gate) session(id string) (*session, error) {
	s := &session{filepath.Join(g.Dir, digest("session", []byte(id)))}
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		g.removeOldSessions(time.Now())
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep what is known of the session: %w", err)
	}
	return s, nil
}

// removeOldSessions removes what belongs to sessions of long ago. What cannot be removed stays.
func (g *Gate) removeOldSessions(now time.Time) {
	entries, err := os.ReadDir(g.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && now.Sub(info.ModTime()) > forgotten {
			_ = os.RemoveAll(filepath.Join(g.Dir, e.Name()))
		}
	}
}

func digest(kind string, data []byte) string {
	sum := sha256.Sum256(append([]byte(kind+"\x00"), data...))
	return hex.EncodeToString(sum[:16])
}

// same names all tries of one call: the same tool, called with arguments that say the
// same.
func same(c Call) string {
	if said, err := holdpoint.Digest(c.Tool, c.Arguments); err == nil {
		return digest("call", []byte(said))
	}
	return digest(c.Tool, c.Arguments) // of numbers that no server takes
}

// this names one try, if the host has ids of calls; else any try of the same call.
func this(c Call) string {
	if c.ID == "" {
		return "permitted-" + same(c)
	}
	return "permitted-" + digest("call", []byte(c.ID))
}

// waiting is the approval that an earlier try of the call waits for; "" for none.
func (s *session) waiting(c Call) (approvalID string, err error) {
	id, _, err := s.read("waiting-" + same(c))
	return id, err
}

func (s *session) wait(c Call, approvalID string) error {
	return s.write("waiting-"+same(c), approvalID)
}
func (s *session) forget(c Call) error { return s.remove("waiting-" + same(c)) }

// permit notes that this try may run, and by which approval; "" for none. The note has a
// name, by which it is removed.
func (s *session) permit(c Call, approvalID string) (note string, err error) {
	note = this(c)
	if c.ID == "" { // several tries may run beside one another
		note += "-" + rand.Text()
	}
	return note, s.write(note, approvalID)
}

// permitted finds the note of a try that has run; "" if there is none. One of a host
// without ids is taken from others that look for the same call.
func (s *session) permitted(c Call) (note, approvalID string, err error) {
	note = this(c)
	if c.ID != "" {
		approvalID, ok, err := s.read(note)
		if !ok {
			note = ""
		}
		return note, approvalID, err
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return "", "", fmt.Errorf("look for the call: %w", err)
	}
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), note+"-") {
			continue
		}
		taken := "taken-" + file.Name()
		switch err := os.Rename(filepath.Join(s.dir, file.Name()), filepath.Join(s.dir, taken)); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", "", fmt.Errorf("take the note of the call: %w", err)
		}
		approvalID, _, err := s.read(taken)
		return taken, approvalID, err
	}
	return "", "", nil
}

func (s *session) read(name string) (text string, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(s.dir, name)) // #nosec G304 -- names are digests
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read what is known of the call: %w", err)
	}
	return strings.TrimSpace(string(data)), true, nil
}

func (s *session) write(name, text string) error {
	f, err := os.CreateTemp(s.dir, ".new-*")
	if err == nil {
		_, err = f.WriteString(text + "\n")
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), filepath.Join(s.dir, name))
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return fmt.Errorf("note what is known of the call: %w", err)
	}
	return nil
}

func (s *session) remove(name string) error {
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what was known of the call: %w", err)
	}
	return nil
}
