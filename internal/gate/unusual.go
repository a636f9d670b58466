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
	unusualFor = 10 * time.Second
	maxKnown   = 1000
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
	seed  maphash.Seed
	tools map[string]formerTargets
}

func (f *formerTools) of(tool string, now time.Time) (formerTargets, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, there := f.tools[tool]
	return t, there && now.Sub(t.at) < unusualFor && !now.Before(t.at)
}

// keep makes of texts what is kept of them.
func (f *formerTools) keep(tool string, former formerTexts, now time.Time) formerTargets {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tools == nil || len(f.tools) >= maxKnown {
		f.tools, f.seed = map[string]formerTargets{}, maphash.MakeSeed()
	}
	t := formerTargets{at: now, known: map[uint64]struct{}{}, amounts: former.amounts}
	for text := range former.known {
		t.known[f.hash(text)] = struct{}{}
	}
	f.tools[tool] = t
	return t
}

func (f *formerTools) hash(t placedText) uint64 { return maphash.Comparable(f.seed, t) }

// unusual says of a call of a list whom it names for the first time, and whether its amount is
// larger than those before.
func (f *formerTools) unusual(t formerTargets, s stakes.Sentence) (first []string, larger bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, target := range s.Targets {
		if len(target.Value) > resembleBound {
			continue
		}
		if _, known := t.known[f.hash(placedText{target.Place, target.Value})]; !known {
			first = append(first, target.Place)
		}
	}
	return first, stakes.Larger(s.Amount, t.amounts)
}

// addUnusual says of what waits what is unusual in it. What was told of it stays as it was
// where former calls cannot be read.
func (g *Queries) addUnusual(ctx context.Context, listed []approval.Approval, told map[string]Stakes, now time.Time) {
	for _, a := range listed {
		s, there := told[a.ID]
		if !there || s.Unreadable || a.Status != approval.Pending || len(s.Sentence.Targets) == 0 && s.Sentence.Amount == "" {
			continue
		}
		former, known := g.targets.of(a.Call.Tool, now)
		if !known {
			texts, err := g.approvedTexts(ctx, a.Call.Tool, "", func(string, error) {}) // a card says what cannot be read
			if err != nil {
				g.Logger.WarnContext(ctx, "former calls not read", "approval", a.ID, "error", err)
				return
			}
			if texts.calls == 0 {
				continue
			}
			former = g.targets.keep(a.Call.Tool, texts, now)
		}
		s.FirstTime, s.Larger = g.targets.unusual(former, s.Sentence)
		told[a.ID] = s
	}
}
