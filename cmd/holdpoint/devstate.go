//go:build !nodev

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"holdpoint/engine/approval"
	"holdpoint/engine/token"
	"holdpoint/examples/policies"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Database roles of a data directory.
const (
	ownerRole    = "holdpoint_owner"
	runtimeRole  = "holdpoint_app"
	temporalRole = "temporal"
)

const devAgent = "demo-agent"

// exampleSettings is what a new data directory starts with.
const exampleSettings = `# How the approvals of calls that wait are made up. The first matching rule
# wins; change it and start "holdpoint dev" again. Calls that are accepted at
# once wait for nobody. Where a rule needs several people, one confirmation is
# never enough. Every setting of "holdpoint serve" may stand here too. Which
# calls wait at all is said by policy.yaml beside this file, and, for events of
# the Agent Action Contract, by the contract.
routing:
  # Business hours. A rule below, or one of policy.yaml, that names a calendar
  # counts its times in them: four hours from Friday noon on end on Monday.
  # calendars:
  #   office:
  #     time_zone: Europe/Berlin
  #     hours:
  #       mon: ["09:00-17:30"]
  #       tue: ["09:00-17:30"]
  #       wed: ["09:00-17:30"]
  #       thu: ["09:00-17:30"]
  #       fri: ["09:00-12:00", "13:00-16:00"]
  #     holidays: [2026-12-25, 2027-01-01]
  rules:
    # Root keys and the like take two people of the security team.
    - tool: "root_*"
      role: security-approver
      needed: 2
      within: 30m
      expires_in: 1h
      pause_for: 24h
      extenders: [admin]
    # Votes on these count only if the voter's own passkey has signed them: open the
    # console at localhost, and add a passkey on the page of your account.
    - tool: "signed_*"
      role: security-approver
      needed: 1
      signed: true
      expires_in: 1h
      pause_for: 24h
      extenders: [admin]
    - risk_domain: finance
      role: finance-approver
      needed: 1
      expires_in: 1h
      pause_for: 24h
      extenders: [admin]
      # Who may decide as well when the people whom an agent names as its own side
      # leave too few; administrators where a rule, and the default, say nothing.
      if_too_few: security-approver
      # Any of these may stand in every rule:
      # signed: true                    # only votes count that the voter's passkey has signed
      # deny: 2                         # so many have to say no; else the first no ends it
      # calendar: office
      # reminders: [15m, 30m]           # those who have not decided are told again
      # escalation:                     # who may decide as well, after a while
      #   - {after: 45m, role: security-approver}
      # suggested: [ada@example.com]    # whom to ask first; it gives nobody a say
  default:
    role: reviewer
    needed: 1
    expires_in: 1h
    # For how long in all open questions stop the clock, and whose people may
    # give an approval more time.
    pause_for: 24h
    extenders: [admin]
`

// devState is what a data directory keeps to itself, so that the same directory
// is the same installation.
type devState struct {
	DataKey          string        `json:"data_key"`
	OwnerPassword    string        `json:"owner_password"`
	RuntimePassword  string        `json:"runtime_password"`
	PeoplePassword   string        `json:"people_password"`
	TemporalPassword string        `json:"temporal_password"`
	TemporalPort     int           `json:"temporal_port"`
	AdminKey         string        `json:"admin_key"`
	AgentKey         string        `json:"agent_key"`
	RuntimeKey       string        `json:"runtime_key"`
	Reviewers        []devReviewer `json:"reviewers"`
	Owner            devReviewer   `json:"owner"`
	Auditor          devReviewer   `json:"auditor"`
	// PasswordHashes are the stored hashes of the passwords above by their people's addresses, so that
	// a start finds by comparing that a password is still its person's: hashing eight takes a processor 0.2 s.
	PasswordHashes map[string]string `json:"password_hashes,omitempty"`
}

func secret() string { return strings.ToLower(rand.Text()) }

// openState reads the directory's state, or makes it for a new directory.
func openState(ctx context.Context, dir string) (devState, error) {
	var s devState
	data, err := os.ReadFile(filepath.Join(dir, stateFile)) // #nosec G304 -- the user names the directory
	if err == nil {
		if err := json.Unmarshal(data, &s); err != nil {
			return s, fmt.Errorf("read %s: %w", filepath.Join(dir, stateFile), err)
		}
		if s.addMissing() {
			if err := s.save(dir); err != nil {
				return s, err
			}
		}
		return s, openFiles(ctx, dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s = devState{
		DataKey: seal.NewKey(), OwnerPassword: secret(), RuntimePassword: secret(), TemporalPassword: secret(),
		Owner:   devReviewer{Name: "Olga Owner", Email: "olga@example.com", Password: secret()[:12], Roles: []string{"reviewer", access.AdminRole}},
		Auditor: devReviewer{Name: "Aude Auditor", Email: "aude@example.com", Password: secret()[:12], Roles: []string{access.AuditorRole}},
	}
	for _, name := range []string{"Ada Archer", "Ben Baker", "Cleo Clark", "Dina Diaz", "Emil Evans"} {
		first, _, _ := strings.Cut(name, " ")
		roles := []string{"reviewer", "finance-approver"}
		if len(s.Reviewers) < 3 {
			roles = append(roles, "security-approver")
		} else {
			roles = append(roles, approval.BreakGlassRole)
		}
		s.Reviewers = append(s.Reviewers, devReviewer{Name: name, Email: strings.ToLower(first) + "@example.com", Password: secret()[:12], Roles: roles})
	}
	s.addMissing()
	for _, k := range []struct {
		kind, agent string
		into        *string
	}{{access.AdminKey, "", &s.AdminKey}, {access.AgentKey, devAgent, &s.AgentKey}, {access.RuntimeKey, devAgent, &s.RuntimeKey}} {
		if _, *k.into, err = identity.NewKey(k.agent, k.kind); err != nil {
			return s, err
		}
	}
	// What somebody has put there beforehand is theirs.
	if missing(dir, signingFile) {
		ring, err := newSigningKey(token.Ring{})
		if err != nil {
			return s, err
		}
		if err := writeRing(ctx, keyFile{path: filepath.Join(dir, signingFile)}, ring); err != nil {
			return s, err
		}
	}
	if err := openFiles(ctx, dir); err != nil {
		return s, err
	}
	// Last: a directory with this file has the others.
	return s, s.save(dir)
}

// addMissing adds the person with a second factor and the password of the role that
// changes accounts, which directories of former versions lack, and reports whether it did.
func (s *devState) addMissing() bool {
	const email = "fay@example.com"
	added := s.PeoplePassword == ""
	if added {
		s.PeoplePassword = secret()
	}
	if slices.ContainsFunc(s.Reviewers, func(r devReviewer) bool { return r.Email == email }) {
		return added
	}
	s.Reviewers = append(s.Reviewers, devReviewer{
		Name: "Fay Factor", Email: email, Password: secret()[:12], Roles: []string{"reviewer", "finance-approver"}, TOTPSecret: identity.NewTOTPSecret(),
	})
	return true
}

// openFiles makes the files that people edit, where they are missing.
func openFiles(ctx context.Context, dir string) error {
	if missing(dir, logKeyFile) {
		if _, err := newLogKey(ctx, keyFile{path: filepath.Join(dir, logKeyFile)}, "dev.holdpoint.local/"+secret()[:8]); err != nil {
			return err
		}
	}
	if missing(dir, pushKeyFile) {
		if err := newPushKey(ctx, keyFile{path: filepath.Join(dir, pushKeyFile)}); err != nil {
			return err
		}
	}
	settings, rules := filepath.Join(dir, settingsFile), filepath.Join(dir, policyFile)
	if missing(dir, settingsFile) {
		// Settings were kept in policy.yaml before there were policies.
		former, err := os.ReadFile(rules) // #nosec G304 -- the user names the directory
		switch {
		case err == nil && !looksLikePolicy(former):
			if err := os.Rename(rules, settings); err != nil {
				return err
			}
		case err == nil || errors.Is(err, fs.ErrNotExist):
			if err := os.WriteFile(settings, []byte(exampleSettings), 0o644); err != nil { // #nosec G306 -- no secret, and meant to be edited
				return err
			}
		default:
			return err
		}
	}
	if !missing(dir, policyFile) {
		return nil
	}
	example, err := policies.Dev(time.Now())
	if err != nil {
		return fmt.Errorf("make the example policy: %w", err)
	}
	return os.WriteFile(rules, example, 0o644) // #nosec G306 -- no secret, and meant to be edited
}

// looksLikePolicy tells a policy bundle from settings, whatever is wrong with it.
func looksLikePolicy(data []byte) bool {
	var top map[string]any
	if err := yaml.Unmarshal(data, &top); err != nil {
		return true
	}
	_, rules := top["rules"]
	_, defaults := top["defaults"]
	return rules || defaults
}

func (s devState) save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeSecret(filepath.Join(dir, stateFile), append(data, '\n'))
}

// prepare makes the roles and databases that are missing. The owner may read
// Temporal's databases too, so that one URL can look for what must not be there.
func (m *machine) prepare(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, m.postgres.SuperuserURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private Postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	exists := func(sql, name string) (found bool, err error) {
		err = conn.QueryRow(ctx, sql, name).Scan(&found)
		return found, err
	}
	do := func(format string, args ...string) error {
		quoted := make([]any, len(args))
		for i, arg := range args {
			quoted[i] = pgx.Identifier{arg}.Sanitize()
		}
		_, err := conn.Exec(ctx, fmt.Sprintf(format, quoted...))
		return err
	}
	for _, group := range []string{"holdpoint_runtime", "holdpoint_reader", "holdpoint_people"} {
		found, err := exists(`SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, group)
		if err != nil {
			return err
		}
		if found {
			continue
		}
		if err := do(`CREATE ROLE %s NOLOGIN`, group); err != nil {
			return err
		}
	}
	for role, password := range map[string]string{ownerRole: m.state.OwnerPassword, runtimeRole: m.state.RuntimePassword, peopleRole: m.state.PeoplePassword, temporalRole: m.state.TemporalPassword} {
		found, err := exists(`SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, role)
		if err != nil {
			return err
		}
		if !found {
			// Passwords are lower-case letters and digits of our own making.
			if err := do(`CREATE ROLE %s LOGIN PASSWORD '`+password+`'`, role); err != nil {
				return fmt.Errorf("create the database role %s: %w", role, err)
			}
		}
	}
	err = errors.Join(do(`GRANT %s TO %s`, "holdpoint_runtime", runtimeRole), do(`GRANT %s, %s TO %s`, "holdpoint_runtime", "holdpoint_people", peopleRole), do(`GRANT %s TO %s`, temporalRole, ownerRole))
	if err != nil {
		return err
	}
	for _, database := range []struct{ name, owner string }{{"holdpoint", ownerRole}, {"temporal", temporalRole}} {
		found, err := exists(`SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, database.name)
		if err != nil {
			return err
		}
		if found {
			continue
		}
		if err := do(`CREATE DATABASE %s OWNER %s`, database.name, database.owner); err != nil {
			return fmt.Errorf("create the database %s: %w", database.name, err)
		}
		if err := do(`REVOKE CONNECT, TEMPORARY ON DATABASE %s FROM PUBLIC`, database.name); err != nil {
			return err
		}
	}
	// Before 0.1.0 the server kept a list of workflows, which nobody read.
	if err := do(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, "temporal_visibility"); err != nil {
		return err
	}
	if err := do(`GRANT CONNECT ON DATABASE holdpoint TO %s, %s, %s`, runtimeRole, peopleRole, "holdpoint_reader"); err != nil {
		return err
	}
	return m.ownPublic(ctx)
}

// ownPublic gives the owner the schema that its tables will be in.
func (m *machine) ownPublic(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, m.postgres.SuperuserURL("holdpoint"))
	if err != nil {
		return fmt.Errorf("connect to the private Postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, `ALTER SCHEMA public OWNER TO `+ownerRole)
	return err
}

// seed makes the example people, the example agent and its keys, as far as they
// are missing. It returns the people as they are now, without a password that is
// no longer theirs, and keeps in dir which hashes their passwords have.
func (s *devState) seed(ctx context.Context, adminURL, dir string) ([]devReviewer, error) {
	key, err := seal.ParseKey(s.DataKey)
	if err != nil {
		return nil, err
	}
	sealer, err := seal.New(key)
	if err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Config{URL: adminURL, MaxConns: 4, Sealer: sealer})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	a, by := admin.New(admin.Config{Store: db, Owner: true}), access.Initiator{Actor: operator()}
	var people []devReviewer
	hashes := make(map[string]string)
	for _, r := range append(slices.Clone(s.Reviewers), s.Owner, s.Auditor) {
		now, hash, err := r.seed(ctx, db, a, by, s.PasswordHashes[r.Email])
		if err != nil {
			return nil, err
		}
		people = append(people, now)
		if now.Password != "" {
			hashes[r.Email] = hash
		}
	}
	if !maps.Equal(hashes, s.PasswordHashes) {
		s.PasswordHashes = hashes
		if err := s.save(dir); err != nil {
			return nil, err
		}
	}
	_, err = db.People.Agent(ctx, devAgent)
	if errors.Is(err, store.ErrNotFound) {
		agent := admin.NewAgent(devAgent)
		agent.Name, agent.Owner = "Demo agent", s.Owner.Email
		err = a.Registry.RegisterAgent(ctx, by, agent, nil)
		for _, tool := range policies.Tools() {
			err = errors.Join(err, a.Registry.RegisterTool(ctx, by, tool, nil))
		}
	}
	if err != nil {
		return nil, err
	}
	return people, errors.Join(
		a.Keys.Restore(ctx, by, s.AdminKey, "", access.AdminKey, "example"),
		a.Keys.Restore(ctx, by, s.AgentKey, devAgent, access.AgentKey, "example"),
		a.Keys.Restore(ctx, by, s.RuntimeKey, devAgent, access.RuntimeKey, "example"),
	)
}

// seed makes the person if they are missing. It returns them as they are now, with the
// stored hash of their password; what they no longer sign in with is empty. known is a
// hash that their password has.
func (r devReviewer) seed(ctx context.Context, db *store.Store, a *admin.Admin, by access.Initiator, known string) (devReviewer, string, error) {
	p, hash, err := db.People.ByEmail(ctx, r.Email)
	if errors.Is(err, store.ErrNotFound) {
		if _, _, err = a.People.Add(ctx, by, admin.NewPerson{Email: r.Email, Name: r.Name, Roles: r.Roles, Password: r.Password}); err == nil {
			p, hash, err = db.People.ByEmail(ctx, r.Email)
		}
		known = hash
	}
	if err != nil {
		return r, "", err
	}
	fits := hash != "" && hash == known
	if !fits {
		if fits, err = identity.CheckPassword(hash, r.Password); err != nil {
			fits = false // it has no password, or one that only another program can read
		}
	}
	if !fits || p.Disabled {
		r.Password, r.TOTPSecret = "", ""
	}
	r.Name, r.Roles, r.Disabled = p.Name, p.Roles, p.Disabled
	if r.TOTPSecret != "" {
		return r, hash, a.People.RestoreTOTP(ctx, by, p.ID, r.TOTPSecret)
	}
	return r, hash, nil
}

// lockDir makes this the only program on the directory.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the user names the directory
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(f.Name())
		_ = f.Close()
		return nil, fmt.Errorf("another “holdpoint dev” (pid %s) is running on %s: stop it, or give another directory with --data", strings.TrimSpace(string(pid)), dir)
	}
	if err := errors.Join(f.Truncate(0), func() error { _, err := f.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0); return err }()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
