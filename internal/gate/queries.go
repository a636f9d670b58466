package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/threegate"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// View is an approval as one reader may see it.
type View struct {
	Approval approval.Approval
	// Token is the signed permission to run the call: only for its own agent,
	// while the approval is approved, unspent and still good.
	Token string
	// Promoted is the approved tool request with its approval filled in, for its
	// own agent, of dialect threegate.
	Promoted []byte
	// Edited is the canonical JSON of the arguments as a reviewer has changed them:
	// only for the call's own agent.
	Edited []byte
	// LeaseUntil is by when the agent has to say what became of the redeemed call;
	// nil before and after.
	LeaseUntil *time.Time
	// ValidUntil is until when the approved call may run; zero before it is approved.
	ValidUntil time.Time
	Now        time.Time

	derived *store.Derived
}

// Once returns what the first one to ask under this name has made of the view, where several
// have the same one.
func (v View) Once(name string, create func() ([]byte, error)) ([]byte, error) {
	return store.Derive(v.derived, name, create)
}

// ForAgent reads an approval for an API key. Another agent's approval is not
// found; an administrator's key reads all, without tokens.
func (g *Queries) ForAgent(ctx context.Context, p access.Principal, id string) (View, error) {
	r, err := g.Store.Approvals.GetShared(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.Kind != access.AdminKey && r.Approval.Call.AgentID != p.AgentID {
		return View{}, access.NoSuchApproval
	}
	if err != nil {
		return View{}, err
	}
	// Thousands may wait for the same approval: what they see, and the token, is made once. Whoever
	// is first may go away meanwhile.
	return store.Derive(r.Derived, "view of "+p.Kind, func() (View, error) { return g.forAgent(context.WithoutCancel(ctx), p.Kind, r) })
}

// forAgent is what a key of that kind sees of a record that is its to read.
func (g *Queries) forAgent(ctx context.Context, kind string, r store.Record) (v View, err error) {
	v = View{Approval: r.Approval, Now: r.Now, derived: r.Derived}
	t := r.Token
	if t != nil {
		v.ValidUntil = t.ValidUntil.UTC()
	}
	if t != nil && r.Approval.Execution == approval.Redeemed {
		v.LeaseUntil = t.LeaseUntil
	}
	if kind != access.AdminKey {
		if v.Edited, err = g.editedArguments(r); err != nil {
			return View{}, err
		}
	}
	if kind == access.AdminKey || r.Approval.Status != approval.Approved || t == nil || t.RedeemedAt != nil || t.StaleAt != nil || !r.Now.Before(t.ValidUntil) {
		return v, nil
	}
	digest := r.Approval.Call.Digest
	if r.Approval.Call.Dialect == DialectThreeGate {
		sealed, err := g.Sealer.Open(r.Approval.ID, r.Sealed)
		if err != nil {
			return View{}, err
		}
		if v.Promoted, err = g.promoted(ctx, r.Approval, sealed); err != nil {
			return View{}, err
		}
		digest = threegate.Digest(v.Promoted)
	}
	v.Token, err = g.sign(r.Approval, t, digest, r.Now)
	return v, err
}

// OwnFilter says which of an agent's own approvals are listed.
type OwnFilter = store.OwnFilter

// Own lists an agent's own approvals for one of its keys, the newest first, without
// tokens and without arguments. Only the filters of own are looked at. next is ""
// at the end.
func (g *Queries) Own(ctx context.Context, p access.Principal, own OwnFilter, cursor string, limit int) (page []approval.Approval, next string, err error) {
	if p.AgentID == "" {
		return nil, "", &access.Refusal{Kind: access.Forbidden, Code: "not_an_agent", Detail: "This key is no agent's, so it has no approvals of its own. Read one by its id, or read the audit log."}
	}
	own.AgentID = p.AgentID
	page, next, err = g.Store.Approvals.Own(ctx, own, cursor, limit)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in the list. Start at its beginning."}
	}
	return page, next, err
}

// editedArguments are the arguments as a reviewer has left them; nil when nobody
// has changed them, or they have been erased.
func (g *Queries) editedArguments(r store.Record) ([]byte, error) {
	if !slices.ContainsFunc(r.Approval.Facts, func(f approval.Fact) bool { return f.Kind == approval.Edit }) {
		return nil, nil
	}
	document, err := g.Sealer.Open(r.Approval.ID, r.Sealed)
	if errors.Is(err, seal.ErrErased) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	args, err := arguments(r.Approval, document, r.Now)
	if err != nil {
		return nil, fmt.Errorf("read the sealed document of %s: %w", r.Approval.ID, err)
	}
	return args.Canonical(), nil
}

// ForPerson reads an approval for a signed-in person, without its token.
func (g *Queries) ForPerson(ctx context.Context, p engine.Person, id string) (View, error) {
	r, _, err := g.readFor(ctx, p, id)
	return View{Approval: r.Approval, Now: r.Now}, err
}

// Wait returns once changes has received and the approval is at another revision than
// the given one, or over, as it is then. changed is false when ctx ended before.
// changes comes from Changes, asked before the revision was read, and read is
// ForAgent or ForPerson for the reader in question.
func Wait(ctx context.Context, changes <-chan struct{}, revision int64, read func(context.Context) (View, error)) (v View, changed bool, err error) {
	for {
		select {
		case <-changes:
		case <-ctx.Done():
			return View{}, false, nil
		}
		// Reading must not be cut off by the wait's own end.
		v, err := read(context.WithoutCancel(ctx))
		if err != nil || v.Approval.Revision != revision || v.Approval.Over() {
			return v, true, err
		}
	}
}

// Changes returns a channel that receives (coalesced) whenever the approval
// changes, or any approval for "", until ctx ends.
func (g *Queries) Changes(ctx context.Context, id string) <-chan struct{} {
	return g.Store.Approvals.Changes(ctx, id)
}

// Card returns everything that a reviewer needs to decide, and records when the
// look at it shows the person all of the arguments.
func (g *Queries) Card(ctx context.Context, p engine.Person, id string, look Display) (Card, error) {
	r, d, err := g.readFor(ctx, p, id)
	if err != nil {
		return Card{}, err
	}
	a := r.Approval
	card := Card{Approval: a, Now: r.Now, Long: r.Size > longArguments}
	card.InPlaceOf, card.CannotVote = d.mayVote(a, r.Now)
	if err := g.signing(ctx, &card, p); err != nil {
		return Card{}, err
	}
	if err := g.read(&card, r); err != nil {
		g.Logger.ErrorContext(ctx, "arguments not read", "approval", id, "error", err)
		card.Unreadable, card.Arguments, card.Document, card.Answers = true, nil, nil, nil
	}
	if err := g.addContext(ctx, &card, r); err != nil {
		return Card{}, err
	}
	if card.Arguments != nil && a.Status == approval.Pending {
		if err := g.addPastCalls(ctx, &card); err != nil {
			return Card{}, err
		}
		if card.LastAlike, err = g.lastAlike(ctx, d, a, card.Same); err != nil {
			return Card{}, err
		}
	}
	if err := g.addFormerArguments(ctx, &card); err != nil {
		return Card{}, err
	}
	if g.Tickets != nil {
		card.Trackers = g.Tickets.Names()
	}
	if err := card.Conceal(); err != nil {
		return Card{}, err
	}
	if open := card.Masked == nil && (look == Full || look == Excerpt && !card.Long); card.Arguments != nil && (open || look == Revealed) {
		if err := g.Store.Approvals.MarkRead(ctx, id, p.ID, readKey(a.Call.Digest, r.Answers)); err != nil {
			return Card{}, err
		}
	}
	if card.Shown, err = g.Store.Approvals.WasRead(ctx, id, p.ID, readKey(a.Call.Digest, r.Answers)); err != nil {
		return Card{}, err
	}
	card.Timeline, err = g.Store.Events.OfApproval(ctx, id)
	return card, err
}

// addFormerArguments reads what the arguments were before people edited them.
func (g *Queries) addFormerArguments(ctx context.Context, card *Card) error {
	a := card.Approval
	if card.Arguments == nil || !slices.ContainsFunc(a.Facts, func(f approval.Fact) bool { return f.Kind == approval.Edit }) {
		return nil
	}
	boxes, err := g.Store.Approvals.Former(ctx, a.ID)
	if err != nil || len(boxes) == 0 {
		return err // edited before former documents were kept
	}
	card.Former = g.argumentsIn(ctx, a, boxes[len(boxes)-1], card.Now)
	if len(boxes) > 1 {
		card.First = g.argumentsIn(ctx, a, boxes[0], card.Now)
	}
	return nil
}

// argumentsIn are the canonical arguments of a sealed document of the approval; nil where
// they cannot be read, which keeps nobody from the call as it is.
func (g *Queries) argumentsIn(ctx context.Context, a approval.Approval, box seal.Box, now time.Time) []byte {
	p, err := g.opened(a, box, now)
	if err != nil {
		g.Logger.ErrorContext(ctx, "former arguments not read", "approval", a.ID, "error", err)
		return nil
	}
	return p.Arguments.Canonical()
}

// FileCard is the card of an approval as it was read, for whoever keeps it on file:
// nobody's own, and without the timeline.
func FileCard(ctx context.Context, s *store.Store, sealer *seal.Sealer, r store.Record) (Card, error) {
	card := Card{Approval: r.Approval, Now: r.Now}
	q := &Queries{core: &core{Config: Config{Store: s, Sealer: sealer}}}
	if err := q.read(&card, r); err != nil {
		return card, err
	}
	return card, q.addContext(ctx, &card, r)
}

// read opens what is sealed of the call. It leaves out what has been erased.
func (g *Queries) read(card *Card, r store.Record) error {
	a, id := r.Approval, r.Approval.ID
	var err error
	if card.Document, err = g.Sealer.Open(id, r.Sealed); err != nil && !errors.Is(err, seal.ErrErased) {
		return err
	}
	if card.Document != nil {
		p, err := proposalOf(a, card.Document, r.Now)
		if err != nil {
			return fmt.Errorf("read the sealed document of %s: %w", id, err)
		}
		card.Arguments, card.Stakes = p.Arguments.Canonical(), stakesOf(a, p)
	}
	card.Answers, err = g.answers(id, r.Answers)
	return err
}

// addContext reads what everybody is shown beside the call.
func (g *Queries) addContext(ctx context.Context, card *Card, r store.Record) error {
	a := r.Approval
	card.Salt = g.CardSalt(a.ID)
	agent, err := g.Store.People.Agent(ctx, a.Call.AgentID)
	if err != nil {
		return err
	}
	card.AgentName, card.AgentOwner = agent.Name, agent.OwnerName
	if err := g.addSession(ctx, card, r.Token); err != nil {
		return err
	}
	return g.people(ctx, card)
}

// addSession fills in what is around the call: its session, and what came after its end.
func (g *Queries) addSession(ctx context.Context, card *Card, t *store.TokenRow) error {
	a := card.Approval
	card.Permits = Permits(a)
	if t != nil && t.Constraints != nil {
		card.Permits = t.Constraints
	}
	if t != nil && t.LeaseUntil != nil {
		card.LeaseUntil = t.LeaseUntil.UTC()
	}
	var err error
	if a.Session != "" {
		if card.Session, err = g.Store.Approvals.SessionSize(ctx, a.Call.AgentID, a.Session); err != nil {
			return err
		}
	}
	if a.Status == approval.Approved {
		card.BreakGlassReview, card.Reconciled, err = g.Store.Approvals.AfterEnd(ctx, a.ID)
	}
	return err
}

// maxColleagues is how many people a card names that it can be passed on to.
const maxColleagues = 50

// people fills in names, and counts who could still decide.
func (g *Queries) people(ctx context.Context, card *Card) error {
	everybody, err := g.Store.People.List(ctx)
	if err != nil {
		return err
	}
	card.Names = make(map[string]string, len(everybody))
	for _, p := range everybody {
		card.Names[p.ID] = p.Name
		if card.Approval.MayVote(voter(p), card.Now) == nil {
			if card.Eligible++; card.Eligible <= maxColleagues {
				card.Colleagues = append(card.Colleagues, p)
			}
		}
	}
	slices.SortStableFunc(card.Colleagues, func(x, y engine.Person) int { return cmp.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	return nil
}

// arguments takes the canonical arguments out of a sealed document.
func arguments(a approval.Approval, document []byte, now time.Time) (canon.Value, error) {
	p, err := proposalOf(a, document, now)
	return p.Arguments, err
}

// proposalOf is the proposal that a sealed document was.
func proposalOf(a approval.Approval, document []byte, now time.Time) (Proposal, error) {
	doc, err := canon.Parse(document)
	if err != nil {
		return Proposal{}, err
	}
	p, err := propose(a.Call.Dialect, doc, a.Call.AgentID, now)
	if err == nil && !p.Valid {
		err = errors.New("it has no arguments")
	}
	return p, err
}

// JWKS is the public key set that tokens verify with, without revoked keys.
func (g *Queries) JWKS(ctx context.Context) ([]byte, error) {
	now, err := g.keys.look(ctx)
	if err != nil {
		return nil, err
	}
	return now.ring.PublicSet(now.revoked)
}
