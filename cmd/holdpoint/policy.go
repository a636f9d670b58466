package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/policy"
	"holdpoint/engine/source"
	"holdpoint/internal/gate"
)

type policyCommand struct {
	Check    policyCheck         `cmd:"" help:"Say what is wrong with policies, and what is probably not meant."`
	Test     policyTests         `cmd:"" help:"Run files of policy tests."`
	Explain  policyExplain       `cmd:"" help:"Show what a policy makes of one call, rule by rule."`
	Simulate policySimulate      `cmd:"" help:"Show what a new policy would change for past calls."`
	Propose  policyPropose       `cmd:"" help:"Have people approve a policy before it comes into force."`
	Activate policyActivate      `cmd:"" help:"Put a policy in force without asking anybody, in an emergency."`
	Sign     policySign          `cmd:"" help:"Put a signature into a policy: of a person's key, or with the shared secret."`
	Verify   policyVerify        `cmd:"" help:"Check a policy's signatures."`
	Signer   policySignerCommand `cmd:"" help:"Register, list and revoke the keys with which people sign policies."`
}

// complain prints an error as main does, for commands that end with a code of
// their own.
func complain(err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(terminalError, "holdpoint:", strings.TrimSuffix(line, "\n"))
	}
}

// unreadable reports an error and ends the program with the code for what
// cannot be read.
func unreadable(err error) error {
	complain(err)
	return exitCode(exitUnreadable)
}

// printAll prints problems, one a line, where nobody takes them for output.
func printAll[P fmt.Stringer](problems []P) {
	for _, p := range problems {
		fmt.Fprintln(terminalError, p)
	}
}

// loadPolicy reads a bundle that has to be right. Its problems are printed; the
// error is an exit code.
func loadPolicy(path string, o policy.Options) (*policy.Bundle, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	if err != nil {
		return nil, unreadable(err)
	}
	o.File = path
	b, problems := policy.Load(data, o)
	if b == nil {
		printAll(problems)
		return nil, exitCode(exitInvalid)
	}
	return b, nil
}

// readSecret reads what policies are signed with from a file. White space
// around it does not count.
func readSecret(ctx context.Context, c *cli, path string) ([]byte, error) {
	f, err := c.keyFile("policy_secret", path)
	if err != nil {
		return nil, err
	}
	data, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < minPolicySecret {
		return nil, fmt.Errorf("%s: a secret has at least %d characters", path, minPolicySecret)
	}
	return []byte(secret), nil
}

// minPolicySecret is the shortest secret that serve takes as policy_secret.
const minPolicySecret = 16

// reviewersOf counts the people of a file who have a role: a list of people, or
// a mapping with one under "reviewers", as in dev.json. Of each only the roles
// are looked at.
func reviewersOf(path string) (func(role string) []string, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	if err != nil {
		return nil, err
	}
	root, problems := source.Read(data, source.Options{File: path})
	if len(problems) > 0 {
		return nil, errors.New(problems[0].String())
	}
	if list, ok := root.Get("reviewers"); ok {
		root = list
	}
	var people []engine.Person
	for i := range root.Value.Len() {
		if root.Value.Kind() != canon.ArrayKind {
			break
		}
		roles, ok := root.Element(i).Get("roles")
		p := engine.Person{Identity: fmt.Sprint(i)}
		for _, role := range roles.Value.Elements() {
			p.Roles = append(p.Roles, role.Str())
		}
		if !ok || roles.Value.Kind() != canon.ArrayKind || slices.Contains(p.Roles, "") {
			problem := root.Element(i).Problem("type", "a person has no list of roles", "write them as - {name: Ada, roles: [reviewer]}")
			problem.File = path
			return nil, errors.New(problem.String())
		}
		people = append(people, p)
	}
	if len(people) == 0 {
		return nil, fmt.Errorf("%s: there are no people in it (write them as - {name: Ada, roles: [reviewer]})", path)
	}
	return gate.Reviewers(people), nil
}

// reviewersIn lists the people of a database who have a role.
func reviewersIn(ctx context.Context, w databaseFlags, c *cli) (func(role string) []string, error) {
	s, err := w.open(ctx, c, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	people, err := s.People.List(ctx)
	if err != nil {
		return nil, err
	}
	return gate.Reviewers(people), nil
}

// left says how long a bundle still lives.
func left(b *policy.Bundle, now time.Time) string {
	d := b.ExpiresAt.Sub(now)
	switch {
	case d <= 0:
		return "expired"
	case d < 48*time.Hour:
		return "expires in " + d.Round(time.Minute).String()
	}
	return fmt.Sprintf("expires in %d days", int(d.Hours()/24))
}
