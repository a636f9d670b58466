package evidence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Bounds of the events of one approval that a chapter tells: of what happened, and of what was
// refused, which anybody who is turned away adds to.
const (
	maxEvents   = 2000
	maxRefusals = 500
)

// record is what is on record of an approval.
type record struct {
	store.Record
	card   gate.Card
	events []logged
	more   bool // more has happened than those tell of
	// refused says that there are more refusals: the last ones are among the events.
	refused bool
	// changes are what the database tells otherwise than the log does, where that was asked.
	changes []audit.Item
}

// logged is an event, and what it tells.
type logged struct {
	engine.Event
	payload payload
}

type payload struct {
	approval.FactPayload
	approval.CommentPayload
	Card  string                   `json:"card_digest"`
	Ended *approval.SettledPayload `json:"ended"`
}

// read reads an approval with all of its events that have a place in the log.
func (k *packing) read(ctx context.Context, id string) (record, error) {
	var r record
	var err error
	if r.Record, err = k.Store.Approvals.Get(ctx, id); err != nil {
		return r, err
	}
	if r.card, err = gate.FileCard(ctx, k.Store, k.Sealer, r.Record); err != nil {
		return r, err
	}
	records, err := k.Store.Events.Records(ctx, store.EventFilter{ApprovalID: id, Refusals: store.WithoutRefusals, Limit: maxEvents + 1})
	if err != nil {
		return r, err
	}
	refusals, err := k.Store.Events.Records(ctx, store.EventFilter{ApprovalID: id, Refusals: store.OnlyRefusals, Newest: true, Limit: maxRefusals + 1})
	if err != nil {
		return r, err
	}
	r.more, r.refused = len(records) > maxEvents, len(refusals) > maxRefusals
	records = append(records[:min(len(records), maxEvents)], refusals[:min(len(refusals), maxRefusals)]...)
	slices.SortFunc(records, func(a, b audit.Record) int { return cmp.Compare(a.Seq(), b.Seq()) })
	for _, rec := range records {
		var e logged
		if err := json.Unmarshal(rec.Document(), &e.Event); err != nil {
			return r, fmt.Errorf("read event %d: %w", rec.Seq(), err)
		}
		_ = json.Unmarshal(e.SafePayload, &e.payload) // what tells nothing of this kind is told by its reasons
		r.events = append(r.events, e)
	}
	return r, nil
}

// factEvents are the events of facts, by the facts' numbers.
func (r record) factEvents() map[int64]logged {
	events := map[int64]logged{}
	for _, e := range r.events {
		if e.payload.Fact != nil && e.Outcome != engine.Deny {
			events[e.payload.Fact.Seq] = e
		}
	}
	return events
}

// shownCards are the events of cards that people were shown.
func (r record) shownCards() []logged {
	var list []logged
	for _, e := range r.events {
		if e.Type == engine.Shown && e.Outcome != engine.Deny && e.payload.Card != "" {
			list = append(list, e)
		}
	}
	return list
}

// endEvent is the event of the end; nil where there is none, or it is from before it told
// how that came about.
func (r record) endEvent() *logged {
	i := slices.IndexFunc(r.events, func(e logged) bool { return e.Type == engine.Settled && e.payload.Ended != nil })
	if i < 0 {
		return nil
	}
	return &r.events[i]
}

var errOther = errors.New("it is not what was on the screen: the record was changed")

// openCard is a card as it was shown. seal.ErrErased: it was erased.
func (k *packing) openCard(ctx context.Context, id, digest string) ([]byte, error) {
	box, err := k.Store.Cards.Get(ctx, id, digest)
	if err != nil {
		return nil, err
	}
	card, err := gate.OpenCard(k.Sealer, id, box)
	if err != nil {
		return nil, err
	}
	if audit.Digest(card) != digest {
		return nil, errOther
	}
	return card, nil
}

// unshownReason says in words why a card cannot be shown; an outage is an error.
func unshownReason(err error) (string, error) {
	switch {
	case errors.Is(err, seal.ErrErased):
		return "It has been erased. The log keeps its digest.", nil
	case errors.Is(err, store.ErrNotFound):
		return "The database has it no more. The log keeps its digest.", nil
	case errors.Is(err, errOther):
		return "What the database has under this digest is not what was on the screen.", nil
	case errors.Is(err, store.ErrUnavailable):
		return "", err
	}
	return "It cannot be opened.", nil
}

// remark is something that a person wrote, as it is to be shown.
type remark struct {
	store.SaltedComment
	// Digest is what the event has of it; "" for none, or from before digests were
	// kept. Seq is the event's place where it is no fact's.
	Digest string
	Fact   int64
	Seq    int64
	// Good says that it is what the event has the digest of, and Erased that it is
	// gone.
	Good, Erased bool
}

func remarkOf(w store.SaltedComment, digest string) remark {
	r := remark{SaltedComment: w, Digest: digest}
	switch {
	case digest == "":
	case approval.CommentDigest(w.Salt, w.Comment) == digest:
		r.Good = true
	case w.Salt == "":
		r.Comment, r.Erased = "", true
	}
	return r
}

// changed reports whether it is not what was written.
func (r remark) changed() bool { return r.Digest != "" && !r.Good && !r.Erased }

// comment is a fact's.
func comment(f approval.Fact, e logged) remark {
	digest := ""
	if e.payload.Fact != nil {
		digest = e.payload.Fact.CommentDigest
	}
	r := remarkOf(store.SaltedComment{Comment: f.Comment, Salt: f.Details.Salt}, digest)
	r.Fact = f.Seq
	return r
}

// later are what people wrote after the decision: what became of the call, and what
// they say of a broken glass.
func (r record) later() (found, review remark) {
	if x := r.card.Reconciled; x != nil {
		found = r.written(engine.Executed, x.SaltedComment)
	}
	if x := r.card.BreakGlassReview; x != nil {
		review = r.written(engine.Afterward, x.SaltedComment)
	}
	return found, review
}

// written is what the event of a type, of which there is one, has the digest of.
func (r record) written(t engine.EventType, w store.SaltedComment) remark {
	for _, e := range r.events {
		if e.Type == t && e.Outcome != engine.Deny && e.Actor.Kind == engine.HumanActor && e.payload.CommentDigest != "" {
			found := remarkOf(w, e.payload.CommentDigest)
			found.Seq = e.Seq
			return found
		}
	}
	return remarkOf(w, "")
}
