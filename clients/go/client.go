package holdpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client talks to one Holdpoint server with one API key. It is safe for
// concurrent use and must not be changed while in use.
type Client struct {
	// URL is where the server is: "https://holdpoint.example.com".
	URL string
	// Key is the API key, "hp_…".
	Key string
	// HTTP sends the requests. Nil means a client of the standard library that
	// follows no redirect. One of your own must allow answers to take 30 seconds.
	HTTP *http.Client
	// Journal is where a Tool notes how far its calls are, so that they survive a crash. Nil
	// means that they do not.
	Journal *Journal
	// OnWait is told of each call of a Tool, or of Guard, that begins to wait. Nil means a line on standard
	// error that says for whom, and where they decide; a func that does nothing, nothing.
	OnWait func(Approval)
	// OnQuestion is told of each question that a reviewer asks about a call of a Tool, or of
	// Guard, while it waits: Approval.Question. Inform answers it. The wait goes on when the
	// function returns. Nil means a line on standard error; a func that does nothing, nothing.
	OnQuestion func(Approval)
}

// Bounds of one request. A server holds an answer for holdFor when it is asked to wait.
const (
	holdFor       = 25 * time.Second
	requestBudget = 15 * time.Second
	maxAnswer     = 8 << 20
)

// tries is how often a POST is sent before its error is returned; between two
// of them lie firstPause, then twice that, and so on up to longestPause.
const (
	tries        = 4
	firstPause   = 200 * time.Millisecond
	longestPause = 5 * time.Second
)

var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Check proposes a call. Run it when ShouldExecute says so; when Decision has
// an Approval, Await that; otherwise the call is refused.
func (c *Client) Check(ctx context.Context, e Event) (Decision, error) {
	return c.CheckAs(ctx, "", e)
}

// CheckAs is Check under an idempotency key of the caller's own: the same event under the
// same key has the same answer.
func (c *Client) CheckAs(ctx context.Context, key string, e Event) (Decision, error) {
	body, err := checkBody(e)
	if err != nil {
		return Decision{}, err
	}
	var d Decision
	if err := c.postUnder(ctx, key, "/v1/pre-tool-check", body, nil, &d); err != nil {
		return Decision{}, fmt.Errorf("check %s: %w", e.ToolName, err)
	}
	return d, nil
}

func checkBody(e Event) ([]byte, error) {
	if e.EvidenceRefs == nil {
		e.EvidenceRefs = []any{}
	}
	if e.Arguments == nil {
		e.Arguments = struct{}{}
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode the call of %s: %w", e.ToolName, err)
	}
	return body, nil
}

// Get reads an approval as it is now.
func (c *Client) Get(ctx context.Context, approvalID string) (Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	a, _, err := c.read(ctx, approvalID, "", "")
	return a, err
}

// Await waits until the approval is over, through outages and restarts of the
// server, and returns it as it is then. It ends early when ctx does, with ctx's
// error, or when the server says that waiting is of no use, with a *Problem.
// The approval goes on waiting in that case: Cancel takes it back.
func (c *Client) Await(ctx context.Context, approvalID string) (Approval, error) {
	return c.await(ctx, approvalID, nil)
}

// Watch is Await that hands saw the approval as it is now, and each time that it has changed and
// still waits: a vote was given, or a reviewer asks something (Approval.Question).
func (c *Client) Watch(ctx context.Context, approvalID string, saw func(Approval)) (Approval, error) {
	return c.await(ctx, approvalID, saw)
}

func (c *Client) await(ctx context.Context, approvalID string, saw func(Approval)) (Approval, error) {
	seen, pause := "", firstPause
	for {
		asked := time.Now()
		a, header, err := c.hold(ctx, approvalID, seen, saw != nil)
		switch {
		case ctx.Err() != nil:
			return Approval{}, context.Cause(ctx)
		case err == nil && a.Status.Final():
			return a, nil
		case err == nil:
			// A held answer says that something has changed, and the next
			// request says what this one has seen. An answer that says
			// nothing new, or not whether it does, was not held long: the
			// next one comes no sooner than the server asks for.
			if saw != nil && a.ID == approvalID { // a 304 has none
				saw(a)
			}
			tag := header.Get("ETag")
			if tag == "" || tag == seen {
				err = sleep(ctx, retryAfter(header, time.Now())-time.Since(asked))
			}
			seen, pause = tag, firstPause
		case temporary(err):
			err = sleep(ctx, max(pause, askedFor(err)))
			pause = min(2*pause, longestPause)
		}
		if err != nil {
			return Approval{}, fmt.Errorf("await %s: %w", approvalID, err)
		}
	}
}

// hold asks for the approval and has the answer held until it changes. With now, what nothing
// is known of is answered at once.
func (c *Client) hold(ctx context.Context, approvalID, seen string, now bool) (Approval, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, holdFor+requestBudget)
	defer cancel()
	if now && seen == "" {
		return c.read(ctx, approvalID, "", "")
	}
	return c.read(ctx, approvalID, fmt.Sprintf("?wait=%d", int(holdFor.Seconds())), seen)
}

func (c *Client) read(ctx context.Context, approvalID, query, seen string) (Approval, http.Header, error) {
	header := http.Header{}
	if seen != "" {
		header.Set("If-None-Match", seen)
	}
	var a Approval
	got, err := c.send(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(approvalID)+query, header, nil, &a)
	return a, got, err
}

// Answer says, with a key of kind runtime, what the user said of this very
// call: that it is confirmed, or that it is not wanted.
func (c *Client) Answer(ctx context.Context, approvalID string, confirmed bool, comment string) (Approval, error) {
	return c.AnswerShown(ctx, approvalID, "", confirmed, comment)
}

// AnswerShown is Answer about the call with this digest, which is the one that the
// user was shown. Once somebody has changed the arguments, Answer confirms nothing.
func (c *Client) AnswerShown(ctx context.Context, approvalID, digest string, confirmed bool, comment string) (Approval, error) {
	in := struct {
		Confirmed bool   `json:"confirmed"`
		Digest    string `json:"digest,omitempty"`
		Comment   string `json:"comment,omitempty"`
	}{confirmed, digest, comment}
	var a Approval
	if err := c.post(ctx, "/v1/approvals/"+url.PathEscape(approvalID)+"/answers", in, &a); err != nil {
		return Approval{}, fmt.Errorf("answer %s: %w", approvalID, err)
	}
	return a, nil
}

// Inform answers the question of a reviewer.
func (c *Client) Inform(ctx context.Context, approvalID, information string) (Approval, error) {
	in := struct {
		Information string `json:"information"`
	}{information}
	var a Approval
	if err := c.post(ctx, "/v1/approvals/"+url.PathEscape(approvalID)+"/answers", in, &a); err != nil {
		return Approval{}, fmt.Errorf("inform %s: %w", approvalID, err)
	}
	return a, nil
}

// AttachTicket names the ticket that covers a call whose NextAction is
// attach_ticket: its reference or its full address. System may be "" where the
// reference fits only one tracker. The tracker is asked afterwards; Ticket of the
// approval says what it found.
func (c *Client) AttachTicket(ctx context.Context, approvalID, system, ticket string) (Approval, error) {
	in := struct {
		Ticket string `json:"ticket"`
		System string `json:"system,omitempty"`
	}{ticket, system}
	var a Approval
	if err := c.post(ctx, "/v1/approvals/"+url.PathEscape(approvalID)+"/ticket", in, &a); err != nil {
		return Approval{}, fmt.Errorf("attach a ticket to %s: %w", approvalID, err)
	}
	return a, nil
}

// Cancel takes back a call that still waits.
func (c *Client) Cancel(ctx context.Context, approvalID string) (Approval, error) {
	var a Approval
	if err := c.post(ctx, "/v1/approvals/"+url.PathEscape(approvalID)+"/cancel", struct{}{}, &a); err != nil {
		return Approval{}, fmt.Errorf("cancel %s: %w", approvalID, err)
	}
	return a, nil
}

// Redeem spends a token on the call that was approved. Run the call only when
// the error is nil, and only once.
func (c *Client) Redeem(ctx context.Context, token, toolName string, arguments any) (Redemption, error) {
	return c.RedeemIf(ctx, token, toolName, arguments, nil)
}

// RedeemIf is Redeem for a call that depends on things being as they were when it
// was asked for (an ETag, a revision): unchanged says what they are now, by the
// names in Approval.Preconditions. When one of them has changed, the error's Code
// is "stale", and its Successor the approval by which people are asked anew.
func (c *Client) RedeemIf(ctx context.Context, token, toolName string, arguments any, unchanged map[string]string) (Redemption, error) {
	if arguments == nil {
		arguments = struct{}{}
	}
	var out redemptionAnswer
	err := c.post(ctx, "/v1/tokens/redeem", redeemBody{token, toolName, arguments, unchanged}, &out)
	if err == nil {
		err = out.valid()
	}
	if err != nil {
		return Redemption{}, fmt.Errorf("redeem the token for %s: %w", toolName, err)
	}
	return out.Redemption, nil
}

// RedeemAs is Redeem under an idempotency key of the caller's own. Redemption.Replayed says
// that the token was spent under this key before: run the call only if you know that it has
// not run.
func (c *Client) RedeemAs(ctx context.Context, key, token, toolName string, arguments any) (Redemption, error) {
	body, err := json.Marshal(redeemBody{Token: token, ToolName: toolName, Arguments: arguments})
	if err != nil {
		return Redemption{}, fmt.Errorf("encode the call of %s: %w", toolName, err)
	}
	var out redemptionAnswer
	if err = c.postUnder(ctx, key, "/v1/tokens/redeem", body, nil, &out); err == nil {
		err = out.valid()
	}
	if err != nil {
		return Redemption{}, fmt.Errorf("redeem the token for %s: %w", toolName, err)
	}
	return out.Redemption, nil
}

type redeemBody struct {
	Token         string            `json:"token"`
	ToolName      string            `json:"tool_name"`
	Arguments     any               `json:"arguments"`
	Preconditions map[string]string `json:"preconditions,omitempty"`
}

type redemptionAnswer struct {
	Redeemed bool `json:"redeemed"`
	Redemption
}

func (r redemptionAnswer) valid() error {
	if !r.Redeemed {
		return errors.New("the server did not say that the token is redeemed")
	}
	if !isLimits(r.Constraints) {
		return errors.New("the constraints are no object")
	}
	return nil
}

// Report says what became of a call after its token was redeemed, and how
// long it took.
func (c *Client) Report(ctx context.Context, approvalID string, outcome Outcome, took time.Duration) error {
	return c.reportUnder(ctx, "", approvalID, outcome, max(took, 0).Milliseconds())
}

func (c *Client) reportUnder(ctx context.Context, key, approvalID string, outcome Outcome, ms int64) error {
	body, err := json.Marshal(struct {
		ApprovalID string  `json:"approval_id"`
		Outcome    Outcome `json:"outcome"`
		DurationMS int64   `json:"duration_ms"`
	}{approvalID, outcome, ms})
	if err == nil {
		err = c.postUnder(ctx, key, "/v1/executions", body, nil, &taken{})
	}
	if err != nil {
		return fmt.Errorf("report on %s: %w", approvalID, err)
	}
	return nil
}

// taken is an answer that says no more than that. It is an object all the same: what a proxy answers in the
// server's place is not one.
type taken map[string]json.RawMessage

// UngatedExecution is a call that ran although nothing had permitted it.
type UngatedExecution struct {
	ToolName  string  `json:"tool_name"`
	Arguments any     `json:"arguments,omitempty"` // an object; the log keeps the names of its members
	Outcome   Outcome `json:"outcome"`
	SessionID string  `json:"session_id,omitempty"`
	CallID    string  `json:"call_id,omitempty"` // the host's own id of the call
	Host      string  `json:"host,omitempty"`    // what the agent runs in
}

// ReportUngated puts on record that a call ran without a decision. It permits nothing.
func (c *Client) ReportUngated(ctx context.Context, u UngatedExecution) error {
	if err := c.post(ctx, "/v1/executions/ungated", u, &taken{}); err != nil {
		return fmt.Errorf("report that %s ran without a decision: %w", u.ToolName, err)
	}
	return nil
}

// Filter says which of the agent's own approvals are wanted; "" means all.
type Filter struct {
	Status   Status
	ToolName string
	Session  string
}

// List goes through the agent's own approvals, the newest first, without their tokens, and
// asks for a page of 100 at a time. It ends after an error; an answer that is no list is one.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		query := url.Values{"limit": {"100"}}
		for name, value := range map[string]string{"status": string(f.Status), "tool_name": f.ToolName, "session": f.Session} {
			if value != "" {
				query.Set(name, value)
			}
		}
		for {
			var page struct {
				Approvals  []Approval `json:"approvals"`
				NextCursor string     `json:"next_cursor"`
			}
			attempt, cancel := context.WithTimeout(ctx, requestBudget)
			_, err := c.send(attempt, http.MethodGet, "/v1/approvals?"+query.Encode(), nil, nil, &page)
			cancel()
			if err == nil && page.Approvals == nil {
				err = errors.New("the server's answer is no list of approvals")
			}
			if err != nil {
				yield(Approval{}, fmt.Errorf("list approvals: %w", err))
				return
			}
			for _, a := range page.Approvals {
				if !yield(a, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			query.Set("cursor", page.NextCursor)
		}
	}
}

// JWKS fetches the keys that VerifyToken needs.
func (c *Client) JWKS(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	var set json.RawMessage
	if _, err := c.send(ctx, http.MethodGet, "/.well-known/jwks.json", nil, nil, &set); err != nil {
		return nil, fmt.Errorf("fetch the keys: %w", err)
	}
	return set, nil
}

// post sends a body under an Idempotency-Key of its own, and again under the
// same key when nobody can know whether it arrived: the server does what it
// asks for once and answers all of them alike.
func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.postAs(ctx, path, "application/json", body, out)
}

func (c *Client) postAs(ctx context.Context, path, kind string, body []byte, out any) error {
	return c.postWith(ctx, path, http.Header{"Content-Type": {kind}, "Idempotency-Key": {rand.Text()}}, body, out)
}

// postUnder is post of JSON under a key, or one of its own for "".
func (c *Client) postUnder(ctx context.Context, key, path string, body []byte, headers map[string]string, out any) error {
	if key == "" {
		key = rand.Text()
	}
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	for name, value := range headers {
		header.Set(name, value)
	}
	return c.postWith(ctx, path, header, body, out)
}

func (c *Client) postWith(ctx context.Context, path string, header http.Header, body []byte, out any) error {
	began := time.Now()
	for try, pause := 1, firstPause; ; try, pause = try+1, min(2*pause, longestPause) {
		attempt, cancel := context.WithTimeout(ctx, requestBudget)
		_, err := c.send(attempt, http.MethodPost, path, header, body, out)
		cancel()
		var silent *Unreachable
		if errors.As(err, &silent) {
			silent.After, silent.Tries = time.Since(began), try
		}
		if err == nil || try == tries || ctx.Err() != nil || !temporary(err) {
			return err
		}
		if sleep(ctx, max(pause, min(askedFor(err), longestPause))) != nil {
			return err
		}
	}
}

// Unreachable is a request that got no answer: nothing is permitted by it.
type Unreachable struct {
	Err error
	// Server is the address that was asked, without what may be a secret in it.
	Server string
	// After is how long an answer was waited for, in as many tries.
	After time.Duration
	Tries int
}

// Error says why.
func (u *Unreachable) Error() string {
	server := "the server"
	if u.Server != "" {
		server += " at " + u.Server
	}
	var slow net.Error
	if !errors.As(u.Err, &slow) || !slow.Timeout() {
		return server + " cannot be reached: " + u.Err.Error()
	}
	text := server + " gave no answer"
	if u.After > 0 {
		text += fmt.Sprintf(" in %.1f seconds", u.After.Seconds())
	}
	if u.Tries > 1 {
		text += fmt.Sprintf(" and %d tries", u.Tries)
	}
	return text
}

// Unwrap is what the HTTP client said.
func (u *Unreachable) Unwrap() error { return u.Err }

// temporary reports whether trying again may help.
func temporary(err error) bool {
	var u *Unreachable
	var p *Problem
	return errors.As(err, &u) || errors.As(err, &p) && p.again()
}

func askedFor(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return p.RetryAfter
	}
	return 0
}

// Neither says what there is instead: that may be the other one, or hold a secret.
var (
	errNoURL = errors.New("the client's URL (HOLDPOINT_URL) is no address of a server: it is like http://127.0.0.1:8080 or https://holdpoint.example.com")
	errNoKey = errors.New("the client's key (HOLDPOINT_API_KEY) is no API key: it has a blank, a line break or another character that no key has")
)

// do sends one request. The error is an *Unreachable, or about this side.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	if c.URL == "" {
		return nil, errors.New("the client has no URL: is HOLDPOINT_URL set? (“holdpoint dev” writes it to .holdpoint/dev.json, as url)")
	}
	if at, err := url.Parse(strings.TrimSpace(c.URL)); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, errNoURL
	}
	key := strings.TrimSpace(c.Key) // a file's last line ends
	if strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
		return nil, errNoKey
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(strings.TrimSpace(c.URL), "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	for name, values := range header {
		req.Header[name] = values
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	doer := c.HTTP
	if doer == nil {
		doer = noRedirects
	}
	began := time.Now()
	resp, err := doer.Do(req)
	if err != nil {
		// Without the URL around it, which says nothing new.
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, c.unreachable(err, began)
	}
	return resp, nil
}

// unreachable is of a request that was sent at began.
func (c *Client) unreachable(err error, began time.Time) *Unreachable {
	u := &Unreachable{Err: err, After: time.Since(began), Tries: 1}
	if at, err := url.Parse(strings.TrimSpace(c.URL)); err == nil {
		u.Server = at.Scheme + "://" + at.Host
	}
	return u
}

// send sends one request and decodes its answer into out. The error is an
// *Unreachable, a *Problem, or about this side.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body []byte, out any) (http.Header, error) {
	began := time.Now()
	resp, err := c.do(ctx, method, path, header, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(err, began)
	}
	if resp.StatusCode == http.StatusNotModified {
		return resp.Header, nil // out stays as it is
	}
	if resp.StatusCode/100 != 2 {
		p := problemOf(resp.StatusCode, resp.Header, answer)
		if p.Status == http.StatusUnauthorized && c.Key == "" {
			p.Detail = "The client has no key: is HOLDPOINT_API_KEY set? (“holdpoint dev” writes it to .holdpoint/dev.json, as agent_key)"
		}
		return resp.Header, p
	}
	if len(answer) > maxAnswer {
		return resp.Header, errors.New("the answer is too large")
	}
	if out == nil {
		return resp.Header, nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return resp.Header, fmt.Errorf("read the answer: %w", err)
	}
	return resp.Header, nil
}

// sleep waits, or ends early with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
