package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

type userCommand struct {
	Add     userAdd     `cmd:"" help:"Add somebody who signs in to the console."`
	List    userList    `cmd:"" help:"List everybody."`
	Disable userDisable `cmd:"" help:"Keep somebody out from now on; votes in what still waits become void."`
	Reset   userReset   `cmd:"" name:"reset-factors" help:"Remove somebody's authenticator app and passkeys, when they are lost."`
}

type userAdd struct {
	where
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
	email := strings.ToLower(strings.TrimSpace(u.Email))
	if !access.ValidEmail(email) {
		return fmt.Errorf("%q is no e-mail address", u.Email)
	}
	password, made := strings.ToLower(rand.Text()), true
	if u.PasswordStdin {
		interruptible()
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil && line == "" {
			return fmt.Errorf("read the password: %w", err)
		}
		password, made = strings.TrimRight(line, "\r\n"), false
	}
	hash, err := identity.HashPassword(password)
	if err != nil {
		return err
	}
	s, err := u.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	p := engine.Person{ID: store.NewID("usr"), Email: email, Name: u.Name, Roles: u.Role}
	if p.Name == "" {
		p.Name = email
	}
	if p.Roles == nil {
		p.Roles = []string{}
	}
	p.Identity = p.ID
	if u.SameAs != "" {
		other, _, err := s.People.ByEmail(ctx, strings.ToLower(u.SameAs))
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("--same-as: there is nobody with the address %s", u.SameAs)
		}
		if err != nil {
			return err
		}
		p.Identity = other.Identity
	}
	err = s.People.Create(ctx, p, hash, changed("USER_ADDED", "A person was added.", p.ID, rolesOf(p.ID, nil, p.Roles)))
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("there is somebody with the address %s already", email)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "added %s (%s), roles: %s\n", email, p.ID, strings.Join(p.Roles, ", "))
	if made {
		fmt.Fprintf(terminal, "password (shown only now): %s\n", password)
	}
	if len(p.Roles) == 0 {
		fmt.Fprintln(terminal, "without a --role there is nothing that this person may decide")
	}
	return nil
}

type userList struct{ where }

func (u *userList) Run(ctx context.Context, c *cli) error {
	s, err := u.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	people, err := s.People.List(ctx)
	if err != nil {
		return err
	}
	if len(people) == 0 {
		fmt.Fprintln(terminal, "nobody yet: holdpoint user add EMAIL --role reviewer")
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

type userDisable struct {
	where
	Email string `arg:"" help:"E-mail address of the account."`
}

func (u *userDisable) Run(ctx context.Context, c *cli) error {
	s, err := u.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	email := strings.ToLower(u.Email)
	p, _, err := s.People.ByEmail(ctx, email)
	if err == nil {
		err = s.People.Disable(ctx, email, changed("USER_DISABLED", "A person was disabled.", p.ID, rolesOf(p.ID, p.Roles, nil)))
	}
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no active account with the address %s", email)
	}
	if err == nil {
		fmt.Fprintf(terminal, "disabled %s: signed out everywhere, and votes in what still waits are void\n", email)
	}
	return err
}

type userReset struct {
	where
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
	s, err := u.open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	email := strings.ToLower(u.Email)
	var removed int64
	p, _, err := s.People.ByEmail(ctx, email)
	if err == nil {
		removed, err = s.Factors.Reset(ctx, email, changed("FACTORS_RESET", "A person's second factors were removed.", p.ID, map[string]any{"person": p.ID}))
	}
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no account with the address %s", email)
	}
	if err == nil {
		fmt.Fprintf(terminal, "removed %d second factor(s) of %s: signed out everywhere\n", removed, email)
	}
	return err
}
