package holdpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Tool is a function whose calls run only when they are permitted, as they were approved,
// and once at most. A is what encoding/json writes as an object, and reads back.
//
// Call proposes a call, waits for people, redeems the token, runs with the arguments that
// were approved (also where a reviewer changed them) and reports. With a Client.Journal the
// call survives a crash: the same call, made again, goes on as the unfinished one, and
// Client.Unfinished has it, too.
type Tool[A, R any] struct {
	Client *Client
	// Event says how the calls are proposed. Its Arguments are those of each call.
	Event Event
	// Run is the tool itself.
	Run func(ctx context.Context, arguments A, permit Permit) (R, error)
	// KeepsConstraints says that Run keeps to Permit.Constraints. A tool that does not is
	// not run under constraints.
	KeepsConstraints bool
	// CancelWhenDone takes a call back whose wait was ended by its context. Else the
	// approval goes on waiting.
	CancelWhenDone bool
}

// Permit is what a call may do.
type Permit struct {
	ApprovalID string // "" for a call that was accepted at once
	// Constraints is a JSON object that the call must keep to; {} for nothing.
	Constraints json.RawMessage
}

// ErrOutcomeUnknown is of a call that had begun before. Whether it ran, nobody knows; it is
// not run again. Look at what it would have changed, and say so: Unfinished.Settle.
var ErrOutcomeUnknown = errors.New("the call had begun, and it is unknown whether it ran: unless another process of this journal is running it now, look, and settle it (Client.Unfinished)")

// ErrOtherCall is of a key that belongs to a call with other arguments.
var ErrOtherCall = errors.New("the key belongs to another call")

// AlreadyDone is of a call that ran before. Outcome is what became of it, "" if that is on
// record elsewhere.
type AlreadyDone struct {
	Call    string
	Outcome Outcome
	Err     error
}

// Error names the call and its outcome.
func (a *AlreadyDone) Error() string {
	outcome := cmp.Or(a.Outcome, "the server knows what became of it")
	return fmt.Sprintf("the call %s has run before: %s", a.Call, outcome)
}

// Unwrap is the server's answer, if that told.
func (a *AlreadyDone) Unwrap() error { return a.Err }

// Call runs the tool if, and only if, that is permitted. Its errors are those of Guard, and
// ErrOutcomeUnknown and *AlreadyDone. When ctx ends the wait for people, the approval goes on
// waiting, unless CancelWhenDone.
//
// With a journal, a call that says the same as one that an earlier process left unfinished
// goes on as that one, before anything new is proposed. Once that is over, an equal call is
// another one. So are two equal calls that are made at the same time.
func (t *Tool[A, R]) Call(ctx context.Context, arguments A) (R, error) {
	return t.CallAs(ctx, "", arguments)
}

// CallAs is Call under a key of the caller's own, such as "invoice:42": whatever is called
// twice under one key runs once. With a journal, a call that was interrupted goes on from
// where it was.
func (t *Tool[A, R]) CallAs(ctx context.Context, key string, arguments A) (result R, err error) {
	event := t.Event
	event.Arguments = arguments
	event.WantToken = event.WantToken || key != "" // the server redeems it once, whoever asks twice
	body, err := checkBody(event)
	if err != nil {
		return result, err
	}
	l := life{c: t.Client, entry: entry{call: key}, tool: event.ToolName, body: string(body), keeps: t.KeepsConstraints, cancels: t.CancelWhenDone}
	if key == "" {
		l.entry.call, l.seeks = rand.Text(), true
	} else if j := t.Client.Journal; j != nil {
		if l.entry, err = j.entry(key); err != nil {
			return result, err
		}
		if (l.entry.step != "" && l.entry.step != stepOver || l.entry.outcome != "") && l.entry.body != string(body) {
			return result, ErrOtherCall
		}
		l.entry.call = key
	}
	l.named = key != ""
	return t.live(ctx, &l)
}

// Resume goes on with a call that Client.Unfinished has of this tool: it waits, and runs it.
func (t *Tool[A, R]) Resume(ctx context.Context, u *Unfinished) (result R, err error) {
	if u.Tool != t.Event.ToolName {
		return result, fmt.Errorf("the call is of the tool %s, not of %s", u.Tool, t.Event.ToolName)
	}
	return t.live(ctx, &life{c: t.Client, entry: u.entry, tool: u.Tool, body: u.entry.body, keeps: t.KeepsConstraints, cancels: t.CancelWhenDone})
}

func (t *Tool[A, R]) live(ctx context.Context, l *life) (result R, err error) {
	if err := l.setOut(); err != nil {
		return result, err
	}
	if j := l.c.Journal; j != nil {
		defer func() { j.leave(l.entry.call) }()
	}
	var arguments A
	l.takes = func(approved json.RawMessage) error {
		var fresh A
		dec := json.NewDecoder(bytes.NewReader(approved))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&fresh); err != nil {
			return err
		}
		if err := sameCall(fresh, approved); err != nil {
			return err
		}
		arguments = fresh
		return nil
	}
	constraints, err := l.permit(ctx)
	if err != nil {
		return result, err
	}
	outcome, began := Uncertain, time.Now()
	defer func() {
		if failed := l.finish(ctx, outcome, time.Since(began)); failed != nil {
			err = &Unreported{ApprovalID: l.approval, Run: err, Err: failed}
		}
	}()
	result, err = t.Run(ctx, arguments, Permit{l.approval, constraints})
	outcome = outcomeOf(err)
	return result, err
}

// sameCall says what is wrong with arguments that were read of approved ones, and do not say the same: a member that
// is missing or null has become one that is empty, or a number one that is less exact.
func sameCall(read any, approved json.RawMessage) error {
	is, err := Digest("", read)
	if err != nil {
		return err
	}
	was, err := Digest("", approved)
	if err == nil && is != was {
		err = errors.New("the tool's arguments do not hold what was approved: it would run with others")
	}
	return err
}

// outcomeOf is what a tool's error says of its effect.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Succeeded
	case errors.Is(err, ErrUncertain), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Uncertain
	}
	return Failed
}

// life is one call on its way:
//
//	proposed ─┬─ accepted ────────────────────────────────────► begun ─► ran ─► over
//	          ├─ waiting ─┬─ approved ─► redeeming ─► redeemed ──┘
//	          │           └─ denied, expired, cancelled ──────────────────────► over
//	          └─ refused ─────────────────────────────────────────────────────► over
//
// Each arrow is a line of the journal, if there is one, before what it announces.
type life struct {
	c        *Client
	entry    entry // what the journal says of it
	tool     string
	body     string // the proposal
	keeps    bool
	cancels  bool
	named    bool   // entry.call is the caller's own key
	seeks    bool   // it goes on as the unfinished call of the journal that says the same
	goesOn   bool   // it does
	made     string // the proposal of the call as it was made, where body is that of the unfinished one
	approval string
	// redeemKeys are of the redemptions that are its own, or were there when it went on.
	redeemKeys []string
	// others says that there are further keys to redeem by.
	others bool
	// takes reads the approved arguments as the tool takes them.
	takes func(approved json.RawMessage) error
}

func (l *life) write(n line) error {
	if l.c.Journal == nil {
		return nil
	}
	n.Call = l.entry.call
	return l.c.Journal.write(n)
}

func (l *life) over(why string) error { return l.write(line{Step: stepOver, Why: &why}) }

// overBecause closes the call, and returns why.
func (l *life) overBecause(why string, err error) error { return errors.Join(err, l.over(why)) }

// permit does what has to be done until the call may run, and returns its constraints. Any
// error means that it may not.
func (l *life) permit(ctx context.Context) (constraints json.RawMessage, err error) {
	if l.entry.step == stepBegun || l.entry.step == stepRan || l.entry.outcome != "" {
		return nil, l.refuseSecond(ctx)
	}
	var redeemed *Redemption
	proposed, err := argumentsOf(l.body)
	if err != nil {
		return nil, err
	}
	var known *Approval
	if l.redeemKeys = l.entry.redeemKeys; l.goesOn && l.entry.step == stepWaiting {
		if known, err = l.leftWaiting(ctx); err != nil {
			return nil, err
		}
	}
	switch l.entry.step {
	case stepWaiting:
		l.approval = l.entry.approval
	case stepRedeeming:
		l.approval = l.entry.approval
		redeemed, err = l.redeemAgain(ctx)
	default:
		if err = l.takes(proposed); err == nil {
			constraints, known, err = l.propose(ctx)
		}
	}
	for i := 0; i < 2 && err == nil && l.approval != "" && redeemed == nil; i++ { // the token may have become too old
		redeemed, err = l.approved(ctx, known, proposed)
		known = nil
	}
	switch {
	case err != nil:
		return nil, err
	case l.approval != "" && redeemed == nil:
		return nil, fmt.Errorf("the server takes no token for %s, not even a fresh one", l.approval)
	case redeemed != nil:
		constraints = redeemed.Constraints
	}
	if Constrained(constraints) && !l.keeps {
		if redeemed != nil {
			err = l.c.reportAfter(ctx, l.approval, Failed, 0)
		}
		return nil, errors.Join(ErrConstraints, err, l.over("constraints"))
	}
	if j := l.c.Journal; j != nil {
		if by, err := j.begin(l.entry.call); err != nil || by == "" {
			return nil, errors.Join(err, unless(err != nil, ErrOutcomeUnknown))
		}
	}
	if !Constrained(constraints) {
		constraints = json.RawMessage(`{}`)
	}
	return constraints, nil
}

func unless(not bool, err error) error {
	if not {
		return nil
	}
	return err
}

func (l *life) refuseSecond(ctx context.Context) error {
	e := l.entry
	if e.step == stepBegun {
		return fmt.Errorf("%s: %w", e.call, ErrOutcomeUnknown)
	}
	if e.step == stepRan {
		if err := l.c.settle(ctx, e, e.outcome, e.ms, false); err != nil {
			return err
		}
	}
	return &AlreadyDone{Call: e.call, Outcome: e.outcome}
}

// propose proposes the call. Without an error it is accepted, or has an approval.
func (l *life) propose(ctx context.Context) (constraints json.RawMessage, opened *Approval, err error) {
	key, headers := l.entry.call, l.entry.headers
	if l.entry.step == stepProposed {
		key = l.entry.key
	} else {
		headers = nil
		if err := l.write(line{Step: stepProposed, Tool: &l.tool, Key: &key, Body: &l.body, Named: l.named}); err != nil {
			return nil, nil, err
		}
	}
	var d Decision
	if err := l.c.postUnder(ctx, key, "/v1/pre-tool-check", []byte(l.body), headers, &d); err != nil {
		why := "unreachable"
		var p *Problem
		switch {
		case errors.As(err, &p):
			why = p.Code
		case ctx.Err() != nil:
			return nil, nil, fmt.Errorf("check %s: %w", l.tool, context.Cause(ctx)) // it may go on
		}
		return nil, nil, l.overBecause(why, fmt.Errorf("check %s: %w", l.tool, err))
	}
	switch {
	case ShouldExecute(d):
		return d.Constraints, nil, nil
	case d.Approval == nil || d.Approval.ID == "":
		return nil, nil, l.overBecause("refused", &Refused{Decision: d})
	}
	l.approval, opened = d.Approval.ID, d.Approval
	if err := l.write(line{Step: stepWaiting, Approval: &l.approval}); err != nil {
		return nil, nil, err
	}
	if (l.named || l.entry.step == stepProposed) && !opened.Status.Final() { // perhaps an answer of before, which is kept with its key
		now, err := l.c.Get(ctx, l.approval)
		if opened = &now; err != nil {
			opened = nil // what keeps it from being read, the wait says
		}
	}
	return nil, opened, nil
}

// approved waits for people, and redeems the token. nil without an error: the token was not
// spent and is not good any more, so that it takes a fresh one. known is how the approval
// stood a moment ago, if that is known.
func (l *life) approved(ctx context.Context, known *Approval, proposed json.RawMessage) (*Redemption, error) {
	saw := l.c.questions()
	switch {
	case known == nil:
		saw = l.c.firstTellsWait(saw)
	case known.Status == Pending:
		l.c.tellWait(*known)
	}
	a, err := l.c.wait(ctx, l.approval, saw)
	if err != nil {
		if ctx.Err() == nil {
			return nil, err
		}
		if l.cancels && l.c.takeBack(ctx, l.approval) == nil {
			return nil, l.overBecause("cancelled", fmt.Errorf("%s was taken back: %w", l.approval, err))
		}
		return nil, fmt.Errorf("the wait for %s was ended, and it goes on waiting: %w", l.approval, err)
	}
	if a.Status != Approved {
		return nil, l.overBecause(string(a.Status), &Refused{Decision: Decision{ToolName: l.tool}, Approval: &a})
	}
	arguments := proposed
	if a.Edited != nil {
		arguments = a.Edited.Arguments
	}
	if err := l.takes(arguments); err != nil {
		return nil, l.overBecause("edit_not_usable", fmt.Errorf("%w: %w", ErrEdited, err))
	}
	if a.Token == "" {
		if a.Execution != "" && a.Execution != "none" {
			return nil, l.overBecause("no_token", &AlreadyDone{Call: l.entry.call, Outcome: Outcome(a.Execution)})
		}
		return nil, l.overBecause("no_token", noToken(a.ID))
	}
	body, err := marshal(redeemBody{a.Token, l.tool, arguments, l.preconditions()})
	if err != nil {
		return nil, err
	}
	key, text := rand.Text(), string(body)
	l.redeemKeys = append(slices.Clip(l.redeemKeys), key)
	if err := l.write(line{Step: stepRedeeming, Approval: &l.approval, Key: &key, Body: &text}); err != nil {
		return nil, err
	}
	return l.spend(ctx, text, key, false)
}

// redeemAgain redeems with the bytes of before, because nobody knows whether they arrived;
// the call has not begun. Where several processes have redeemed it, one of them has spent the
// token, by its own key: the newest is tried first.
func (l *life) redeemAgain(ctx context.Context) (redeemed *Redemption, err error) {
	for i := len(l.entry.redeemKeys) - 1; i >= 0; i-- {
		var before struct {
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal([]byte(l.entry.redeemBodies[i]), &before); err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		if err := l.takes(before.Arguments); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEdited, err)
		}
		l.others = i > 0
		if redeemed, err = l.spend(ctx, l.entry.redeemBodies[i], l.entry.redeemKeys[i], true); !errors.Is(err, errOtherKey) {
			break
		}
	}
	l.others = false
	return redeemed, err
}

// errOtherKey says that the token was spent under another key, of which there are more.
var errOtherKey = errors.New("the token was spent under another key")

// spend redeems. again says that the same was sent before.
func (l *life) spend(ctx context.Context, body, key string, again bool) (*Redemption, error) {
	var out redemptionAnswer
	err := l.c.postUnder(ctx, key, "/v1/tokens/redeem", []byte(body), nil, &out)
	if err == nil {
		if err = out.valid(); err == nil {
			return &out.Redemption, nil
		}
	}
	err = fmt.Errorf("redeem the token for %s: %w", l.tool, err)
	var p *Problem
	if !errors.As(err, &p) {
		return nil, err
	}
	verdict := verdictOf(p)
	if verdict == verdictAgain && again && p.Status < 500 {
		// Perhaps a former answer, which is kept with its key, although the reason for it has gone.
		if a, err := l.c.Get(ctx, l.approval); err == nil && a.Execution == "none" {
			verdict = verdictFresh
		}
	}
	switch verdict {
	case verdictFresh:
		return nil, nil //nolint:nilnil // said above
	case verdictDone:
		if l.others && p.Code == "token_used" {
			return nil, errOtherKey
		}
		if l.spentElsewhere() { // whoever redeemed it goes on with the call
			return nil, &AlreadyDone{Call: l.entry.call, Err: err}
		}
		return nil, l.overBecause(p.Code, &AlreadyDone{Call: l.entry.call, Err: err})
	case verdictRefused:
		return nil, l.overBecause(p.Code, err)
	}
	return nil, err
}

func (l *life) preconditions() (unchanged map[string]string) {
	_ = json.Unmarshal([]byte(l.entry.headers[preconditionsHeader]), &unchanged) // none, if there are none
	return unchanged
}

func (l *life) finish(ctx context.Context, outcome Outcome, took time.Duration) error {
	return l.c.settle(ctx, entry{call: l.entry.call, approval: l.approval}, outcome, max(took, 0).Milliseconds(), true)
}

// settle puts on record what became of a call: in the journal, and with the server.
func (c *Client) settle(ctx context.Context, e entry, outcome Outcome, ms int64, write bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	var unwritten, unsaid error
	why := "reported"
	if c.Journal != nil && write {
		unwritten = c.Journal.write(line{Call: e.call, Step: stepRan, Outcome: &outcome, MS: ms})
	}
	if e.approval != "" {
		unsaid = c.reportUnder(ctx, e.approval+":report:"+string(outcome), e.approval, outcome, ms)
		var p *Problem
		// Late, but on record; or, on going on, said before, or nobody takes it any more: there is
		// nothing to wait for.
		if errors.As(unsaid, &p) && (p.Code == "lease_ended" || e.step != "" && verdictOf(p) != verdictAgain) {
			if p.Code != "lease_ended" {
				why = p.Code
			}
			unsaid = nil
		}
	}
	if err := errors.Join(unwritten, unsaid); err != nil || c.Journal == nil {
		return err
	}
	return c.Journal.write(line{Call: e.call, Step: stepOver, Why: &why})
}

// Verdicts on a call that has not begun.
const (
	verdictAgain   = "again"   // the same request may be answered otherwise later
	verdictFresh   = "fresh"   // not spent, and the token is not good any more
	verdictDone    = "done"    // it ran, or was spent by somebody else
	verdictRefused = "refused" // it does not run
)

func verdictOf(p *Problem) string {
	switch p.Code {
	case "token_expired", "token_invalid":
		return verdictFresh
	case "already_reported", "token_used":
		return verdictDone
	}
	switch {
	case p.Retryable(), p.Status == http.StatusUnauthorized, p.Status == http.StatusLocked:
		return verdictAgain
	case p.Status/100 != 4, strings.HasPrefix(p.Code, "http_"): // not the server's own word: something went wrong, or stands in between
		return verdictAgain
	}
	return verdictRefused
}

func argumentsOf(body string) (json.RawMessage, error) {
	var event struct {
		Arguments json.RawMessage `json:"proposed_arguments"`
	}
	if err := json.Unmarshal([]byte(body), &event); err != nil {
		return nil, fmt.Errorf("read the proposal: %w", err)
	}
	return event.Arguments, nil
}
