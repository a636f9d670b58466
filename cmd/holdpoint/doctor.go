package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/api/workflowservice/v1"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/rules"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
)

type doctorCommand struct {
	Server     doctorServer     `cmd:"" default:"withargs" help:"Check configuration, database, Temporal and keys of a server."`
	ClaudeCode doctorClaudeCode `cmd:"" name:"claude-code" help:"Try whether Claude Code's hook blocks calls, whatever fails."`
	Codex      doctorCodex      `cmd:"" name:"codex" help:"Try whether Codex's hook blocks calls, whatever fails."`
	CopilotCLI doctorCopilotCLI `cmd:"" name:"copilot-cli" help:"Try whether Copilot CLI's hook blocks calls, whatever fails."`
	GeminiCLI  doctorGeminiCLI  `cmd:"" name:"gemini-cli" help:"Try whether Gemini CLI's hook blocks calls, whatever fails."`
	OpenCode   doctorOpenCode   `cmd:"" name:"opencode" help:"Try whether opencode's plugin blocks calls, whatever fails."`
	Cursor     doctorCursor     `cmd:"" name:"cursor" help:"Try whether Cursor's hook blocks calls, whatever fails."`
}

// Help is shown by "holdpoint doctor --help".
func (doctorCommand) Help() string {
	return "Without a further word it is “doctor server”.\n\n" + doctorServer{}.Help()
}

type doctorServer struct {
	Data string `type:"path" help:"Data directory of a running “holdpoint dev”; without it, the configuration says what to check." placeholder:"DIR"`
	JSON bool   `name:"json" help:"Print one JSON object for each check on standard output."`
}

// Help is shown by "holdpoint doctor server --help".
func (doctorServer) Help() string {
	return `Takes the settings of serve and worker, changes nothing, and ends with 0 when all
is well, else with 1. What it warns of is not wrong.

Example:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint doctor
  holdpoint doctor --data .holdpoint`
}

// checkup prints one line for each thing that it looks at, or one JSON object.
type checkup struct{ failed, json bool }

// checkedThing is what "doctor --json" prints of one thing.
type checkedThing struct {
	Check   string `json:"check"`
	Status  string `json:"status"` // ok, warn or fail
	Problem string `json:"problem,omitempty"`
	Help    string `json:"help,omitempty"`
}

func (d *checkup) say(what string, err error, help string) bool {
	if err == nil {
		d.print(checkedThing{Check: what, Status: "ok"})
		return true
	}
	d.failed = true
	d.print(checkedThing{what, "fail", err.Error(), help})
	return false
}

// warn says what is not wrong, and better otherwise.
func (d *checkup) warn(what, why, help string) { d.print(checkedThing{what, "warn", why, help}) }

func (d *checkup) print(c checkedThing) {
	switch {
	case d.json:
		_ = json.NewEncoder(os.Stdout).Encode(c) // as the lines are: nobody else is told
	case c.Status == "ok":
		fmt.Printf("ok    %s\n", c.Check)
	default:
		fmt.Printf("%s  %s: %s\n", map[string]string{"warn": "warn", "fail": "FAIL"}[c.Status], c.Check, c.Problem)
		if c.Help != "" {
			fmt.Printf("      %s\n", c.Help)
		}
	}
}

func (s doctorServer) Run(ctx context.Context, c *cli) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	d := &checkup{json: s.JSON}
	cfg, err := config.Load(c.Config, os.Environ())
	if s.Data != "" {
		running, absent := readDevFile(s.Data)
		if absent != nil {
			return absent
		}
		cfg, err = runningConfig(s.Data, running)
	}
	need := serveNeeds
	if cfg.LogKey != "" || cfg.LogKeyFile != "" {
		need |= config.Log // these are the worker's settings
	}
	files := cfg.SecretFiles()
	err = checked(&cfg, err, need)
	d.say("configuration", err, "Every line above names one setting; holdpoint serve --help lists them. A running “holdpoint dev” is checked by --data DIR.")
	var unreadable *config.Unreadable
	if errors.As(err, &unreadable) {
		return exitCode(1)
	}
	d.wrapped(ctx, cfg, files)
	d.exposed(files)
	if cfg.Sealer != nil {
		d.database(ctx, c, cfg)
	}
	for _, p := range cfg.SSO {
		redirect, err := sso.Check(ctx, p, cfg.PublicURL)
		d.say(fmt.Sprintf("single sign-on %s at %s, back to %s", p.Name, p.Issuer, redirect), err, "Nobody signs in there until it is mended; passwords and live sessions go on.")
	}
	d.temporal(ctx, cfg)
	if d.failed {
		return exitCode(1)
	}
	return nil
}

func (d *checkup) database(ctx context.Context, c *cli, cfg config.Config) {
	s, err := store.Open(ctx, store.Config{URL: cfg.DatabaseURL, Sealer: cfg.Sealer, MaxConns: 4})
	if !d.say("database, schema and data key", err, "Is Postgres up, HOLDPOINT_DATABASE_URL the runtime role's, and “holdpoint migrate” run?") {
		return
	}
	defer s.Close()
	asked := time.Now()
	now, err := s.Now(ctx)
	if err == nil {
		// It was read at some time since.
		if skew := max(asked.Sub(now), -time.Since(now)); skew > 5*time.Second {
			err = fmt.Errorf("this machine's clock and the database's differ by %s", skew.Round(time.Millisecond))
		}
	}
	d.say("clock", err, "Deadlines, tokens and evidence go by the database's clock, logs and webhooks by this one: set both by NTP.")
	excess, err := s.ExcessRights(ctx)
	if err == nil && len(excess) > 0 {
		err = fmt.Errorf("this role may do what it must not: %v", excess)
	}
	d.say("audit log is append-only for this role", err, "Serve and worker must log in as a member of holdpoint_runtime that owns nothing.")
	d.logins(ctx, s)
	d.say(fmt.Sprintf("schema version %d", store.SchemaVersion()), s.CheckSchema(ctx), "holdpoint migrate plan shows what is missing, holdpoint version what each program needs.")
	d.starts(ctx, c, s)
	if cfg.DatabasePeopleURL != "" {
		d.say("login that changes accounts", peopleLogin(ctx, cfg), "database_people_url is of a login of its own, a member of holdpoint_runtime and holdpoint_people, that owns nothing (docs/database.md).")
	}
	people, err := s.People.List(ctx)
	if !d.say("people", err, "") {
		return
	}
	if cfg.SSOOnly {
		d.emergency(ctx, s)
	}
	for _, rule := range staffing(cfg.Routing, people) {
		d.say(fmt.Sprintf("enough people for %d × %s", max(rule.Needed, rule.Deny), rule.Role), rule.shortage(), "holdpoint user add EMAIL --role "+rule.Role)
		if rule.widen != nil {
			d.warn("if_too_few: "+rule.IfTooFew, rule.widen.Error(), "Nobody else can decide where agents name too many people as their side: holdpoint user add EMAIL --role "+rule.IfTooFew)
		}
	}
	if stuck, err := gate.Undecidable(ctx, s); err != nil || len(stuck) == 0 {
		d.say("somebody can decide each approval that waits", err, "")
	} else {
		d.warn("approvals that nobody can decide", fmt.Sprintf("%d wait, such as %s", len(stuck), stuck[0]), "They run out of time. Their cards say what they lack: give somebody the role.")
	}
	d.policy(ctx, s, cfg, people)
	depth, oldest, err := s.Outbox.Depth(ctx)
	if err == nil && oldest > time.Minute {
		err = fmt.Errorf("%d messages wait for Temporal, the oldest for %s", depth, oldest.Round(time.Second))
	}
	d.say("outbox", err, "Is a worker running, and does it reach Temporal?")
	d.log(ctx, s, cfg)
	d.streams(ctx, s, cfg)
	d.keys(ctx, s, cfg)
	d.apiKeys(ctx, s)
}

// logins looks what those may do who only read the database.
func (d *checkup) logins(ctx context.Context, s *store.Store) {
	const what = "logins beside the programs’"
	others, err := s.OtherLogins(ctx)
	var open []string
	for _, o := range others {
		var may []string
		if o.Locks {
			may = append(may, "may hold the locks by which the programs take turns")
		}
		if o.Unlimited {
			may = append(may, "may take all connections")
		}
		if len(may) > 0 {
			open = append(open, o.Name+" "+strings.Join(may, " and "))
		}
	}
	if err != nil || len(open) == 0 {
		d.say(what, err, "")
		return
	}
	d.warn(what, strings.Join(open, "; "), "Either keeps people from signing in; locks keep the log from growing, too. As a superuser, run the last statements of deploy/postgres/10-holdpoint.sql in this database, "+
		"and ALTER ROLE … CONNECTION LIMIT 5. Where nobody is a superuser, let them read a standby (docs/database.md).")
}

// emergency looks whether somebody comes in when the provider of single sign-on is away.
func (d *checkup) emergency(ctx context.Context, s *store.Store) {
	const what = "an administrator who has a password, for when the provider is away"
	n, err := s.People.CountWithPassword(ctx, access.AdminRole)
	if err == nil && n == 0 {
		d.warn(what, "sso_only is set, and there is none", "Make one, and keep its password in a safe: holdpoint user add ops@example.com --role admin")
		return
	}
	d.say(what, err, "")
}

// peopleLogin says what is wrong with the login that changes accounts.
func peopleLogin(ctx context.Context, cfg config.Config) error {
	s, err := store.Open(ctx, store.Config{URL: cfg.DatabaseURL, PeopleURL: cfg.DatabasePeopleURL, Sealer: cfg.Sealer, MaxConns: 4})
	if err != nil {
		return err
	}
	defer s.Close()
	excess, err := s.ExcessRights(ctx)
	if err == nil && len(excess) > 0 {
		err = fmt.Errorf("this role may do what it must not: %v", excess)
	}
	return err
}

// log looks at the audit log: whether it goes on, is signed with the key that is
// shown, and continues what is kept of it.
func (d *checkup) log(ctx context.Context, s *store.Store, cfg config.Config) {
	const help = "A worker gives events their places in the log, and signs it: is one running? It says what keeps it from that."
	delay, err := s.Log.Delay(ctx)
	if err == nil && delay > logDelay {
		err = fmt.Errorf("an event has been waiting for its place for %s", delay.Round(time.Second))
	}
	var head store.LogHead
	if err == nil {
		head, err = s.Log.Head(ctx)
	}
	if err == nil && head.Size > 0 {
		err = auditlog.CheckSigned(ctx, s, cfg.LogWitnessed, publicKeysOfLog(cfg))
	}
	d.say(fmt.Sprintf("audit log, %d events", head.Size), err, help)
	strays, err := s.Events.CountUnplaced(ctx)
	if err == nil && strays > 0 {
		err = fmt.Errorf("%s no place in it and never will have one", eventsHave(strays))
	}
	d.say("every event is in the audit log", err, "The table events was written around the program, or its numbers were set back. Find out by whom; keep a copy of the database.")
	alarms, err := s.Events.CountAlarms(ctx, alarmsWithin)
	if err == nil && alarms > 0 {
		err = fmt.Errorf("the audit log tells of %d that were written around the programs in the last %d days", alarms, alarmsWithin/(24*time.Hour))
	}
	d.say("every fact has its event", err, "Somebody writes to Postgres as the runtime role. The facts counted for nothing; their events have the code "+approval.NotInLog.Code+". Change that role's password.")
	if len(cfg.LogKeys) > 0 {
		d.say("audit log's key", auditlog.CheckKey(ctx, s, cfg.LogKeys), "The worker signs nothing with it. Give it the log_key_file that has signed the log so far; docs/audit.md says how a log gets another key.")
	}
	switch {
	case cfg.LogFloorFile != "":
		d.say("audit log's floor in "+cfg.LogFloorFile, checkFloor(ctx, cfg, s), "")
	case cfg.LogFloorWebhook == "":
		d.warn("audit log's floor", "none is set", "Without log_floor_file or log_floor_webhook, nothing here shows that the database was restored from an older copy.")
	}
}

// alarmsWithin is how long after its approval's end a fact without an event is told of.
const alarmsWithin = 30 * 24 * time.Hour

// logDelay is how long an event may be without a place before something is wrong:
// a new leader is there after four seconds.
const logDelay = 10 * time.Second

// policy looks at the policy in force, as it is in the database.
func (d *checkup) policy(ctx context.Context, s *store.Store, cfg config.Config, people []engine.Person) {
	active, _, err := s.Rules.ActiveDocuments(ctx)
	doc, ok := active[store.PolicyDocument]
	if err == nil && !ok {
		return // the contract alone decides about its events, and nothing else is allowed
	}
	what := "policy"
	var b *policy.Bundle
	if err == nil {
		var problems []policy.Problem
		b, problems = policy.Load(doc.Body, policy.Options{Now: time.Now(), Secret: []byte(cfg.PolicySecret), FormerSecret: []byte(cfg.FormerPolicySecret), Reviewers: gate.Reviewers(people), Calendars: cfg.Routing.Knows})
		if policy.HasErrors(problems) {
			err = errors.New(problems[0].String())
		} else {
			what = fmt.Sprintf("policy version %q, until %s", b.Version, b.ExpiresAt.Format(time.DateOnly))
		}
	}
	if cfg.FormerPolicySecret != "" && err == nil {
		if _, problems := policy.Load(doc.Body, policy.Options{Secret: []byte(cfg.PolicySecret)}); policy.HasErrors(problems) {
			d.warn("policy_secret_former", "the policy in force is signed with it", "Sign the policy with the new secret (holdpoint policy sign) before policy_secret_former goes: without it every call would be refused.")
		} else {
			d.warn("policy_secret_former", "nothing in force is signed with it any more", "Take it out of the settings of every serve and worker.")
		}
	}
	d.say(what, err, "holdpoint policy check FILE says more; a newer version in policy_file comes into force by itself.")
	if err == nil {
		if now := time.Now(); b.ExpiresAt.Sub(now) <= policy.ExpiresSoon {
			d.warn("the policy's end", fmt.Sprintf("it %s, at %s: every call is refused from then on", left(b, now), b.ExpiresAt.UTC().Format(time.RFC3339)),
				"Put one with a later expires_at in force before: by policy_file, or holdpoint policy propose FILE --reason WHY.")
		}
		d.signers(ctx, s, cfg.Environment, b, doc)
	}
}

// signers looks at whose keys have signed the policy in force, and who could sign the next one.
func (d *checkup) signers(ctx context.Context, s *store.Store, environment string, b *policy.Bundle, doc store.Document) {
	in, err := s.Rules.Signing(ctx)
	if err == nil && in.Rule == nil {
		return
	}
	what := "signatures of people on the policy"
	if err == nil {
		var names []string
		for _, one := range rules.SignersOf(b, environment, in) {
			name := one.Name()
			if one.Why != "" {
				name += " (" + one.Why + ")"
			}
			names = append(names, name)
		}
		what += ": " + strings.Join(names, ", ")
		err = rules.StillSigned(b, environment, doc, in)
	}
	if !d.say(what, err, "Every call is refused. Sign it and put it in force again; in an emergency: holdpoint changes free signatures --reason WHY.") {
		return
	}
	if able, needed := rules.CurrentSigners(in), in.Rule.Rule.Needed; len(able) < needed {
		d.warn("enough people to sign the next policy", fmt.Sprintf("it takes %d × %s, and %d can (%s)", needed, in.Rule.Rule.Role, len(able), strings.Join(able, ", ")), "What is in force goes on until it expires. Register keys: holdpoint policy signer add EMAIL --key FILE.pub")
	}
}

func (d *checkup) temporal(ctx context.Context, cfg config.Config) {
	c, err := temporalClient(cfg, logger(cfg), noop.NewTracerProvider())
	if err != nil {
		d.say("Temporal", err, "")
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: cfg.TemporalNamespace})
	d.say("Temporal at "+cfg.TemporalAddress+", namespace "+cfg.TemporalNamespace, temporalCause(cfg, err),
		"Without it nothing is lost: calls are judged and votes recorded, and what waits goes on when it is back.")
}
