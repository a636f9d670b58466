package rules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/internal/access"
)

// file is a file that is imported when it changes.
type file struct {
	kind, path string
	// done is what was imported, or refused for good; seen is what stood there at
	// the last look. What is imported has stood there at two looks: nobody is
	// still writing it.
	done, seen content
	// problem is what is wrong with it, "" for none: it is told once.
	problem string
	// waits says that it waits for its approval, or was denied it, or for signatures.
	waits bool
}

type content [sha256.Size]byte

// read reads a file of the size that a document may have.
func (f *file) read() ([]byte, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, fmt.Errorf("%s_file: %w", f.kind, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s_file: %s is not a file", f.kind, f.path)
	}
	opened, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("%s_file: %w", f.kind, err)
	}
	defer func() { _ = opened.Close() }()
	data, err := io.ReadAll(io.LimitReader(opened, canon.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.kind, err)
	}
	if len(data) > canon.MaxBytes {
		return nil, fmt.Errorf("%s: %s has more than 1 MiB", f.kind, f.path)
	}
	return data, nil
}

// importFiles imports the files that have changed, or all of them at once.
func (k *Keeper) importFiles(ctx context.Context, all bool) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	var errs []error
	for i := range k.files {
		f := &k.files[i]
		if f.path == "" {
			continue
		}
		err := k.importFile(ctx, f, all)
		switch {
		case err == nil:
			continue
		case !all && err.Error() == f.problem:
			continue // somebody has been told
		}
		f.problem = err.Error()
		errs = append(errs, err)
	}
	var problems []string
	for _, f := range k.files {
		if f.problem != "" {
			problems = append(problems, f.problem)
		}
	}
	problem := onceEach(strings.Join(problems, "\n"))
	k.problem.Store(&problem)
	return errors.Join(errs...)
}

func (k *Keeper) importFile(ctx context.Context, f *file, anyway bool) error {
	data, err := f.read()
	if err != nil {
		f.seen, f.done = content{}, content{} // whatever stands there again is imported
		return err
	}
	now := content(sha256.Sum256(data))
	stood := now == f.seen
	f.seen = now
	if !anyway && (now == f.done || !stood) {
		return nil
	}
	changed, err := k.Import(ctx, f.kind, data, f.path)
	if access.IsUnavailable(err) {
		return err // it is tried again at the next look
	}
	f.done = now
	if f.waits = errors.Is(err, ErrProposed) || errors.Is(err, ErrSignatures); f.waits {
		return err
	}
	if errors.Is(err, ErrOlder) {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if err != nil {
		return err
	}
	switch {
	case f.problem != "":
		k.Logger.WarnContext(ctx, "put right: what is in the file is in force", "kind", f.kind, "file", f.path)
	case changed:
		k.Logger.InfoContext(ctx, "put in force", "kind", f.kind, "file", f.path)
	}
	f.problem = ""
	return nil
}

// lookAgain has what waits looked at again: it may be in force by now, or denied, or signed by keys
// that are registered by now.
func (k *Keeper) lookAgain() {
	k.reading.Lock()
	defer k.reading.Unlock()
	for i := range k.files {
		if k.files[i].waits {
			k.files[i].done = content{}
		}
	}
}

func (k *Keeper) reimport(ctx context.Context, all bool) {
	if err := k.importFiles(ctx, all); err != nil {
		k.logProblem(ctx, err)
	}
}

// logProblem says why what is in a file is not in force.
func (k *Keeper) logProblem(ctx context.Context, err error) {
	for line := range strings.Lines(onceEach(err.Error())) {
		k.Logger.ErrorContext(ctx, "not put in force: the last good rules stay", "problem", strings.TrimSpace(line))
	}
}
