package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
)

// This file is about openings that join an approval which waits for the same.

// findWaiting takes the locks of the submissions' calls and marks with *Waiting those
// that wait already, or will once this batch is written: of two at once, in whichever
// process, one opens the approval and the other finds it.
func findWaiting(ctx context.Context, tx pgx.Tx, joining []*queued) error {
	// Everybody takes the locks in the same order, after those of the keys.
	joining = slices.SortedStableFunc(slices.Values(joining), func(a, b *queued) int { return cmp.Compare(a.sub.Opening.lock(), b.sub.Opening.lock()) })
	rows, found := &pgx.Batch{}, make([]string, len(joining))
	for _, q := range joining {
		rows.Queue(`SELECT pg_advisory_xact_lock($1)`, q.sub.Opening.lock())
	}
	for i, q := range joining {
		sql, args := q.sub.Opening.waiting()
		rows.Queue(sql, args...).Query(func(r pgx.Rows) error {
			ids, err := pgx.CollectRows(r, pgx.RowTo[string])
			if err == nil && len(ids) > 0 {
				found[i] = ids[0]
			}
			return err
		})
	}
	if err := tx.SendBatch(ctx, rows).Close(); err != nil {
		return translate(err)
	}
	opening, first := map[string]string{}, map[[2]string]*queued{}
	for i, q := range joining {
		o, same := q.sub.Opening, q.sub.Opening.sameness()
		var key [2]string
		if q.sub.Idempotency != nil {
			key = [2]string{q.sub.Idempotency.Credential, q.sub.Idempotency.Key}
		}
		var waits *Waiting
		switch {
		case errors.Is(q.err, errTwin):
			// What stands for the request that it repeats stands for it.
			if f := first[key]; f != nil && errors.As(f.err, &waits) {
				q.err = waits
			}
			continue
		case q.err != nil:
			continue
		case found[i] != "" && found[i] != o.ID: // its own is there when it is written again
			q.err = &Waiting{found[i]}
		case found[i] == "" && opening[same] != "":
			q.err = &Waiting{opening[same]}
		case opening[same] == "":
			opening[same] = o.ID
		}
		if q.sub.Idempotency != nil {
			first[key] = q
		}
	}
	return nil
}

// approval is the approval that o opens.
func (o *Opening) approval() *approval.Approval {
	a := &approval.Approval{
		ID: o.ID, Call: o.Call, RequestedBy: o.RequestedBy, Circumstances: o.Circumstances, Decision: o.Decision,
		Plan: approval.Plan{Requirements: o.Requirements, Excluded: o.Excluded, Terms: o.Terms},
	}
	if a.Preconditions == nil {
		a.Preconditions = map[string]string{}
	}
	if a.Plan.Excluded == nil {
		a.Plan.Excluded = []string{}
	}
	return a
}

// asked are the columns in which an approval that waits for the same is the same as
// o's: all that an opening writes of what is asked, of whom and by whom.
func (o *Opening) asked() columns {
	all := append(openingColumns(o.approval()), column{"max_state", &o.MaxState})
	return slices.DeleteFunc(all, func(c column) bool { return c.name == "id" || c.name == "request_id" })
}

// waiting is the query for the approval that waits for the same, the oldest of several.
func (o *Opening) waiting() (sql string, args []any) {
	sql = `SELECT id FROM approvals WHERE status = 'pending' AND expires_at > clock_timestamp()`
	for i, c := range o.asked() {
		sql += fmt.Sprintf(" AND %s = $%d", c.name, i+1)
		args = append(args, c.field)
	}
	if o.Binding != "" {
		args = append(args, binds(o.Binding))
		sql += fmt.Sprintf(" AND EXISTS (SELECT FROM events e WHERE e.approval_id = approvals.id AND %s AND position($%d::bytea IN e.body) > 0)", opens, len(args))
	}
	return sql + ` ORDER BY opened_at, id LIMIT 1`, args
}

// sameness is the same text for openings of which one would find the other waiting.
func (o *Opening) sameness() string {
	fields := append(o.asked().fields(), o.Binding)
	text, err := json.Marshal(fields)
	if err != nil {
		return o.ID // it is like no other, and writing it will say what is wrong
	}
	return string(text)
}

// lock is the number of the advisory lock that everybody holds who opens an approval
// of the call, or looks whether it waits.
func (o *Opening) lock() int64 {
	sum := sha256.Sum256([]byte("waiting " + strconv.Itoa(len(o.Call.AgentID)) + ":" + o.Call.AgentID + o.Call.Digest))
	return int64(binary.BigEndian.Uint64(sum[:])) // #nosec G115 -- any number will do
}
