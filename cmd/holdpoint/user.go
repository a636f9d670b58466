package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

type userCommand struct {
	Add      userAdd           `cmd:"" help:"Add somebody who signs in to the console."`
	Invite   userInvite        `cmd:"" help:"Add somebody who sets a password of their own, by a link."`
	List     userList          `cmd:"" help:"List everybody."`
	Set      userSet           `cmd:"" help:"Change somebody's name and roles."`
	Disable  userDisable       `cmd:"" help:"Keep somebody out from now on; votes in what still waits become void."`
	Enable   userEnable        `cmd:"" help:"Let somebody who was disabled in again, with a new password."`
	Password userResetPassword `cmd:"" name:"reset-password" help:"Make somebody's password void, and a link by which they set another."`
	SignOut  userSignOut       `cmd:"" help:"End all sessions of somebody."`
	Unlink   userUnlink        `cmd:"" help:"Have no provider of single sign-on open somebody's account any more."`
	Reset    userReset         `cmd:"" name:"reset-factors" help:"Remove somebody's authenticator app and passkeys, when they are lost."`
}

type userAdd struct {
	approvable
	Email         string   `arg:"" help:"E-mail address to sign in with."`
	Name          string   `help:"Name to show; the address when left out."`
	Role          []string `help:"What the person may decide, such as reviewer; again for more. “auditor” reads everything."`
	SameAs        string   `help:"E-mail address of another account of the same human being: both have one voice." placeholder:"EMAIL"`
	PasswordStdin bool     `help:"Read the password from standard input instead of making one."`
}

// Help is shown by "holdpoint user add --help".
func (userAdd) Help() string {
	return `Example:
  holdpoint user add ada@example.com --name "Ada Lovelace" --role reviewer --role finance-approver`
}

func (u *userAdd) Run(ctx context.Context, c *cli) error {
	password, made := strings.ToLower(rand.Text()), true
	if u.PasswordStdin {
		interruptible()
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil && line == "" {
			return fmt.Errorf("read the password: %w", err)
		}
		password, made = strings.TrimRight(line, "\r\n"), false
	}
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	p, waits, err := a.People.Add(ctx, by, admin.NewPerson{Email: u.Email, Name: u.Name, Roles: u.Role, Password: password, SameAs: u.SameAs})
	if err != nil {
		return sameAs(err)
	}
	if err := u.warn(ctx, a, p.Roles); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "added %s (%s), roles: %s\n", p.Email, p.ID, cmp.Or(strings.Join(p.Roles, ", "), "none"))
	if made {
		fmt.Fprintf(terminal, "password (shown only now): %s\n", password)
	}
	if waits != "" {
		fmt.Fprintln(terminal, rolesWait(waits))
	} else if len(p.Roles) == 0 {
		fmt.Fprintln(terminal, "without a --role there is nothing that this person may decide")
	}
	return nil
}

// sameAs is plain, which names the flag where somebody is not there.
func sameAs(err error) error {
	if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && refusal.Code == "unknown_people" {
		return fmt.Errorf("--same-as: %s", refusal.Detail)
	}
	return plain(err)
}

// warn says which of the roles no rule asks for: they may be meant for rules to come.
func (u *userAdd) warn(ctx context.Context, a *admin.Admin, roles []string) error {
	known, err := a.People.Roles(ctx)
	if err != nil {
		return err
	}
	for _, role := range roles {
		if !slices.Contains(known, role) {
			fmt.Fprintf(os.Stderr, "no rule asks for the role %q; known roles: %s\n", role, strings.Join(known, ", "))
		}
	}
	return nil
}

type userList struct {
	databaseFlags
	JSON bool `name:"json" help:"Print one JSON object for each on standard output."`
}

// listedPerson is what "user list --json" prints of somebody.
type listedPerson struct {
	ID         string     `json:"id"`
	Email      string     `json:"email"`
	Name       string     `json:"name"`
	Identity   string     `json:"identity"`
	Roles      []string   `json:"roles"`
	Disabled   bool       `json:"disabled"`
	CreatedAt  time.Time  `json:"created_at"`
	LastSignIn *time.Time `json:"last_sign_in,omitempty"`
	TOTP       bool       `json:"totp"`
	Passkeys   int        `json:"passkeys"`
}

func (u *userList) Run(ctx context.Context, c *cli) error {
	a, err := u.reading(ctx, c)
	if err != nil {
		return err
	}
	if u.JSON {
		return u.json(ctx, a)
	}
	people, err := a.People.Store.People.List(ctx)
	if err != nil {
		return err
	}
	if len(people) == 0 {
		fmt.Fprintln(terminal, "nobody yet:", u.command("user add EMAIL --role reviewer"))
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EMAIL\tNAME\tROLES\tSTATE\tID")
	for _, p := range people {
		state := "active"
		if p.Disabled {
			state = "disabled"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Email, p.Name, strings.Join(p.Roles, ","), state, p.ID)
	}
	return table.Flush()
}

func (u *userList) json(ctx context.Context, a *admin.Admin) error {
	accounts, err := a.People.Accounts(ctx)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, p := range accounts {
		err := out.Encode(listedPerson{
			ID: p.ID, Email: p.Email, Name: p.Name, Identity: p.Identity, Roles: append([]string{}, p.Roles...), Disabled: p.Disabled,
			CreatedAt: p.CreatedAt.UTC(), LastSignIn: p.LastSignIn, TOTP: p.TOTPSince != nil, Passkeys: p.Passkeys,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type userDisable struct {
	databaseFlags
	Email string `arg:"" help:"E-mail address of the account."`
}

func (u *userDisable) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	_, err = a.People.Disable(ctx, by, u.Email, nil)
	if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && (refusal.Code == "not_found" || refusal.Code == "disabled") {
		return fmt.Errorf("there is no active account with the address %s", strings.ToLower(u.Email))
	}
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "disabled %s: signed out everywhere, and votes in what still waits are void\n", strings.ToLower(u.Email))
	return nil
}

type userReset struct {
	databaseFlags
	Email string `arg:"" help:"E-mail address of the account."`
}

// Help is shown by "holdpoint user reset-factors --help".
func (userReset) Help() string {
	return `From then on the password alone signs in, until there is a second factor again.
Be sure who asks for it: whoever has the password and no second factor to show
is who the second factor was to keep out.

Example:
  holdpoint user reset-factors ada@example.com`
}

func (u *userReset) Run(ctx context.Context, c *cli) error {
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	removed, err := a.People.ResetFactors(ctx, by, u.Email)
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "removed %d second factor(s) of %s: signed out everywhere\n", removed, strings.ToLower(u.Email))
	return nil
}
