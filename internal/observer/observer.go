// Package observer checks a log that somebody serves (C2SP tlog-tiles), from
// outside and without trusting whoever serves it: the checkpoint's signature,
// every entry against its tile, all of them against the root, and the whole
// against what was seen before. It stores nothing.
package observer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
)

// Log is a log at an address.
type Log struct {
	// URL is the log's prefix, such as https://holdpoint.example.com/log.
	URL       string
	Verifiers []note.Verifier
	// Former are checkpoints of the log that were checked before.
	Former []audit.Checkpoint
	// Witnesses have to have signed the checkpoint, too.
	Witnesses audit.Witnesses
	Client    *http.Client // http.DefaultClient when nil
	// Progress, when set, receives how many of how many leaves were checked.
	Progress func(done, all int64)
}

// ObservedLog is a log that was found in order.
type ObservedLog struct {
	Checkpoint audit.Checkpoint
	Signed     []byte
	Cosigned   []audit.Cosignature
}

// errBad is returned for a log that is not what it has to be; everything else
// means that it could not be checked.
var errBad = errors.New("the log is not in order")

// Problem is what is wrong, and where.
type Problem struct{ audit.Problem }

// Unwrap returns errBad.
func (b *Problem) Unwrap() error { return errBad }

func bad(seq int64, format string, args ...any) error {
	return &Problem{audit.Problem{Seq: seq, What: fmt.Sprintf(format, args...)}}
}

const (
	maxCheckpoint = 64 << 10
	maxBundle     = audit.TileWidth * (2 + 0xffff)
	perRequest    = 30 * time.Second
	attempts      = 3
)

// Verify reads the whole log, from its first leaf. It returns *Bad with the first
// thing that is wrong.
func (l *Log) Verify(ctx context.Context) (ObservedLog, error) {
	signed, err := l.get(ctx, "checkpoint", maxCheckpoint)
	if err != nil {
		return ObservedLog{}, err
	}
	point, err := audit.OpenCheckpoint(signed, l.Verifiers...)
	if err != nil {
		return ObservedLog{}, bad(0, "the checkpoint is not to be believed: %v", err)
	}
	cosigned, err := l.Witnesses.Check(signed)
	if err != nil {
		return ObservedLog{}, bad(0, "the checkpoint: %v", err)
	}
	for _, former := range l.Former {
		if former.Size > point.Size || former.Origin != point.Origin {
			return ObservedLog{}, bad(0, "%v", audit.CheckTree(nil, point, former))
		}
	}
	var tree audit.Tree
	var times times
	for n := int64(0); n*audit.TileWidth < point.Size; n++ {
		if err := l.tile(ctx, &tree, &times, n, point); err != nil {
			return ObservedLog{}, err
		}
		if l.Progress != nil {
			l.Progress(tree.Size(), point.Size)
		}
	}
	if tree.Root() != point.Root {
		return ObservedLog{}, bad(0, "the entries are not those that the checkpoint was signed for: the log was rewritten")
	}
	if times.wrong != nil {
		return ObservedLog{}, times.wrong
	}
	return ObservedLog{Checkpoint: point, Signed: signed, Cosigned: cosigned}, nil
}

// times are those of the entries, and what is wrong with the first one that is out of
// order. It is said when nothing else is: a log that was rewritten has other times, too.
type times struct {
	clock audit.Clock
	wrong error
}

func (t *times) follow(e audit.Entry) {
	if err := t.clock.Follow(e.Time); err != nil && t.wrong == nil {
		t.wrong = bad(e.Seq, "%v", err)
	}
}

// tile checks the entries of one tile of level 0 and adds them to the tree.
func (l *Log) tile(ctx context.Context, tree *audit.Tree, times *times, n int64, point audit.Checkpoint) error {
	width := int(min(audit.TileWidth, point.Size-n*audit.TileWidth))
	data, err := l.get(ctx, audit.Resource{N: n, Width: width}.Path(), audit.TileWidth*tlog.HashSize)
	if err != nil {
		return err
	}
	hashes, err := audit.ParseHashes(data)
	if err != nil || len(hashes) != width {
		return bad(0, "tile %d has %d bytes and not %d", n, len(data), width*tlog.HashSize)
	}
	bundle, err := l.get(ctx, audit.Resource{Entries: true, N: n, Width: width}.Path(), maxBundle)
	if err != nil {
		return err
	}
	entries, err := audit.ParseBundle(bundle)
	if err != nil || len(entries) != width {
		return bad(n*audit.TileWidth+1, "the bundle from this event on has %d entries and not %d (%v)", len(entries), width, err)
	}
	for i, data := range entries {
		seq := tree.Size() + 1
		if audit.LeafHash(data) != hashes[i] {
			return bad(seq, "it is not the event that the log has in this place: it was changed or removed after it was logged")
		}
		e, err := audit.ParseEntry(data)
		if err != nil {
			return bad(seq, "%v", err)
		}
		if e.Seq != seq {
			return bad(seq, "the log has event %d in this place", e.Seq)
		}
		times.follow(e)
		tree.Append(hashes[i], nil)
		for _, former := range l.Former {
			if former.Size == tree.Size() && former.Root != tree.Root() {
				return bad(seq, "the log up to here is not the one of the former checkpoint of %d events: it was rewritten or has forked", former.Size)
			}
		}
	}
	return nil
}

// get reads a resource of the log, and tries again when the way there was bad.
func (l *Log) get(ctx context.Context, path string, limit int64) (data []byte, err error) {
	for i := range attempts {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Duration(i) * 300 * time.Millisecond):
			}
		}
		var again bool
		if data, again, err = l.once(ctx, path, limit); err == nil || !again {
			return data, err
		}
	}
	return nil, err
}

func (l *Log) once(ctx context.Context, path string, limit int64) (data []byte, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, perRequest)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(l.URL, "/")+"/"+path, http.NoBody)
	if err != nil {
		return nil, false, fmt.Errorf("ask the log for %s: %w", path, err)
	}
	client := l.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, true, fmt.Errorf("ask the log for %s: %w", path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		if answer.StatusCode == http.StatusNotFound && path != "checkpoint" {
			return nil, false, bad(0, "the log does not serve %s, which its checkpoint promises", path)
		}
		return nil, answer.StatusCode >= 500, fmt.Errorf("ask the log for %s: it answers %d", path, answer.StatusCode)
	}
	data, err = io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err != nil {
		return nil, true, fmt.Errorf("read %s of the log: %w", path, err)
	}
	if int64(len(data)) > limit {
		return nil, false, fmt.Errorf("read %s of the log: it has more than %d bytes", path, limit)
	}
	return data, false, nil
}
