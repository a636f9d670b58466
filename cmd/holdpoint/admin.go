package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/engine/shellword"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/config"
	"holdpoint/internal/identity"
	"holdpoint/internal/store"
)

// databaseFlags says which database an administrative command works on.
type databaseFlags struct {
	Data string `help:"Data directory of a running “holdpoint dev”; without it, HOLDPOINT_DATABASE_ADMIN_URL says where." type:"path" placeholder:"DIR"`
	operatorFlags
}

// operatorFlags says who runs a command.
type operatorFlags struct {
	Operator string `name:"operator-key" help:"File with your own key (“key create --kind admin --person EMAIL”): the audit log names you, and not the login on this machine." env:"HOLDPOINT_OPERATOR_KEY_FILE" placeholder:"FILE"`
}

// operator is who runs a command that changes something, for the audit log: whose key was given, or
// whose login it is. A key proves who it is to nobody but the log: the database's owner may do everything
// without. Where “holdpoint changes require operator-key” says so, a command that names no person's own
// key is refused.
func (w operatorFlags) operator(ctx context.Context, s *store.Store) (access.Initiator, error) {
	guards, err := s.Rules.Guards(ctx)
	if err != nil {
		return access.Initiator{}, err
	}
	rule, required := guards[store.OperatorKeyRule]
	if w.Operator == "" && required {
		return access.Initiator{}, errNoOperatorKey
	}
	by, err := w.named(ctx, s)
	if err != nil || !required || by.Key != "" {
		return by, err
	}
	if rule.Rule.Role != "" {
		return by, fmt.Errorf("--operator-key: %s is nobody's in particular, and commands name a person's own key here: “holdpoint key create --kind admin --person EMAIL” makes one", by.Actor.ID)
	}
	// A rule of before keys had people takes any that has a label.
	key, err := s.Keys.Get(ctx, by.Actor.ID)
	if err == nil && strings.TrimSpace(key.Label) == "" {
		err = fmt.Errorf("%s has no label, which would say whose it is: make a person's own (“holdpoint key create --kind admin --person EMAIL”)", key.ID)
	}
	if err != nil {
		return by, fmt.Errorf("--operator-key: %w", err)
	}
	fmt.Fprintf(terminalError, "careful: %s is nobody's in particular. Make a person's own (“holdpoint key create --kind admin --person EMAIL”), and demand that: “holdpoint changes require operator-key --operator-key FILE”\n", key.ID)
	return by, nil
}

// named is who runs a command that waits for no key: it looks, stops, or brings back.
func (w operatorFlags) named(ctx context.Context, s *store.Store) (access.Initiator, error) {
	if w.Operator == "" {
		return access.Initiator{Actor: operator()}, nil
	}
	text, err := os.ReadFile(kong.ExpandPath(w.Operator))
	if err != nil {
		return access.Initiator{}, fmt.Errorf("--operator-key: %w", err)
	}
	p, err := identity.NewKeys(ctx, s).Authenticate(ctx, strings.TrimSpace(string(text)))
	switch {
	case errors.Is(err, identity.ErrUnknown):
		return access.Initiator{}, &unknownOperator{w.Operator}
	case err != nil:
		return access.Initiator{}, fmt.Errorf("--operator-key: %w", err)
	case p.Kind != access.AdminKey || !slices.Contains(p.Scopes, identity.ScopeAdmin):
		return access.Initiator{}, errors.New("--operator-key: want a key of kind admin with the scope admin (“holdpoint key create --kind admin --person EMAIL”)")
	}
	by := p.Initiator("")
	by.Actor.Channel = "cli"
	return by, nil
}

// looking is who runs a command that reads what it puts on record: whoever logs in to the database as a
// reader and no more goes by that login, and the database sees to it.
func (w operatorFlags) looking(ctx context.Context, s *store.Store) (access.Initiator, error) {
	login, err := s.Events.DatabaseUser(ctx)
	switch {
	case err != nil:
		return access.Initiator{}, err
	case login == "":
		return w.named(ctx, s)
	case w.Operator != "":
		return access.Initiator{}, fmt.Errorf("--operator-key: the log names %s, your login of the database, which may not look keys up: leave the key out", login)
	}
	by := access.Initiator{Actor: operator()}
	by.Actor.ID = login
	return by, nil
}

// unknownOperator is the error of a file whose key is good for nothing.
type unknownOperator struct{ file string }

func (e *unknownOperator) Error() string {
	return fmt.Sprintf("--operator-key: %s has no key of this installation, or one that is revoked, has expired, or is of somebody who is disabled or was no administrator since (“holdpoint key list”)", e.file)
}

var errNoOperatorKey = errors.New("commands name a person's own key here: add --operator-key FILE, or set HOLDPOINT_OPERATOR_KEY_FILE. Whoever has one makes one for you: “holdpoint key create --kind admin --person EMAIL”. In an emergency: “holdpoint changes free operator-key --reason WHY”, which is on record")

// open opens the database as the role that owns it; with seals, so that it can
// read and write what is encrypted.
func (w databaseFlags) open(ctx context.Context, c *cli, seals bool) (*store.Store, error) {
	cfg := store.Config{MaxConns: 4, Setting: "database_admin_url"}
	if w.Data != "" {
		running, err := readDevFile(w.Data)
		if err == nil && seals {
			cfg.Sealer, err = devSealer(w.Data)
		}
		if err == nil && seals {
			c.allowPrivate, err = devPrivate(w.Data)
		}
		var settings config.Config
		if err == nil {
			settings, err = devSettings(w.Data)
		}
		if err != nil {
			return nil, err
		}
		cfg.URL, c.routing, c.publicURL, c.environment = running.DatabaseAdminURL, settings.Routing, running.URL, devEnvironment
		c.mailLink = mailLink(settings)
		return w.openOwn(ctx, cfg)
	}
	needed := config.Admin
	if seals {
		needed |= config.DataKey
	}
	settings, err := c.load(needed)
	if err != nil {
		return nil, orDataDir(err, "")
	}
	cfg.URL, c.routing, c.publicURL, c.environment = settings.DatabaseAdminURL, settings.Routing, settings.PublicURL, settings.Environment
	c.mailLink = mailLink(settings)
	if seals {
		cfg.Sealer, c.allowPrivate = settings.Sealer, settings.AllowPrivate
	}
	return w.openOwn(ctx, cfg)
}

// orDataDir is for a command that may work on a data directory, and was not told where that
// is: what most people lack, before what the settings lack. besides is another way.
func orDataDir(err error, besides string) error {
	hint := "name the data directory of a running “holdpoint dev” with --data" + besides + ", or the database of a server:"
	if _, gone := os.Stat(filepath.Join(".holdpoint", "dev.json")); gone == nil {
		hint = "for the “holdpoint dev” of this directory, add --data .holdpoint (.holdpoint/dev.json is there)" + besides + "; for a server:"
	}
	return fmt.Errorf("%s\n%w", hint, err)
}

// openOwn opens the database, for sealing where there are data keys.
func (w operatorFlags) openOwn(ctx context.Context, cfg store.Config) (*store.Store, error) {
	if cfg.Sealer != nil {
		return w.sealing(ctx, cfg)
	}
	return openSchema(ctx, cfg)
}

// command is what to run next, on the same database, as it can be pasted.
func (w databaseFlags) command(text string) string {
	text = "holdpoint " + text
	if w.Data == "" {
		return text
	}
	dir := w.Data
	if here, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(here, dir); err == nil && filepath.IsLocal(near) {
			dir = near
		}
	}
	return text + " --data " + shellword.Quote(dir)
}

// url is where the database is, for its owner.
func (w databaseFlags) url(c *cli) (string, error) {
	if w.Data != "" {
		running, err := readDevFile(w.Data)
		return running.DatabaseAdminURL, err
	}
	cfg, err := c.load(config.Admin)
	return cfg.DatabaseAdminURL, err
}

// devNetworks are those of receivers that somebody tries things with.
var devNetworks = []string{"127.0.0.0/8", "::1/128"}

// devPrivate are the networks that "holdpoint dev" posts to although they are not
// public.
func devPrivate(dir string) ([]netip.Prefix, error) {
	cfg, err := devSettings(dir)
	if err != nil {
		return nil, err
	}
	cfg.OutboundAllowPrivate = append(cfg.OutboundAllowPrivate, devNetworks...)
	return cfg.PrivateNetworks()
}

// devEnvironment is the setting environment of "holdpoint dev".
const devEnvironment = "dev"

// devSettings are those of a data directory's serve and worker, unchecked.
func devSettings(dir string) (config.Config, error) {
	path := filepath.Join(dir, settingsFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = ""
	}
	return config.Load(path, nil)
}

// settingsFile is a data directory's: the settings of serve and worker.
const settingsFile = "settings.yaml"

// logKeyFile is a data directory's: the audit log's key, with its public half
// beside it in a file that ends in .pub.
const logKeyFile = "log-key"

// devFile is DIR/dev.json: how to reach a running "holdpoint dev" (docs/spec/wire.md).
type devFile struct {
	URL              string        `json:"url"`
	AdminKey         string        `json:"admin_key"`
	AgentKey         string        `json:"agent_key"`
	RuntimeKey       string        `json:"runtime_key"`
	Reviewers        []devReviewer `json:"reviewers"`
	Owner            devReviewer   `json:"owner"`
	Auditor          devReviewer   `json:"auditor"`
	DatabaseURL      string        `json:"database_url"`
	DatabaseAdminURL string        `json:"database_admin_url"`
	TemporalAddress  string        `json:"temporal_address"`
	PID              int           `json:"pid"`
	// LogKey is the public key that the audit log is verified with.
	LogKey string `json:"log_key"`
}

type devReviewer struct {
	Email    string   `json:"email"`
	Password string   `json:"password"`
	Roles    []string `json:"roles"`
	Name     string   `json:"name"`
	// TOTPSecret is the secret of the person's authenticator app, in base32; ""
	// when they have none.
	TOTPSecret string `json:"totp_secret,omitempty"`
	Disabled   bool   `json:"-"`
}

// shownPassword is what the list of people says in the place of a password.
func (r devReviewer) shownPassword() string {
	switch {
	case r.Disabled:
		return "(disabled)"
	case r.Password == "":
		return "(changed)"
	default:
		return r.Password
	}
}

func readDevFile(dir string) (devFile, error) {
	var d devFile
	data, err := os.ReadFile(filepath.Join(dir, "dev.json")) // #nosec G304 -- the user names the directory
	if err != nil {
		return d, fmt.Errorf("%s is no data directory of a running “holdpoint dev”: %w", dir, err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("read %s/dev.json: %w", dir, err)
	}
	return d, nil
}

// operator is whoever runs this command, for the audit log.
func operator() engine.Actor {
	name := os.Getenv("USER")
	if by := os.Getenv("SUDO_USER"); by != "" && os.Geteuid() == 0 {
		name = by // who became root for it
	}
	if name == "" {
		if login, err := user.Current(); err == nil {
			name = login.Username
		}
	}
	return engine.Actor{Kind: engine.ServiceActor, ID: cmp.Or(name, fmt.Sprintf("uid %d", os.Getuid())), Channel: "cli"}
}

// administers opens the database for changes.
type administers func(context.Context, *cli) (*admin.Admin, access.Initiator, error)

// approvable is where for changes that people can have to approve.
type approvable struct {
	databaseFlags
	Unapproved string `help:"In an emergency: change it at once, for this reason, although people should approve it (“holdpoint changes”). It is on record." placeholder:"REASON"`
	Reason     string `help:"Why, for those who have to approve it, where somebody has to." placeholder:"TEXT"`
}

func (w approvable) administration(ctx context.Context, c *cli) (*admin.Admin, access.Initiator, error) {
	return w.holding(ctx, c, w.databaseFlags.administration)
}

func (w approvable) sealedAdministration(ctx context.Context, c *cli) (*admin.Admin, access.Initiator, error) {
	return w.holding(ctx, c, w.databaseFlags.sealedAdministration)
}

// holding is administration that has people approve what takes their approval. It takes the data key
// then.
func (w approvable) holding(ctx context.Context, c *cli, as administers) (*admin.Admin, access.Initiator, error) {
	a, by, err := as(ctx, c)
	if err != nil {
		return a, by, err
	}
	if by.Unapproved = strings.TrimSpace(w.Unapproved); len(by.Unapproved) > access.MaxReason {
		return nil, by, fmt.Errorf("--unapproved: the reason has %d bytes; at most %d are kept", len(by.Unapproved), access.MaxReason)
	}
	by.Reason = w.Reason
	cfg := a.People.Config
	cfg.Hold = func(ctx context.Context, by access.Initiator, h admin.PendingChange) (admin.PendingApproval, error) {
		s, k, err := w.rules(ctx, c)
		if err != nil {
			return admin.PendingApproval{}, fmt.Errorf("it takes an approval, and that takes the data key: %w", err)
		}
		defer s.Close()
		return k.Hold(ctx, by, h)
	}
	return admin.New(cfg), by, nil
}

// administration opens the database for changes by whoever runs the command. It is open
// until the command ends.
func (w databaseFlags) administration(ctx context.Context, c *cli) (*admin.Admin, access.Initiator, error) {
	return c.administrationOf(ctx, w, false)
}

// sealedAdministration is administration of what is kept encrypted, such as the
// addresses and secrets of endpoints.
func (w databaseFlags) sealedAdministration(ctx context.Context, c *cli) (*admin.Admin, access.Initiator, error) {
	return c.administrationOf(ctx, w, true)
}

func (c *cli) administrationOf(ctx context.Context, w databaseFlags, seals bool) (*admin.Admin, access.Initiator, error) {
	a, err := c.readingOf(ctx, w, seals)
	if err != nil {
		return nil, access.Initiator{}, err
	}
	by, err := w.operator(ctx, c.opened)
	if err != nil {
		return nil, access.Initiator{}, err
	}
	return a, by, nil
}

// reading opens the database for looking at it. It is open until the command ends.
func (w databaseFlags) reading(ctx context.Context, c *cli) (*admin.Admin, error) {
	return c.readingOf(ctx, w, false)
}

// sealedReading is reading of what is kept encrypted.
func (w databaseFlags) sealedReading(ctx context.Context, c *cli) (*admin.Admin, error) {
	return c.readingOf(ctx, w, true)
}

func (c *cli) readingOf(ctx context.Context, w databaseFlags, seals bool) (*admin.Admin, error) {
	s, err := w.open(ctx, c, seals)
	if err != nil {
		return nil, err
	}
	c.opened = s
	return admin.New(admin.Config{Store: s, Owner: true, AllowPrivate: c.allowPrivate, PublicURL: c.publicURL, MailLink: c.mailLink, Roles: c.rolesOf(s)}), nil
}

// withoutKey is administration for what does not wait for a key: stopping an agent, and ending the
// rule that demands one.
func (w databaseFlags) withoutKey(ctx context.Context, c *cli) (*admin.Admin, access.Initiator, error) {
	a, err := c.readingOf(ctx, w, false)
	if err != nil {
		return nil, access.Initiator{}, err
	}
	by, err := w.named(ctx, c.opened)
	return a, by, err
}

// rolesOf are the roles that people may be given: those of the settings' routing and
// of the policy in force, and those that Holdpoint knows itself.
func (c *cli) rolesOf(s *store.Store) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		active, _, err := s.Rules.ActiveDocuments(ctx)
		if err != nil {
			return nil, err
		}
		var b *policy.Bundle
		if doc, ok := active[store.PolicyDocument]; ok {
			b, _ = policy.Load(doc.Body, policy.Options{}) // what cannot be read asks for nobody
		}
		guards, err := s.Rules.Guards(ctx)
		return admin.KnownRoles(b, c.routing, slices.Collect(maps.Values(guards))...), err
	}
}

// plain is a refusal without its code: the sentence is enough at a terminal.
func plain(err error) error {
	var refused *access.Refusal
	if errors.As(err, &refused) {
		return errors.New(refused.Detail)
	}
	return err
}
