package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A host may run the program several times for one try of a call: where several of its
// settings files name it. These runs are one after another, and have one answer.

// shortly is how long the runs for one try are apart.
const shortly = 30 * time.Second

// oneTry names a try of a call; "" where the host has no ids of calls.
func oneTry(kind string, c Call) string {
	if c.ID == "" {
		return ""
	}
	return kind + digest("try", []byte(c.ID+"\x00"+same(c)))
}

// enter waits until no other run is busy with this try. leave lets the next one in.
func (s *session) enter(ctx context.Context, c Call) (leave func(), err error) {
	name := oneTry("busy-", c)
	if name == "" {
		return func() {}, nil
	}
	file := filepath.Join(s.dir, name)
	for {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) // #nosec G304 -- names are digests
		if err != nil {
			return nil, fmt.Errorf("look for other runs of the hook: %w", err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isAt(f, file) { // else who held it has left meanwhile, and its file is gone
			return func() { _ = os.Remove(file); _ = f.Close() }, nil
		}
		_ = f.Close() // nothing was written
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("look for other runs of the hook: %w", err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("another run of the hook is busy with the call: %w", context.Cause(ctx))
		}
	}
}

// isAt reports whether an open file is the one of that name.
func isAt(f *os.File, name string) bool {
	opened, err1 := f.Stat()
	there, err2 := os.Stat(name)
	return err1 == nil && err2 == nil && os.SameFile(opened, there)
}

// allow notes that this try has been permitted, by a token that is spent.
func (s *session) allow(c Call, v Verdict) error {
	name := oneTry("allowed-", c)
	if name == "" {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("note that the call may run: %w", err)
	}
	return s.write(name, string(text))
}

// allowed is what another run has answered for this very try a moment ago.
func (s *session) allowed(c Call) (v Verdict, err error) {
	name := oneTry("allowed-", c)
	if name == "" || !s.fresh(name) {
		return v, nil
	}
	text, ok, err := s.read(name)
	if err != nil || !ok {
		return v, err
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return Verdict{}, fmt.Errorf("read what is known of the call: %w", err)
	}
	return v, nil
}

// end notes that it is on record what became of this try. Another one under its id is one
// of its own.
func (s *session) end(c Call) error {
	if c.ID == "" {
		return nil
	}
	if err := s.remove(oneTry("allowed-", c)); err != nil {
		return err
	}
	return s.write(oneTry("ended-", c), "")
}

// ended reports whether another run has put on record a moment ago what became of this try.
func (s *session) ended(c Call) bool {
	name := oneTry("ended-", c)
	return name != "" && s.fresh(name)
}

func (s *session) fresh(name string) bool {
	info, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil && time.Since(info.ModTime()) < shortly
}
