package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"holdpoint/engine/policy"
	"holdpoint/engine/sshsig"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
)

type policySignerCommand struct {
	Add    policySignerAdd    `cmd:"" help:"Register the public key with which somebody signs policies."`
	List   policySignerList   `cmd:"" help:"List the keys with which people sign policies."`
	Revoke policySignerRevoke `cmd:"" help:"Have what a key signs count for nothing from now on."`
}

type policySignerAdd struct {
	databaseFlags
	Email string `arg:"" help:"E-mail address of the person."`
	Key   string `required:"" type:"path" help:"File with the public key, as ssh-keygen writes it: of type ed25519, or ed25519-sk on a security key." placeholder:"FILE.pub"`
}

// Help is shown by "holdpoint policy signer add --help".
func (policySignerAdd) Help() string {
	return `It takes the login that owns the database. Make sure that the key is theirs: have them
read its fingerprint to you (ssh-keygen -lf FILE.pub).

Example:
  holdpoint policy signer add ada@example.com --key ada.pub`
}

func (p *policySignerAdd) Run(ctx context.Context, c *cli) error {
	line, err := os.ReadFile(p.Key)
	if err != nil {
		return unreadable(err)
	}
	a, by, err := p.administration(ctx, c)
	if err != nil {
		return err
	}
	fingerprint, err := a.Changes.AddSigner(ctx, by, p.Email, line)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Key, plain(err))
	}
	fmt.Fprintf(terminal, "%s signs policies with %s from now on\n", p.Email, fingerprint)
	return nil
}

type policySignerList struct {
	databaseFlags
	listing
}

// Help is shown by "holdpoint policy signer list --help".
func (policySignerList) Help() string {
	return `Example:
  holdpoint policy signer list --json`
}

// listedSigner is what "policy signer list --json" prints of a key.
type listedSigner struct {
	Fingerprint string     `json:"fingerprint"`
	PublicKey   string     `json:"public_key"`
	PersonID    string     `json:"person_id"`
	Email       string     `json:"email"`
	Name        string     `json:"name,omitempty"`
	AddedAt     time.Time  `json:"added_at"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
	Disabled    bool       `json:"disabled"` // the person's account
}

func (p *policySignerList) Run(ctx context.Context, c *cli) error {
	s, err := p.open(ctx, c, false)
	if err != nil {
		return err
	}
	defer s.Close()
	in, err := s.Rules.Signing(ctx)
	if err != nil {
		return err
	}
	if p.JSON {
		return printEach(in.Keys, func(k store.PolicySigner) listedSigner {
			return listedSigner{k.Fingerprint, k.PublicKey, k.Person.ID, k.Person.Email, k.Person.Name, k.AddedAt.UTC(), k.RevokedAt, k.Person.Disabled}
		})
	}
	if len(in.Keys) == 0 {
		fmt.Fprintln(terminal, "nobody signs policies yet: holdpoint policy signer add EMAIL --key FILE.pub")
		return nil
	}
	table := tabwriter.NewWriter(terminal, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tOF\tNAME\tADDED\tSTATE")
	for _, k := range in.Keys {
		state := "active"
		switch {
		case k.RevokedAt != nil:
			state = "revoked " + k.RevokedAt.UTC().Format(time.DateOnly)
		case k.Person.Disabled:
			state = "account disabled"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", k.Fingerprint, k.Person.Email, k.Person.Name, k.AddedAt.UTC().Format(time.DateOnly), state)
	}
	return table.Flush()
}

type policySignerRevoke struct {
	databaseFlags
	Fingerprint string `arg:"" help:"SHA256:…, as “policy signer list” shows it."`
}

// Help is shown by "holdpoint policy signer revoke --help".
func (policySignerRevoke) Help() string {
	return `The policy that is in force stays so, whoever has signed it; the next one needs others.

Example:
  holdpoint policy signer revoke SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM`
}

func (p *policySignerRevoke) Run(ctx context.Context, c *cli) error {
	a, by, err := p.administration(ctx, c)
	if err != nil {
		return err
	}
	if err := a.Changes.RevokeSigner(ctx, by, p.Fingerprint); err != nil {
		return plain(err)
	}
	fmt.Fprintf(terminal, "revoked %s\n", p.Fingerprint)
	return nil
}

// personSigner is the private key in a file, or, for a public key, the one that the SSH agent has.
func personSigner(path string) (signer ssh.Signer, done func(), err error) {
	none := func() {}
	data, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	if err != nil {
		return nil, none, err
	}
	if key, err := sshsig.ParseKey(data); err == nil {
		return agentSigner(key, path)
	}
	signer, err = ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, none, fmt.Errorf("%s has a passphrase: run “ssh-add %s”, and name the public key, --key %s.pub", path, path, path)
	case err != nil:
		return nil, none, fmt.Errorf("%s is no SSH key in a file: make one with “ssh-keygen -t ed25519”; of one on a security key, name the .pub file, while your SSH agent has it", path)
	}
	return signer, none, nil
}

// agentSigner asks the SSH agent, which has keys with a passphrase, and those on security keys.
func agentSigner(key sshsig.Key, path string) (signer ssh.Signer, done func(), err error) {
	none := func() {}
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, none, fmt.Errorf("%s is a public key, and no SSH agent runs that could have the private one (SSH_AUTH_SOCK): run “ssh-add”, or name the private key", path)
	}
	conn, err := net.Dial("unix", socket) //nolint:noctx // a socket on this machine
	if err != nil {
		return nil, none, fmt.Errorf("reach the SSH agent: %w", err)
	}
	done = func() { _ = conn.Close() }
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		done()
		return nil, none, fmt.Errorf("ask the SSH agent for its keys: %w", err)
	}
	for _, s := range signers {
		if ssh.FingerprintSHA256(s.PublicKey()) == key.Fingerprint {
			return s, done, nil
		}
	}
	done()
	return nil, none, fmt.Errorf("the SSH agent has not the private key of %s: run “ssh-add %s”", path, strings.TrimSuffix(path, ".pub"))
}

// signBy is a bundle's file with the signature of a person's key put in.
func signBy(data []byte, file string, b *policy.Bundle, keyFile, environment string) ([]byte, sshsig.Key, error) {
	signer, done, err := personSigner(keyFile)
	if err != nil {
		return nil, sshsig.Key{}, err
	}
	defer done()
	statement := policy.Statement(b.Digest, environment)
	signature, err := sshsig.Sign(rand.Reader, signer, policy.SignatureNamespace, statement)
	if err != nil {
		return nil, sshsig.Key{}, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, err := sshsig.Verify(signature, policy.SignatureNamespace, statement)
	if err != nil {
		return nil, key, fmt.Errorf("%s: %w", keyFile, err)
	}
	root, err := readSource(data, file)
	if err != nil {
		return nil, key, err
	}
	list := policy.SignedBy(root.Value, environment, signature, key)
	signed, err := withField(data, root, "signed_by", string(list.Canonical()))
	return signed, key, err
}

// reportSigners says whose signatures a policy has for an environment, and whether they are enough.
func reportSigners(b *policy.Bundle, file, environment string, in store.Signing) error {
	for _, s := range rules.SignersOf(b, environment, in) {
		if s.Why == "" {
			fmt.Fprintf(terminal, "%s: signed by %s for %s with %s\n", file, s.Name(), environment, s.Key.Fingerprint)
		} else {
			fmt.Fprintf(terminal, "%s: signed for %s with %s (%s), which does not count: %s\n", file, environment, s.Key.Fingerprint, s.Name(), s.Why)
		}
	}
	if _, err := rules.Signed(b, environment, in); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if in.Rule == nil {
		fmt.Fprintf(terminal, "%s: nobody has to sign policies here (“holdpoint changes require signatures”), %s\n", file, b.Digest)
		return nil
	}
	fmt.Fprintf(terminal, "%s: signed as it has to be, by %d × %s, %s\n", file, in.Rule.Rule.Needed, in.Rule.Rule.Role, b.Digest)
	return nil
}
