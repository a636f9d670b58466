package gate

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// SeenCard is a card as it is put before somebody, with all of the arguments.
type SeenCard struct {
	Approval approval.Approval
	// Card is exactly what is rendered of it (engine/audit, card.go).
	Card []byte
	// Revealed says that somebody asked for what looks like a secret in it: each time goes
	// on record.
	Revealed bool
}

// Show records that the person is about to be shown these cards, unless they have
// been already: who was shown what goes into the log, and what it was is kept,
// sealed, until the approval's arguments are erased. Nothing may be shown when it
// fails.
func (g *Queries) Show(ctx context.Context, p engine.Person, channel string, cards ...SeenCard) error {
	if len(cards) == 0 {
		return nil
	}
	ids := make([]string, len(cards))
	for i, c := range cards {
		ids[i] = c.Approval.ID
	}
	last, err := g.Store.Cards.Last(ctx, p.ID, ids)
	if err != nil {
		return err
	}
	for _, c := range cards {
		digest := audit.Digest(c.Card)
		if last[c.Approval.ID] == digest && !c.Revealed {
			continue
		}
		if err := g.show(ctx, p, channel, c, digest); err != nil {
			return fmt.Errorf("record that a card of %s is shown: %w", c.Approval.ID, err)
		}
	}
	return nil
}

// CodeRevealed is the reason of an event that a card was shown with what looks like a
// secret.
const CodeRevealed = "SECRETS_REVEALED"

func (g *Queries) show(ctx context.Context, p engine.Person, channel string, c SeenCard, digest string) error {
	box, err := sealCard(g.Sealer, c.Approval.ID, c.Card)
	if err != nil {
		return err
	}
	e := g.event(engine.Shown, c.Approval.Decision.Outcome, c.Approval, engine.Actor{Kind: engine.HumanActor, ID: p.ID, Channel: channel}, "")
	e.Reasons = []engine.Reason{{Code: "CARD_SHOWN", Message: "A person was shown the card with all of the arguments."}}
	if c.Revealed {
		e.Reasons = append(e.Reasons, engine.Reason{Code: CodeRevealed, Message: "They asked for the values that look like secrets."})
	}
	if err := e.SetPayload(map[string]string{"card_digest": digest}); err != nil {
		return err
	}
	return g.Store.Cards.Show(ctx, p.ID, store.ShownCard{ApprovalID: c.Approval.ID, CallDigest: c.Approval.Call.Digest, Digest: digest, Box: box, Event: e, Always: c.Revealed})
}

// CardSalt is the salt of an approval's cards.
func (g *Queries) CardSalt(id string) string { return g.Sealer.Salt("card", id) }

// cardID is what a card is sealed for.
func cardID(approvalID string) string { return "card of " + approvalID }

// maxCard bounds a card that is opened: arguments have 1 MiB, and markup around
// every value.
const maxCard = 128 << 20

// sealCard deflates and seals a card.
func sealCard(s *seal.Sealer, approvalID string, card []byte) (seal.Box, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(card)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return seal.Box{}, fmt.Errorf("deflate a card: %w", err)
	}
	return s.Seal(cardID(approvalID), b.Bytes())
}

// OpenCard is the card that sealCard has sealed. seal.ErrErased: it was erased.
func OpenCard(s *seal.Sealer, approvalID string, box seal.Box) ([]byte, error) {
	deflated, err := s.Open(cardID(approvalID), box)
	if err != nil {
		return nil, err
	}
	card, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(deflated)), maxCard+1))
	if err == nil && len(card) > maxCard {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("inflate a card of %s: %w", approvalID, err)
	}
	return card, nil
}

// setFact makes the fact that was added last the event's payload. To what a person
// contributes it adds which card of the call as it is they were shown. There is none where
// somebody contributes over the API without a card.
func setFact(e *engine.Event, c *store.Change) error {
	f := lastFact(c)
	switch f.Kind {
	case approval.Vote, approval.BreakGlass, approval.Verification, approval.Reply:
	default:
		return e.SetPayload(f.Payload())
	}
	if f.Actor.Kind != engine.HumanActor || f.Details.Grant != "" {
		return e.SetPayload(f.Payload())
	}
	digest, err := c.SeenCard(f.Actor.ID)
	if err != nil {
		return err
	}
	return e.SetPayload(struct {
		approval.FactPayload
		CardDigest string `json:"card_digest,omitempty"`
	}{f.Payload(), digest})
}
