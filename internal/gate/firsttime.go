package gate

import (
	"context"
	"hash/maphash"
	"sync"
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
// no more than whether a text was there.
type formerTargets struct {
	at      time.Time
	known   map[uint64]struct{}
	amounts []string
}

// formerTools keeps formerTargets for a moment, so that a list is not decrypted anew for
// each of its readers.
type formerTools struct {
	mu    sync.Mutex
	tools map[string]formerTargets
}

func (f *formerTools) of(tool string, now time.Time) (formerTargets, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, there := f.tools[tool]
	return t, there && now.Sub(t.at) < formerTargetsFor && !now.Before(t.at)
}

// keep keeps the hashes of texts for a moment, and returns them.
func (f *formerTools) keep(tool string, former formerTexts, now time.Time) formerTargets {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tools == nil || len(f.tools) >= maxKnown {
		f.tools = map[string]formerTargets{}
	}
	t := formerTargets{at: now, known: map[uint64]struct{}{}, amounts: former.amounts}
	for text := range former.known {
		t.known[f.hash(text)] = struct{}{}
	}
	f.tools[tool] = t
	return t
}

func (f *formerTools) hash(t placedText) uint64 { return maphash.Comparable(placedSeed, t) }

// placedSeed is another one in each process: no hash leaves it.
var placedSeed = maphash.MakeSeed()

// hashOf is the hash of a target, as formerTargets has it.
func (f *formerTools) hashOf(t stakes.Target) uint64 { return f.hash(placedText{t.Place, t.Value}) }

// compare says of a call of a list whom it names for the first time, and whether its amount is
// larger than those before.
func (f *formerTools) compare(t formerTargets, s stakes.Sentence) (first []string, larger bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, target := range s.Targets {
		if len(target.Value) > resembleBound {
			continue
		}
		if _, known := t.known[f.hashOf(target)]; !known {
			first = append(first, target.Place)
		}
	}
	return first, stakes.Larger(s.Amount, t.amounts)
}

// formerOf is what the last approved calls of a tool have named; false where there are none,
// or they cannot be read. none are the tools of which that is known: they are not read again
// for the same list.
func (g *Queries) formerOf(ctx context.Context, tool string, none map[string]bool, now time.Time) (formerTargets, bool) {
	if former, known := g.targets.of(tool, now); known || none[tool] {
		return former, known
	}
	texts, err := g.approvedTexts(ctx, tool, "", func(string, error) {}) // a card says what cannot be read
	if err != nil {
		g.Logger.WarnContext(ctx, "former calls not read", "tool", tool, "error", err)
	}
	if none[tool] = err != nil || texts.calls == 0; none[tool] {
		return formerTargets{}, false
	}
	return g.targets.keep(tool, texts, now), true
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
		s.FirstTime, s.Larger = g.targets.compare(former, s.Sentence)
		told[a.ID] = s
	}
}
