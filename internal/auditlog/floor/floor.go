// Package floor keeps the audit log's last checkpoint outside Postgres, so that
// a database which was rewritten or restored from an old copy is found out: the
// log must never be behind its floor. It judges nothing; it keeps bytes.
package floor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// maxNote bounds a checkpoint, in bytes.
const maxNote = 16 << 10

// File keeps the checkpoint in a file. It belongs on another disk than the
// database's, and into another backup.
type File struct{ Path string }

// Load returns the note that is in the file; nil when there is no file.
func (f File) Load(context.Context) ([]byte, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the log's floor: %w", err)
	}
	defer func() { _ = file.Close() }()
	note, err := io.ReadAll(io.LimitReader(file, maxNote+1))
	if err != nil {
		return nil, fmt.Errorf("read the log's floor: %w", err)
	}
	if len(note) == 0 || len(note) > maxNote {
		return nil, fmt.Errorf("read the log's floor %s: it is no checkpoint", f.Path)
	}
	return note, nil
}

// Keep replaces the file's note: whatever happens meanwhile, the file holds the
// former one or this one.
func (f File) Keep(_ context.Context, note []byte) (err error) {
	dir, prefix := filepath.Dir(f.Path), "."+filepath.Base(f.Path)+"-"
	temporary, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return fmt.Errorf("keep the log's floor: %w", err)
	}
	sweep(dir, prefix)
	defer func() {
		if err != nil {
			_ = temporary.Close()
			_ = os.Remove(temporary.Name())
			err = fmt.Errorf("keep the log's floor: %w", err)
		}
	}()
	if _, err = temporary.Write(note); err != nil {
		return err
	}
	if err = temporary.Sync(); err != nil {
		return err
	}
	if err = temporary.Close(); err != nil {
		return err
	}
	if err = os.Rename(temporary.Name(), f.Path); err != nil {
		return err
	}
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	return opened.Sync()
}

// sweep removes what processes left that were killed while they kept a note: one
// that is being written is not as old.
func sweep(dir, prefix string) {
	entries, _ := os.ReadDir(dir) // what cannot be read stays
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), prefix) && info.Mode().IsRegular() && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Webhook posts checkpoints to an address, as text/plain, for somebody else to
// keep. Nothing is read back: whoever has the notes compares them with the log by
// "holdpoint audit verify". It posts in the background, so that a slow receiver
// does not hold up the log: always the last one, until the receiver has taken it.
type Webhook struct {
	URL    string
	Client interface {
		Do(r *http.Request) (*http.Response, error)
	}
	// Failed, when set, receives why a post did not succeed: once, and again when the
	// reason is another one.
	Failed func(error)

	mu      sync.Mutex
	waiting []byte
	posting bool
}

// The pause after a post that did not succeed, which each further one doubles.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// Load returns nothing: what was posted is elsewhere.
func (*Webhook) Load(context.Context) ([]byte, error) { return nil, nil }

// Keep posts the note soon, unless a later one overtakes it, and until ctx ends
// again while the receiver does not take it.
func (w *Webhook) Keep(ctx context.Context, note []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = bytes.Clone(note)
	if !w.posting {
		w.posting = true
		go w.post(ctx)
	}
	return nil
}

func (w *Webhook) post(ctx context.Context) {
	pause, logged := firstPause, ""
	for note := w.next(nil); note != nil; {
		// What is kept as the process stops is sent all the same.
		err := w.send(context.WithoutCancel(ctx), note)
		if err == nil {
			pause, logged = firstPause, ""
			note = w.next(note)
			continue
		}
		if err.Error() != logged && w.Failed != nil {
			w.Failed(err)
		}
		logged = err.Error()
		select {
		case <-ctx.Done():
			w.mu.Lock()
			w.posting = false
			w.mu.Unlock()
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
		note = w.next(nil)
	}
}

// next is the note to post once this one was taken; nil for none, and then nobody
// posts any more.
func (w *Webhook) next(taken []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if taken != nil && bytes.Equal(w.waiting, taken) {
		w.waiting = nil
	}
	w.posting = w.waiting != nil
	return w.waiting
}

func (w *Webhook) send(ctx context.Context, note []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(note))
	if err != nil {
		return fmt.Errorf("post a checkpoint: %w", err)
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	answer, err := w.Client.Do(r)
	if err != nil {
		return fmt.Errorf("post a checkpoint: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("post a checkpoint: the receiver answers %d", answer.StatusCode)
	}
	return nil
}
