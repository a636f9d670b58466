package tests

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// journal remembers what was answered with success, to be held against the
// audit log afterwards.
type journal struct {
	mu      sync.Mutex
	answers []answered
}

// answered is a 2xx answer to a POST: an event of the type must exist under the
// request's id.
type answered struct {
	RequestID, Type, ApprovalID string
}

func (j *journal) note(a answered) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answers = append(j.answers, a)
}

func (j *journal) all() []answered {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]answered(nil), j.answers...)
}

// client is one principal at one door.
type client struct {
	t       testing.TB
	url     string
	key     string // API key
	cookie  string // session
	http    *http.Client
	journal *journal
}

// transport is shared, so that thousands of requests do not open as many
// connections.
var transport = &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: 5 * time.Second}

func (in *installation) client(t testing.TB) *client {
	return &client{t: t, url: in.URL, journal: in.journal, http: &http.Client{
		Timeout: 70 * time.Second, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// agent, runtime and admin are clients with the installation's keys.
func (in *installation) agent(t testing.TB) *client   { return in.client(t).with(in.AgentKey) }
func (in *installation) runtime(t testing.TB) *client { return in.client(t).with(in.RuntimeKey) }
func (in *installation) admin(t testing.TB) *client   { return in.client(t).with(in.AdminKey) }

// with is the client with another API key, at the client at another address.
func (c client) with(key string) *client { c.key = key; return &c }
func (c client) at(url string) *client   { c.url = url; return &c }

// reviewer is the i-th reviewer, signed in.
func (in *installation) reviewer(t testing.TB, i int) *client {
	t.Helper()
	return in.as(t, in.Reviewers[i])
}

// as signs a person in, once a test binary.
func (in *installation) as(t testing.TB, p person) *client {
	t.Helper()
	c := in.client(t)
	if cookie, ok := in.sessions.Load(p.Email); ok {
		c.cookie = cookie.(string)
		return c
	}
	c.signIn(p.Email, p.Password)
	in.sessions.Store(p.Email, c.cookie)
	return c
}

// signIn posts the form as a browser does.
func (c *client) signIn(email, password string) {
	c.t.Helper()
	a := c.do("POST", "/login", url.Values{"email": {email}, "password": {password}})
	if a.Status != http.StatusSeeOther {
		c.t.Fatalf("sign in as %s: %s", email, a)
	}
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		c.cookie = cookie.Name + "=" + cookie.Value
	}
	if c.cookie == "" {
		c.t.Fatalf("sign in as %s: no cookie", email)
	}
}

// answer is what came back.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
	Took   time.Duration
	Err    error
}

func (a answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %s", a.Status, a.Body)
}

// code is the problem's code; "" for an answer that is no well-formed problem.
func (a answer) code() string {
	var p struct {
		Type, Title, Code, Detail string
		Status                    int
	}
	if a.Header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.Body, &p) != nil ||
		p.Status != a.Status || p.Title == "" || p.Detail == "" {
		return ""
	}
	return p.Code
}

// want fails the test unless the answer has the status and, if one is given,
// the problem code.
func (a answer) want(t testing.TB, status int, code ...string) answer {
	t.Helper()
	if a.Status != status || len(code) > 0 && a.code() != code[0] {
		t.Fatalf("got %s, want %d %v", a, status, code)
	}
	return a
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		t.Fatalf("%v in %s", err, a)
	}
}

// approval is an approval as docs/spec/wire.md promises it.
type approval struct {
	ID           string    `json:"id"`
	Status       string    `json:"status"`
	Version      int       `json:"version"`
	RequestID    string    `json:"request_id"`
	OpenedAt     time.Time `json:"opened_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	EndedAt      time.Time `json:"ended_at"`
	Digest       string    `json:"digest"`
	PolicyDigest string    `json:"policy_digest"`
	Requirements []struct {
		Kind      string    `json:"kind"`
		Role      string    `json:"role"`
		Needed    int       `json:"needed"`
		Given     int       `json:"given"`
		Status    string    `json:"status"`
		Signed    bool      `json:"signed"`
		ExpiresAt time.Time `json:"expires_at"`
		Denied    int       `json:"denied"`
		Escalated []string  `json:"escalated_to"`
	} `json:"requirements"`
	Reasons    []reason `json:"reasons"`
	NextAction string   `json:"next_action"`
	Execution  string   `json:"execution"`
	Denial     *struct {
		Kind       string `json:"kind"`
		Retryable  bool   `json:"retryable"`
		RetryAfter int    `json:"retry_after"`
		Comment    string `json:"comment"`
	} `json:"denial"`
	Links struct {
		Self, Review, Events, Cancel string
	} `json:"links"`
	Token   string `json:"resumption_token"`
	Edition int    `json:"edition"`
	Edited  *struct {
		Arguments map[string]any `json:"arguments"`
		Changed   []string       `json:"changed"`
		Comment   string         `json:"comment"`
	} `json:"edited"`
	Question *struct {
		Text string    `json:"text"`
		At   time.Time `json:"at"`
	} `json:"question"`
	Comments []struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	} `json:"comments"`
	PausedUntil   time.Time         `json:"paused_until"`
	Preconditions map[string]string `json:"preconditions"`
	Successor     string            `json:"successor"`
	LeaseUntil    time.Time         `json:"lease_until"`
}

type reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (a answer) approval(t testing.TB) approval {
	t.Helper()
	var v approval
	a.into(t, &v)
	return v
}

// header sets a header of a request; an empty value takes it away.
type header struct{ name, value string }

// newID is a random word.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:16]) }

// do sends one request. The body is a url.Values (a form), []byte (as it is),
// nil (none), or anything that encodes as JSON.
func (c *client) do(method, path string, body any, headers ...header) answer {
	return c.doWithin(context.Background(), method, path, body, headers...)
}

func (c *client) doWithin(ctx context.Context, method, path string, body any, headers ...header) answer {
	var r io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
		kind = ""
	case url.Values:
		r, kind = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	case []byte:
		r = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return answer{Err: err}
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, r)
	if err != nil {
		return answer{Err: err}
	}
	set := func(name, value string) {
		if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	set("Content-Type", kind)
	set("X-Request-Id", newID("t_"))
	if c.key != "" {
		set("Authorization", "Bearer "+c.key)
	}
	if c.cookie != "" {
		set("Cookie", c.cookie)
	}
	if c.key != "" && method == http.MethodPost {
		set("Prefer", "separate") // tests share programs and agents: no call of one joins another's
	}
	if c.cookie != "" || path == "/login" {
		set("Origin", c.url)
	}
	for _, h := range headers {
		set(h.name, h.value)
	}
	began := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return answer{Err: err, Took: time.Since(began)}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	a := answer{Status: res.StatusCode, Header: res.Header, Body: data, Took: time.Since(began), Err: err}
	if err == nil && method == http.MethodPost && a.Status/100 == 2 && a.Header.Get("Idempotent-Replayed") == "" {
		requestID := req.Header.Get("X-Request-Id")
		if e, ok := body.(map[string]any); ok && e["request_id"] != nil {
			requestID = e["request_id"].(string) // the event's own name for the request
		}
		if e, ok := body.(map[string]any); ok && e["information"] != nil {
			path = "/questions" // the log has question and answer under one name
		}
		c.note(path, requestID, a)
	}
	return a
}

// note writes a success into the journal.
func (c *client) note(path, requestID string, a answer) {
	kinds := map[string]string{
		"pre-tool-check": "decision", "check": "decision", "comments": "comment", "questions": "question", "claim": "claim",
		"unclaim": "claim", "extensions": "extend", "edits": "edit", "break-glass": "break_glass", "step-up": "verify", "afterwards": "review_afterwards", "reconciliation": "execution",
		"votes": "vote", "answers": "answer", "values": "answer", "cancel": "cancel", "redeem": "redeem", "executions": "execution",
	}
	kind, ok := kinds[path[strings.LastIndex(path, "/")+1:]]
	if !ok || c.journal == nil || strings.HasPrefix(path, "/sessions/") { // a page: its votes are several, or none
		return
	}
	var body struct {
		ID         string `json:"id"`
		ApprovalID string `json:"approval_id"`
		Approval   struct {
			ID string `json:"id"`
		} `json:"approval"`
	}
	_ = json.Unmarshal(a.Body, &body) // a test that cares looks itself
	if kind == "decision" && a.Status == http.StatusOK {
		body.Approval.ID = "" // a former denial that answers: nothing was opened
	}
	c.journal.note(answered{RequestID: requestID, Type: kind, ApprovalID: body.ID + body.ApprovalID + body.Approval.ID})
}

// event is a proposed call. Route is what the runtime recommends: a public read
// is accepted with accept, refused with refuse, waits for an answer with ask
// and for reviewers with defer.
func event(tool, route string, args map[string]any) map[string]any {
	if args == nil {
		args = map[string]any{}
	}
	return map[string]any{
		"tool_name": tool, "tool_category": "public_read", "authorization_state": "none", "evidence_refs": []any{},
		"risk_domain": "research", "proposed_arguments": args, "recommended_route": route,
	}
}

const checkPath = "/v1/pre-tool-check"

// propose sends an event.
func (c *client) propose(e map[string]any, headers ...header) answer {
	return c.do("POST", checkPath, e, headers...)
}

// submit proposes a call that has to wait and returns its approval.
func (c *client) submit(e map[string]any, headers ...header) approval {
	c.t.Helper()
	a := c.propose(e, headers...).want(c.t, http.StatusAccepted)
	var v struct{ Approval approval }
	a.into(c.t, &v)
	if v.Approval.ID == "" || v.Approval.Status != "pending" {
		c.t.Fatalf("a waiting call has no pending approval: %s", a)
	}
	if got := a.Header.Get("Location"); !strings.HasSuffix(got, "/v1/approvals/"+v.Approval.ID) || a.Header.Get("Retry-After") == "" {
		c.t.Fatalf("Location %q, Retry-After %q", got, a.Header.Get("Retry-After"))
	}
	return v.Approval
}

// hold proposes a call that reviewers have to decide.
func (c *client) hold(tool string, args map[string]any, headers ...header) approval {
	c.t.Helper()
	return c.submit(event(tool, "defer", args), headers...)
}

func approvalPath(id string) string { return "/v1/approvals/" + id }

// get reads an approval.
func (c *client) get(id string) approval {
	c.t.Helper()
	return c.do("GET", approvalPath(id), nil).want(c.t, http.StatusOK).approval(c.t)
}

// settleWithin is how long what has to happen is waited for where no promise says how
// soon: far longer than it takes, for a machine that others use as well.
const settleWithin = time.Minute

// wait holds on until the approval is not pending any more.
func (c *client) wait(id string) approval {
	c.t.Helper()
	a, err := c.await(id, settleWithin)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *client) await(id string, within time.Duration) (approval, error) {
	deadline := time.Now().Add(within)
	for {
		got := c.do("GET", approvalPath(id)+"?wait=5", nil)
		if got.Status != http.StatusOK {
			return approval{}, fmt.Errorf("GET %s: %s", id, got)
		}
		var a approval
		if err := json.Unmarshal(got.Body, &a); err != nil {
			return a, err
		}
		if a.Status != "pending" {
			return a, nil
		}
		if time.Now().After(deadline) {
			return a, fmt.Errorf("%s is still pending after %s: %s", id, within, got)
		}
	}
}

// ballot is a vote's body.
func ballot(a approval, decision string) map[string]any {
	b := map[string]any{"decision": decision, "digest": a.Digest, "version": a.Version}
	if decision == "deny" {
		b["kind"] = "not_now"
	}
	return b
}

// vote casts a vote on what the approval said.
func (c *client) vote(a approval, decision string, headers ...header) answer {
	return c.do("POST", approvalPath(a.ID)+"/votes", ballot(a, decision), headers...)
}

// approve casts a vote that must be taken.
func (c *client) approve(a approval) {
	c.t.Helper()
	c.vote(a, "approve").want(c.t, http.StatusOK)
}

// redeem spends a token.
func (c *client) redeem(token, tool string, args any, headers ...header) answer {
	return c.do("POST", "/v1/tokens/redeem", map[string]any{"token": token, "tool_name": tool, "arguments": args}, headers...)
}

// cancel takes a call back.
func (c *client) cancel(id string) answer {
	return c.do("POST", approvalPath(id)+"/cancel", nil)
}

// auditEvent is an event as the audit API shows it.
type auditEvent struct {
	ID         string          `json:"event_id"`
	Seq        int64           `json:"seq"`
	Timestamp  time.Time       `json:"timestamp"`
	Type       string          `json:"type"`
	Outcome    string          `json:"outcome"`
	RequestID  string          `json:"request_id"`
	AgentID    string          `json:"agent_id"`
	ToolName   string          `json:"tool_name"`
	ApprovalID string          `json:"approval_id"`
	Reasons    []reason        `json:"reasons"`
	Safe       json.RawMessage `json:"safe_payload"`
	Actor      struct{ Kind, ID, Channel string }
	DigestHMAC string `json:"digest_hmac"`
}

// events reads the audit log, page by page.
func (c *client) events(query url.Values) []auditEvent {
	c.t.Helper()
	var all []auditEvent
	for {
		var page struct {
			Events []auditEvent `json:"events"`
			Next   string       `json:"next_cursor"`
		}
		c.do("GET", "/v1/audit/events?"+query.Encode(), nil).want(c.t, http.StatusOK).into(c.t, &page)
		all = append(all, page.Events...)
		if page.Next == "" {
			return all
		}
		query.Set("cursor", page.Next)
	}
}

// story is an approval's events as "type OUTCOME CODE" lines.
func (c *client) story(id string) []string {
	c.t.Helper()
	var lines []string
	for _, e := range c.events(url.Values{"approval_id": {id}}) {
		code := ""
		if len(e.Reasons) > 0 {
			code = " " + e.Reasons[0].Code
		}
		lines = append(lines, e.Type+" "+e.Outcome+code)
	}
	return lines
}

// together runs fn n times, all released at the same moment.
func together(n int, fn func(i int)) {
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-gate
			fn(i)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
}

// statuses counts the answers by status.
func statuses(answers []answer) map[int]int {
	count := map[int]int{}
	for _, a := range answers {
		count[a.Status]++
	}
	return count
}

// doHost asks for a page under another host name.
func (c *client) doHost(host, path string) answer {
	req, err := http.NewRequest(http.MethodGet, c.url+path, nil)
	if err != nil {
		return answer{Err: err}
	}
	req.Host = host
	req.Header.Set("Authorization", "Bearer "+c.key)
	res, err := c.http.Do(req)
	if err != nil {
		return answer{Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{Status: res.StatusCode, Header: res.Header, Body: body, Err: err}
}

// slowly sends a head and a part of a body, and returns when the server has had
// enough.
func (in *installation) slowly(ctx context.Context, t testing.TB) time.Duration {
	t.Helper()
	u, err := url.Parse(in.URL)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", checkPath, u.Host, in.AgentKey)
	if err != nil {
		t.Fatal(err)
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(deadline)
	_, _ = io.Copy(io.Discard, conn) // ends when the server closes, or at the deadline
	return time.Since(began)
}

// formOf is the sign-in form.
func formOf(email, password string) url.Values {
	return url.Values{"email": {email}, "password": {password}}
}
