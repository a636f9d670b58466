package holdpoint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
)

// This file is about a call without a key of the caller's own, in a process with a journal:
// before it is proposed, it goes on as the unfinished call that says the same, which an
// earlier process, killed meanwhile, has left behind.

const (
	preconditionsHeader = "Holdpoint-Preconditions"
	sessionHeader       = "Holdpoint-Session"
)

// identity is what makes two proposals one call: tool, arguments, on whose behalf, session,
// preconditions, and what decides how strictly it is judged. A call that asks for more people
// than the unfinished one did is another call. "" for a call that is to be apart from its equals (Event.Separate), and
// for one that the server does not read either.
func identity(body string, headers map[string]string) string {
	var event struct {
		Tool      string          `json:"tool_name"`
		Arguments json.RawMessage `json:"proposed_arguments"`
		Subject   map[string]any  `json:"authorization_subject"`
		Separate  bool            `json:"separate"`
		Route     string          `json:"recommended_route"`
		Category  string          `json:"tool_category"`
		Domain    string          `json:"risk_domain"`
		State     string          `json:"authorization_state"`
	}
	depends := map[string]any{}
	if json.Unmarshal([]byte(body), &event) != nil || event.Separate {
		return ""
	}
	if text := headers[preconditionsHeader]; text != "" && json.Unmarshal([]byte(text), &depends) != nil {
		return ""
	}
	form, err := canonical([]any{event.Tool, event.Arguments, event.Subject, headers[sessionHeader], depends, event.Route, event.Category, event.Domain, event.State})
	if err != nil {
		return ""
	}
	return string(form)
}

// ownKey reports whether a call's name is a key of the caller's own, in a journal of a version
// that did not write so: calls under such a key ask for a token, and its form is none of ours.
func (e *entry) ownKey() bool {
	var event struct {
		WantToken bool `json:"want_token"`
	}
	return e.named || !newKeys.MatchString(e.call) && json.Unmarshal([]byte(e.body), &event) == nil && event.WantToken
}

// newKeys are the keys that the clients make, of each language.
var newKeys = regexp.MustCompile(`\A(?:[A-Z2-7]{26}|[0-9a-f]{32})\z`)

func isRead(body string) bool {
	var event struct {
		Category string `json:"tool_category"`
	}
	return json.Unmarshal([]byte(body), &event) == nil && (event.Category == PublicRead || event.Category == PrivateRead)
}

// goesOnAs reports whether a call that says the same, without a key of the caller's own, is
// this one. What was accepted at once, and only reads, may be done anew, whatever became of it.
func (e *entry) goesOnAs(sought string) bool {
	switch {
	case sought == "", e.ownKey(), e.step == "", e.step == stepOver:
		return false
	case (e.step == stepBegun || e.step == stepRan) && e.approval == "" && isRead(e.body):
		return false
	}
	return identity(e.body, e.headers) == sought
}

// enterAs says that this process is busy with the oldest unfinished call that says the same
// and that it is not busy with already. No call: there is none.
func (j *Journal) enterAs(sought string) (entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.readOn(); err != nil {
		return entry{}, err
	}
	for _, call := range j.order {
		if e := j.entries[call]; !j.live[call] && e.goesOnAs(sought) {
			j.live[call] = true
			return *e, nil
		}
	}
	return entry{}, nil
}

// setOut says that this process is busy with the call, or with the one that it goes on as.
func (l *life) setOut() error {
	j := l.c.Journal
	if j == nil {
		return nil
	}
	if l.seeks {
		left, err := j.enterAs(identity(l.body, nil))
		if err != nil {
			return err
		}
		if left.call != "" {
			l.made = l.body
			l.entry, l.body, l.goesOn = left, left.body, true // what was proposed is what runs
			return nil
		}
	}
	return j.enter(l.entry.call)
}

// leftWaiting is how the approval stands that an earlier process left waiting. What ended
// without anybody's no is over, and the call that was made now is to be proposed: nil. So is
// the zero Approval where the wait finds out.
func (l *life) leftWaiting(ctx context.Context) (*Approval, error) {
	a, err := l.c.Get(ctx, l.entry.approval)
	var p *Problem
	var why string
	switch {
	case err == nil && (a.Status == Expired || a.Status == Cancelled):
		why = string(a.Status)
	case err == nil && a.Status == Approved && a.Token == "" && (a.Execution == "" || a.Execution == "none"):
		why = "no_token" // its time to run is over, and it did not
	case err == nil:
		return &a, nil
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
		why = p.Code
	case temporary(err):
		return &Approval{}, nil
	default:
		return nil, err
	}
	if err := l.over(why); err != nil {
		return nil, err
	}
	j := l.c.Journal
	j.leave(l.entry.call)
	l.entry, l.body, l.goesOn = entry{call: rand.Text()}, l.made, false
	return nil, j.enter(l.entry.call)
}

// spentElsewhere reports whether another process redeems, or has redeemed, this call of the
// journal meanwhile.
func (l *life) spentElsewhere() bool {
	if l.c.Journal == nil {
		return false
	}
	now, err := l.c.Journal.entry(l.entry.call)
	return err != nil || slices.ContainsFunc(now.redeemKeys, func(key string) bool { return !slices.Contains(l.redeemKeys, key) })
}
