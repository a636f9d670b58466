package gate

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/confusable"
	"holdpoint/engine/stakes"
	"holdpoint/internal/seal"
)

// Resemblance is a text of a call's arguments that is drawn like another one, which
// people have approved at the same place before, and is not the same.
type Resemblance struct {
	// Place is where it is, such as "payee.name".
	Place string
	// Here is the text, and Known the other one, as it was approved last, At. Who sees the
	// one learns nothing from the other: both are drawn alike.
	Here, Known string
	At          time.Time
}

// What is compared: with how many of a tool's last approved calls, of how many bytes of
// arguments each, and how many texts of each call. Names are short.
const (
	resembleCalls = 50
	resembleBytes = 16 << 10
	resembleTexts = 500
	resembleBound = 200
)

// formerTexts are the texts of the last calls of a tool that people have approved.
type formerTexts struct {
	calls int // how many there were
	known map[placedText]bool
	drawn map[placedText]knownText // by what they are drawn like: the last one
	// amounts are those that the calls' sentences have.
	amounts []string
}

// knownText is a text of a call that was approved.
type knownText struct {
	text string
	at   time.Time
}

// formerTexts reads those of the calls before this one, if it has texts to compare.
// What has been erased is not compared with.
func (g *Queries) formerTexts(ctx context.Context, a approval.Approval, args canon.Value) (formerTexts, error) {
	if len(textsOf(args)) == 0 {
		return formerTexts{}, nil
	}
	return g.approvedTexts(ctx, a.Call.Tool, a.ID, func(id string, err error) {
		g.Logger.ErrorContext(ctx, "arguments not read", "approval", id, "error", err)
	})
}

// approvedTexts reads those of the tool's calls but the one named, and tells what of them
// cannot be read.
func (g *Queries) approvedTexts(ctx context.Context, tool, except string, unread func(id string, err error)) (formerTexts, error) {
	f := formerTexts{known: map[placedText]bool{}, drawn: map[placedText]knownText{}}
	former, err := g.Store.Approvals.LastApproved(ctx, tool, except, resembleBytes, resembleCalls)
	if err != nil {
		return f, err
	}
	for _, r := range former {
		document, err := g.Sealer.Open(r.Approval.ID, r.Sealed)
		if errors.Is(err, seal.ErrErased) {
			continue
		}
		if err != nil {
			unread(r.Approval.ID, err)
			continue
		}
		approved, err := arguments(r.Approval, document, r.Now)
		if err != nil {
			continue // of a dialect's former version: it is compared with others
		}
		f.calls++
		template := ""
		if t := r.Approval.Plan.Stakes; t != nil {
			template = t.Template
		}
		if amount := (stakes.Writer{}).Write(r.Approval.Call.Tool, approved, template).Amount; amount != "" {
			f.amounts = append(f.amounts, amount)
		}
		for _, t := range textsOf(approved) {
			f.known[t] = true
			if like := (placedText{t.place, confusable.Skeleton(t.value)}); f.drawn[like].at.IsZero() {
				f.drawn[like] = knownText{t.value, r.Approval.EndedAt} // the newest is first
			}
		}
	}
	return f, nil
}

// resembling are those of the arguments' texts that are drawn like a former one and
// are another.
func (f formerTexts) resembling(args canon.Value) []Resemblance {
	var found []Resemblance
	for _, t := range textsOf(args) {
		if like := f.drawn[placedText{t.place, confusable.Skeleton(t.value)}]; !f.known[t] && !like.at.IsZero() {
			found = append(found, Resemblance{Place: t.place, Here: t.value, Known: like.text, At: like.at})
		}
	}
	return found
}

// unknown are the places of those whom or what a call is about that no former call has
// named there. A text that is too long to be compared is none of them.
func (f formerTexts) unknown(targets []stakes.Target) []string {
	var places []string
	for _, t := range targets {
		if len(t.Value) <= resembleBound && !f.known[placedText{t.Place, t.Value}] && !slices.Contains(places, t.Place) {
			places = append(places, t.Place)
		}
	}
	return places
}

// placedText is a text at a place; the elements of an array are at one.
type placedText struct{ place, value string }

func textsOf(args canon.Value) (all []placedText) {
	var walk func(place string, v canon.Value)
	walk = func(place string, v canon.Value) {
		switch {
		case len(all) >= resembleTexts:
		case v.Kind() == canon.StringKind:
			if s := v.Str(); s != "" && len(s) <= resembleBound {
				all = append(all, placedText{place, s})
			}
		case v.Kind() == canon.ArrayKind:
			for _, each := range v.Elements() {
				walk(place+"[]", each)
			}
		default:
			for name, each := range v.All() {
				walk(member(place, name), each)
			}
		}
	}
	walk("", args)
	return all
}

// member is the place of a member of what is at place.
func member(place, name string) string {
	switch {
	case len(name) > resembleBound:
		name = name[:resembleBound]
	case place != "":
		return place + "." + name
	}
	return name
}
