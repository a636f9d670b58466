package audit

import (
	"errors"
	"fmt"

	"holdpoint/engine/canon"
)

// looseArguments are arguments of which no card was there when they were read.
type looseArguments struct {
	call   callID
	digest string
}

// checkArguments checks that arguments are those of a card that somebody was
// shown, where there is one.
func (p *PackVerifier) checkArguments(item Item) error {
	v, err := canon.Parse([]byte(item.Text))
	if err != nil || string(v.Canonical()) != item.Text {
		return errors.New("they are not written as calls are")
	}
	if canon.Digest(item.Tool, v) != item.Digest {
		return errors.New("they are others")
	}
	s := p.subject[item.ApprovalID]
	switch {
	case s == nil:
		return errNotNamed
	case s.tool != item.Tool:
		return errors.New("they are of another tool")
	case p.entire(item.ApprovalID) && s.editions != item.Edition:
		return fmt.Errorf("they are of edition %d, and the last one is %d", item.Edition, s.editions)
	}
	// Cards may come after them: whether one shows them is known at the end.
	p.loose = append(p.loose, looseArguments{callID{item.ApprovalID, item.Edition}, item.Digest})
	return p.once(item)
}

// once refuses what an approval has once and the pack has twice: of two, a reader takes either.
func (p *PackVerifier) once(item Item) error {
	if p.has[item.Kind+" "+item.ApprovalID] {
		return errors.New("it is there twice")
	}
	p.has[item.Kind+" "+item.ApprovalID] = true
	return nil
}

// bind holds arguments against the cards that show them.
func (p *PackVerifier) bind() {
	for _, a := range p.loose {
		switch p.calls[a.call] {
		case "":
			p.found.Unbound++
		case a.digest:
			p.found.Bound++
		default:
			p.bad("what is disclosed of %s: the arguments %.80s: they are not what the card shows", a.call.approval, a.digest)
		}
	}
	for id := range p.subject {
		if !p.has[ItemArguments+" "+id] {
			p.found.NoArguments++
		}
	}
}
