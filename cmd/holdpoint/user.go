package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"holdpoint/internal/admin"
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
	p, err := a.People.Add(ctx, by, admin.NewPerson{Email: u.Email, Name: u.Name, Roles: u.Role, Password: password, SameAs: u.SameAs})
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "added %s (%s), roles: %s\n", p.Email, p.ID, strings.Join(p.Roles, ", "))
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
	s, err := u.open(ctx, c, false)
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
	a, by, err := u.administration(ctx, c)
	if err != nil {
		return err
	}
	if err := a.People.Disable(ctx, by, u.Email); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "disabled %s: signed out everywhere, and votes in what still waits are void\n", strings.ToLower(u.Email))
	return nil
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
