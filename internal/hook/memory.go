package hook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// forgotten is how long the files of a session are kept that nobody touches.
const forgotten = 30 * 24 * time.Hour

// memory is what is known of a session's calls, in a directory of its own. A file is
// made or removed at once or not at all, so that runs of the program beside one another
// see whole ones. Names are digests: what a host calls its calls is no path.
type memory struct{ dir string }

func (g *Gate) memory(session string) (*memory, error) {
	m := &memory{filepath.Join(g.Dir, digest("session", []byte(session)))}
	if _, err := os.Stat(m.dir); errors.Is(err, fs.ErrNotExist) {
		g.tidy(time.Now())
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep what is known of the session: %w", err)
	}
	return m, nil
}

// tidy removes what belongs to sessions of long ago. What cannot be removed stays.
func (g *Gate) tidy(now time.Time) {
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

// same is the name of the file of all tries of one call: the same tool, called with the
// same arguments as the host writes them.
func same(c Call) string {
	var compact bytes.Buffer
	if json.Compact(&compact, c.Arguments) != nil {
		compact.Reset()
		compact.Write(c.Arguments)
	}
	return "waiting-" + digest(c.Tool, compact.Bytes())
}

// this is the name of the file of one try.
func this(c Call) string { return "permitted-" + digest("call", []byte(c.ID)) }

// waiting is the approval that an earlier try of the call waits for; "" for none.
func (m *memory) waiting(c Call) (approvalID string, err error) {
	id, _, err := m.read(same(c))
	return id, err
}

func (m *memory) wait(c Call, approvalID string) error { return m.write(same(c), approvalID) }
func (m *memory) forget(c Call) error                  { return m.remove(same(c)) }

// permit notes that this try may run, and by which approval; "" for none.
func (m *memory) permit(c Call, approvalID string) error {
	if c.ID == "" {
		return errors.New("the host does not say which call it is about")
	}
	return m.write(this(c), approvalID)
}

func (m *memory) permitted(c Call) (approvalID string, ok bool, err error) { return m.read(this(c)) }
func (m *memory) revoke(c Call) error                                      { return m.remove(this(c)) }

func (m *memory) read(name string) (text string, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(m.dir, name)) // #nosec G304 -- names are digests
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read what is known of the call: %w", err)
	}
	return strings.TrimSpace(string(data)), true, nil
}

func (m *memory) write(name, text string) error {
	f, err := os.CreateTemp(m.dir, ".new-*")
	if err == nil {
		_, err = f.WriteString(text + "\n")
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), filepath.Join(m.dir, name))
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

func (m *memory) remove(name string) error {
	if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what was known of the call: %w", err)
	}
	return nil
}
