package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Starts keeps with which settings each program was last started: keyed hashes, by the settings' names.
type Starts struct{ *db }

// StartChange is what is otherwise at a start.
type StartChange struct {
	// First says that it is the first that is on record.
	First bool
	// Changed are the settings that have another value, and New those that are set now and that no former start has
	// on record: those of another version.
	Changed, New []string
	Former       map[string]string
	// Unproved says that what is kept of the last start lacks its proof, or that it fits something else: it may be
	// less, or other, than what the program had written.
	Unproved bool
}

// StartProof is the name under which a start's keyed hash over all its settings is kept. No setting has it.
const StartProof = ""

// Started says that a program was started with these settings and their proof, of which set are not as they are where
// nobody says anything. The first of several that have others than the last start appends the event that tells which
// ones; proves reports whether what is kept of that one is what a program wrote.
func (s Starts) Started(ctx context.Context, program string, settings map[string]string, set []string, proves func(settings map[string]string) bool, tells func(StartChange) (engine.Event, error)) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("encode the settings of %s: %w", program, err)
	}
	return s.inTxOn(ctx, s.reserve, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO starts (program, settings) VALUES ($1, $2) ON CONFLICT (program) DO NOTHING`, program, text)
		if err != nil {
			return translate(err)
		}
		if tag.RowsAffected() == 1 {
			return tellStart(ctx, tx, StartChange{First: true}, tells)
		}
		var last json.RawMessage
		if err := tx.QueryRow(ctx, `SELECT settings FROM starts WHERE program = $1 FOR UPDATE`, program).Scan(&last); err != nil {
			return translate(err)
		}
		c := StartChange{Former: map[string]string{}}
		if err := json.Unmarshal(last, &c.Former); err != nil {
			return fmt.Errorf("read the settings of the last %s: %w", program, err)
		}
		c.Unproved = !proves(c.Former)
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			switch was, known := c.Former[name]; {
			case name == StartProof:
			case known && was != settings[name]:
				c.Changed = append(c.Changed, name)
			case !known && slices.Contains(set, name):
				c.New = append(c.New, name)
			}
		}
		if maps.Equal(settings, c.Former) {
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE starts SET settings = $2, at = clock_timestamp() WHERE program = $1`, program, text); err != nil {
			return translate(err)
		}
		if len(c.Changed)+len(c.New) == 0 && !c.Unproved {
			return nil // another version, which has other settings that nobody has set
		}
		return tellStart(ctx, tx, c, tells)
	})
}

func tellStart(ctx context.Context, tx pgx.Tx, c StartChange, tells func(StartChange) (engine.Event, error)) error {
	e, err := tells(c)
	if err != nil {
		return err
	}
	rows := &pgx.Batch{}
	queueEvents(rows, []engine.Event{e}, nil)
	return translate(tx.SendBatch(ctx, rows).Close())
}

// Last is with which settings a program was last started, and since when it is started with them. ErrNotFound: it
// was not.
func (s Starts) Last(ctx context.Context, program string) (settings map[string]string, since time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT settings, at FROM starts WHERE program = $1`, program).Scan(&settings, &since)
	return settings, since, translate(err)
}
