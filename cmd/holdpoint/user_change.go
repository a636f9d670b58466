package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdpoint/internal/admin"
)

// unknownRoles lets an operator give a role before the policy that uses it is in force.
type unknownRoles struct {
	AllowUnknownRole bool `help:"Take roles that no rule asks for yet."`
}

type userInvite struct {
	approvable
	byMail
	unknownRoles
	Email  string   `arg:"" help:"E-mail address to sign in with."`
	Name   string   `help:"Name to show; the address when left out."`
	Role   []string `help:"What the person may decide, such as reviewer; again for more."`
	SameAs string   `help:"E-mail address of another account of the same human being: both have one voice." placeholder:"EMAIL"`
}

// Help is shown by "holdpoint user invite --help".
func (userInvite) Help() string {
	return `Prints a link that is good once, for 72 hours. Whoever opens it sets the password:
send it to nobody else, by a way that you trust, or have it sent (--mail).

Example:
  holdpoint user invite ada@example.com --name "Ada Lovelace" --role reviewer`
}

func (u *userInvite) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err == nil {
		err = u.check(a)
	}
	if err != nil {
		return err
	}
	link, err := a.People.Invite(ctx, by, admin.NewPerson{Email: u.Email, Name: u.Name, Roles: u.Role, SameAs: u.SameAs}, u.AllowUnknownRole, nil)
	if err != nil {
		return sameAs(err)
	}
	fmt.Fprintf(terminal, "added %s (%s), roles: %s\n", link.Person.Email, link.Person.ID, strings.Join(link.Person.Roles, ", "))
	return u.send(ctx, a, link)
}

// rolesWait says by which approval somebody gets their roles.
func rolesWait(id string) string { return "the roles wait for their approval, as " + id }

// byMail sends a link instead of printing it.
type byMail struct {
	Mail bool `help:"Send the link to the person by mail (smtp), and do not print it."`
}

// check refuses, before anything is changed, what cannot be sent.
func (m byMail) check(a *admin.Admin) error {
	if m.Mail && !a.People.MailsLinks() {
		return errors.New("--mail: there is no mail server: the setting smtp is missing. Nothing was changed")
	}
	return nil
}

// send brings a link to the person, or to whoever runs the command. One that could not be sent
// is printed: it exists by then.
func (m byMail) send(ctx context.Context, a *admin.Admin, link admin.PasswordLink) error {
	if link.RolesWait != "" {
		fmt.Fprintln(terminal, rolesWait(link.RolesWait))
	}
	if !m.Mail {
		printLink(link)
		return nil
	}
	if err := a.People.Mail(ctx, link); err != nil {
		printLink(link)
		return err
	}
	fmt.Fprintf(terminal, "the link to set a password was sent to %s; it is good once, until %s\n", link.Person.Email, link.ExpiresAt.Format(time.RFC3339))
	return nil
}

// printLink prints a link by which somebody sets a password.
func printLink(link admin.PasswordLink) {
	fmt.Fprintf(terminal, "link to set a password (shown only now, good once, until %s):\n%s\n", link.ExpiresAt.Format(time.RFC3339), link.URL)
}

type userSet struct {
	approvable
	unknownRoles
	Email      string   `arg:"" help:"E-mail address of the account."`
	Name       *string  `help:"Name to show."`
	Role       []string `help:"The roles from now on, instead of those that there are; again for more."`
	AddRole    []string `help:"A role more; again for more." placeholder:"ROLE"`
	RemoveRole []string `help:"A role less; again for more." placeholder:"ROLE"`
}

// Help is shown by "holdpoint user set --help".
func (userSet) Help() string {
	return `Votes count by the roles that their voters have when enough people have voted:
without the role, a vote in what still waits is void.

Examples:
  holdpoint user set ada@example.com --add-role finance-approver
  holdpoint user set ada@example.com --role reviewer --name "Ada King"`
}

func (u *userSet) Run(ctx context.Context, c *cli) error {
	change := admin.PersonChange{Name: u.Name, AddRoles: u.AddRole, RemoveRoles: u.RemoveRole, AllowUnknownRoles: u.AllowUnknownRole, Reason: u.Reason}
	if len(u.Role) > 0 {
		change.Roles = &u.Role
	}
	switch {
	case u.Name == nil && len(u.Role)+len(u.AddRole)+len(u.RemoveRole) == 0:
		return errors.New("say what to change: --name, --role, --add-role or --remove-role")
	case len(u.Role) > 0 && len(u.AddRole)+len(u.RemoveRole) > 0:
		return errors.New("say either --role, for all of them, or --add-role and --remove-role")
	}
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	p, err := a.People.Change(ctx, by, u.Email, change, nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "changed %s: %s, roles: %s\n", p.Email, p.Name, strings.Join(p.Roles, ", "))
	return nil
}

type userEnable struct {
	approvable
	byMail
	Email string `arg:"" help:"E-mail address of the account."`
}

// Help is shown by "holdpoint user enable --help".
func (userEnable) Help() string {
	return `The same account, with its roles. The former password is void: a link is printed by
which the person sets another. Second factors stay; “user reset-factors” removes them.`
}

func (u *userEnable) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err == nil {
		err = u.check(a)
	}
	if err != nil {
		return err
	}
	link, err := a.People.Enable(ctx, by, u.Email, nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "enabled %s, roles: %s\n", link.Person.Email, strings.Join(link.Person.Roles, ", "))
	return u.send(ctx, a, link)
}

type userResetPassword struct {
	databaseFlags
	byMail
	Email string `arg:"" help:"E-mail address of the account."`
}

// Help is shown by "holdpoint user reset-password --help".
func (userResetPassword) Help() string {
	return `The former password is void at once, and all sessions end. Second factors stay:
“user reset-factors” removes them.`
}

func (u *userResetPassword) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err == nil {
		err = u.check(a)
	}
	if err != nil {
		return err
	}
	link, err := a.People.ResetPassword(ctx, by, u.Email, nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "the password of %s is void: signed out everywhere\n", link.Person.Email)
	return u.send(ctx, a, link)
}

type userUnlink struct {
	databaseFlags
	Email string `arg:"" help:"E-mail address of the account."`
}

// Help is shown by "holdpoint user unlink --help".
func (userUnlink) Help() string {
	return `For somebody whom the provider knows by another id since. All sessions end. Whoever
comes in next by the address (link_by_email) or as the directory's user (scim)
has the account: be sure who that is.

Example:
  holdpoint user unlink ada@example.com`
}

func (u *userUnlink) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	if _, err := a.People.Unlink(ctx, by, u.Email); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "no provider opens the account of %s any more: signed out everywhere\n", strings.ToLower(u.Email))
	return nil
}

type userSignOut struct {
	databaseFlags
	Email string `arg:"" help:"E-mail address of the account."`
}

func (u *userSignOut) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	if _, err := a.People.SignOut(ctx, by, u.Email, nil); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "signed %s out everywhere\n", strings.ToLower(u.Email))
	return nil
}
