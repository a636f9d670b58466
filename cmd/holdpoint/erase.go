package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"holdpoint/internal/admin"
)

type eraseCommand struct {
	Approval eraseApproval `cmd:"" help:"Erase an approval's arguments, answers and comments."`
	Person   erasePerson   `cmd:"" help:"Erase a person's name, address, means to sign in and comments."`
}

type eraseApproval struct {
	databaseFlags
	ID     string `arg:"" help:"The approval, apr_…."`
	Reason string `help:"Why. It stays on record: name nobody in it." required:"" placeholder:"TEXT"`
	Yes    bool   `help:"Do not ask whether it is meant."`
}

// Help is shown by "holdpoint erase approval --help".
func (eraseApproval) Help() string {
	return `What was asked for, what was supplied and what people wrote is gone for good; who
decided what, and when, stays, and the audit log verifies as before. It is refused
while a legal hold covers it, while anything of it is open, and for as long after
its end as the floor says (“holdpoint retention show”).

Example:
  holdpoint erase approval apr_… --reason "request 4711"`
}

func (e *eraseApproval) Run(ctx context.Context, c *cli) error {
	return e.erase(ctx, c, "the approval "+e.ID, e.Yes, admin.EraseRequest{ApprovalID: e.ID, Reason: e.Reason})
}

type erasePerson struct {
	databaseFlags
	Email  string `arg:"" help:"E-mail address or id of the account."`
	Reason string `help:"Why. It stays on record: name nobody in it." required:"" placeholder:"TEXT"`
	Yes    bool   `help:"Do not ask whether it is meant."`
}

// Help is shown by "holdpoint erase person --help".
func (erasePerson) Help() string {
	return `The account is disabled, and called “erased usr_…” from then on. The id stays, so
that the audit log still says that one human being did what. It is refused while a
legal hold covers the person or something that they took part in, while anything of
theirs is open, and below the floor. What it cannot reach: addresses in policies
and in the settings file.

Example:
  holdpoint erase person ada@example.com --reason "request 4712"`
}

func (e *erasePerson) Run(ctx context.Context, c *cli) error {
	return e.erase(ctx, c, "the person "+e.Email, e.Yes, admin.EraseRequest{Person: e.Email, Reason: e.Reason})
}

// erase asks whether it is meant, and erases.
func (w databaseFlags) erase(ctx context.Context, c *cli, what string, yes bool, q admin.EraseRequest) error {
	if !yes {
		if err := confirmed("erase "+what+" for good?", "erased"); err != nil {
			return err
		}
	}
	r, by, err := w.administration(ctx, c)
	if err != nil {
		return err
	}
	erased, err := r.Retention.Erase(ctx, by, q, nil)
	if err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "erased %s (%s): %s\n", erased.Subject, erased.ID, strings.ReplaceAll(strings.Join(erased.Parts, ", "), "_", " "))
	return nil
}

// confirmed asks a person at a terminal; without one, the answer is no, and nothing was
// done.
func confirmed(question, done string) error {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return errors.New("there is nobody to ask whether this is meant: say --yes")
	}
	interruptible()
	fmt.Fprintf(terminalError, "%s Type yes: ", question)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && line == "" { // /dev/null is a device, too
		fmt.Fprintln(terminalError)
		return fmt.Errorf("nobody has answered, and nothing was %s: say --yes where nobody can", done)
	}
	if strings.TrimSpace(line) != "yes" {
		return errors.New("nothing was " + done)
	}
	return nil
}
