package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/grant"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// What bounds a standing grant.
const (
	MinGrant     = time.Minute
	MaxGrant     = 7 * 24 * time.Hour
	MaxGrantUses = 1000
)

// GrantRequest asks to vote beforehand for calls like the one of an approval. The
// Contribution's comment is the reason.
type GrantRequest struct {
	Contribution
	Pattern grant.Pattern
	Digest  string // of the arguments that the page showed
	For     time.Duration
	Uses    int
	// Acknowledged are the ids of the past denials that the grant would overrule
	// and that its maker has looked at.
	Acknowledged []string
}

// Grant is a standing grant as somebody may see it.
type Grant struct {
	store.Grant
	// Pattern is what calls have to be like; empty where it cannot be read.
	Pattern grant.Pattern
	// MayRevoke says that the reader may revoke it, and it is not over.
	MayRevoke bool
}

// PastCall is a former call that a grant is tried on.
type PastCall = store.PastCall

// Propose says what a grant would have done to the past, and changes
// nothing. Its refusals are those of Save.
func (g *Grants) Propose(ctx context.Context, r GrantRequest) (Backtest, error) {
	record, call, err := g.grantable(ctx, r)
	if err != nil {
		return Backtest{}, err
	}
	return g.backtest(ctx, record.Approval, call.Arguments, r.Pattern)
}

// errDenied says that a call was denied while the past was looked at.
var errDenied = errors.New("a call has been denied meanwhile")

// Save makes a grant, by somebody who has just proved who they are and could
// vote for calls like this one. Every past denial that it would overrule has to
// be acknowledged; the past is looked at anew.
func (g *Grants) Save(ctx context.Context, r GrantRequest) (Grant, error) {
	for {
		record, call, err := g.grantable(ctx, r)
		var refused *access.Refusal
		if errors.As(err, &refused) {
			e := engine.Event{ID: store.NewEventID(), Type: engine.Granted, RequestID: r.RequestID, ApprovalID: store.LoggableApprovalID(r.ApprovalID), SafePayload: []byte(`{}`), Actor: r.actor()}
			return Grant{}, g.refuse(ctx, refused, e)
		}
		if err != nil {
			return Grant{}, err
		}
		past, err := g.backtest(ctx, record.Approval, call.Arguments, r.Pattern)
		if err != nil {
			return Grant{}, err
		}
		made, err := g.makeGrant(ctx, r, termsOf(r.Pattern, record.Approval, call), past)
		if !errors.Is(err, errDenied) {
			return made, err
		}
	}
}

// makeGrant writes the grant under the lock on its approval.
func (g *Grants) makeGrant(ctx context.Context, r GrantRequest, t terms, past Backtest) (Grant, error) {
	event := func(c *store.Change) engine.Event {
		return g.event(engine.Granted, c.Approval.Decision.Outcome, c.Approval, r.actor(), r.RequestID)
	}
	result, err := change[Grant](ctx, g.core, r.ApprovalID, nil, event, func(c *store.Change) (Grant, error) {
		var none Grant
		if c.Kill != nil {
			return none, killedRefusal
		}
		if err := r.allowed(c.Approval, c.Now); err != nil {
			return none, err
		}
		switch again, err := c.DeniedSince(past.At); {
		case err != nil:
			return none, err
		case again:
			return none, errDenied
		}
		var missing, acknowledged []string
		for _, denied := range past.Denials() {
			if slices.Contains(r.Acknowledged, denied.ID) {
				acknowledged = append(acknowledged, denied.ID)
			} else {
				missing = append(missing, denied.ID)
			}
		}
		if len(missing) > 0 {
			return none, &access.Refusal{
				Kind: access.Conflict, Code: "denials_not_acknowledged",
				Detail: "People have denied calls that this would let pass. Look at each and say so: " + strings.Join(missing, ", ") + ".",
			}
		}
		made := store.Grant{ID: store.NewID("gra"), PersonID: r.Person.ID, Reason: r.Comment, MaxUses: r.Uses, Acknowledged: acknowledged, Voter: voter(r.Person)}
		var err error
		if made.Sealed, err = g.Sealer.Seal(made.ID, t.document()); err != nil {
			return none, fmt.Errorf("seal the grant %s: %w", made.ID, err)
		}
		switch made, err = c.MakeGrant(made, r.For); {
		case errors.Is(err, store.ErrTooMany):
			return none, &access.Refusal{Kind: access.Invalid, Code: "too_many_grants", Detail: fmt.Sprintf("You have %d standing grants that are live, which is as many as one may have. Revoke one first.", store.MaxLiveGrants)}
		case err != nil:
			return none, err
		}
		e := event(c)
		e.Reasons = []engine.Reason{{Code: "GRANT_MADE", Message: fmt.Sprintf("Calls like this one are approved beforehand, by the standing grant %s.", made.ID)}}
		err = e.SetPayload(map[string]any{
			"grant": made.ID, "uses": made.MaxUses, "expires_at": made.ExpiresAt, "matchers": len(r.Pattern.Matchers),
			"past_looked_at": past.Looked, "past_matching": len(past.Matching), "acknowledged": made.Acknowledged,
		})
		if err != nil {
			return none, err
		}
		c.AddEvent(e)
		return Grant{Grant: made, Pattern: r.Pattern, MayRevoke: true}, nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return Grant{}, access.NoSuchApproval
	}
	if err != nil {
		return Grant{}, err
	}
	return result, nil
}

// grantable refuses what cannot become a grant, and reads what it is made from.
func (g *Grants) grantable(ctx context.Context, r GrantRequest) (store.Record, Proposal, error) {
	record, err := g.Store.Approvals.Get(ctx, r.ApprovalID)
	if errors.Is(err, store.ErrNotFound) {
		err = access.NoSuchApproval
	}
	if err == nil {
		err = r.allowed(record.Approval, record.Now)
	}
	if err != nil {
		return record, Proposal{}, err
	}
	if err := g.unseen(ctx, record.Approval, record.Sealed, record.Answers, record.Size, r.Digest, g.wasRead(ctx, record.Approval.ID, r.Person.ID)); err != nil {
		return record, Proposal{}, err
	}
	if err := r.check(); err != nil {
		return record, Proposal{}, err
	}
	document, err := g.Sealer.Open(r.ApprovalID, record.Sealed)
	if errors.Is(err, seal.ErrErased) {
		return record, Proposal{}, &access.Refusal{Kind: access.Conflict, Code: "erased", Detail: "The arguments have been erased, so there is nothing that other calls could be like."}
	}
	if err != nil {
		return record, Proposal{}, fmt.Errorf("open the arguments of %s: %w", r.ApprovalID, err)
	}
	call, err := proposalOf(record.Approval, document, record.Now)
	if err != nil {
		return record, Proposal{}, fmt.Errorf("read the arguments of %s: %w", r.ApprovalID, err)
	}
	if !r.Pattern.Match(call.Arguments) {
		return record, Proposal{}, &access.Refusal{Kind: access.Invalid, Code: "not_like_it", Detail: "The call that this is made from does not fit what you have written."}
	}
	return record, call, nil
}

// allowed is MayGrant for what the page showed.
func (r GrantRequest) allowed(a approval.Approval, now time.Time) error {
	err := MayGrant(r.Person, a, now)
	if r.Digest != a.Call.Digest && mayRead(r.Person, a) {
		return &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "What you looked at is no longer what the call is about. Look at it again."}
	}
	return err
}

// MayGrant refuses a grant by somebody who could not vote for calls like this
// one, and last, with code verification_required, by somebody who has not just
// proved who they are.
func MayGrant(p engine.Person, a approval.Approval, now time.Time) error {
	roles, human := rolesAsked(a)
	switch {
	case !mayRead(p, a):
		return access.NoSuchApproval
	case slices.Contains(a.Plan.Excluded, p.Identity):
		return admission(approval.ErrSelfReview)
	case p.Disabled || !slices.ContainsFunc(append(slices.Clone(roles), human...), p.Has):
		return admission(approval.ErrNotEligible)
	case !slices.ContainsFunc(roles, p.Has):
		return &access.Refusal{Kind: access.Conflict, Code: "human_only", Detail: "A person has to decide each call like this one, and nobody can do so beforehand."}
	case a.Call.Dialect == DialectThreeGate || a.Call.Dialect == DialectChange:
		return &access.Refusal{Kind: access.Conflict, Code: "not_grantable", Detail: "A tool request is signed for as the document that it is. Each has to be looked at."}
	}
	if !Proved(p, now) {
		return admission(approval.ErrNotFresh)
	}
	return nil
}

// rolesAsked are the roles whose people an approval asks: those to whom a vote
// given beforehand is open, and those who have to look at each call.
func rolesAsked(a approval.Approval) (roles, human []string) {
	for _, req := range a.Plan.Requirements {
		into := &roles
		kind := req.Kind.Traits()
		if len(req.Form) > 0 || !kind.VotesCount {
			continue // a yes is not enough
		}
		if kind.FreshProof {
			into = &human
		}
		if len(req.AnyOf) == 0 && req.Role != "" {
			*into = append(*into, req.Role)
		}
		for _, one := range req.AnyOf {
			*into = append(*into, one.Role)
		}
	}
	return roles, human
}

// check refuses what makes no sense for any approval.
func (r GrantRequest) check() error {
	switch {
	case r.For < MinGrant || r.For > MaxGrant:
		return &access.Refusal{Kind: access.Invalid, Code: "grant_time", Detail: "A grant lasts between one minute and seven days."}
	case r.Uses < 1 || r.Uses > MaxGrantUses:
		return &access.Refusal{Kind: access.Invalid, Code: "grant_uses", Detail: fmt.Sprintf("A grant is good for 1 to %d calls.", MaxGrantUses)}
	case strings.TrimSpace(r.Comment) == "":
		return &access.Refusal{Kind: access.Invalid, Code: "reason_required", Detail: "Say why calls like this one are to pass: others will want to know."}
	case len(r.Comment) > access.MaxReason || !utf8.ValidString(r.Comment):
		return &access.Refusal{Kind: access.Invalid, Code: "reason_too_long", Detail: fmt.Sprintf("The reason has %d bytes; at most %d are kept.", len(r.Comment), access.MaxReason)}
	}
	if err := r.Pattern.Check(); err != nil {
		return &access.Refusal{Kind: access.Invalid, Code: "pattern", Detail: err.Error()}
	}
	return nil
}

// ForPerson lists the grants that the person may know of: those made from approvals
// that they may see. Those that are live come first.
func (g *Grants) ForPerson(ctx context.Context, p engine.Person) ([]Grant, time.Time, error) {
	list, now, err := g.Store.Grants.List(ctx)
	if err != nil {
		return nil, now, err
	}
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = one.FromApproval
	}
	from, err := g.Store.Approvals.ByIDs(ctx, ids)
	if err != nil {
		return nil, now, err
	}
	var seen []Grant
	for _, one := range list {
		a, there := from[one.FromApproval]
		if one.PersonID != p.ID && (!there || !mayRead(p, a)) {
			continue
		}
		v := Grant{Grant: one, MayRevoke: one.Live(now) && mayRevoke(p, one, a)}
		if t, err := openTerms(g.Sealer, one); err == nil {
			v.Pattern = t.pattern
		}
		seen = append(seen, v)
	}
	return seen, now, nil
}

// All lists the grants for an administrator's key, without what calls have
// to be like: no key reads arguments.
func (g *Grants) All(ctx context.Context) ([]Grant, time.Time, error) {
	list, now, err := g.Store.Grants.List(ctx)
	seen := make([]Grant, len(list))
	for i, one := range list {
		seen[i] = Grant{Grant: one, MayRevoke: one.Live(now)}
	}
	return seen, now, err
}

// mayRevoke reports whether the person made the grant, administers, or has a role
// that the approval it was made from asks for.
func mayRevoke(p engine.Person, one store.Grant, from approval.Approval) bool {
	roles, human := rolesAsked(from)
	return one.PersonID == p.ID || access.MayAdminister(p) || !p.Disabled && slices.ContainsFunc(append(roles, human...), p.Has)
}

var noGrant = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such grant."}

// Revoke ends a grant at once: for whoever made it, administrators, and
// those whose role was asked for. Nobody can lengthen one.
func (g *Grants) Revoke(ctx context.Context, p engine.Person, id string, by access.Initiator, once *access.Idempotency[access.Done]) error {
	one, from, err := g.get(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case one.PersonID != p.ID && !mayRead(p, from):
		return noGrant
	case !mayRevoke(p, one, from):
		return g.refuse(ctx, admission(approval.ErrNotEligible).(*access.Refusal), grantEvent(by, one, "", "")) //nolint:errorlint,forcetypeassert // it is one
	}
	return g.revoke(ctx, one, by, once)
}

// RevokeByKey is Revoke for an administrator's key.
func (g *Grants) RevokeByKey(ctx context.Context, id string, by access.Initiator, once *access.Idempotency[access.Done]) error {
	one, _, err := g.get(ctx, id)
	if err != nil {
		return err
	}
	return g.revoke(ctx, one, by, once)
}

func (g *Grants) get(ctx context.Context, id string) (store.Grant, approval.Approval, error) {
	if !store.ValidGrantID(id) {
		return store.Grant{}, approval.Approval{}, noGrant
	}
	one, _, err := g.Store.Grants.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		err = noGrant
	}
	if err != nil {
		return one, approval.Approval{}, err
	}
	from, err := g.Store.Approvals.ByIDs(ctx, []string{one.FromApproval})
	return one, from[one.FromApproval], err
}

func (g *Grants) revoke(ctx context.Context, one store.Grant, by access.Initiator, once *access.Idempotency[access.Done]) error {
	e := grantEvent(by, one, "GRANT_REVOKED", "The standing grant "+one.ID+" was revoked.")
	err := g.Store.Grants.Revoke(ctx, one.ID, by.Actor.ID, once, e)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &access.Refusal{Kind: access.Conflict, Code: "grant_over", Detail: "This grant is over already: revoked, used up, or past its time."}
	case errors.Is(err, store.ErrOtherRequest):
		return access.OtherRequest
	}
	return err
}

// grantEvent starts an event about a grant.
func grantEvent(b access.Initiator, one store.Grant, code, message string) engine.Event {
	e := b.Event(code, message, one.AgentID, one.Tool)
	e.Type, e.ApprovalID = engine.Granted, one.FromApproval
	_ = e.SetPayload(map[string]any{"grant": one.ID, "uses": one.MaxUses, "used": one.Uses, "expires_at": one.ExpiresAt}) // numbers and times always encode
	return e
}
