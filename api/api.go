// Package api is the door for agents and for programs: JSON over HTTP, with
// API keys. It reads every body through the one strict reader, answers every
// mistake with a problem that names what and where, and never talks to the
// database or reads a cookie itself.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/evidence"
	"holdpoint/internal/fair"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/report"
	"holdpoint/internal/slack"
	"holdpoint/internal/tally"
)

// Authenticator says whose API key a text is.
type Authenticator interface {
	// Authenticate returns the key's principal; ok is false for a key that is
	// unknown, revoked or expired. err is an outage.
	Authenticate(ctx context.Context, text string) (p access.Principal, ok bool, err error)
}

// Config is what the API is made of.
type Config struct {
	Gate  *gate.Gate
	Admin *admin.Admin
	// Log reads and proves the audit log, and Reports counts.
	Log     *auditlog.Log
	Reports report.Reports
	Keys    Authenticator
	// Person returns the signed-in person of a request; ok is false when nobody
	// is signed in. It may be nil where there is no console.
	Person func(*http.Request) (p engine.Person, ok bool, err error)
	// Prove checks the code by which somebody proves who they are for one thing, the
	// name of which it is bound to, and returns how they did; nil where nobody can.
	Prove func(ctx context.Context, p engine.Person, boundTo, code string) (method string, err error)
	// Changes proposes changes of the policy and the tool contracts; nil where none can be.
	Changes RuleChanges
	// Rules says what calls are judged by.
	Rules func() RulesInForce
	// MCP serves clients of the Model Context Protocol, whose key and body have
	// been looked at. Nil where there is none.
	MCP http.Handler
	// Slack takes what people do in Slack; nil where nothing is decided there.
	Slack *slack.Door
	// Exporter writes exports of the audit log; nil where there are none.
	Exporter *auditlog.Exporter
	// LogKey is the audit log's public key, a line for each, to be shown; "" where
	// this process does not know it.
	LogKey string
	// Evidence makes evidence packs; nil where there are none.
	Evidence *evidence.Packer
	// PublicURL is where people and agents reach this server, without a slash
	// at the end.
	PublicURL string
	Logger    *slog.Logger
	Metrics   *Metrics
	// Probes are asked by /readyz.
	Probes []Probe
	// Limits bound what is being answered at once.
	Limits Limits
	// Stopping, when closed, ends long waits: the server is going down.
	Stopping <-chan struct{}
}

// API answers requests. Register puts its routes on a mux.
type API struct {
	Config
	turnedAway *tally.Tally[rejection]
	inFlight   *inFlight
	operations []operation
	document   []byte
	docs       []byte

	mu   sync.Mutex
	held map[string]int // requests that are held, by credential
}

// maxHeld is how many requests of one credential are held at once: one for each
// call that its agent may have waiting.
const maxHeld = 1000

// enter counts a request that will be held; release must follow. The failure is
// that there are too many already.
func (a *API) enter(c *call) (release func(), err error) {
	who := c.caller()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[who] >= maxHeld {
		return nil, &failure{
			Status: http.StatusTooManyRequests, Code: "too_many_waiting", RetryAfter: 5 * time.Second,
			Detail: fmt.Sprintf("%d requests of yours are being held already.", maxHeld),
		}
	}
	a.held[who]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.held[who]--; a.held[who] == 0 {
			delete(a.held, who)
		}
	}, nil
}

// rejection is a kind of refusal that is put on record by number: an attacker must
// not be able to fill the log. It says nothing that the caller wrote.
type rejection struct {
	keyID, agentID string // "" for strangers
	route          string
	status         int
	code           string
}

// What of a kind is put on record: the first ones of a minute, and how many more there
// were.
const (
	turnedAwayEvery = time.Minute
	turnedAwayFirst = 1
)

// New returns the API.
func New(cfg Config) (*API, error) {
	if cfg.Gate == nil || cfg.Admin == nil || cfg.Log == nil || cfg.Keys == nil || cfg.PublicURL == "" || cfg.Logger == nil || cfg.Metrics == nil {
		return nil, errors.New("the API needs a gate, administration, the log, keys, a public URL, a logger and metrics")
	}
	if cfg.Rules == nil {
		cfg.Rules = func() RulesInForce { return RulesInForce{Digest: cfg.Gate.Judge().Digest()} }
	}
	if cfg.Person == nil {
		cfg.Person = func(*http.Request) (engine.Person, bool, error) { return engine.Person{}, false, nil }
	}
	a := &API{Config: cfg, inFlight: newInFlight(cfg.Limits), held: map[string]int{}}
	a.turnedAway = tally.New(tally.Config[rejection]{Every: turnedAwayEvery, First: turnedAwayFirst, Write: a.recordMany, Failed: func(err error) {
		a.Logger.Warn("the number of refusals could not be put on record yet", "error", err)
	}})
	a.Metrics.Gauge("holdpoint_in_flight_calls", "Requests with a body that are being answered.", func() float64 { return float64(a.inFlight.total().calls) })
	a.Metrics.Gauge("holdpoint_in_flight_bytes", "What the bodies of those requests may have, in bytes.", func() float64 { return float64(a.inFlight.total().bytes) })
	a.Metrics.Gauge("holdpoint_in_flight_waiting", "Requests that wait for their turn to be read or judged.", func() float64 { return float64(a.inFlight.waiting()) })
	a.operations = a.table()
	for i, op := range a.operations {
		if op.method == http.MethodPost && op.scope != public && !slices.Contains(op.problems, http.StatusTooManyRequests) {
			problems := append(slices.Clone(op.problems), http.StatusTooManyRequests)
			slices.Sort(problems)
			a.operations[i].problems = problems
		}
	}
	var err error
	if a.document, err = openAPI(a.operations, cfg.PublicURL); err != nil {
		return nil, err
	}
	a.docs, err = docsPage(a.operations, a.document)
	return a, err
}

// Register puts the API's routes on a mux.
func (a *API) Register(mux *http.ServeMux) {
	for _, op := range a.operations {
		mux.Handle(op.method+" "+op.path, a.serve(op))
	}
	directoryDoor{a}.register(mux)
	mux.HandleFunc("GET /docs/style.css", a.docsCSS)
	methods := map[string][]string{}
	for _, op := range a.operations {
		methods[op.path] = append(methods[op.path], op.method)
	}
	for path, allowed := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			a.fail(w, r, access.Principal{}, &failure{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: "This address takes " + strings.Join(allowed, ", ") + "."})
		})
	}
	mux.HandleFunc("/log/", func(w http.ResponseWriter, r *http.Request) { _ = auditDoor{a}.noSuchLog(&call{w: w, r: r}) }) // it has answered
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, access.Principal{}, &failure{Status: http.StatusNotFound, Code: "no_such_route", Detail: "There is nothing at this address for this method. /docs lists what there is."})
	})
}

// answerWithin bounds the answer to anything that changes something.
const answerWithin = 5 * time.Second

// Authorization levels of an operation.
const (
	public     = ""        // anybody
	signedIn   = "person"  // a signed-in person
	keyOrHuman = "reading" // a key with scope approvals, or a signed-in person
	anyKey     = "key"     // a key of any scope: what it may do is looked at further on
	// adminOrHuman is a key with scope admin, or a signed-in person.
	adminOrHuman = "administering"
	// auditOrHuman is a key with scope audit, or a signed-in auditor or administrator.
	auditOrHuman = "auditing"
)

// call is one request on its way through an operation.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	principal access.Principal
	person    engine.Person
	isPerson  bool
	// asked is the request's context as it came: what a look-up of the session
	// remembers in it is not there yet.
	asked context.Context //nolint:containedctx // it lives as long as the request
	// begin, when set, waits for the call's turn; its body has been read and has so
	// many bytes.
	begin func(size int) error
	// turn, when set, gives the turn back that has come (giveTurn).
	turn func()
}

func (a *API) serve(op operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w}
		if op.method == http.MethodPost && !op.held {
			// Whatever hangs behind this door, the caller is refused in time.
			ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
			defer cancel()
			if op.scope == identity.ScopeCheck {
				ctx = fair.With(ctx, c.giveTurn)
			}
			r = r.WithContext(ctx)
		}
		if strings.HasPrefix(op.path, accessPrefix) {
			echo(w, r)
		}
		c.r, c.asked = r, r.Context()
		err := a.authorize(c, op.scope)
		if err == nil {
			err = op.takesQuery(r.URL.RawQuery)
		}
		if err == nil && op.long {
			var leave func()
			if leave, err = a.inFlight.read(c.caller()); err == nil {
				defer leave()
			}
		}
		if err == nil && op.method == http.MethodPost && op.scope != public {
			var leave func()
			if leave, err = a.admit(c, op); err == nil {
				defer leave()
			}
		}
		if err == nil {
			err = op.handle(c)
		}
		if err != nil {
			a.fail(w, r, c.principal, err)
		}
	})
}

// fail answers with a problem. What the gate has refused is on record already;
// what this door turns away is put there now.
func (a *API) fail(w http.ResponseWriter, r *http.Request, p access.Principal, err error) {
	var replay *access.Replay
	if errors.As(err, &replay) {
		w.Header().Set("Idempotent-Replayed", "true")
		writeReply(w, replay.Reply)
		return
	}
	f := a.failureOf(r, err)
	if f == nil {
		return // the caller has gone
	}
	var ours *failure
	if errors.As(err, &ours) && f.Status < http.StatusInternalServerError {
		a.recordTurnedAway(r, p, f)
	}
	reply := f.reply()
	if f.Status == http.StatusUnauthorized && r.URL.Path == mcpPath {
		reply.Header["WWW-Authenticate"] += `, resource_metadata="` + a.PublicURL + protectedResource + mcpPath + `"`
	}
	writeReply(w, reply)
}

func (a *API) recordTurnedAway(r *http.Request, p access.Principal, f *failure) {
	a.Metrics.turnedAway.WithLabelValues(f.Code).Inc()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Second)
	defer cancel()
	route := cmp.Or(r.Pattern, "unknown")
	var err error
	if p.KeyID == "" || f.Code == tooManyInFlight {
		// Its message may quote the request: a number has none.
		err = a.turnedAway.Add(ctx, rejection{p.KeyID, p.AgentID, route, f.Status, f.Code})
	} else {
		err = a.recordRefusal(ctx, p, f.Code, f.Detail, map[string]any{"route": route, "status": f.Status})
	}
	if err != nil {
		a.Logger.WarnContext(r.Context(), "a refusal could not be put on record", "code", f.Code, "error", err)
	}
}

// recordMany puts refusals of a kind on record: one, or so many.
func (a *API) recordMany(ctx context.Context, kind rejection, n tally.Count) error {
	payload, message := map[string]any{"route": kind.route, "status": kind.status}, "A request was turned away."
	if n.N > 0 {
		payload["count"], payload["since"] = n.N, n.Since
		message = fmt.Sprintf("%d more requests were turned away since %s.", n.N, n.Since.Format(time.RFC3339))
	}
	return a.recordRefusal(ctx, access.Principal{KeyID: kind.keyID, AgentID: kind.agentID}, kind.code, message, payload)
}

func (a *API) recordRefusal(ctx context.Context, p access.Principal, code, message string, said map[string]any) error {
	payload, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return a.Gate.RecordRejection(ctx, access.RejectedRequest{
		RequestID: RequestID(ctx), AgentID: p.AgentID, Actor: engine.Actor{Kind: engine.ServiceActor, ID: p.KeyID, Channel: "api"},
		Code: code, Message: message, Payload: payload,
	})
}

// Flush puts on record what has only been counted yet: the server has stopped.
func (a *API) Flush() { a.turnedAway.Flush() }
