package floor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Erased is a list of what was erased on request, an id a line, in a file beside the
// checkpoint: an older copy of the database brings back what was erased since, and
// nothing in that copy says so. It only grows; a line that is there twice does no harm.
type Erased struct{ Path string }

// ErasedBeside is the list that belongs to a checkpoint's file.
func ErasedBeside(path string) Erased { return Erased{Path: path + ".erased"} }

// Load reads the list; it is fs.ErrNotExist where there is none.
func (f Erased) Load() ([]string, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("open the list of what was erased: %w", err)
	}
	defer func() { _ = file.Close() }()
	var ids []string
	known := map[string]bool{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		id := strings.TrimSpace(lines.Text())
		if id == "" || strings.HasPrefix(id, "#") || known[id] {
			continue
		}
		if !strings.HasPrefix(id, "apr_") && !strings.HasPrefix(id, "usr_") || len(id) > 64 {
			return nil, fmt.Errorf("line %d of %s is no id of an approval or a person", n, f.Path)
		}
		known[id] = true
		ids = append(ids, id)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the list of what was erased: %w", err)
	}
	return ids, nil
}

// Add appends to the list, durably, before it returns. The file is made where it is
// missing, also for nothing to add.
func (f Erased) Add(ids []string) error {
	_, err := os.Stat(f.Path)
	if err == nil && len(ids) == 0 {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("add to the list of what was erased: %w", err)
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("add to the list of what was erased: %w", err)
	}
	text := ""
	if len(ids) > 0 {
		// A line that a full disk has cut off must not run into this one.
		text = "\n" + strings.Join(ids, "\n") + "\n"
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("add to the list of what was erased: %w", err)
	}
	return nil
}
