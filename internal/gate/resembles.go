package gate

import (
	"context"
	"errors"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/confusable"
	"holdpoint/internal/seal"
)

// Resemblance is a text of a call's arguments that is drawn like another one, which
// people have approved at the same place before, and is not the same.
type Resemblance struct {
	// Place is where it is, such as "payee.name".
	Place string
	// At is when a call with the other text was approved last.
	At time.Time
}

// What is compared: with how many of a tool's last approved calls, of how many bytes of
// arguments each, and how many texts of each call. Names are short.
const (
	resembleCalls = 50
	resembleBytes = 16 << 10
	resembleTexts = 500
	resembleBound = 200
)

// resembles compares a call's texts with those of the last calls of the same tool that
// people have approved. What has been erased is not compared with.
func (g *Queries) resembles(ctx context.Context, a approval.Approval, args canon.Value) ([]Resemblance, error) {
	texts := textsOf(args)
	if len(texts) == 0 {
		return nil, nil
	}
	former, err := g.Store.Approvals.LastApproved(ctx, a.Call.Tool, a.ID, resembleBytes, resembleCalls)
	if err != nil {
		return nil, err
	}
	known, drawn := map[placedText]bool{}, map[placedText]time.Time{}
	for _, r := range former {
		document, err := g.Sealer.Open(r.Approval.ID, r.Sealed)
		if errors.Is(err, seal.ErrErased) {
			continue
		}
		if err != nil {
			return nil, err
		}
		approved, err := arguments(r.Approval, document, r.Now)
		if err != nil {
			continue // of a dialect's former version: it is compared with others
		}
		for _, t := range textsOf(approved) {
			known[t] = true
			if like := (placedText{t.place, confusable.Skeleton(t.value)}); drawn[like].IsZero() {
				drawn[like] = r.Approval.EndedAt // the newest is first
			}
		}
	}
	var found []Resemblance
	for _, t := range texts {
		if at := drawn[placedText{t.place, confusable.Skeleton(t.value)}]; !known[t] && !at.IsZero() {
			found = append(found, Resemblance{Place: t.place, At: at})
		}
	}
	return found, nil
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
