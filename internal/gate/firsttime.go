package gate

import (
	"context"
	"hash/maphash"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/stakes"
)

// What a list knows of former calls: for how long, and of how many tools. A card always looks
// anew.
const (
	formerTargetsFor = 10 * time.Second
	maxKnown         = 1000
)

// formerTargets is what the last approved calls of a tool have named, as hashes: a list needs
// no more than whether a text was there. It never changes.
type formerTargets struct {
	known   map[uint64]struct{}
	amounts []string
}

func newFormerTargets(former formerTexts) formerTargets {
	t := formerTargets{known: map[uint64]struct{}{}, amounts: former.amounts}
	for text := range former.known {
		t.known[hashOf(text)] = struct{}{}
	}
	return t
}

func hashOf(t placedText) uint64 { return maphash.Comparable(placedSeed, t) }

// placedSeed is another one in each process: no hash leaves it.
var placedSeed = maphash.MakeSeed()

// compare says whom a call of a list names for the first time, and whether its amount is
// larger than those before.
func (t formerTargets) compare(s stakes.Sentence) (first []string, larger bool) {
	for _, target := range s.Targets {
		if len(target.Value) > resembleBound {
			continue
		}
		if _, known := t.known[hashOf(placedText{target.Place, target.Value})]; !known {
			first = append(first, target.Place)
		}
	}
	return first, stakes.Larger(s.Amount, t.amounts)
}

// formerOf is what the last approved calls of a tool have named; false where there are none,
// or they cannot be read. none are the tools of which that is known: they are not read again
// for the same list.
func (g *Queries) formerOf(ctx context.Context, tool string, none map[string]bool, now time.Time) (formerTargets, bool) {
	if former, known := g.targets.get(tool, now, formerTargetsFor); known || none[tool] {
		return former, known
	}
	texts, err := g.approvedTexts(ctx, tool, "", func(string, error) {}) // a card says what cannot be read
	if err != nil {
		g.Logger.WarnContext(ctx, "former calls not read", "tool", tool, "error", err)
	}
	if none[tool] = err != nil || texts.calls == 0; none[tool] {
		return formerTargets{}, false
	}
	former := newFormerTargets(texts)
	g.targets.put(tool, former, now, maxKnown)
	return former, true
}

// addFirstTimes says of what waits what is unusual in it. What was told of it stays as it was
// where former calls cannot be read.
func (g *Queries) addFirstTimes(ctx context.Context, listed []approval.Approval, told map[string]Stakes, now time.Time) {
	none := map[string]bool{}
	for _, a := range listed {
		s, there := told[a.ID]
		if !there || s.Unreadable || a.Status != approval.Pending || len(s.Sentence.Targets) == 0 && s.Sentence.Amount == "" {
			continue
		}
		former, known := g.formerOf(ctx, a.Call.Tool, none, now)
		if !known {
			continue
		}
		s.FirstTime, s.Larger = former.compare(s.Sentence)
		told[a.ID] = s
	}
}
