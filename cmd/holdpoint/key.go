package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holdpoint/engine/shellword"
	"holdpoint/engine/token"
	"holdpoint/internal/admin"
)

type keyCommand struct {
	Create keyCreate `cmd:"" help:"Create an API key for an agent, its runtime, or an administrator."`
	List   keyList   `cmd:"" help:"List API keys, without their secrets."`
	Revoke keyRevoke `cmd:"" help:"Revoke an API key (key_…), or a signing key by its kid."`
	Log    keyLog    `cmd:"" help:"Make the key that the audit log's checkpoints are signed with."`
	Push   keyPush   `cmd:"" help:"Make the key that pushes to people's browsers are signed with."`
	Rotate keyRotate `cmd:"" help:"Put a fresh signing key into a key file; the former ones go on verifying."`
}

type keyCreate struct {
	databaseFlags
	Kind      string        `enum:"agent,runtime,admin" default:"agent" help:"agent: proposes calls; runtime: may also confirm on a user's behalf; admin: reads the audit log, and administers agents, tools and kill switches unless --scope says less."`
	Agent     string        `help:"Agent that the key belongs to; registered if it is new." placeholder:"ID"`
	Name      string        `help:"The agent's name, shown to reviewers."`
	Owner     string        `help:"E-mail address of the person who answers for the agent, and therefore never decides on its calls." placeholder:"EMAIL"`
	Person    string        `help:"E-mail address of the administrator whose own key it is, with --kind admin: what is done with it is on record in their name, and it is good for as long as they are one." placeholder:"EMAIL"`
	Label     string        `help:"What the key is for, for your own lists."`
	MaxState  string        `help:"The highest authorization_state that it may claim, if that is less than its kind's." enum:",none,user_claimed,authenticated,validated,confirmed" default:"" placeholder:"STATE"`
	Scope     []string      `help:"What it is for, if that is not all of its kind's: check, approvals, redeem, audit, admin; scim, for a directory, only by name." placeholder:"SCOPE"`
	ExpiresIn time.Duration `help:"How long the key lives; for ever when left out." placeholder:"DURATION"`
}

// Help is shown by "holdpoint key create --help".
func (keyCreate) Help() string {
	return `The key is shown once and stored nowhere.

Examples:
  holdpoint key create --agent billing-bot --name "Billing bot" --owner olga@example.com
  holdpoint key create --agent billing-bot --kind runtime
  holdpoint key create --kind admin --person olga@example.com
  holdpoint key create --kind admin --label "nightly export" --expires-in 8760h
  holdpoint key create --kind admin --scope scim --label "Entra ID"`
}

func (k *keyCreate) Run(ctx context.Context, c *cli) error {
	if k.ExpiresIn < 0 {
		return errors.New("--expires-in: want a time to come")
	}
	a, by, err := k.administration(ctx, c)
	if err != nil {
		return err
	}
	known, err := a.Registry.Snapshot(ctx)
	if err != nil {
		return err
	}
	key, text, err := a.Keys.Create(ctx, by, admin.NewKey{
		Kind: k.Kind, Agent: k.Agent, Person: k.Person, Label: k.Label, MaxState: k.MaxState, Scopes: k.Scope, ExpiresIn: k.ExpiresIn, AgentName: k.Name, AgentOwner: k.Owner,
	})
	if err != nil {
		return plain(err)
	}
	if _, registered := known.Agents[k.Agent]; !registered && k.Agent != "" {
		fmt.Fprintln(terminalError, k.newAgent())
	}
	fmt.Fprintf(terminal, "created %s, kind %s, for %s, may claim at most %q\nkey (shown only now): %s\n", key.ID, key.Kind, strings.Join(key.Scopes, ", "), key.MaxState, text)
	return nil
}

// newAgent says that the key's agent was not known: perhaps its name was meant otherwise.
func (k *keyCreate) newAgent() string {
	text := fmt.Sprintf("the agent %q was not registered, and is now, with this key", k.Agent)
	if k.Owner == "" {
		text += "; nobody answers for it yet: " + k.command("agent set "+shellword.Quote(k.Agent)+" --owner EMAIL")
	}
	return text
}

type keyRevoke struct {
	databaseFlags
	ID string `arg:"" help:"key_… or a signing key's kid; -- goes before one that begins with a dash."`
}

func (k *keyRevoke) Run(ctx context.Context, c *cli) error {
	a, by, err := k.administration(ctx, c)
	if err != nil {
		return err
	}
	if err := a.Keys.Revoke(ctx, by, k.ID); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "revoked %s\n", k.ID)
	return nil
}

type keyRotate struct {
	File string `arg:"" type:"path" help:"JSON Web Key Set that HOLDPOINT_SIGNING_KEYS_FILE names; made when it is not there."`
	Keep int    `default:"3" help:"How many keys the file keeps; the oldest are dropped."`
}

// Help is shown by "holdpoint key rotate --help".
func (keyRotate) Help() string {
	return `Tokens signed with the former key stay good until they expire, also when it is
dropped from the file. Serve reads the file again by itself within seconds, or on
SIGHUP, and signs with the new key when it has been published for signing_key_delay.

Example:
  holdpoint key rotate /etc/holdpoint/signing-keys.json`
}

func (k *keyRotate) Run(ctx context.Context, c *cli) error {
	if k.Keep < 1 {
		return errors.New("--keep: want at least 1")
	}
	f, err := c.keyFile("signing_keys", k.File)
	if err != nil {
		return err
	}
	var ring token.Ring
	data, err := f.read(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if ring, err = token.ParseRing(data); err != nil {
			return fmt.Errorf("%s: %w", k.File, err)
		}
	}
	if ring, err = newSigningKey(ring); err != nil {
		return err
	}
	ring = ring.Keep(k.Keep)
	if err := writeRing(ctx, f, ring); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "%s is to sign with %s and holds %s\n", k.File, ring.IDs()[0], plural(len(ring.IDs()), "key"))
	return nil
}

// newSigningKey puts a fresh key in front of the ring. Its kid never begins with a dash:
// "key revoke" would take it for a flag.
func newSigningKey(ring token.Ring) (token.Ring, error) {
	seed := make([]byte, ed25519.SeedSize)
	for {
		rand.Read(seed)
		added, err := ring.Add(seed)
		if err != nil || !strings.HasPrefix(added.IDs()[0], "-") {
			return added, err
		}
	}
}

func writeRing(ctx context.Context, f keyFile, ring token.Ring) error {
	data, err := ring.Marshal()
	if err != nil {
		return fmt.Errorf("encode the signing keys: %w", err)
	}
	return f.write(ctx, append(data, '\n'))
}

// writeSecret replaces a file at once; a new one is readable by its owner only.
func writeSecret(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	if former, err := os.Stat(path); err == nil {
		if err := keepAccess(f, former); err != nil {
			_ = f.Close()
			return fmt.Errorf("%s stays as it is, because its owner and mode cannot be kept: %w", path, err)
		}
	}
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// keepAccess gives a file the owner, the group and the mode of the one that it replaces:
// who was allowed to read that still is.
func keepAccess(f *os.File, former fs.FileInfo) error {
	fresh, err := f.Stat()
	if err != nil {
		return err
	}
	was, wasOK := former.Sys().(*syscall.Stat_t)
	is, isOK := fresh.Sys().(*syscall.Stat_t)
	if wasOK && isOK && (was.Uid != is.Uid || was.Gid != is.Gid) {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(former.Mode().Perm())
}
