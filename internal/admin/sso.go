package admin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
)

func noAccount(why string) error {
	return &access.Refusal{Kind: access.Forbidden, Code: "no_account", Detail: why + " Ask an administrator of Holdpoint."}
}

var accountDisabled = &access.Refusal{Kind: access.Forbidden, Code: "disabled", Detail: "Your account here is disabled. Ask an administrator of Holdpoint."}

// Arrive finds the account of somebody who comes in by single sign-on, by what the
// provider calls them. Somebody who comes for the first time gets the account that has
// their address, or a new one, where the provider's settings say so and the address is
// verified; or the one that the provider's directory has told of. The roles that the settings name come and go with the groups, as an
// administrator changes them; kept says that the last administrator keeps theirs.
// Refusals are no_account and disabled (403); nothing is changed by them.
func (p People) Arrive(ctx context.Context, c sso.Config, who sso.User) (in engine.Person, kept bool, err error) {
	if !p.MayBeChanged() {
		return in, false, byCommand
	}
	provider := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "sso:" + c.Name, Channel: "console"}}
	email, emailErr := arrivingEmail(c, who)
	if !c.SCIM {
		who.ExternalID = ""
	}
	given, err := p.givenByGroups(ctx)
	if err != nil {
		return in, false, err
	}
	var found engine.Person
	changes := false
	in, err = p.Store.People.Arrive(ctx, store.SSOArrival{Issuer: who.Issuer, Subject: who.Subject, ExternalID: who.ExternalID, Email: email}, access.AdminRole, func(account store.SSOAccount) (store.SSOAdmission, error) {
		now := account.LockedAccount
		found = now.Person
		switch {
		case now.ID != "" && now.Disabled:
			return store.SSOAdmission{}, accountDisabled
		case account.Linked || account.Named:
		case emailErr != nil:
			return store.SSOAdmission{}, emailErr
		case now.ID != "" && !c.LinkByEmail:
			return store.SSOAdmission{}, noAccount("There is an account with your address here, and " + c.Name + " may not open it (link_by_email).")
		case now.ID == "" && !c.Create:
			return store.SSOAdmission{}, noAccount("You have no account here, and " + c.Name + " may not make one (create).")
		}
		if now.ID == "" {
			changes = true
			return p.arriving(ctx, provider, c, who, email, given)
		}
		var admit store.SSOAdmission
		if !account.Linked {
			admit.Link = true
			admit.Events = append(admit.Events, changed(provider, "USER_LINKED", "An account was linked to a person of a provider of single sign-on.", now.ID, map[string]any{"person": now.ID, "provider": c.Name}))
		}
		groups := who.Groups
		if c.SCIM {
			groups = account.Groups // none, for whoever the directory does not tell of
		}
		var roles []string
		var err error
		if roles, kept, err = rolesByGroups(c, groups, now, given); err != nil {
			return admit, err
		}
		if !slices.Equal(roles, uniqueRoles(now.Roles)) {
			admit.Edit = store.AccountEdit{SetRoles: true, Roles: roles}
			admit.Events = append(admit.Events, changed(provider, "USER_ROLES_CHANGED", "A person’s roles were changed.", now.ID, roleChange(now.ID, now.Roles, roles)))
		}
		changes = len(admit.Events) > 0
		return admit, nil
	})
	if errors.Is(err, store.ErrConflict) {
		err = noAccount("The account with your address here belongs to somebody else at " + c.Name + ".")
	}
	if err != nil || changes {
		err = p.administered(ctx, err)
	}
	if err != nil {
		return found, false, err
	}
	return in, kept, nil
}

// arriving is the account to add for somebody who has none.
func (p People) arriving(ctx context.Context, provider access.Initiator, c sso.Config, who sso.User, email string, given func(string) bool) (store.SSOAdmission, error) {
	roles, _, err := rolesByGroups(c, who.Groups, store.LockedAccount{}, given)
	if err != nil {
		return store.SSOAdmission{}, err
	}
	name := strings.TrimSpace(who.Name)
	if nameFits(name) != nil {
		name = "" // the address, then
	}
	added, event, err := p.adding(ctx, provider, NewPerson{Email: email, Name: name, Roles: roles})
	if err != nil {
		return store.SSOAdmission{}, noAccount("The address that " + c.Name + " gives for you is none.")
	}
	return store.SSOAdmission{Add: &added, Events: []engine.Event{event}}, nil
}

// arrivingEmail is the address by which an account may be found or made. It is plain
// ASCII, so that no two addresses look alike or become one in lower case.
func arrivingEmail(c sso.Config, who sso.User) (string, error) {
	switch {
	case !c.Create && !c.LinkByEmail:
		return "", noAccount("You have no account here that is linked to " + c.Name + ".")
	case who.Email == "":
		return "", noAccount("You have no account here, and " + c.Name + " gives no address for you.")
	case strings.ContainsFunc(who.Email, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || !access.ValidEmail(who.Email) || len(who.Email) > maxEmail:
		return "", noAccount("You have no account here, and the address that " + c.Name + " gives for you is not in plain letters.")
	case !who.EmailVerified:
		return "", noAccount("You have no account here, and " + c.Name + " has not verified your address.")
	}
	email := strings.ToLower(who.Email)
	if _, domain, _ := strings.Cut(email, "@"); !slices.Contains(c.EmailDomains, domain) {
		return "", noAccount("You have no account here, and your address is of a domain that " + c.Name + " may not bring.")
	}
	return email, nil
}

// rolesByGroups are somebody's roles, sorted: those that groups give, and of theirs those
// that no group gives. A role that groups may not give (given) is kept and not gained. The last administrator keeps the role: a mistake in the groups
// locks nobody out.
func rolesByGroups(c sso.Config, groups []string, now store.LockedAccount, given func(role string) bool) (roles []string, kept bool, err error) {
	governed := map[string]bool{}
	for _, list := range c.Roles {
		for _, role := range list {
			governed[role] = true
		}
	}
	for _, role := range now.Roles {
		if !governed[role] {
			roles = append(roles, role)
		}
	}
	for _, group := range groups {
		for _, role := range c.Roles[group] {
			if given(role) || now.Has(role) && !now.Disabled {
				roles = append(roles, role)
			}
		}
	}
	if now.Has(access.AdminRole) && !slices.Contains(roles, access.AdminRole) && now.OtherAdministrators == 0 {
		roles, kept = append(roles, access.AdminRole), true
	}
	roles = uniqueRoles(roles)
	if err := rolesFit(roles, anyRoles); err != nil {
		return nil, false, noAccount("Your groups at " + c.Name + " give too many roles.")
	}
	return roles, kept, nil
}

// givenByGroups says which roles membership in a provider's group gives at once: all of them,
// or those that the rule for changes of roles names.
func (r Config) givenByGroups(ctx context.Context) (func(role string) bool, error) {
	g, guarded, err := r.guarded(ctx, access.Initiator{}, store.RolesChange)
	return func(role string) bool { return !guarded || slices.Contains(g.ByGroups, role) }, err
}
