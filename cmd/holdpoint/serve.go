package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/config"
	"holdpoint/internal/evidence"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/metrics"
	"holdpoint/internal/report"
	"holdpoint/internal/rules"
	"holdpoint/internal/store"
	"holdpoint/web"
)

type serveCommand struct{}

// Help is shown by "holdpoint serve --help".
func (serveCommand) Help() string {
	return `Settings (variables, or the same names in lower case in the file):
  HOLDPOINT_DATABASE_URL       the runtime role's, postgres://…
  HOLDPOINT_DATA_KEY_FILE      32 random bytes in base64; encrypts arguments
  HOLDPOINT_SIGNING_KEYS_FILE  made by "holdpoint key rotate FILE"; looked at again
                               when it changes or on SIGHUP
  HOLDPOINT_KMS                whose key has wrapped the files of keys, unix:///… or
                               file:///… (docs/kms.md)
  HOLDPOINT_PUBLIC_URL         where people reach the console, https://…
  HOLDPOINT_LISTEN             127.0.0.1:8080 when left out
  HOLDPOINT_METRICS_LISTEN     address of /metrics alone, without a key; else it
                               takes a key with the scope admin
  HOLDPOINT_POLICY_FILE        policy bundle, JSON or YAML; looked at again when
                               it changes or on SIGHUP
  HOLDPOINT_POLICY_SECRET_FILE what bundles must be signed with, if anything
  HOLDPOINT_CONTRACTS_FILE     tool contracts, YAML
  HOLDPOINT_LOG_FLOOR_FILE     the audit log's last checkpoint, kept by the worker:
                               a database that is behind it is refused
  HOLDPOINT_LOG_PUBLIC_KEY_FILE
                               what the audit log is verified with, to be shown in
                               the console and at /log/key
  HOLDPOINT_EXECUTION_LEASE    how long an agent has to say what became of a call; 15m
  HOLDPOINT_PUSH_KEY_FILE      made by "holdpoint key push FILE"; people can then have
                               their browsers notified (docs/notifications.md)
  HOLDPOINT_TRUSTED_PROXIES    whose X-Forwarded-For to believe, such as 10.0.0.0/8
The file alone has routing (who decides), sso (providers of single sign-on;
docs/sso.md) and tickets (the trackers that tickets may be of; docs/tickets.md).

Example:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint serve`
}

// What serve and worker need of the settings.
const (
	serveNeeds  = config.Database | config.Keys | config.Temporal | config.HTTP
	workerNeeds = config.Database | config.Keys | config.Temporal | config.Log
)

func (serveCommand) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(serveNeeds)
	if err != nil {
		return err
	}
	log := logger(cfg)
	warnOfOpenFiles(cfg, log)
	listener, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	cfg.Recorded = true
	return serve(ctx, cfg, log, listener, func() { log.Info("serving", "url", cfg.PublicURL, "listen", listener.Addr().String()) })
}

// warnOfOpenFiles says which files of secrets everybody on the machine may read. It goes on: where Kubernetes mounts
// them, they are so unless somebody says otherwise, and nobody else is there.
func warnOfOpenFiles(cfg config.Config, log *slog.Logger) {
	for _, file := range cfg.Open() {
		log.Warn("everybody on this machine may read a file with a secret: chmod 600, or 440 for a group", "file", file)
	}
}

// listen opens the address, or says in one line why it cannot be had.
func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w (give another address, such as 127.0.0.1:0 for any free port)", address, errors.Unwrap(err))
	}
	return listener, nil
}

// warnOfTooFew says which rules ask for more people than there are.
func warnOfTooFew(ctx context.Context, s *store.Store, cfg config.Config, log *slog.Logger) {
	people, err := s.People.List(ctx)
	if err != nil {
		log.Warn("the people cannot be counted", "error", err)
		return
	}
	for _, rule := range staffing(cfg.Routing, people) {
		switch {
		case rule.approve != nil:
			log.Warn("what this rule holds can only time out", "role", rule.Role, "needed", rule.Needed, "error", rule.approve)
		case rule.deny != nil:
			log.Warn("nobody can deny what this rule holds", "role", rule.Role, "deny", rule.Deny, "error", rule.deny)
		}
		if rule.widen != nil {
			log.Warn("nobody can decide where agents name too many people as their side", "if_too_few", rule.IfTooFew, "error", rule.widen)
		}
	}
}

// stopWithin is how long requests that are under way may take when the program
// is told to stop.
const stopWithin = 4 * time.Second

// serve runs gate, API and console on the listener until ctx ends, calling
// ready once it has reached Postgres; before, it answers that it is not ready.
func serve(ctx context.Context, cfg config.Config, log *slog.Logger, listener net.Listener, ready func()) error {
	defer func() { _ = listener.Close() }()
	traces, endTraces, err := startTraces(ctx, "holdpoint-serve", log)
	if err != nil {
		return err
	}
	defer endTraces()
	apiMetrics := api.NewMetrics(metrics.NewRegistry(version()))
	var doors atomic.Pointer[http.Handler]
	openDoors := func(h http.Handler) { doors.Store(&h) }
	openDoors(api.Starting())
	server := api.Server(api.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*doors.Load()).ServeHTTP(w, r) }), log, apiMetrics, traces.Tracer(traced)), log)
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	server.BaseContext = func(net.Listener) context.Context { return requests }
	defer func() { _ = server.Close() }()
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()

	s, keeper, err := open(ctx, cfg, store.Config{URL: cfg.DatabaseURL, PeopleURL: cfg.DatabasePeopleURL, Sealer: cfg.Sealer, Logger: log, MaxConns: cfg.DatabaseConns, Traces: traces, Observe: apiMetrics.Commit, Observer: metrics.NewCounters(apiMetrics.Registry)}, "serve", func(s *store.Store) error {
		return checkFloor(ctx, cfg, s)
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while it waited
		}
		return err
	}
	defer s.Close()
	warnOfTooFew(ctx, s, cfg, log)
	dataKeys, err := followDataKeys(ctx, cfg, s, "serve", log)
	if err != nil {
		return err
	}
	defer dataKeys()
	if err := recordStart(ctx, cfg, s, "serve", apiMetrics.Registry); err != nil {
		return err
	}
	following := followRules(ctx, keeper)
	defer following()
	factors, err := identity.NewFactors(s, cfg.PublicURL)
	if err != nil {
		return err
	}
	g, err := gate.New(gate.Config{
		Store: s, Sealer: cfg.Sealer, Judge: keeper.Judge, Refresh: keeper.Refresh, Ring: cfg.Ring, KeyDelay: time.Duration(cfg.SigningKeyDelay), Issuer: cfg.Issuer,
		TokenTTL: time.Duration(cfg.TokenTTL), MaxPending: cfg.MaxPending, Lease: time.Duration(cfg.ExecutionLease), Logger: log, Tickets: tracked(cfg), Factors: factors,
		SecondFactorRoles: cfg.SecondFactorRoles,
		Settler:           &gate.Settler{Store: s, Sealer: cfg.Sealer, Rules: keeper, Documents: keeper, Validity: time.Duration(cfg.TokenValidity), Logger: log},
	})
	if err != nil {
		return err
	}
	signingKeys, err := followSigningKeys(ctx, cfg, g.TokenKeys)
	if err != nil {
		return err
	}
	defer signingKeys()
	administration := admin.New(admin.Config{Store: s, Hold: keeper.Hold, MailLink: mailLink(cfg), SCIM: directory(cfg), Refresh: keeper.Refresh, PublicURL: cfg.PublicURL, Roles: rolesInForce(keeper), AllowPrivate: cfg.AllowPrivate, PushKey: cfg.Pushes, PushPrivate: cfg.PushPrivate})
	logged := auditlog.New(auditlog.Config{Store: s, Witnessed: cfg.LogWitnessed, Logger: log})
	reports := report.Reports{Store: s, Judge: keeper.Judge, Sealer: cfg.Sealer}
	signIn := identity.NewSignIn(factors)
	defer signIn.Flush()
	byProvider, err := singleSignOn(cfg, s, signIn, administration, log)
	if err != nil {
		return err
	}
	stopping := make(chan struct{})
	known, err := auditlog.Encodings()
	if err != nil {
		return err
	}
	exporter := &auditlog.Exporter{Store: s, Keys: publicKeysOfLog(cfg), Encodings: known, Witnessed: cfg.LogWitnessed}
	console, err := web.New(web.Config{
		Inbox: g.Queries, History: g.Histories, Cards: g.Queries, CallSessions: g.Queries, Changes: g.Queries,
		Votes: g.Contributions, Contributions: g.Contributions, Requirements: g.Contributions, Edits: g.Contributions, Outcomes: g.Contributions,
		Drafts: g.Drafts, Grants: g.Grants, Delegations: administration.Delegations, People: administration.People, AccessReviews: administration.AccessReviews, OnCall: administration.OnCall, APIKeys: administration.Keys, RuleChanges: rules.RefusingKeeper{Keeper: keeper},
		Agents: administration.Registry, Tools: administration.Registry, Settings: administration.Registry, InForce: judgedBy(keeper), Stops: keeper.Stops, Notifications: administration.Endpoints, Push: administration.Push, Slack: administration.Slack,
		Retention: administration.Retention, KeepFor: cfg.KeepFor, Reports: reports,
		Log: logged, Exporter: exporter, LogKeys: publicKeysOfLog(cfg), Floor: floorReader(cfg),
		SSO: byProvider, SSOOnly: cfg.SSOOnly, SecondFactorRoles: cfg.SecondFactorRoles,
		SignIn: signIn, PasswordLinks: signIn, SecondStep: signIn, Factors: factors, Prover: factors, Sessions: sessions{s}, Names: s.People,
		Secure: cfg.Secure(), Remote: cfg.Remote, Clock: s.Clock, Stopping: stopping, Logger: log,
	})
	if err != nil {
		return err
	}
	// Lazy: the gate never waits for Temporal, and asks for it only when
	// somebody wants to know whether it is there.
	temporal, err := temporalClient(cfg, log, traces)
	if err != nil {
		return err
	}
	defer temporal.Close()
	temporalThere := reachable(temporal)
	apiMetrics.MustRegister(stateOf(cfg, s, keeper, temporalThere, log))
	mux := http.NewServeMux()
	models, err := modelContext(mux, apiMetrics, log, traces.Tracer(traced))
	if err != nil {
		return err
	}
	inSlack, err := slackDoor(cfg, s, g, administration, log)
	if err != nil {
		return err
	}
	door, err := api.New(api.Config{
		Exporter: exporter, Slack: inSlack,
		Evidence: &evidence.Packer{Store: s, Sealer: cfg.Sealer, Exporter: exporter, Present: web.EvidenceCard},
		Gate:     g, Admin: administration, Changes: rules.RefusingKeeper{Keeper: keeper}, Log: logged, Reports: reports, Keys: keys{identity.NewKeys(ctx, s)}, Person: console.Signed, PublicURL: cfg.PublicURL, Logger: log, Rules: inForce(keeper),
		Prove: func(ctx context.Context, p engine.Person, boundTo, code string) (string, error) {
			return factors.Verify(ctx, p, identity.ForApproval, boundTo, identity.Proof{Code: code})
		},
		Limits: api.Limits{Calls: cfg.MaxCallsInFlight, Bytes: int64(cfg.MaxBytesInFlight), TotalBytes: int64(cfg.MaxBytesInFlightTotal)},
		MCP:    models, Metrics: apiMetrics, LogKey: cfg.LogPublicKey, Stopping: stopping, Probes: []api.Probe{
			{Name: "postgres", Required: true, Ask: s.Ping},
			{Name: "writes", Required: true, Ask: s.Writable},
			{Name: "policy", Ask: keeper.Usable},
			{Name: "temporal", Ask: temporalThere},
		},
	})
	if err != nil {
		return err
	}
	defer door.Flush()
	door.Register(mux)
	console.Register(mux)
	mux.HandleFunc("/", console.NotFound)
	guarded := web.Guard(mux, web.GuardConfig{Secure: cfg.Secure(), Hosts: cfg.Hosts(), Logger: log})
	end, err := serveMetrics(ctx, cfg, apiMetrics.Handler(), log, func(err error) { failed <- err })
	if err != nil {
		return err
	}
	defer end()
	openDoors(guarded)
	ready()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// First those who wait on purpose, then those who are being answered.
	close(stopping)
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := server.Shutdown(down); err != nil {
		log.Warn("requests were cut off", "error", err)
		endRequests()
		_ = server.Close()
	}
	return nil
}
