package api_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/note"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/policy"
	"holdpoint/engine/token"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/report"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

const origin = "holdpoint.example.com/log"

// harness is the API on a database of its own, with a sequencer that runs while the
// test wants it to.
type harness struct {
	*gate.Gate
	*admin.Admin
	Log      *auditlog.Log
	Reports  report.Reports
	t        testing.TB
	db       *storetest.Database
	owner    *pgx.Conn // a superuser
	settler  *gate.Settler
	server   *httptest.Server
	door     *api.API
	keys     []audit.Key
	verifier note.Verifier
	stop     func()
	logged   *lines // what the audit log logs of itself
	judge    atomic.Pointer[gate.Judge]
	cut      bool // the test cuts connections: what is prepared may find one that was (patiently)

	person engine.Person // who is signed in; nobody while it has no ID
}

// keyring holds the test's API keys.
type keyring map[string]access.Principal

func (k keyring) Authenticate(_ context.Context, text string) (access.Principal, bool, error) {
	p, ok := k[text]
	return p, ok, nil
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	return newHarnessOf(t, api.Limits{})
}

func newHarnessOf(t testing.TB, limits api.Limits) *harness {
	t.Helper()
	db := storetest.New(t)
	return harnessOn(t, db, db.Runtime(), limits)
}

// harnessOn is a harness on a database and a store of it that the test has made.
func harnessOn(t testing.TB, db *storetest.Database, s *store.Store, limits api.Limits) *harness {
	t.Helper()
	h := &harness{t: t, db: db, owner: db.Connect(db.URL), stop: func() {}}
	// A superuser's own: nothing keeps this connection from what it wants.
	h.exec(`SET session_replication_role = replica`)
	sealer := db.Sealer
	t.Cleanup(func() { h.stop() })
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	ring, err := token.Ring{}.Add(seed)
	if err != nil {
		t.Fatal(err)
	}
	h.settler = &gate.Settler{Store: s, Sealer: sealer, Validity: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	h.Gate, err = gate.New(gate.Config{Store: s, Sealer: sealer, Judge: h.judge.Load, Ring: ring, Issuer: "urn:test", Settler: h.settler})
	if err != nil {
		t.Fatal(err)
	}
	h.judgeAgain()
	h.Admin = admin.New(admin.Config{Store: s, PublicURL: "https://holdpoint.example.com", Roles: func(context.Context) ([]string, error) {
		return admin.KnownRoles(nil, approval.Routing{Default: approval.Rule{Role: "reviewer"}}), nil
	}})
	h.logged = &lines{}
	h.Log = auditlog.New(auditlog.Config{Store: s, Logger: slog.New(slog.NewTextHandler(h.logged, nil))})
	h.Reports = report.Reports{Store: s, Judge: h.Judge, Sealer: sealer}
	private, public, err := audit.NewKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	if h.keys, err = audit.ParseKeys(private); err != nil {
		t.Fatal(err)
	}
	if h.verifier, err = note.NewVerifier(public); err != nil {
		t.Fatal(err)
	}
	door, err := api.New(api.Config{
		Gate: h.Gate, Admin: h.Admin, Log: h.Log, Reports: h.Reports, PublicURL: "https://holdpoint.example.com", Logger: slog.New(slog.DiscardHandler), Metrics: api.NewMetrics(prometheus.NewRegistry()), LogKey: public, Limits: limits,
		Keys: keyring{
			"directory": {KeyID: "key_d", Kind: access.AdminKey, Scopes: []string{identity.ScopeSCIM}},
			"both":      {KeyID: "key_b", Kind: access.AdminKey, Scopes: []string{identity.ScopeSCIM, identity.ScopeAudit}},
			"auditing":  {KeyID: "key_a", Kind: access.AdminKey, Scopes: []string{identity.ScopeAudit}},
			"quiet":     {KeyID: "key_q", Kind: access.AgentKey, AgentID: "quiet-bot", Scopes: []string{identity.ScopeCheck, identity.ScopeApprovals}},
			"other":     {KeyID: "key_o", Kind: access.AgentKey, AgentID: "other-bot", Scopes: []string{identity.ScopeCheck, identity.ScopeApprovals, identity.ScopeRedeem}, MaxState: "authenticated"},
			"ruling":    {KeyID: "key_r", Kind: access.AdminKey, Scopes: []string{identity.ScopeApprovals, identity.ScopeAdmin}},
			"checking":  {KeyID: "key_c", Kind: access.AgentKey, AgentID: "bot", Scopes: []string{identity.ScopeCheck, identity.ScopeApprovals, identity.ScopeRedeem}, MaxState: "authenticated"},
		},
		Person: func(*http.Request) (engine.Person, bool, error) { return h.person, h.person.ID != "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	h.door = door
	door.Register(mux)
	h.server = httptest.NewServer(mux)
	t.Cleanup(h.server.Close)
	return h
}

// allowing is a policy that has no objection to anything.
func allowing(t testing.TB) *policy.Bundle {
	t.Helper()
	b, problems := policy.Load([]byte(`{"version":"1","generated_at":"2026-01-01T00:00:00Z","expires_at":"2036-01-01T00:00:00Z","rules":[],"defaults":{"outcome":"ALLOW"}}`), policy.Options{})
	if b == nil {
		t.Fatal(problems)
	}
	return b
}

// lines is what was logged. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.owner.Exec(context.Background(), sql, args...); err != nil {
		h.t.Fatal(err)
	}
}

// judgeAgain makes the gate know what is registered now.
func (h *harness) judgeAgain() {
	h.t.Helper()
	known, err := h.Store.Registry.Snapshot(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	judge, err := gate.NewJudge(gate.Rules{
		Environment: "test", Policy: allowing(h.t), Registry: known, Routing: approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(time.Hour)}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.judge.Store(judge)
	h.settler.Rules = fixedRules{judge}
}

// count is what a query says.
func (h *harness) count(sql string) (n int64) {
	h.t.Helper()
	if err := h.owner.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// sequence runs a sequencer until the harness's stop.
func (h *harness) sequence() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	q := &auditlog.Sequencer{Store: h.Store, Keys: h.keys, Logger: slog.New(slog.DiscardHandler), Every: 5 * time.Millisecond}
	running.Go(func() { q.Run(ctx) })
	h.stop = func() { cancel(); running.Wait() }
}

// log appends n events and waits until they have their places.
func (h *harness) log(n int) {
	h.t.Helper()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := h.RecordRejection(context.Background(), access.RejectedRequest{Code: "test", Message: fmt.Sprint("turned away ", i), Payload: []byte(`{"route":"GET /","status":400}`)}); err != nil {
				h.t.Error(err)
			}
		})
	}
	group.Wait()
	if placed, err := h.Store.Log.CatchUp(context.Background(), 20*time.Second); err != nil || !placed {
		h.t.Fatalf("the log does not catch up: %v", err)
	}
}

// logged is a harness with so many events in its log, and the sequencer running.
func logged(t testing.TB, n int) *harness {
	t.Helper()
	h := newHarness(t)
	h.sequence()
	h.log(n)
	return h
}

type reply struct {
	*http.Response
	body []byte
}

func (h *harness) do(method, path string, headers ...string) reply {
	h.t.Helper()
	return h.send(method, path, "", headers...)
}

func (h *harness) send(method, path, body string, headers ...string) reply {
	h.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, h.server.URL+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answered, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	h.documented(req, res)
	return reply{res, answered}
}

// documented fails the test unless the answer's status, and its media type, are in the
// OpenAPI document.
func (h *harness) documented(req *http.Request, res *http.Response) {
	h.t.Helper()
	if req.Method == http.MethodHead || res.StatusCode == http.StatusMethodNotAllowed {
		return // as GET, without the body; and no operation of the address
	}
	says, err := documentOf(h.door)
	if err != nil {
		h.t.Fatal(err)
	}
	_, pattern := says.routes.Handler(req)
	if pattern == "" {
		return // no operation
	}
	contents, ok := says.answers[pattern][strconv.Itoa(res.StatusCode)]
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if !ok || kind != "" && contents != nil && !slices.Contains(contents, kind) {
		h.t.Errorf("%s answers %d %s, which is not documented", pattern, res.StatusCode, kind)
	}
}

// apiDocument is what the OpenAPI document says of answers: by pattern and status, their
// media types.
type apiDocument struct {
	routes  *http.ServeMux
	answers map[string]map[string][]string
}

var documentOf = func() func(*api.API) (apiDocument, error) {
	var once sync.Once
	var d apiDocument
	var err error
	return func(a *api.API) (apiDocument, error) {
		once.Do(func() { d, err = readDocument(a) })
		return d, err
	}
}()

func readDocument(a *api.API) (d apiDocument, err error) {
	mux := http.NewServeMux()
	a.Register(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		return d, err
	}
	d = apiDocument{http.NewServeMux(), map[string]map[string][]string{}}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			pattern := strings.ToUpper(method) + " " + path
			if strings.HasPrefix(path, "/log/tile/") {
				pattern = strings.TrimSuffix(pattern, "}") + "...}"
			}
			d.routes.Handle(pattern, http.NotFoundHandler())
			d.answers[pattern] = map[string][]string{}
			for status, r := range op.Responses {
				d.answers[pattern][status] = slices.Collect(maps.Keys(r.Content))
			}
		}
	}
	return d, nil
}

func (h *harness) get(path string) reply { h.t.Helper(); return h.do(http.MethodGet, path) }

// ask reads something of the auditors'.
func (h *harness) ask(path string) reply {
	h.t.Helper()
	return h.do(http.MethodGet, path, "Authorization", "Bearer auditing")
}

// want fails the test unless the status, and for a problem its code, are these.
func (r reply) want(t testing.TB, status int, code string) reply {
	t.Helper()
	var problem struct{ Code string }
	if code != "" {
		if err := json.Unmarshal(r.body, &problem); err != nil || r.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%s: no problem but %d %s", r.Request.URL.Path, r.StatusCode, r.body)
		}
	}
	if r.StatusCode != status || problem.Code != code {
		t.Fatalf("%s: got %d %s, want %d %s", r.Request.URL, r.StatusCode, r.body, status, code)
	}
	return r
}

func (r reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%s: %v in %s", r.Request.URL, err, r.body)
	}
}

func (h *harness) checkpoint() audit.Checkpoint {
	h.t.Helper()
	c, err := audit.OpenCheckpoint(h.get("/log/checkpoint").want(h.t, 200, "").body, h.verifier)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// misfits are the places in a bundle whose entries do not fit the tile's hashes.
func (h *harness) misfits(n int64, width int) (places []int) {
	h.t.Helper()
	entries, err := audit.ParseBundle(h.get("/log/"+audit.Resource{Entries: true, N: n, Width: width}.Path()).want(h.t, 200, "").body)
	if err != nil {
		h.t.Fatal(err)
	}
	hashes, err := audit.ParseHashes(h.get("/log/"+audit.Resource{N: n, Width: width}.Path()).want(h.t, 200, "").body)
	if err != nil || len(hashes) != width || len(entries) != width {
		h.t.Fatalf("%d hashes and %d entries, %v; want %d", len(hashes), len(entries), err, width)
	}
	for i := range entries {
		if audit.LeafHash(entries[i]) != hashes[i] {
			places = append(places, i)
		}
	}
	return places
}
