package tracker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Terms is what a ticket must be for a call. A zero field asks for nothing.
type Terms struct {
	// Projects are those of which the ticket must be. Case does not matter.
	Projects []string `json:"projects,omitempty"`
	// States are those in which the ticket must be. Case does not matter. A state
	// that is named here covers a call even if the tracker counts it as closed.
	States []string `json:"states,omitempty"`
	// MaxAge is how long ago the ticket may have been created.
	MaxAge time.Duration `json:"max_age,omitempty"`
}

// Or fills what t leaves open with what fallback says: a call's own terms,
// then those of the connector.
func (t Terms) Or(fallback Terms) Terms {
	if len(t.Projects) == 0 {
		t.Projects = fallback.Projects
	}
	if len(t.States) == 0 {
		t.States = fallback.States
	}
	t.MaxAge = cmp.Or(t.MaxAge, fallback.MaxAge)
	return t
}

// Code says why a ticket does not cover a call. Codes never change.
type Code string

// The reasons, in the order in which Judge looks for them.
const (
	TicketClosed       Code = "ticket_closed"
	TicketOtherProject Code = "ticket_other_project"
	TicketState        Code = "ticket_state"
	TicketTooNew       Code = "ticket_too_new"
	TicketTooOld       Code = "ticket_too_old"
)

// Reason is why a ticket does not cover a call.
type Reason struct {
	Code Code `json:"code"`
	// Message is one sentence for a person. It quotes nothing from the tracker.
	Message string `json:"message"`
}

// Judge says whether a ticket covers a call that was requested at requestedAt;
// now is the time of judging. Nil is yes. The times of tracker and caller are
// compared as they are: a tracker whose clock is slow lets tickets pass that
// were created within that delay.
func Judge(t Ticket, terms Terms, requestedAt, now time.Time) *Reason {
	named := contains(terms.States, t.State)
	switch {
	case t.Closed && !named:
		return &Reason{TicketClosed, "The ticket is closed."}
	case len(terms.Projects) > 0 && !contains(terms.Projects, t.Project):
		return &Reason{TicketOtherProject, "The ticket belongs to a project that does not cover this call."}
	case len(terms.States) > 0 && !named:
		return &Reason{TicketState, "The ticket is in a state that does not cover this call."}
	case t.CreatedAt.IsZero() || !latest(t.CreatedAt).Before(requestedAt):
		return &Reason{TicketTooNew, "The ticket was not there before the call was requested."}
	case terms.MaxAge < 0 || terms.MaxAge > 0 && now.Sub(t.CreatedAt) > terms.MaxAge:
		return &Reason{TicketTooOld, fmt.Sprintf("The ticket was created more than %s ago.", terms.MaxAge)}
	}
	return nil
}

// latest is the last moment that at may stand for. Trackers cut times to whole
// seconds or milliseconds, and a ticket that was made for the occasion is often
// made within the second.
func latest(at time.Time) time.Time {
	switch ns := at.Nanosecond(); {
	case ns == 0:
		return at.Add(time.Second - 1)
	case ns%int(time.Millisecond) == 0:
		return at.Add(time.Millisecond - 1)
	}
	return at
}

func contains(names []string, name string) bool {
	return name != "" && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
