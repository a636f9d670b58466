package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// How far back a grant is tried, and on how many calls.
const (
	backtestDays  = 90
	backtestCalls = 1000
	backtestBatch = 50 // documents that one query reads
)

// Backtest is what a grant would have done to the past.
type Backtest struct {
	// Looked is how many calls were looked at, the newest first; Capped says that
	// there are older ones, of which those that were denied were looked at, too.
	Looked int
	Capped bool
	// Unreadable is how many of them could not be compared, as their arguments have
	// been erased.
	Unreadable int
	// Matching are those that it would have voted for, the newest first.
	Matching []store.PastCall
	// At is the moment from which on nothing was looked at.
	At time.Time
}

// Count is how many of the matching ones ended so.
func (b Backtest) Count(s approval.Status) int {
	n := 0
	for _, p := range b.Matching {
		if p.Status == s {
			n++
		}
	}
	return n
}

// Denials are the matching ones that people have denied.
func (b Backtest) Denials() []store.PastCall {
	return slices.DeleteFunc(slices.Clone(b.Matching), func(p store.PastCall) bool { return p.Status != approval.Denied })
}

// backtest tries a pattern on the agent's former calls of the tool, one document
// in memory at a time. It looks at arguments alone, and so finds rather more than
// the grant would have voted for. A call that cannot be read any more counts when
// it was this very one.
func (g *Grants) backtest(ctx context.Context, from approval.Approval, arguments canon.Value, p grant.Pattern) (Backtest, error) {
	var b Backtest
	past, now, err := g.Store.Grants.AlikeCalls(ctx, from.Call, backtestDays*24*time.Hour, backtestCalls+1)
	if err != nil {
		return b, err
	}
	b.At, b.Looked, b.Capped = now, len(past), len(past) > backtestCalls
	digest := canon.Digest(from.Call.Tool, arguments)
	matches := map[string]bool{}
	for batch := range slices.Chunk(past, backtestBatch) {
		byID, ids := map[string]store.PastCall{}, make([]string, len(batch))
		for i, one := range batch {
			byID[one.ID], ids[i] = one, one.ID
		}
		err := g.Store.Grants.SealedArguments(ctx, ids, func(id string, box seal.Box) error {
			one := byID[id]
			if one.Dialect == DialectThreeGate {
				return nil // grants are not for these
			}
			args, err := g.openArguments(from, one, box, now)
			if err != nil {
				b.Unreadable++
			}
			matches[id] = err == nil && p.Match(args) || one.Digest == digest
			return ctx.Err()
		})
		if err != nil {
			return b, err
		}
	}
	for _, one := range past {
		if matches[one.ID] {
			b.Matching = append(b.Matching, one)
		}
	}
	return b, nil
}

// openArguments reads the arguments of a former call of the same agent.
func (g *Grants) openArguments(from approval.Approval, one store.PastCall, box seal.Box, now time.Time) (canon.Value, error) {
	document, err := g.Sealer.Open(one.ID, box)
	if err != nil {
		return canon.Value{}, fmt.Errorf("open the arguments of %s: %w", one.ID, err)
	}
	call := from.Call
	call.Dialect = one.Dialect
	return arguments(approval.Approval{ID: one.ID, Call: call}, document, now)
}
