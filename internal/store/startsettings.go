package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Starts keeps with which settings each program was last started: keyed hashes, by the settings' names.
type Starts struct{ *db }

// Started says that a program was started with these settings. The first of several that have others
// than the last start appends the event that tells which ones; nothing is to be told of the very first start.
func (s Starts) Started(ctx context.Context, program string, settings map[string]string, tells func(changed []string, former map[string]string) (engine.Event, error)) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("encode the settings of %s: %w", program, err)
	}
	return s.inTxOn(ctx, s.reserve, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO starts (program, settings) VALUES ($1, $2) ON CONFLICT (program) DO NOTHING`, program, text)
		if err != nil || tag.RowsAffected() == 1 {
			return translate(err)
		}
		var last json.RawMessage
		if err := tx.QueryRow(ctx, `SELECT settings FROM starts WHERE program = $1 FOR UPDATE`, program).Scan(&last); err != nil {
			return translate(err)
		}
		former := map[string]string{}
		if err := json.Unmarshal(last, &former); err != nil {
			return fmt.Errorf("read the settings of the last %s: %w", program, err)
		}
		var changed []string
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if was, known := former[name]; known && was != settings[name] {
				changed = append(changed, name)
			}
		}
		if maps.Equal(settings, former) {
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE starts SET settings = $2, at = clock_timestamp() WHERE program = $1`, program, text); err != nil {
			return translate(err)
		}
		if len(changed) == 0 {
			return nil // another version, which has other settings
		}
		e, err := tells(changed, former)
		if err != nil {
			return err
		}
		rows := &pgx.Batch{}
		if err := queueEvents(rows, []engine.Event{e}, false, nil); err != nil {
			return err
		}
		return translate(tx.SendBatch(ctx, rows).Close())
	})
}
