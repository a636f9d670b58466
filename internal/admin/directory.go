package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
)

// What a directory tells of, for those who must not know the store.
type (
	// DirectoryUser is an account that the directory tells of.
	DirectoryUser = store.DirectoryUser
	// DirectoryGroup is a group that it tells of.
	DirectoryGroup = store.DirectoryGroup
	// NameParts are what it calls somebody beside the name of the account.
	NameParts = store.NameParts
	// DirectoryUserQuery narrows a search.
	DirectoryUserQuery = store.DirectoryUserQuery
)

// UserEntry is what the directory says of somebody.
type UserEntry struct {
	UserName, ExternalID, Name, Email string

	Parts NameParts
	// Active is nil where it does not say.
	Active *bool
}

// GroupEntry is what it says of a group. Members are ids of people.
type GroupEntry struct {
	Name, ExternalID string
	Members          []string
}

// Bounds of what a directory says.
const (
	maxUserName   = maxEmail
	maxExternalID = 255
	maxGroupName  = 255
	maxNamePart   = 255 // letters
	maxMembers    = 10_000
)

// Refusals of a directory.
var (
	noDirectory      = &access.Refusal{Kind: access.NotFound, Code: "no_directory", Detail: "No directory tells of people here: set scim: true at its provider in sso (docs/scim.md)."}
	noSuchUser       = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such user."}
	noSuchGroup      = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such group."}
	taken            = &access.Refusal{Kind: access.Conflict, Code: "directory_conflict", Detail: "There is a user, or a group, of that name or externalId already."}
	localAccount     = &access.Refusal{Kind: access.Conflict, Code: "local_account", Detail: "The address has an account that was not made by the directory, and is not given to it (docs/scim.md says which are)."}
	lastToSignIn     = &access.Refusal{Kind: access.Conflict, Code: "last_administrator", Detail: "This is the last administrator who can sign in. Give somebody else the role admin, who has signed in once, first. Nothing was changed."}
	formerAccount    = &access.Refusal{Kind: access.Conflict, Code: "former_account", Detail: "The address has the account of somebody whom the directory has removed, and nothing says that this is the same person."}
	unknownMembers   = &access.Refusal{Kind: access.Invalid, Code: "unknown_members", Detail: "Not all members are users whom the directory has told of."}
	outsideDirectory = &access.Refusal{Kind: access.Invalid, Code: "unfit_email", Detail: "The address is none in plain letters, or not of one of email_domains."}
)

// provider is the one whose directory tells of people.
func (d Directory) provider() (sso.Config, error) {
	switch {
	case d.SCIM == nil:
		return sso.Config{}, noDirectory
	case !People(d).MayBeChanged():
		return sso.Config{}, byCommand
	}
	return *d.SCIM, nil
}

// Users lists the people whom the directory has told of.
func (d Directory) Users(ctx context.Context, q DirectoryUserQuery) ([]DirectoryUser, error) {
	if _, err := d.provider(); err != nil {
		return nil, err
	}
	return d.Store.Directory.Users(ctx, q)
}

// User is one of them. The refusal is not_found.
func (d Directory) User(ctx context.Context, id string) (DirectoryUser, error) {
	list, err := d.Users(ctx, DirectoryUserQuery{ID: id})
	if err == nil && (len(list) == 0 || id == "") {
		err = noSuchUser
	}
	if err != nil {
		return DirectoryUser{}, err
	}
	return list[0], nil
}

// Groups lists the groups, with members on demand; with an id it is that one alone.
func (d Directory) Groups(ctx context.Context, id string, withMembers bool) ([]DirectoryGroup, error) {
	if _, err := d.provider(); err != nil {
		return nil, err
	}
	return d.Store.Directory.Groups(ctx, id, withMembers)
}

// providing is a provider, and which roles its groups give at once.
type providing struct {
	sso.Config

	given func(role string) bool
}

// change makes a change of the directory's, all of it or nothing.
func (d Directory) change(ctx context.Context, do func(*store.DirectoryChange, providing) error) error {
	c, err := d.provider()
	if err != nil {
		return err
	}
	given, err := d.givenByGroups(ctx)
	if err != nil {
		return err
	}
	err = d.Store.Directory.Change(ctx, access.AdminRole, func(tx *store.DirectoryChange) error { return do(tx, providing{c, given}) })
	if errors.Is(err, store.ErrConflict) {
		err = taken
	}
	return d.administered(ctx, err)
}

// AddUser makes the account of somebody whom the directory tells of. Somebody whom it has
// removed, and who comes with the same external id, gets their account back. An account
// that was made otherwise is given to the directory only where the settings say so.
func (d Directory) AddUser(ctx context.Context, by access.Initiator, e UserEntry) (DirectoryUser, error) {
	var id string
	err := d.change(ctx, func(tx *store.DirectoryChange, c providing) error {
		email, err := directoryEmail(c.Config, e)
		if err == nil {
			err = e.validate()
		}
		if err != nil {
			return err
		}
		h, err := tx.Holder(e.ExternalID, email, c.Issuer)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if id = h.ID; err != nil {
			id, err = d.addAccount(ctx, tx, by, e, email)
		} else {
			err = mayHave(c.Config, h, e.ExternalID)
		}
		if err != nil {
			return err
		}
		if err := tx.Put(e.of(id)); err != nil {
			return err
		}
		if h.ID != "" {
			tx.Record(changed(by, "USER_LINKED", "An account was given to a provider's directory.", id, map[string]any{"person": id, "provider": c.Name}))
		}
		active := e.Active == nil || *e.Active
		return d.setAccount(tx, by, c, id, e.Name, &active)
	})
	if err != nil {
		return DirectoryUser{}, err
	}
	return d.User(ctx, id)
}

// addAccount adds an account without a password and without roles.
func (d Directory) addAccount(ctx context.Context, tx *store.DirectoryChange, by access.Initiator, e UserEntry, email string) (string, error) {
	name := e.Name
	if nameFits(name) != nil {
		name = "" // the address, then
	}
	added, event, err := People(d).adding(ctx, by, NewPerson{Email: email, Name: name})
	if err != nil {
		return "", err
	}
	tx.Record(event)
	return added.ID, tx.Add(added)
}

// mayHave refuses the directory an account that is not its own. An address alone gives it
// no account of an administrator, which may be the one for emergencies, and none of
// somebody who comes in by another provider.
func mayHave(c sso.Config, h store.Holder, externalID string) error {
	switch {
	case h.Known && !h.Removed:
		return taken
	case h.Known && !h.ByExternalID:
		return formerAccount
	case h.Known:
		return nil
	case h.Subject != "" && c.IDClaim() == "sub":
		// The provider has said whose it is.
		if h.Subject == externalID {
			return nil
		}
		return localAccount
	case !c.LinkByEmail || h.Subject == "" && (h.Administers || h.Elsewhere):
		return localAccount
	}
	return nil
}

// directoryEmail is the address of an account that is made, as single sign-on takes them.
func directoryEmail(c sso.Config, e UserEntry) (string, error) {
	email := strings.ToLower(e.Email)
	_, domain, _ := strings.Cut(email, "@")
	if !plainASCII(email) || emailFits(email, e.Email) != nil || !slices.Contains(c.EmailDomains, domain) {
		return "", outsideDirectory
	}
	return email, nil
}

func plainASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// ChangeUser changes what the directory says of somebody, as change says, which is given
// what there is at that moment. The address stays.
func (d Directory) ChangeUser(ctx context.Context, by access.Initiator, id string, change func(DirectoryUser) (UserEntry, error)) (DirectoryUser, error) {
	err := d.change(ctx, func(tx *store.DirectoryChange, c providing) error {
		u, err := known(tx, id)
		if err != nil {
			return err
		}
		e, err := change(u)
		if err == nil {
			err = e.validate()
		}
		if err != nil {
			return err
		}
		if e.UserName != u.UserName || e.ExternalID != u.ExternalID || e.Parts != u.Parts {
			if err := tx.Put(e.of(id)); err != nil {
				return err
			}
			// The names themselves are personal data, and stay out of the log.
			tx.Record(changed(by, "DIRECTORY_USER_CHANGED", "The directory has changed what it calls a person.", id,
				map[string]any{"person": id, "user_name": e.UserName != u.UserName, "external_id": e.ExternalID != u.ExternalID, "name": e.Parts != u.Parts}))
		}
		return d.setAccount(tx, by, c, id, e.Name, e.Active)
	})
	if err != nil {
		return DirectoryUser{}, err
	}
	return d.User(ctx, id)
}

// known is somebody whom the directory has.
func known(tx *store.DirectoryChange, id string) (DirectoryUser, error) {
	u, _, err := tx.User(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && u.Removed {
		err = noSuchUser
	}
	return u, err
}

// of is what is kept of an entry as it was sent.
func (e UserEntry) of(id string) DirectoryUser {
	return DirectoryUser{ID: id, UserName: e.UserName, ExternalID: e.ExternalID, Parts: e.Parts}
}

// validate refuses names that cannot be kept.
func (e UserEntry) validate() error {
	for _, part := range []string{e.Parts.Given, e.Parts.Family, e.Parts.Formatted} {
		if utf8.RuneCountInString(part) > maxNamePart || strings.ContainsFunc(part, unicode.IsControl) {
			return &access.Refusal{Kind: access.Invalid, Code: "unfit_name", Detail: fmt.Sprintf("givenName, familyName and formatted have at most %d letters each, on one line.", maxNamePart)}
		}
	}
	switch {
	case e.UserName == "" || len(e.UserName) > maxUserName || !plainASCII(e.UserName):
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_user_name", Detail: fmt.Sprintf("userName is missing, longer than %d bytes, or not in plain letters.", maxUserName)}
	case len(e.ExternalID) > maxExternalID || strings.ContainsFunc(e.ExternalID, unseen):
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_external_id", Detail: fmt.Sprintf("externalId has at most %d bytes, all of them to be seen.", maxExternalID)}
	}
	return nil
}

// setAccount gives an account its name, and lets the person in or keeps them out. Who was
// disabled by an administrator stays so.
func (d Directory) setAccount(tx *store.DirectoryChange, by access.Initiator, c providing, id, name string, active *bool) error {
	u, now, err := tx.User(id)
	if err != nil {
		return err
	}
	if name != now.Name && nameFits(name) == nil {
		tx.Record(changed(by, "USER_RENAMED", "A person was given another name.", id, map[string]any{"person": id}))
		if err := tx.Edit(id, store.AccountEdit{Name: name}); err != nil {
			return err
		}
	}
	switch {
	case active == nil:
	case !*active && !now.Disabled:
		return d.disable(tx, by, now)
	case *active && u.ByDirectory:
		roles := slices.DeleteFunc(slices.Clone(now.Roles), func(role string) bool { return !c.given(role) })
		tx.Record(changed(by, "USER_ENABLED", "A person was enabled again.", id, roleChange(id, nil, roles)))
		return tx.Edit(id, store.AccountEdit{Enable: true, SetRoles: len(roles) != len(now.Roles), Roles: roles, PasswordHash: store.NoPassword, SignOut: true})
	}
	return nil
}

// disable keeps somebody out from now on, unless nobody else administers.
func (d Directory) disable(tx *store.DirectoryChange, by access.Initiator, now store.LockedAccount) error {
	if now.Has(access.AdminRole) && now.OtherAdministrators == 0 {
		return lastToSignIn
	}
	tx.Record(changed(by, "USER_DISABLED", "A person was disabled.", now.ID, roleChange(now.ID, now.Roles, nil)))
	return tx.Disable(now.ID)
}

// RemoveUser disables somebody whom the directory has no more. The account stays, for
// what the log says of it.
func (d Directory) RemoveUser(ctx context.Context, by access.Initiator, id string) error {
	return d.change(ctx, func(tx *store.DirectoryChange, c providing) error {
		if _, err := known(tx, id); err != nil {
			return err
		}
		gone := false
		if err := d.setAccount(tx, by, c, id, "", &gone); err != nil {
			return err
		}
		tx.Record(changed(by, "DIRECTORY_USER_REMOVED", "The directory has a person no more.", id, map[string]any{"person": id}))
		if err := tx.Remove(id); err != nil {
			return err
		}
		return d.giveRoles(tx, by, c, []string{id}) // those of groups are gone with them
	})
}

// AddGroup makes a group, which gives its members the roles that the settings name.
func (d Directory) AddGroup(ctx context.Context, by access.Initiator, e GroupEntry) (DirectoryGroup, error) {
	id := store.NewID("grp")
	return d.changeGroup(ctx, by, id, func(*store.DirectoryChange) (DirectoryGroup, GroupEntry, error) {
		return DirectoryGroup{ID: id}, e, nil
	})
}

// ChangeGroup changes a group as change says, which is given it as it is at that moment.
func (d Directory) ChangeGroup(ctx context.Context, by access.Initiator, id string, change func(DirectoryGroup) (GroupEntry, error)) (DirectoryGroup, error) {
	return d.changeGroup(ctx, by, id, func(tx *store.DirectoryChange) (DirectoryGroup, GroupEntry, error) {
		g, err := tx.Group(id)
		if errors.Is(err, store.ErrNotFound) {
			err = noSuchGroup
		}
		if err != nil {
			return g, GroupEntry{}, err
		}
		e, err := change(g)
		return g, e, err
	})
}

func (d Directory) changeGroup(ctx context.Context, by access.Initiator, id string, read func(*store.DirectoryChange) (DirectoryGroup, GroupEntry, error)) (DirectoryGroup, error) {
	err := d.change(ctx, func(tx *store.DirectoryChange, c providing) error {
		was, e, err := read(tx)
		if err == nil {
			err = e.validate()
		}
		if err != nil {
			return err
		}
		in, out := difference(was, e.Members)
		if was.Name == e.Name && was.ExternalID == e.ExternalID && len(in)+len(out) == 0 {
			return nil
		}
		if err := tx.PutGroup(DirectoryGroup{ID: id, Name: e.Name, ExternalID: e.ExternalID}); err != nil {
			return err
		}
		if all, err := tx.SetMembers(id, in, out); err != nil {
			return err
		} else if !all {
			return unknownMembers
		}
		tx.Record(groupChanged(by, "DIRECTORY_GROUP_CHANGED", "A group of the directory was made or changed.", id, c.Roles[e.Name], len(in), len(out)))
		concerned := slices.Concat(in, out)
		if was.Name != e.Name {
			concerned = append(concerned, ids(was)...)
		}
		return d.giveRoles(tx, by, c, uniqueRoles(concerned))
	})
	if err != nil {
		return DirectoryGroup{}, err
	}
	list, err := d.Groups(ctx, id, true)
	if err == nil && len(list) == 0 {
		err = noSuchGroup // it was deleted meanwhile
	}
	if err != nil {
		return DirectoryGroup{}, err
	}
	return list[0], nil
}

func (e GroupEntry) validate() error {
	switch {
	case e.Name == "" || len(e.Name) > maxGroupName || strings.ContainsFunc(e.Name, unseen):
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_group_name", Detail: fmt.Sprintf("displayName has 1 to %d bytes, all of them to be seen.", maxGroupName)}
	case len(e.ExternalID) > maxExternalID || strings.ContainsFunc(e.ExternalID, unseen):
		return &access.Refusal{Kind: access.Invalid, Code: "unfit_external_id", Detail: fmt.Sprintf("externalId has at most %d bytes, all of them to be seen.", maxExternalID)}
	case len(e.Members) > maxMembers:
		return &access.Refusal{Kind: access.Invalid, Code: "too_many_members", Detail: fmt.Sprintf("A group has at most %d members.", maxMembers)}
	}
	return nil
}

// RemoveGroup deletes a group, and takes the roles that it gave.
func (d Directory) RemoveGroup(ctx context.Context, by access.Initiator, id string) error {
	return d.change(ctx, func(tx *store.DirectoryChange, c providing) error {
		g, err := tx.Group(id)
		if errors.Is(err, store.ErrNotFound) {
			return noSuchGroup
		}
		if err == nil {
			err = tx.DeleteGroup(id)
		}
		if err != nil {
			return err
		}
		tx.Record(groupChanged(by, "DIRECTORY_GROUP_DELETED", "A group of the directory was deleted.", id, c.Roles[g.Name], 0, len(g.Members)))
		return d.giveRoles(tx, by, c, ids(g))
	})
}

func ids(g DirectoryGroup) (list []string) {
	for _, m := range g.Members {
		list = append(list, m.ID)
	}
	return list
}

// difference are those who come into a group and those who leave it.
func difference(was DirectoryGroup, members []string) (in, out []string) {
	there, wanted := map[string]bool{}, map[string]bool{}
	for _, id := range ids(was) {
		there[id] = true
	}
	for _, id := range members {
		if !wanted[id] && !there[id] {
			in = append(in, id)
		}
		wanted[id] = true
	}
	for _, id := range ids(was) {
		if !wanted[id] {
			out = append(out, id)
		}
	}
	return in, out
}

// groupChanged tells of a group by its id and by the roles that it gives: its name may be
// a person's.
func groupChanged(by access.Initiator, code, message, id string, roles []string, in, out int) engine.Event {
	return changed(by, code, message, id, map[string]any{"roles": append([]string{}, roles...), "members_added": in, "members_removed": out})
}

// giveRoles gives people the roles of the groups that they are in. The last administrator
// is not taken the role: that is refused, so that the directory hears of it.
func (d Directory) giveRoles(tx *store.DirectoryChange, by access.Initiator, c providing, people []string) error {
	if len(people) == 0 {
		return nil
	}
	groups, err := tx.GroupsOf(people)
	if err != nil {
		return err
	}
	accounts, administrators, err := tx.Roles(people)
	if err != nil {
		return err
	}
	to := map[string][]string{}
	for _, id := range people {
		now, names := accounts[id], groups[id]
		if now.ID == "" {
			continue
		}
		now.OtherAdministrators = len(administrators)
		if administrators[id] {
			now.OtherAdministrators--
		}
		roles, kept, err := rolesByGroups(c.Config, names, now, c.given)
		if kept && !now.Disabled {
			return lastToSignIn
		}
		if err != nil {
			return &access.Refusal{Kind: access.Invalid, Code: "too_many_roles", Detail: fmt.Sprintf("Nobody has more than %d roles.", maxRoles)}
		}
		if slices.Equal(roles, uniqueRoles(now.Roles)) {
			continue
		}
		if !slices.Contains(roles, access.AdminRole) {
			delete(administrators, id)
		}
		to[id] = roles
		tx.Record(changed(by, "USER_ROLES_CHANGED", "A person’s roles were changed.", id, roleChange(id, now.Roles, roles)))
	}
	return tx.SetRoles(to)
}
