package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// PendingChange is a change that people are to approve before it is made.
type PendingChange struct {
	Kind    string // one of store.ChangeKinds that store.ByEntries
	Entries []store.Entry
	// Before and After are what would change, as people read it.
	Before, After string
	Reason        string
	// Subjects are the identities of those who gain by it, who do not decide about it.
	Subjects []string
	// ApprovalID is that of the approval; made anew for "".
	ApprovalID string
	// Submit opens the approval, in one transaction with what else is written then; nil opens it
	// by itself.
	Submit func(context.Context, store.Submission) (store.SubmitResult, error)
	// Idempotency keeps the answer with the approval; nil for none.
	Idempotency *access.Idempotency[PendingApproval]
}

// PendingApproval is the approval that a change waits for.
type PendingApproval struct {
	Kind       string
	ApprovalID string
	Needed     int
	Role       string
	ExpiresAt  time.Time

	// meanwhile is how it is until then; "" where nothing is changed. next is what remains to be done.
	meanwhile, next string
}

// ApprovalRequired is the code of the refusal of a change that waits for its approval, which
// the refusal names as successor, or that cannot be held from here.
const ApprovalRequired = "approval_required"

var cannotHold = &access.Refusal{Kind: access.Conflict, Code: ApprovalRequired, Detail: "Such changes take an approval here, and this one cannot wait for any. Nothing was changed."}

// refusal says what a change waits for.
func (h PendingApproval) refusal() error {
	return &access.Refusal{
		Kind: access.Conflict, Code: ApprovalRequired, Successor: h.ApprovalID,
		Detail: fmt.Sprintf("%s: it waits for %d × %s, as approval %s.%s", cmp.Or(h.meanwhile, "Nothing is changed yet"), h.Needed, h.Role, h.ApprovalID, h.next),
	}
}

// guarded reports whether changes of a kind take an approval, unless whoever makes them says
// that nobody can be asked.
func (r Config) guarded(ctx context.Context, by access.Initiator, kind string) (store.Guard, bool, error) {
	guards, err := r.Store.Rules.Guards(ctx)
	g, guarded := guards[kind]
	return g, guarded && by.Unapproved == "", err
}

// changeItem is a change of one thing, as people read it and as it is made.
type changeItem struct {
	store.Entry

	// name is what it is of, in words, and was and becomes how it reads; "" for nothing.
	name, was, becomes string
	subjects           []string // identities of those who gain by it
	meanwhile, next    string   // those of PendingApproval
}

// newItem is the change of something to what becomes says. It reads as JSON.
func (r Config) newItem(ctx context.Context, what, id, name string, becomes any, e engine.Event) (changeItem, error) {
	was, err := r.Store.Rules.EntryNow(ctx, what, id)
	if err != nil {
		return changeItem{}, err
	}
	entry, err := store.NewEntry(what, id, was, becomes, e)
	return changeItem{Entry: entry, name: name, was: readable(was), becomes: readable(entry.Becomes)}, err
}

// readable is JSON on lines, "" for null.
func readable(text json.RawMessage) string {
	var v any
	if json.Unmarshal(text, &v) != nil || v == nil {
		return ""
	}
	lines, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return string(text)
	}
	return string(lines)
}

// hold has people decide about changes of a kind, or puts them beside those that ctx collects.
// The error is never nil: it says what they wait for.
func (r Config) hold(ctx context.Context, by access.Initiator, kind, reason string, items ...changeItem) error {
	if c, collecting := ctx.Value(collecting{}).(*Batch); collecting {
		if err := c.check(ctx, r, kind, items...); err != nil {
			return err
		}
		c.add(kind, items...)
		return &collected{kind}
	}
	held, err := r.open(ctx, by, PendingChange{Kind: kind, Reason: cmp.Or(reason, by.Reason)}, items)
	if err != nil {
		return err
	}
	held.meanwhile, held.next = items[0].meanwhile, items[0].next
	return held.refusal()
}

// open has people decide about a change of the items.
func (r Config) open(ctx context.Context, by access.Initiator, h PendingChange, items []changeItem) (PendingApproval, error) {
	if r.Hold == nil {
		return PendingApproval{}, cannotHold
	}
	if len(h.Reason) > access.MaxReason {
		return PendingApproval{}, &access.Refusal{Kind: access.Invalid, Code: "reason_too_long", Detail: fmt.Sprintf("The reason has %d bytes; at most %d are kept.", len(h.Reason), access.MaxReason)}
	}
	if strings.TrimSpace(h.Reason) == "" {
		h.Reason = "none was given"
	}
	for _, i := range items {
		h.Entries = append(h.Entries, i.Entry)
		h.Before += block(i.name, i.was)
		h.After += block(i.name, i.becomes)
		h.Subjects = append(h.Subjects, i.subjects...)
	}
	slices.Sort(h.Subjects)
	h.Subjects = slices.Compact(h.Subjects)
	return r.Hold(ctx, by, h)
}

func block(name, text string) string {
	if text == "" {
		return ""
	}
	if !strings.HasPrefix(text, "\n") {
		text = " " + text
	}
	return name + ":" + text + "\n"
}

// Batch gathers changes that have to be approved, so that people decide about them
// together. Nobody is asked again what they are asked already, or what they have denied.
type Batch struct {
	// Again has people asked again about what they were asked before and did not approve.
	Again bool

	items    []keptItem
	proposed map[string][]store.ProposedEntry // by kind, of those that were looked up
}

// AskedBefore is the code of the refusal of a change that people were asked about before, which
// the refusal names as successor, and did not approve.
const AskedBefore = "asked_before"

// AlreadyPending is the error of a change that waits for its approval already.
type AlreadyPending struct{ ApprovalID string }

// Error names the approval that it waits for.
func (w *AlreadyPending) Error() string {
	return "it waits for its approval already, as " + w.ApprovalID
}

// check refuses a second change of one thing: what it would be a change of is not there yet. It
// returns *AlreadyPending for what waits already, and refuses what was denied.
func (c *Batch) check(ctx context.Context, r Config, kind string, items ...changeItem) error {
	if err := c.checkUnique(items); err != nil {
		return err
	}
	before, known := c.proposed[kind]
	if !known {
		var err error
		if before, err = r.Store.Rules.ProposedEntries(ctx, kind); err != nil {
			return err
		}
		if c.proposed == nil {
			c.proposed = map[string][]store.ProposedEntry{}
		}
		c.proposed[kind] = before
	}
	for _, i := range items {
		for _, p := range before {
			if p.What != i.What || p.ID != i.ID {
				continue
			}
			same, err := p.Same(i.Entry)
			switch {
			case err != nil:
				return err
			case !same || p.Execution == approval.Succeeded || p.Status == approval.Cancelled: // withdrawn: that is no answer of people
			case p.Status == approval.Pending || p.Status == approval.Approved && p.Execution != approval.Failed:
				return &AlreadyPending{p.ApprovalID}
			case !c.Again:
				return &access.Refusal{
					Kind: access.Conflict, Code: AskedBefore, Successor: p.ApprovalID,
					Detail: fmt.Sprintf("People were asked for this very change as %s, which ended as %s. “--again” asks them once more.", p.ApprovalID, ended(p)),
				}
			}
		}
	}
	return nil
}

// ended says how what was proposed has ended.
func ended(p store.ProposedEntry) string {
	if p.Execution == approval.Failed {
		return "approved and not made"
	}
	return string(p.Status)
}

func (c *Batch) checkUnique(items []changeItem) error {
	for _, k := range c.items {
		for _, i := range k.items {
			if slices.ContainsFunc(items, func(other changeItem) bool { return other.What == i.What && other.ID == i.ID }) {
				return &access.Refusal{Kind: access.Conflict, Code: ApprovalRequired, Detail: "Another change of " + i.name + " waits for its approval first. Apply this one again once that is approved."}
			}
		}
	}
	return nil
}

func (c *Batch) add(kind string, items ...changeItem) {
	c.items = append(c.items, keptItem{kind, items})
}

type keptItem struct {
	kind  string
	items []changeItem
}

type collecting struct{}

// collects reports whether changes under ctx are gathered.
func collects(ctx context.Context) bool { return ctx.Value(collecting{}) != nil }

// collected is the error of a change of a kind that was put beside others.
type collected struct{ kind string }

func (*collected) Error() string { return "it waits for its approval, together with the others" }

// WasCollected reports whether a change was put beside others that wait, and of which kind it is.
func WasCollected(err error) (kind string, ok bool) {
	var c *collected
	if errors.As(err, &c) {
		return c.kind, true
	}
	return "", false
}

// Collect has changes under ctx that take an approval gathered, and not proposed one by one.
// again is Batch.Again.
func Collect(ctx context.Context, again bool) (context.Context, *Batch) {
	c := &Batch{Again: again}
	return context.WithValue(ctx, collecting{}, c), c
}

// Propose has people decide about what was gathered, one approval for each kind, in the order of
// store.ChangeKinds.
func (r Changes) Propose(ctx context.Context, by access.Initiator, c *Batch, reason string) ([]PendingApproval, error) {
	var all []PendingApproval
	for _, kind := range store.ChangeKinds() {
		var items []changeItem
		for _, k := range c.items {
			if k.kind == kind {
				items = append(items, k.items...)
			}
		}
		if len(items) == 0 {
			continue
		}
		held, err := r.open(ctx, by, PendingChange{Kind: kind, Reason: reason}, items)
		if err != nil {
			return all, err
		}
		held.Kind = kind
		all = append(all, held)
	}
	return all, nil
}

// rolesItem is the change of what roles somebody has. It reads with a role a line.
func (r Config) rolesItem(by access.Initiator, p engine.Person, was, becomes []string) (changeItem, error) {
	was, becomes = uniqueRoles(was), uniqueRoles(becomes)
	e := changed(by, "USER_ROLES_CHANGED", "A person’s roles were changed.", p.ID, roleChange(p.ID, was, becomes))
	entry, err := store.NewEntry(store.PersonEntry, p.ID, append([]string{}, was...), append([]string{}, becomes...), e)
	lines := func(roles []string) string {
		if len(roles) == 0 {
			return "no role"
		}
		return "\n  " + strings.Join(roles, "\n  ")
	}
	return changeItem{Entry: entry, name: p.Name + " <" + p.Email + ">", was: lines(was), becomes: lines(becomes), subjects: []string{p.Identity}}, err
}

// addedRoles are the roles of becomes that was does not have.
func addedRoles(was, becomes []string) (more []string) {
	for _, role := range becomes {
		if !slices.Contains(was, role) {
			more = append(more, role)
		}
	}
	return more
}

// RolesTakeApproval reports whether giving roles takes an approval.
func (p People) RolesTakeApproval(ctx context.Context) (bool, error) {
	_, guarded, err := p.guarded(ctx, access.Initiator{}, store.RolesChange)
	return guarded, err
}
