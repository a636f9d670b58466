package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
)

// fakeLog is a Log over a list of events, for tests. Its tree, its checkpoints and
// its proofs are real ones.
type fakeLog struct {
	records []audit.Record
	key     audit.Key
	people  map[string]engine.Person
	waiting int
	broken  error
	// slowAt, when set, ends every search there, as if it had taken too long.
	slowAt int64
	notes  []auditlog.Checkpoint
	// leaves are the hashes as they were logged, whatever becomes of the records.
	leaves []tlog.Hash
	// bend changes a proof before it is sent.
	bend func(map[string]any)
}

const logOrigin = "log.example.com/test"

func newFakeLog(t testing.TB, m *fakeGate) *fakeLog {
	t.Helper()
	private, _, err := audit.NewKey(zeros{}, logOrigin)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(private)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeLog{key: keys[0], people: m.people}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// add appends an event and signs a checkpoint.
func (l *fakeLog) add(t testing.TB, e engine.Event) engine.Event {
	t.Helper()
	n := int64(len(l.records))
	if e.ID == "" {
		e.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", n+1)
	}
	if e.Reasons == nil {
		e.Reasons = []engine.Reason{}
	}
	if e.SafePayload == nil {
		e.SafePayload = []byte(`{}`)
	}
	at := e.Timestamp
	if at.IsZero() {
		at = epoch.Add(time.Duration(n) * time.Minute)
	}
	e.Seq, e.Timestamp = 0, time.Time{}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	l.records = append(l.records, audit.Record{
		Leaf: n, ID: e.ID, At: at, Type: string(e.Type), Outcome: string(e.Outcome), AgentID: e.AgentID, ToolName: e.ToolName, ApprovalID: e.ApprovalID, Body: body,
	})
	l.leaves = append(l.leaves, audit.LeafHash(l.records[n].Entry()))
	root, err := tlog.TreeHash(n+1, l)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := audit.Sign(audit.Checkpoint{Origin: logOrigin, Size: n + 1, Root: root}, l.key)
	if err != nil {
		t.Fatal(err)
	}
	l.notes = append(l.notes, auditlog.Checkpoint{Size: n + 1, Root: root, Note: signed, At: at.Add(time.Second)})
	e.Seq, e.Timestamp = n+1, at
	return e
}

// ReadHashes computes the tree's hashes from its leaves, over and over.
func (l *fakeLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var all []tlog.Hash
	for i, leaf := range l.leaves {
		hashes, err := tlog.StoredHashesForRecordHash(int64(i), leaf, tlog.HashReaderFunc(func(wanted []int64) ([]tlog.Hash, error) {
			some := make([]tlog.Hash, len(wanted))
			for k, at := range wanted {
				some[k] = all[at]
			}
			return some, nil
		}))
		if err != nil {
			return nil, err
		}
		all = append(all, hashes...)
	}
	some := make([]tlog.Hash, len(indexes))
	for k, at := range indexes {
		some[k] = all[at]
	}
	return some, nil
}

func (l *fakeLog) Search(_ context.Context, f auditlog.EventFilter, limit int) (auditlog.SearchResult, error) {
	if l.broken != nil {
		return auditlog.SearchResult{}, l.broken
	}
	records := slices.Clone(l.records)
	if f.Newest {
		slices.Reverse(records)
	}
	var found auditlog.SearchResult
	for _, r := range records {
		beyond := f.Newest && f.After > 0 && r.Seq() >= f.After || !f.Newest && r.Seq() <= f.After
		if beyond {
			continue
		}
		if l.slowAt > 0 && r.Seq() < l.slowAt {
			found.More, found.Stopped, found.Reached = true, true, l.slowAt
			return found, nil
		}
		for _, c := range [][2]string{{f.AgentID, r.AgentID}, {f.Tool, r.ToolName}, {f.Outcome, r.Outcome}, {f.Type, r.Type}, {f.ActorID, r.Actor()}, {f.ApprovalID, r.ApprovalID}} {
			beyond = beyond || c[0] != "" && c[0] != c[1]
		}
		if beyond || !f.Since.IsZero() && r.At.Before(f.Since) || !f.Until.IsZero() && !r.At.Before(f.Until) {
			continue
		}
		if len(found.Records) == limit {
			found.More = true
			break
		}
		found.Records, found.Reached = append(found.Records, r), r.Seq()
	}
	return found, nil
}

var noEvent = &access.Refusal{Kind: access.NotFound, Code: "not_found", Detail: "There is no such event."}

func (l *fakeLog) Event(_ context.Context, id string) (audit.Record, error) {
	for _, r := range l.records {
		if r.ID == id {
			return r, l.broken
		}
	}
	return audit.Record{}, noEvent
}

func (l *fakeLog) EventAt(_ context.Context, seq int64) (audit.Record, error) {
	if seq < 1 || seq > int64(len(l.records)) {
		return audit.Record{}, noEvent
	}
	return l.records[seq-1], l.broken
}

func (l *fakeLog) Standing(context.Context) (auditlog.Status, error) {
	s := auditlog.Status{Size: int64(len(l.records)), Now: epoch.Add(time.Hour), Waiting: l.waiting}
	if l.waiting > 0 {
		s.Oldest = epoch.Add(50 * time.Minute)
	}
	if n := len(l.notes); n > 0 {
		s.Latest = &l.notes[n-1]
	}
	return s, l.broken
}

func (l *fakeLog) Checkpoints(_ context.Context, below int64, limit int) ([]auditlog.Checkpoint, error) {
	var list []auditlog.Checkpoint
	for _, c := range slices.Backward(l.notes) {
		if (below == 0 || c.Size < below) && len(list) < limit {
			list = append(list, c)
		}
	}
	return list, l.broken
}

func (l *fakeLog) Everybody(context.Context) ([]engine.Person, error) {
	var all []engine.Person
	for _, p := range l.people {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b engine.Person) int { return strings.Compare(a.Email, b.Email) })
	return all, l.broken
}

// proof answers as GET /v1/audit/events/{id}/proof does.
func (l *fakeLog) proof(w http.ResponseWriter, r *http.Request) {
	record, err := l.Event(r.Context(), r.PathValue("id"))
	if err != nil {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	latest := l.notes[len(l.notes)-1]
	path, err := tlog.ProveRecord(latest.Size, record.Leaf, l)
	if err != nil {
		http.Error(w, "{}", http.StatusInternalServerError)
		return
	}
	hashes := make([]any, len(path))
	for i, h := range path {
		hashes[i] = base64.StdEncoding.EncodeToString(h[:])
	}
	leaf := l.leaves[record.Leaf]
	answer := map[string]any{
		"event": json.RawMessage(record.Document()), "entry": string(record.Entry()), "leaf_index": record.Leaf,
		"leaf_hash": base64.StdEncoding.EncodeToString(leaf[:]), "tree_size": latest.Size, "root": base64.StdEncoding.EncodeToString(latest.Root[:]),
		"proof": hashes, "checkpoint": string(latest.Signed()),
	}
	if l.bend != nil {
		l.bend(answer)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// sample fills the log with what a day might bring.
func (l *fakeLog) sample(t testing.TB) {
	agent := engine.Actor{Kind: engine.AgentActor, ID: "agt_billing", Channel: "api"}
	ada := engine.Actor{Kind: engine.HumanActor, ID: "usr_ada", Channel: "console"}
	olga := engine.Actor{Kind: engine.HumanActor, ID: "usr_olga", Channel: "console"}
	why := func(code, message string) []engine.Reason { return []engine.Reason{{Code: code, Message: message}} }
	call := func(e engine.Event) engine.Event {
		e.AgentID, e.RequestID = "agt_billing", "req_"+string(e.Type)
		e.ToolName = cmp.Or(e.ToolName, "payments.transfer")
		return e
	}
	for _, e := range []engine.Event{
		{Type: engine.SignIn, Outcome: engine.Allow, Actor: olga, Reasons: why("SIGNED_IN", "Signed in with a password and an authenticator app.")},
		{Type: engine.Admin, Outcome: engine.Allow, AgentID: "agt_billing", Actor: olga, Reasons: why("AGENT_REGISTERED", "The agent was registered with trust level basic.")},
		call(engine.Event{Type: engine.Decided, Outcome: engine.Allow, ToolName: "invoices.read", Actor: agent, PolicyDigest: "sha256:" + strings.Repeat("0f", 32)}),
		call(engine.Event{
			Type: engine.Decided, Outcome: engine.RequireApproval, ApprovalID: "apr_transfer", Actor: agent,
			Reasons: append(why("RULE_BIG_PAYMENT", "Large payments need finance and security."), engine.Reason{Code: "confirmation_missing", Message: "The user has not confirmed the call."}, engine.Reason{Code: "x", Message: "A third reason."}),
		}),
		call(engine.Event{Type: engine.Voted, Outcome: engine.RequireApproval, ApprovalID: "apr_transfer", Actor: ada, Reasons: why("VOTE_APPROVE", "Approved by a reviewer.")}),
		call(engine.Event{Type: engine.Voted, Outcome: engine.Deny, ApprovalID: "apr_transfer", Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_linus"}, Reasons: why("not_eligible", "You have none of the roles that this call needs.")}),
		call(engine.Event{Type: engine.Settled, Outcome: engine.Approved, ApprovalID: "apr_transfer", Actor: engine.Actor{Kind: engine.SystemActor}, Reasons: why("HUMAN_APPROVED", "A person approved the call.")}),
		call(engine.Event{Type: engine.Redeemed, Outcome: engine.Allow, ApprovalID: "apr_transfer", Actor: agent}),
		call(engine.Event{Type: engine.Executed, Outcome: engine.Allow, ApprovalID: "apr_transfer", Actor: agent, Reasons: why("EXECUTION_SUCCEEDED", "The agent reported what became of the call.")}),
		call(engine.Event{Type: engine.Decided, Outcome: engine.Deny, ToolName: "rm\u202etxt.exe", Actor: agent, Reasons: why("DEFAULT_DENY", "No rule allows this <b>call</b>.")}),
		{Type: engine.SignIn, Outcome: engine.Deny, Actor: engine.Actor{Kind: engine.HumanActor, Channel: "console"}, Reasons: why("wrong_credentials", "The address or the password is wrong.")},
		call(engine.Event{Type: engine.Decided, Outcome: engine.RateLimited, ToolName: "web_search", Actor: agent, Reasons: why("RATE_LIMIT_AGENT", "The agent may make 120 calls in 1m0s.")}),
	} {
		l.add(t, e)
	}
}
