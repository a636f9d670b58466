package auditlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"holdpoint/engine/audit"
	"holdpoint/internal/store"
)

const (
	// watchEvery is how often the log is held against what is known of it.
	watchEvery = 3 * time.Second
	// leaveWithin is how long a process that stops may take to look for the last time.
	leaveWithin = 2 * time.Second
)

// knownCheckpoint is the last checkpoint that a process has signed, found or been given by
// a floor: the log never goes behind it. The zero one knows nothing.
type knownCheckpoint struct {
	mu         sync.Mutex
	checkpoint audit.Checkpoint
	note       []byte
	news       chan struct{}
}

func (k *knownCheckpoint) learn(c audit.Checkpoint, note []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.Size <= k.checkpoint.Size {
		return
	}
	k.checkpoint, k.note = c, note
	if k.news != nil {
		select {
		case k.news <- struct{}{}:
		default: // the subscriber has yet to look
		}
	}
}

func (k *knownCheckpoint) get() (audit.Checkpoint, []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.checkpoint, k.note
}

// subscribe returns a channel that receives after something was learnt.
func (k *knownCheckpoint) subscribe() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news = make(chan struct{}, 1)
	return k.news
}

// outage says once that something does not work, and not with every try.
type outage struct {
	report   func(error)
	reported string
}

func (o *outage) is(err error) {
	switch {
	case err == nil:
		o.reported = ""
	case o.reported != err.Error():
		o.reported = err.Error()
		o.report(err)
	}
}

// watch keeps the floors up to date until ctx ends: what this process signs as
// soon as it has, and what others sign every few seconds. It does so beside the
// sequencing, because a floor that is full or hangs must not stop the log: a log
// that goes on and says that its floor does not is worth more than none.
func (q *Sequencer) watch(ctx context.Context, kept []int64) {
	news := q.known.subscribe()
	every := time.NewTimer(0)
	defer every.Stop()
	behind := outage{report: func(err error) { q.Logger.Error("the audit log is not what is known of it", "error", err) }}
	full := outage{report: func(err error) {
		q.Logger.Error("checkpoints cannot be kept outside the database; the log goes on without, and it is tried again", "error", err)
	}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-every.C:
			err := q.follow(ctx)
			if ctx.Err() != nil {
				return
			}
			every.Reset(watchEvery)
			behind.is(err)
			if err != nil {
				continue // what may be wrong is kept nowhere
			}
		}
		if err := q.saveFloor(ctx, kept); ctx.Err() == nil {
			full.is(err)
		}
	}
}

// leave keeps the last checkpoint of a process that was told to stop: of what was
// signed just before, the floors are to know when it has ended.
func (q *Sequencer) leave(ctx context.Context, kept []int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	err := q.follow(ctx) // the commit that ctx cut off may be there
	if errors.Is(err, ErrBehind) || errors.Is(err, ErrOtherKey) {
		return // what may be wrong is kept nowhere
	}
	if err := q.saveFloor(ctx, kept); err != nil {
		q.Logger.Error("the last checkpoint cannot be kept outside the database", "error", err)
	}
}

// follow learns the database's last checkpoint, when it continues what is known.
func (q *Sequencer) follow(ctx context.Context) error {
	last, note, err := q.look(ctx)
	if err == nil {
		q.known.learn(last, note)
	}
	return err
}

// saveFloor gives the last checkpoint to the floors that have an older one. kept says
// what they were given before. Two processes with one file may overtake one
// another; what the file holds then is older by a moment, and true.
func (q *Sequencer) saveFloor(ctx context.Context, kept []int64) error {
	c, note := q.known.get()
	var failed error
	for i, floor := range q.Floors {
		has, err := load(ctx, floor, q.open)
		if err != nil {
			// It is not written over: somebody may want to see what happened to it.
			failed = errors.Join(failed, err)
			continue
		}
		if c.Size == 0 || has.Size >= c.Size || has.Size == 0 && kept[i] >= c.Size {
			continue
		}
		q.at("keep")
		if err := floor.Keep(ctx, note); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		kept[i] = c.Size
		q.at("kept")
	}
	return failed
}

// Check compares the database's log with every checkpoint that is known, the
// database's own last one included. It returns ErrBehind when the log does not
// continue one of them, and ErrOtherKey when none of the keys has signed the last
// one.
func (q *Sequencer) Check(ctx context.Context) error {
	_, _, err := q.look(ctx)
	return err
}

// look is Check. It returns the database's last checkpoint.
func (q *Sequencer) look(ctx context.Context) (last audit.Checkpoint, note []byte, err error) {
	former, _ := q.known.get()
	known := []audit.Checkpoint{former}
	for _, floor := range q.Floors {
		c, err := load(ctx, floor, q.open)
		if err != nil {
			return last, nil, err
		}
		known = append(known, c)
	}
	if err := check(ctx, q.Store, known...); err != nil {
		return last, nil, err
	}
	if last, note, err = ownCheckpoint(ctx, q.Store, q.open); err != nil {
		return last, nil, err
	}
	if err := check(ctx, q.Store, last); errors.Is(err, ErrBehind) {
		return last, nil, fmt.Errorf("%w: its tiles are not those of its own last checkpoint, of %d events", ErrBehind, last.Size)
	} else if err != nil {
		return last, nil, err
	}
	return last, note, nil
}

// ErrOtherKey is returned when none of the keys has signed the database's last
// checkpoint: what was signed on top would verify with no key that people have.
var ErrOtherKey = errors.New("the audit log's last checkpoint was not signed by this key")

// CheckKey reports whether one of the keys has signed the database's last
// checkpoint: nil, or ErrOtherKey.
func CheckKey(ctx context.Context, s *store.Store, keys []audit.Key) error {
	_, _, err := ownCheckpoint(ctx, s, (&Sequencer{Keys: keys}).open)
	return err
}

// ownCheckpoint is the database's last checkpoint; the zero one of an empty log.
func ownCheckpoint(ctx context.Context, s *store.Store, open func([]byte) (audit.Checkpoint, error)) (audit.Checkpoint, []byte, error) {
	head, err := s.Log.Head(ctx) // first: whatever it counts has a checkpoint
	if err != nil || head.Size == 0 {
		return audit.Checkpoint{}, nil, err
	}
	last, err := s.Log.LatestCheckpoint(ctx, 0)
	if errors.Is(err, store.ErrNotFound) {
		return audit.Checkpoint{}, nil, fmt.Errorf("%w: it has %d events and no checkpoint", ErrBehind, head.Size)
	}
	if err != nil {
		return audit.Checkpoint{}, nil, err
	}
	c, err := open(last.Note)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOtherKey, err)
	}
	return c, last.Note, err
}

// CheckFloor compares the database's log with the checkpoint that a floor keeps,
// for a process that cannot tell who signed it.
func CheckFloor(ctx context.Context, s *store.Store, floor Floor) error {
	c, err := load(ctx, floor, unsigned)
	if err != nil || c.Size == 0 {
		return err
	}
	last, err := s.Log.LatestCheckpoint(ctx, 0)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if own, err := unsigned(last.Note); err == nil && own.Origin != c.Origin {
		return fmt.Errorf("the checkpoint that is kept outside the database is of the log %q, and the database's log is %q", c.Origin, own.Origin)
	}
	return check(ctx, s, c)
}

// FloorSize is how many events the checkpoint covers that a floor keeps; 0 for none.
func FloorSize(ctx context.Context, floor Floor) (int64, error) {
	c, err := load(ctx, floor, unsigned)
	return c.Size, err
}

// RefuseStart adds to an error of Check or CheckFloor what to do about it, for a
// process that does not start because of it. An outage comes back as it is.
func RefuseStart(err error, floorFile string) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, ErrOtherKey) {
		return fmt.Errorf("%w.\nNothing was started, and nothing was changed. Give the worker the log_key_file that has signed the log so far; "+
			"a new key's line goes below the old one's in that file, and the old line stays until a checkpoint bears both", err)
	}
	if floorFile == "" {
		return fmt.Errorf("%w.\nNothing was started, and nothing was changed. Restore the newest copy of the database and keep this one for whoever investigates", err)
	}
	if !errors.Is(err, ErrBehind) {
		return fmt.Errorf("%w.\nNothing was started, and nothing was changed. Find out what has happened to %s before you move it away: "+
			"it is what shows that the database was rewritten, or restored from an older copy", err, floorFile)
	}
	return fmt.Errorf("%w.\nNothing was started, and nothing was changed. Restore the newest copy of the database and keep this one for whoever investigates.\n"+
		"If the events are lost for good, say so where it will be found, then move %s away: the log goes on from what the database has, and every older checkpoint will show the break", err, floorFile)
}

// CheckSigned looks at the checkpoint that is served: whether there is one with
// enough witnesses, and whether the keys that are shown, if any, verify it.
func CheckSigned(ctx context.Context, s *store.Store, witnesses int, keys []string) error {
	latest, err := s.Log.LatestCheckpoint(ctx, witnesses)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("no checkpoint has been signed by the log and by %d witnesses", witnesses)
	}
	if err != nil || len(keys) == 0 {
		return err
	}
	verifiers, err := audit.ParseVerifiers(strings.Join(keys, "\n"))
	if err == nil {
		_, err = audit.OpenCheckpoint(latest.Signed(), verifiers...)
	}
	return err
}

// unsigned reads a note without asking who has signed it.
func unsigned(signed []byte) (audit.Checkpoint, error) {
	text, _, ok := strings.Cut(string(signed), "\n\n")
	if !ok {
		return audit.Checkpoint{}, audit.ErrCheckpoint
	}
	return audit.ParseCheckpoint(text + "\n")
}

// load reads a floor's checkpoint; the zero one where it has none.
func load(ctx context.Context, floor Floor, open func([]byte) (audit.Checkpoint, error)) (audit.Checkpoint, error) {
	signed, err := floor.Load(ctx)
	if err != nil || signed == nil {
		return audit.Checkpoint{}, err
	}
	c, err := open(signed)
	if err == nil {
		return c, nil
	}
	if other, parsed := unsigned(signed); parsed == nil {
		return c, fmt.Errorf("read the checkpoint that is kept outside the database, of the log %q: %w", other.Origin, err)
	}
	return c, fmt.Errorf("read the checkpoint that is kept outside the database: %w", err)
}

func check(ctx context.Context, s *store.Store, known ...audit.Checkpoint) error {
	head, err := s.Log.Head(ctx)
	if err != nil {
		return err
	}
	for _, c := range known {
		if err := continues(ctx, s, head, c); err != nil {
			return err
		}
	}
	return nil
}

// continues reports whether the database's log begins with what a checkpoint
// says: nil, or ErrBehind with what is wrong. It asks for a proof, from tiles that
// are held against the head's root: that the tiles at the former edge give the
// former root would say nothing of what they have become since.
func continues(ctx context.Context, s *store.Store, head store.LogHead, known audit.Checkpoint) error {
	if known.Size > head.Size {
		return fmt.Errorf("%w: a checkpoint of %d events is kept outside the database, and the database has %d. "+
			"It was restored from an older copy, or its last events were removed", ErrBehind, known.Size, head.Size)
	}
	if known.Size == 0 {
		return nil // nothing is known
	}
	proof, err := s.Log.Tiles(ctx).ProveTree(head.Size, head.Root, known.Size)
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if err == nil {
		err = audit.CheckTree(proof, audit.Checkpoint{Origin: known.Origin, Size: head.Size, Root: head.Root}, known)
	}
	if err != nil {
		return fmt.Errorf("%w: its first %d events are not those of the checkpoint that is kept outside the database. It was rewritten", ErrBehind, known.Size)
	}
	return nil
}

// open reads a note that one of this log's keys has signed.
func (q *Sequencer) open(signed []byte) (audit.Checkpoint, error) {
	public := make([]string, len(q.Keys))
	for i, k := range q.Keys {
		public[i] = k.Public
	}
	verifiers, err := audit.ParseVerifiers(strings.Join(public, "\n"))
	if err != nil {
		return audit.Checkpoint{}, err
	}
	return audit.OpenCheckpoint(signed, verifiers...)
}
