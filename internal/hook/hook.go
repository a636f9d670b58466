// Package hook stands between a coding agent and its tools, where the agent's host
// starts a program before and after each tool call. Each run of the program is short:
// what has to be known in the next one is in files (session.go).
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	holdpoint "holdpoint.example/client"
)

// Call is a tool call of a host.
type Call struct {
	Session string // the host's conversation
	ID      string // the host's id of this very call; another try has another one. "" if the host has none
	Tool    string
	// Arguments is the JSON object that the tool is called with.
	Arguments json.RawMessage
}

// Verdict says whether a call may run. The zero value says no.
type Verdict struct {
	Run bool
	// ByPeople says that people have approved the call, and not only the rules.
	ByPeople bool
	// Changed is what to run the call with instead, when a reviewer has changed it.
	Changed json.RawMessage
	// Why is for the model, when the call may not run.
	Why string
}

// Gate asks a Holdpoint server. Every error is a no.
type Gate struct {
	URL, Key string
	// Agent is what the host is called; the server goes by the key.
	Agent string
	// Dir is where files are kept from one run to the next.
	Dir string
	// Wait is how long Before waits for people before it says that they are waited for.
	Wait time.Duration
}

func (g *Gate) client() *holdpoint.Client { return &holdpoint.Client{URL: g.URL, Key: g.Key} }

// Check asks the server whether it knows the key as an agent's.
func (g *Gate) Check(ctx context.Context) error {
	_, err := g.client().Get(ctx, "apr_none")
	var p *holdpoint.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return nil // it may ask, and there is no such approval
	}
	return err
}

// Before says whether a call may run now. A call that waits for people may be tried
// again: the very same one goes on with the same approval, and runs once after it. A
// call that reviewers have changed runs as they have, if the host takes changes; else
// it is turned down, and the changed one runs in its place when it is made.
func (g *Gate) Before(ctx context.Context, c Call, takesChanges bool) (Verdict, error) {
	s, err := g.session(c.Session)
	if err != nil {
		return Verdict{}, err
	}
	leave, err := s.enter(ctx, c)
	if err != nil {
		return Verdict{}, err
	}
	defer leave()
	if v, err := s.allowed(c); v.Run || err != nil {
		return v, err
	}
	client := g.client()
	approvalID, err := s.waiting(c)
	if err != nil {
		return Verdict{}, err
	}
	if approvalID != "" {
		v, err := g.resume(ctx, client, s, c, approvalID, takesChanges)
		if !errors.Is(err, errOver) {
			return v, err
		}
	}
	r, err := g.check(ctx, holdpoint.ToolCall{ToolName: c.Tool, ToolArgs: c.Arguments, AgentID: g.Agent, SessionID: c.Session})
	switch {
	case err != nil:
		return Verdict{}, err
	case r.Allowed && holdpoint.Constrained(r.Decision.Constraints):
		return Verdict{Why: "The rules accept the call under constraints, which this host cannot keep: " + string(r.Decision.Constraints)}, nil
	case r.Allowed:
		_, err := s.permit(c, "")
		return Verdict{Run: true}, err
	case r.Approval == nil:
		return Verdict{Why: "The call is refused: " + sentences(r.Decision.Reasons)}, nil
	}
	if err := s.wait(c, r.Approval.ID); err != nil {
		return Verdict{}, err
	}
	return g.resume(ctx, client, s, c, r.Approval.ID, takesChanges)
}

// errOver says that an approval which was waited for is of no use any more.
var errOver = errors.New("the approval is over")

// resume is what has become of an approval that the call waits for. errOver means that
// people have to be asked anew.
func (g *Gate) resume(ctx context.Context, client *holdpoint.Client, s *session, c Call, id string, takesChanges bool) (Verdict, error) {
	a, err := client.Get(ctx, id)
	if err == nil && a.Status == holdpoint.Pending {
		wait := g.Wait
		if len(waitedFor(a)) == 0 {
			wait = max(wait, settling)
		}
		a, err = g.await(ctx, client, a, wait)
	}
	var p *holdpoint.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return Verdict{}, cmp.Or(s.forget(c), errOver)
	}
	if err != nil {
		return Verdict{}, err
	}
	if a.Status == holdpoint.Pending {
		return Verdict{Why: pending(a)}, nil
	}
	if !a.Status.Final() {
		return Verdict{}, fmt.Errorf("the approval %s is %q, which this program does not know", a.ID, a.Status)
	}
	if a.Status != holdpoint.Approved {
		return Verdict{Why: (&holdpoint.Refused{Approval: &a}).Error() + ". " + a.Links.Review}, s.forget(c)
	}
	if a.Token == "" { // spent, or its time to run is over
		return Verdict{}, cmp.Or(s.forget(c), errOver)
	}
	if a.Edited != nil && !takesChanges {
		wanted := c
		wanted.Arguments = a.Edited.Arguments
		if same, err := alike(c, wanted); err != nil {
			return Verdict{}, err
		} else if !same {
			return Verdict{Why: changed(wanted)}, s.wait(wanted, a.ID)
		}
	}
	return g.redeem(ctx, client, s, c, a)
}

// alike reports whether two calls say the same.
func alike(a, b Call) (bool, error) {
	one, err := holdpoint.Digest(a.Tool, a.Arguments)
	if err != nil {
		return false, err
	}
	other, err := holdpoint.Digest(b.Tool, b.Arguments)
	return one == other, err
}

// settling is how long an approval is waited for on which people have decided: it is
// settled a moment later.
const settling = 10 * time.Second

// await waits for people for a while. That they have not decided then is no error.
func (g *Gate) await(ctx context.Context, client *holdpoint.Client, now holdpoint.Approval, wait time.Duration) (holdpoint.Approval, error) {
	if wait <= 0 {
		return now, nil
	}
	waited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	a, err := client.Watch(waited, now.ID, func(seen holdpoint.Approval) { now = seen })
	if err != nil && waited.Err() != nil && ctx.Err() == nil {
		return now, nil
	}
	return a, err
}

// redeem spends the token. The call may run if that is known to have been done, by
// this run of the program and for this try of the call.
func (g *Gate) redeem(ctx context.Context, client *holdpoint.Client, s *session, c Call, a holdpoint.Approval) (Verdict, error) {
	v := Verdict{Run: true, ByPeople: true}
	ran := c
	if a.Edited != nil {
		ran.Arguments, v.Changed = a.Edited.Arguments, a.Edited.Arguments
	}
	permit, err := s.permit(ran, a.ID)
	if err != nil {
		return Verdict{}, err
	}
	r, err := client.Redeem(ctx, a.Token, c.Tool, ran.Arguments)
	if err != nil {
		return Verdict{}, errors.Join(fmt.Errorf("%w; make the very same call again", err), s.remove(permit), s.unspent(c, err))
	}
	if !holdpoint.Constrained(r.Constraints) {
		err = s.allow(c, v)
	}
	if err := cmp.Or(err, s.forget(c)); err != nil {
		return Verdict{}, err
	}
	if holdpoint.Constrained(r.Constraints) {
		why := "The call is approved under constraints, which this host cannot keep: " + string(r.Constraints)
		return Verdict{Why: why}, errors.Join(client.Report(ctx, a.ID, holdpoint.Failed, 0), s.remove(permit))
	}
	return v, nil
}

// unspent keeps in mind what the next try of a call goes on with, whose token was not
// taken: the same approval; the one that people are asked by anew, since something has
// changed; or none, since the token is spent.
func (s *session) unspent(c Call, err error) error {
	var p *holdpoint.Problem
	switch {
	case !errors.As(err, &p):
	case p.Successor != "":
		return s.wait(c, p.Successor)
	case p.Code == "token_used" || p.Code == "already_reported":
		return s.forget(c)
	}
	return nil
}

// After says what became of a call: of one that was approved, the outcome; of one that
// was never permitted, that it ran.
func (g *Gate) After(ctx context.Context, c Call, outcome holdpoint.Outcome, took time.Duration) error {
	s, err := g.session(c.Session)
	if err != nil {
		return err
	}
	leave, err := s.enter(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	permit, approvalID, err := s.permitted(c)
	switch {
	case err != nil:
		return err
	case permit == "" && s.ended(c):
		return nil
	case permit == "":
		return g.client().ReportUngated(ctx, holdpoint.UngatedExecution{
			ToolName: c.Tool, Arguments: c.Arguments, Outcome: outcome, SessionID: c.Session, CallID: c.ID, Host: g.Agent,
		})
	case approvalID != "":
		if err := g.client().Report(ctx, approvalID, outcome, took); err != nil {
			return err
		}
	}
	return cmp.Or(s.end(c), s.remove(permit))
}

// NotRun says that a call does not run after all, since its host, or the host's user, has
// turned it down: nothing if it was never permitted.
func (g *Gate) NotRun(ctx context.Context, c Call) error {
	s, err := g.session(c.Session)
	if err != nil {
		return err
	}
	leave, err := s.enter(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	permit, approvalID, err := s.permitted(c)
	if err != nil || permit == "" {
		return err
	}
	if approvalID != "" {
		err = g.client().Report(ctx, approvalID, holdpoint.Failed, 0)
		var p *holdpoint.Problem
		if errors.As(err, &p) && p.Code == "not_redeemed" { // the hook did not come so far
			err = nil
		}
	}
	return cmp.Or(err, s.end(c), s.remove(permit))
}

func sentences(reasons []holdpoint.Reason) string {
	said := make([]string, len(reasons))
	for i, r := range reasons {
		said[i] = r.Message + " (" + r.Code + ")"
	}
	return strings.Join(said, " ")
}

// waitedFor is what has still to be given.
func waitedFor(a holdpoint.Approval) []string {
	var whom []string
	for _, r := range a.Requirements {
		if r.Status == "waiting" || r.Status == "queued" {
			what := r.Kind
			if r.Role != "" {
				what += " by " + r.Role
			}
			whom = append(whom, what)
		}
	}
	return whom
}

func pending(a holdpoint.Approval) string {
	why := "The call waits for people"
	if whom := waitedFor(a); len(whom) > 0 {
		why += " (" + strings.Join(whom, ", then ") + ")"
	}
	asks := ""
	if a.Question != nil {
		asks = fmt.Sprintf(" A reviewer asks: %q Tell your user, who may answer there.", a.Question.Text)
	}
	return fmt.Sprintf("%s, until %s, and has not run. They decide on it at %s.%s Go on with other work; when it is approved, make exactly the same call again, and it runs.",
		why, a.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"), a.Links.Review, asks)
}

// shown bounds what of changed arguments a model is told, in bytes.
const shown = 32 << 10

func changed(wanted Call) string {
	why := "The call was approved with other arguments than these, and has not run. "
	if len(wanted.Arguments) > shown {
		return why + "They are too long to be told here."
	}
	return why + "Make the call with exactly these arguments, and it runs: " + string(wanted.Arguments)
}
