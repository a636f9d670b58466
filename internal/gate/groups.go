package gate

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/stakes"
	"holdpoint/internal/store"
)

// GroupStakes is what is at stake with the calls that a row of an inbox stands for.
type GroupStakes struct {
	// Of is how many of the calls are looked at: all, or as many as a list can wait for.
	Of int
	// Ranges are the least and the largest amount, of each currency, of the WithAmount calls
	// that have one.
	Ranges     []string
	WithAmount int
	// Targets counts whom or what the calls are about, by place, where they differ.
	Targets []Count
	// FirstTime counts the calls that name somebody at a place whom no approved call of the
	// tool has named there, by place.
	FirstTime []Count
}

const (
	// groupCalls is how many calls of one group are looked at, and pageCalls how many of all
	// groups of a page.
	groupCalls = store.GroupIDs
	pageCalls  = 400
	// summaryKeptFor is how long what was seen of a call is kept: it may be edited.
	summaryKeptFor = 30 * time.Second
	maxSummaries   = 20_000
	maxTargetsOf   = 20 // of one call
)

// callSummary is what a list keeps of a call: hashes of whom it is about, and its amount.
type callSummary struct {
	amount  string
	targets []summaryTarget
	unread  bool
}

type summaryTarget struct {
	place string
	value uint64
	known uint64 // as formerTargets has it
}

// Groups says what is at stake with the calls of rows that stand for several, by the id of
// the row. What cannot be read of them, or is long, is not among those that are looked at.
func (g *Queries) Groups(ctx context.Context, rows []InboxRow) (map[string]GroupStakes, error) {
	now, left := g.Store.Clock(), pageCalls
	var missing []string
	known := map[string]callSummary{}
	members := map[string][]string{}
	for _, row := range rows {
		if row.Alike < 2 {
			continue
		}
		ids := row.AlikeIDs[:min(len(row.AlikeIDs), left)]
		left -= len(ids)
		members[row.ID] = ids
		for _, id := range ids {
			if seen, there := g.summaries.get(id, now, summaryKeptFor); there {
				known[id] = seen
			} else {
				missing = append(missing, id)
			}
		}
	}
	if len(members) == 0 {
		return nil, nil
	}
	if len(missing) > 0 {
		boxes, at, err := g.Store.Approvals.Sealed(ctx, missing, rowBytes)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			for _, id := range members[row.ID] {
				if _, there := known[id]; there || !slices.Contains(missing, id) {
					continue
				}
				seen := callSummary{unread: true}
				if box, there := boxes[id]; there {
					// Of the tool, by the agent and in the dialect of the first one.
					one := row.Approval
					one.ID = id
					if p, err := g.opened(one, box, at); err == nil {
						seen = summarize(one, p)
					}
				}
				g.summaries.put(id, seen, now, maxSummaries)
				known[id] = seen
			}
		}
	}
	told, none := map[string]GroupStakes{}, map[string]bool{}
	for _, row := range rows {
		if ids := members[row.ID]; len(ids) > 0 {
			former, compared := g.formerOf(ctx, row.Call.Tool, none, now)
			told[row.ID] = group(ids, known, former.known, compared)
		}
	}
	return told, nil
}

// summarize is what is kept of a call.
func summarize(a approval.Approval, p Proposal) callSummary {
	template := ""
	if t := a.Plan.Stakes; t != nil {
		template = t.Template
	}
	s := sentences().Write(a.Call.Tool, p.Arguments, template)
	seen := callSummary{amount: s.Amount}
	for _, t := range s.Targets[:min(len(s.Targets), maxTargetsOf)] {
		if len(t.Value) <= resembleBound {
			seen.targets = append(seen.targets, summaryTarget{t.Place, maphash.String(targetSeed, t.Value), hashOf(placedText{t.Place, t.Value})})
		}
	}
	return seen
}

var targetSeed = maphash.MakeSeed()

// group sums up what is known of calls; former are whom approved ones have named, where there
// are any to compare with.
func group(ids []string, known map[string]callSummary, former map[uint64]struct{}, compared bool) GroupStakes {
	var told GroupStakes
	var amounts []string
	values, first := map[string]map[uint64]bool{}, map[string]int{}
	for _, id := range ids {
		seen := known[id]
		if seen.unread {
			continue
		}
		told.Of++
		if seen.amount != "" {
			amounts = append(amounts, seen.amount)
		}
		unknown := map[string]bool{}
		for _, t := range seen.targets {
			if values[t.place] == nil {
				values[t.place] = map[uint64]bool{}
			}
			values[t.place][t.value] = true
			if _, there := former[t.known]; compared && !there {
				unknown[t.place] = true
			}
		}
		for place := range unknown {
			first[place]++
		}
	}
	told.Ranges, told.WithAmount = stakes.Ranges(amounts), len(amounts)
	for place, different := range values {
		if len(different) > 1 {
			told.Targets = append(told.Targets, Count{Value: place, N: len(different)})
		}
	}
	for place, n := range first {
		told.FirstTime = append(told.FirstTime, Count{Value: place, N: n})
	}
	byPlace := func(a, b Count) int { return strings.Compare(a.Value, b.Value) }
	slices.SortFunc(told.Targets, byPlace)
	slices.SortFunc(told.FirstTime, byPlace)
	return told
}
