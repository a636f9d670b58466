package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/confusable"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// Account is a person as administrators look at them.
type Account = store.Account

// LinkLasts is how long a link is good by which somebody sets a password.
const LinkLasts = 72 * time.Hour

// Bounds of what is written of a person.
const (
	maxPersonName = 200
	maxEmail      = 254 // RFC 5321, as signing in takes it
	maxRoles      = 50
	maxRole       = 100
)

// PasswordLink is a link by which a person sets a password, once. It is shown to
// whoever asked for it. Only its hash is stored; with an Idempotency-Key the answer
// that has the link is kept, sealed, for repetitions until it lapses.
type PasswordLink struct {
	Person    engine.Person
	URL       string
	ExpiresAt time.Time
	// RolesWait is the approval by which the person gets the roles, where that takes one; ""
	// where they have them.
	RolesWait string
}

// WelcomePath is the page of a link by which somebody sets a password.
const WelcomePath = "/welcome/"

// PersonChange is what to change of an account. What is nil stays.
type PersonChange struct {
	Name *string
	// Roles replaces all of them; AddRoles and RemoveRoles change some.
	Roles                 *[]string
	AddRoles, RemoveRoles []string
	// AllowUnknownRoles takes roles that no rule asks for yet.
	AllowUnknownRoles bool
	// Reason is why, for those who have to approve it, where somebody has to.
	Reason string
}

// KnownRoles are the roles that a policy and a routing ask for and those that
// Holdpoint itself knows, sorted. The policy may be nil. guards say who approves changes of
// the rules.
func KnownRoles(p *policy.Bundle, r approval.Routing, guards ...store.Guard) []string {
	roles := []string{access.AdminRole, access.AuditorRole, approval.BreakGlassRole}
	for _, rule := range append(slices.Clone(r.Rules), r.Default) {
		roles = append(append(roles, rule.Role, rule.IfTooFew), rule.Extenders...)
		for _, e := range rule.Escalation {
			roles = append(roles, e.Role)
		}
	}
	for _, g := range guards {
		roles = append(append(roles, g.Rule.Role), g.Rule.Extenders...)
		for _, e := range g.Rule.Escalation {
			roles = append(roles, e.Role)
		}
	}
	if p != nil {
		roles = append(roles, p.Roles()...)
	}
	slices.Sort(roles)
	return slices.DeleteFunc(slices.Compact(roles), func(role string) bool { return role == "" || strings.HasPrefix(role, engine.OnCallPrefix) })
}

// Refusals of changes of accounts.
var (
	noSuchPerson = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such person."}
	byCommand    = &access.Refusal{Kind: access.Invalid, Code: "by_command", Detail: "People are administered by command here: “holdpoint user --help”. Whoever runs Holdpoint can allow it in the console and by the API: database_people_url."}
	ownAccount   = &access.Refusal{Kind: access.Forbidden, Code: "own_account", Detail: "Nobody changes their own roles, and nobody disables themselves or gives themselves a password in this way: another administrator does it."}
	notAdmin     = &access.Refusal{Kind: access.Forbidden, Code: "not_an_administrator", Detail: "Only administrators change who there is."}
	lastAdmin    = &access.Refusal{Kind: access.Conflict, Code: "last_administrator", Detail: "This is the last administrator. Give somebody else the role admin first."}
	notEnabled   = &access.Refusal{Kind: access.Invalid, Code: "disabled", Detail: "This account is disabled. Enable it first."}
)

// ErrNameApart is the refusal of changing a name together with giving a role, where that takes an
// approval.
var ErrNameApart error = &access.Refusal{Kind: access.Invalid, Code: "name_apart", Detail: "Giving a role takes an approval here, and a name does not: change one after the other. Nothing was changed."}

// MayBeChanged reports whether accounts can be changed from here: by the role that
// owns the database, or by a login of its own.
func (p People) MayBeChanged() bool { return p.Owner || p.Store.People.AdministersPeople() }

// Accounts lists everybody, by e-mail.
func (p People) Accounts(ctx context.Context) ([]Account, error) {
	now, err := p.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return p.Store.Reports.Accounts(ctx, now)
}

// Account is one of them, by id.
func (p People) Account(ctx context.Context, id string) (Account, error) {
	all, err := p.Accounts(ctx)
	if err != nil {
		return Account{}, err
	}
	i := slices.IndexFunc(all, func(a Account) bool { return a.ID == id })
	if i < 0 {
		return Account{}, noSuchPerson
	}
	return all[i], nil
}

// change changes the account of an id or e-mail address. judge is given the account
// under the lock, and says what becomes of it.
func (p People) change(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[store.LockedAccount], judge func(store.LockedAccount) (store.AccountEdit, engine.Event, error)) (store.LockedAccount, error) {
	if !p.MayBeChanged() {
		return store.LockedAccount{}, byCommand
	}
	if once != nil {
		if err := p.Store.Answered(ctx, once.Of()); err != nil {
			return store.LockedAccount{}, p.administered(ctx, err)
		}
	}
	found, err := Retention(p).person(ctx, who)
	if err != nil {
		return store.LockedAccount{}, err
	}
	done, err := p.Store.People.Change(ctx, found.ID, by.Actor.ID, access.AdminRole, once, func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		if err := mayChange(by, now); err != nil {
			return store.AccountEdit{}, engine.Event{}, err
		}
		return judge(now)
	})
	if errors.Is(err, store.ErrNotFound) {
		err = noSuchPerson
	}
	return done, p.administered(ctx, err)
}

// mayChange refuses a person who administers no more at the moment of the change.
func mayChange(by access.Initiator, now store.LockedAccount) error {
	if by.Actor.Kind == engine.HumanActor && !now.ByAdministers {
		return notAdmin
	}
	return nil
}

// another refuses what people do not do to an account of their own.
func another(by access.Initiator, now store.LockedAccount) error {
	if by.Actor.Kind == engine.HumanActor && (by.Actor.ID == now.ID || by.Actor.ID == now.Identity || now.ByIdentity == now.Identity) {
		return ownAccount
	}
	return nil
}

// Change changes somebody's name and roles. Votes in what still waits count by the
// roles of then. A refusal changes nothing.
func (p People) Change(ctx context.Context, by access.Initiator, who string, c PersonChange, once *access.Idempotency[engine.Person]) (engine.Person, error) {
	known, err := p.known(ctx, c.AllowUnknownRoles)
	if err != nil {
		return engine.Person{}, err
	}
	_, guarded, err := p.guarded(ctx, by, store.RolesChange)
	if err != nil {
		return engine.Person{}, err
	}
	var waits *changeItem
	done, err := p.change(ctx, by, who, access.Adapt(once, personOf), func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		var edit store.AccountEdit
		if c.Name != nil {
			if edit.Name = strings.TrimSpace(*c.Name); edit.Name == now.Name {
				edit.Name = ""
			} else if err := nameFits(edit.Name); err != nil {
				return edit, engine.Event{}, err
			}
		}
		edit.Roles = c.roles(now.Roles)
		edit.SetRoles = !slices.Equal(edit.Roles, uniqueRoles(now.Roles))
		if err := c.judge(by, now, edit, known); err != nil {
			return edit, engine.Event{}, err
		}
		if guarded && edit.SetRoles && !now.Disabled && addedRoles(now.Roles, edit.Roles) != nil {
			if edit.Name != "" {
				return edit, engine.Event{}, ErrNameApart
			}
			i, err := p.rolesItem(by, now.Person, now.Roles, edit.Roles)
			waits = &i
			return edit, engine.Event{}, errors.Join(errWaits, err)
		}
		code, message, more := "USER_RENAMED", "A person was given another name.", map[string]any{"person": now.ID}
		if edit.SetRoles {
			code, message, more = "USER_ROLES_CHANGED", "A person’s roles were changed.", roleChange(now.ID, now.Roles, edit.Roles)
			if edit.Name != "" {
				more["renamed"] = true
			}
		}
		return edit, changed(by, code, message, now.ID, more), nil
	})
	if waits != nil && errors.Is(err, errWaits) {
		err = p.hold(ctx, by, store.RolesChange, c.Reason, *waits)
	}
	return done.Person, err
}

// errWaits undoes what has to wait for its approval.
var errWaits = errors.New("it takes an approval")

func personOf(now store.LockedAccount) engine.Person { return now.Person }

// roles are the account's after the change, sorted.
func (c PersonChange) roles(now []string) []string {
	if c.Roles != nil {
		now = *c.Roles
	}
	now = append(slices.Clone(now), c.AddRoles...)
	return uniqueRoles(slices.DeleteFunc(now, func(role string) bool { return slices.Contains(c.RemoveRoles, role) }))
}

func uniqueRoles(roles []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(roles)))
}

func (c PersonChange) judge(by access.Initiator, now store.LockedAccount, edit store.AccountEdit, known knownRoles) error {
	if !edit.SetRoles {
		if edit.Name == "" {
			return &access.Refusal{Kind: access.Conflict, Code: "unchanged", Detail: "That is how the account is already. Nothing was changed."}
		}
		return nil
	}
	if err := another(by, now); err != nil {
		return err
	}
	// A role that somebody has, and no rule asks for any more, may stay.
	if err := rolesFit(edit.Roles, known.and(now.Roles)); err != nil {
		return err
	}
	if !now.Disabled && now.Has(access.AdminRole) && !slices.Contains(edit.Roles, access.AdminRole) && now.OtherAdministrators == 0 {
		return lastAdmin
	}
	return nil
}

// KnownRoles are those that some rule asks for, or that Holdpoint knows itself; nil where any may be given.
func (p People) KnownRoles(ctx context.Context) ([]string, error) {
	known, err := p.known(ctx, false)
	return known.roles, err
}

// knownRoles are the roles that some rule asks for, and whether others may be given, too.
type knownRoles struct {
	roles  []string
	others bool
}

// anyRoles are those where nobody looks at what rules ask for.
var anyRoles = knownRoles{others: true}

func (k knownRoles) and(roles []string) knownRoles {
	k.roles = append(slices.Clone(k.roles), roles...)
	return k
}

func (p People) known(ctx context.Context, others bool) (knownRoles, error) {
	if p.Roles == nil {
		return anyRoles, nil
	}
	roles, err := p.Roles(ctx)
	return knownRoles{roles, others}, err
}

// rolesFit refuses roles that cannot be given.
func rolesFit(roles []string, known knownRoles) error {
	wrong := func(code, format string, args ...any) error {
		return &access.Refusal{Kind: access.Invalid, Code: code, Detail: fmt.Sprintf(format, args...)}
	}
	if len(roles) > maxRoles {
		return wrong("too_many_roles", "Nobody has more than %d roles.", maxRoles)
	}
	var unknown []string
	for _, role := range roles {
		switch {
		case role == "" || len(role) > maxRole || role != strings.TrimSpace(role) || strings.ContainsFunc(role, func(r rune) bool { return !unicode.IsPrint(r) || r == ',' }):
			return wrong("unfit_role", "A role is a word of at most %d bytes, without commas.", maxRole)
		case strings.HasPrefix(role, engine.OnCallPrefix):
			return wrong("unfit_role", "The roles %s… come and go with the on-call schedule: “holdpoint on-call set”.", engine.OnCallPrefix)
		case slices.Contains(known.roles, role):
		case !known.others:
			unknown = append(unknown, fmt.Sprintf("%q", role))
		case known.roles == nil: // nobody looks at what rules ask for
		case !confusable.ClearName(role):
			return wrong("unfit_role", "The role %+q has characters that others can be taken for, or that do not show.", role)
		default:
			if other, alike := drawnLike(role, known.roles); alike {
				return wrong("unfit_role", "%+q is drawn like the role %+q, and is another one. Nothing was changed.", role, other)
			}
		}
	}
	if unknown != nil {
		return wrong("unknown_role", "No rule asks for %s. Known roles: %s. Nothing was changed.", strings.Join(unknown, ", "), strings.Join(uniqueRoles(known.roles), ", "))
	}
	return nil
}

// drawnLike is one of the roles that a role can be taken for, in capitals or not.
func drawnLike(role string, roles []string) (string, bool) {
	looks := func(role string) string { return confusable.Skeleton(strings.ToLower(role)) }
	for _, other := range roles {
		if looks(other) == looks(role) || confusable.Skeleton(other) == confusable.Skeleton(role) {
			return other, true
		}
	}
	return "", false
}

func nameFits(name string) error {
	if name == "" || len(name) > maxPersonName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_name", Detail: fmt.Sprintf("A name has 1 to %d bytes, on one line.", maxPersonName)}
	}
	return nil
}

// Disable keeps somebody out from now on; votes in what still waits become void.
func (p People) Disable(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[engine.Person]) (engine.Person, error) {
	done, err := p.change(ctx, by, who, access.Adapt(once, personOf), func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		err := another(by, now)
		switch {
		case err != nil:
		case now.Disabled:
			err = &access.Refusal{Kind: access.Invalid, Code: "disabled", Detail: "there is no active account with the address " + now.Email}
		case now.Has(access.AdminRole) && now.OtherAdministrators == 0:
			err = lastAdmin
		}
		return store.AccountEdit{Disable: true, SignOut: true}, changed(by, "USER_DISABLED", "A person was disabled.", now.ID, roleChange(now.ID, now.Roles, nil)), err
	})
	return done.Person, err
}

// Enable lets somebody who was disabled in again: the same account, with the roles
// that it had. The former password is void, and the person sets another by the link
// that is returned; second factors stay, so that whoever reads the link does not get
// in with nothing else.
func (p People) Enable(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[PasswordLink]) (PasswordLink, error) {
	_, guarded, err := p.guarded(ctx, by, store.RolesChange)
	if err != nil {
		return PasswordLink{}, err
	}
	may := func(now store.LockedAccount) error {
		err := another(by, now)
		if err == nil && !now.Disabled {
			err = &access.Refusal{Kind: access.Conflict, Code: "unchanged", Detail: "This account is not disabled. Nothing was changed."}
		}
		return err
	}
	// later are the roles that wait.
	enable := func(later []string, approvalID string, opens *store.Submission) (PasswordLink, error) {
		return p.withLink(ctx, by, who, once, func(now store.LockedAccount) (store.AccountEdit, engine.Event, string, error) {
			err := may(now)
			if err == nil && guarded && !slices.Equal(uniqueRoles(now.Roles), later) {
				err = &access.Refusal{Kind: access.Conflict, Code: "stale", Detail: "The account’s roles have just been changed. Look at them, and enable it again. Nothing was changed."}
			}
			edit, after := store.AccountEdit{Enable: true, Opens: opens, SetRoles: len(later) > 0}, now.Roles
			if edit.SetRoles {
				after = nil
			}
			return edit, changed(by, "USER_ENABLED", "A person was enabled again, and sets another password.", now.ID, roleChange(now.ID, nil, after)), approvalID, err
		})
	}
	if !guarded {
		return enable(nil, "", nil)
	}
	if p.Hold == nil {
		return PasswordLink{}, cannotHold
	}
	// Where giving roles takes an approval, getting them back does.
	var now store.LockedAccount
	_, err = p.change(ctx, by, who, access.Adapt(once, func(now store.LockedAccount) PasswordLink { return PasswordLink{Person: now.Person} }), func(standing store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		now = standing
		return store.AccountEdit{}, engine.Event{}, cmp.Or(may(now), errWaits)
	})
	if !errors.Is(err, errWaits) {
		return PasswordLink{}, err
	}
	var link PasswordLink
	later := uniqueRoles(now.Roles)
	err = p.withoutRoles(ctx, by, now.Person, later, func(approvalID string, opens *store.Submission) (err error) {
		link, err = enable(later, approvalID, opens)
		return err
	})
	return link, err
}

// withoutRoles calls write, which writes an account without the roles that people have to approve.
// write opens the approval with the same transaction, so that neither is there without the other.
// approvalID and opens are of that approval; "" and nil where there are no roles, or where they are
// proposed together with others.
func (p People) withoutRoles(ctx context.Context, by access.Initiator, account engine.Person, roles []string, write func(approvalID string, opens *store.Submission) error) error {
	if len(roles) == 0 {
		return write("", nil)
	}
	i, err := p.rolesItem(by, account, nil, roles)
	if err != nil {
		return err
	}
	if c, collecting := ctx.Value(collecting{}).(*Batch); collecting {
		if err := c.checkUnique([]changeItem{i}); err != nil {
			return err
		}
		if err := write("", nil); err != nil {
			return err
		}
		c.add(store.RolesChange, i)
		return nil
	}
	h := PendingChange{Kind: store.RolesChange, ApprovalID: store.NewID("apr")}
	h.Submit = func(ctx context.Context, opens store.Submission) (store.SubmitResult, error) {
		return store.SubmitResult{}, write(h.ApprovalID, &opens)
	}
	held, err := p.open(ctx, by, h, []changeItem{i})
	if err == nil && held.ApprovalID != h.ApprovalID { // they wait already, since it was enabled before
		err = write(held.ApprovalID, nil)
	}
	return err
}

// ResetPassword makes somebody's password void, ends their sessions, and returns a
// link by which they set another. Second factors stay.
func (p People) ResetPassword(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[PasswordLink]) (PasswordLink, error) {
	return p.withLink(ctx, by, who, once, func(now store.LockedAccount) (store.AccountEdit, engine.Event, string, error) {
		err := another(by, now)
		if err == nil && now.Disabled {
			err = notEnabled
		}
		return store.AccountEdit{}, changed(by, "PASSWORD_RESET", "A person’s password was made void, and is set anew by a link.", now.ID, map[string]any{"person": now.ID}), "", err
	})
}

// withLink is change for what ends with a link by which the person sets a password. judge also
// says by which approval the person gets their roles, "" for none.
func (p People) withLink(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[PasswordLink], judge func(store.LockedAccount) (store.AccountEdit, engine.Event, string, error)) (PasswordLink, error) {
	link, edit, err := p.newLink(ctx)
	if err != nil {
		return link, err
	}
	done, err := p.change(ctx, by, who, access.Adapt(once, func(now store.LockedAccount) PasswordLink { return link.of(now.Person) }), func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		own, e, waits, err := judge(now)
		link.RolesWait = waits
		own.PasswordHash, own.SignOut, own.LinkHash, own.LinkLasts = store.NoPassword, true, edit.LinkHash, edit.LinkLasts
		return own, e, err
	})
	return link.of(done.Person), err
}

// MailsLinks reports whether links can be sent by mail.
func (p People) MailsLinks() bool { return p.MailLink != nil }

// Mail sends a link to whom it is for. The link is made by then, so an error changes nothing
// but that somebody else has to bring it, or that another one is made.
func (p People) Mail(ctx context.Context, l PasswordLink) error {
	if p.MailLink == nil {
		return errors.New("there is no mail server: the setting smtp is missing")
	}
	return p.MailLink(ctx, l.Person.Email, l.URL, l.ExpiresAt)
}

// newLink makes a link, and the edit that stores its hash.
func (p People) newLink(ctx context.Context) (PasswordLink, store.AccountEdit, error) {
	if p.PublicURL == "" {
		return PasswordLink{}, store.AccountEdit{}, errors.New("public_url: it is missing, and the link leads there (HOLDPOINT_PUBLIC_URL)")
	}
	now, err := p.Store.Now(ctx)
	token := strings.ToLower(rand.Text())
	return PasswordLink{URL: strings.TrimSuffix(p.PublicURL, "/") + WelcomePath + token, ExpiresAt: now.Add(LinkLasts).UTC().Truncate(time.Second)},
		store.AccountEdit{LinkHash: linkHash(token), LinkLasts: LinkLasts}, err
}

func (l PasswordLink) of(p engine.Person) PasswordLink {
	l.Person = p
	return l
}

// linkHash is what is stored of a link: nothing slower is needed for 130 random bits.
func linkHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// SignOut ends all of somebody's sessions.
func (p People) SignOut(ctx context.Context, by access.Initiator, who string, once *access.Idempotency[engine.Person]) (engine.Person, error) {
	done, err := p.change(ctx, by, who, access.Adapt(once, personOf), func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		return store.AccountEdit{SignOut: true}, changed(by, "USER_SIGNED_OUT", "A person was signed out everywhere.", now.ID, map[string]any{"person": now.ID}), nil
	})
	return done.Person, err
}

// Unlink has no provider of single sign-on open somebody's account any more, and ends
// their sessions. It is done by command only: where link_by_email is set, whoever has the
// address at the provider opens the account next.
func (p People) Unlink(ctx context.Context, by access.Initiator, who string) (engine.Person, error) {
	if !p.Owner {
		return engine.Person{}, byCommand
	}
	done, err := p.change(ctx, by, who, nil, func(now store.LockedAccount) (store.AccountEdit, engine.Event, error) {
		var err error
		switch {
		case !now.Linked:
			err = &access.Refusal{Kind: access.Conflict, Code: "unchanged", Detail: "No provider of single sign-on opens this account. Nothing was changed."}
		case !now.Disabled && !now.HasPassword && now.Has(access.AdminRole) && now.OtherAdministrators == 0:
			err = lastToSignIn
		}
		return store.AccountEdit{Unlink: true, SignOut: true}, changed(by, "USER_UNLINKED", "No provider of single sign-on opens a person’s account any more.", now.ID, map[string]any{"person": now.ID}), err
	})
	return done.Person, err
}

// Invite adds somebody without a password, who sets one by the link that is returned.
func (p People) Invite(ctx context.Context, by access.Initiator, n NewPerson, anyRole bool, once *access.Idempotency[PasswordLink]) (PasswordLink, error) {
	if !p.MayBeChanged() {
		return PasswordLink{}, byCommand
	}
	if once != nil {
		if err := p.Store.Answered(ctx, once.Of()); err != nil {
			return PasswordLink{}, p.administered(ctx, err)
		}
	}
	known, err := p.known(ctx, anyRole)
	if err != nil {
		return PasswordLink{}, err
	}
	n.Roles = uniqueRoles(n.Roles)
	added, event, err := p.adding(ctx, by, n)
	if err == nil {
		err = rolesFit(added.Roles, known)
	}
	if err != nil {
		return PasswordLink{}, err
	}
	link, edit, err := p.newLink(ctx)
	if err != nil {
		return link, err
	}
	link = link.of(added)
	added, event, roles, err := p.rolesLater(ctx, by, added, event)
	if err != nil {
		return link, err
	}
	link = link.of(added)
	err = p.withoutRoles(ctx, by, added, roles, func(approvalID string, opens *store.Submission) error {
		link.RolesWait, edit.Opens = approvalID, opens
		_, err := p.Store.People.Invite(ctx, added, by.Actor.ID, access.AdminRole, store.NoPassword, edit, access.Adapt(once, func(store.LockedAccount) PasswordLink { return link }),
			func(now store.LockedAccount) (engine.Event, error) {
				err := mayChange(by, now)
				if err == nil {
					err = another(by, now) // another account of one's own, with other roles
				}
				return event, err
			})
		if errors.Is(err, store.ErrConflict) {
			return emailTaken(added.Email)
		}
		return p.administered(ctx, err)
	})
	return link, err
}

// rolesLater is the account to add, and its event: without its roles, which are returned, where
// giving them takes an approval.
func (p People) rolesLater(ctx context.Context, by access.Initiator, added engine.Person, e engine.Event) (engine.Person, engine.Event, []string, error) {
	_, guarded, err := p.guarded(ctx, by, store.RolesChange)
	if err != nil || !guarded || len(added.Roles) == 0 {
		return added, e, nil, err
	}
	if p.Hold == nil {
		return added, e, nil, cannotHold
	}
	roles := added.Roles
	added.Roles = []string{}
	said := roleChange(added.ID, nil, nil)
	said["identity"] = added.Identity
	return added, changed(by, "USER_ADDED", "A person was added.", added.ID, said), roles, nil
}
