package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// lookupFor bounds what Check asks, whatever a connector's own Timeout allows:
// a call waits for it.
const lookupFor = 10 * time.Second

// Codes of what is found before a ticket can be judged.
const (
	TicketNotFound    Code = "ticket_not_found"
	TicketOtherSystem Code = "ticket_system"
)

// Trackers are all the trackers that are configured. They are safe for
// concurrent use.
type Trackers struct {
	names   []string // in the order of the configuration
	sources map[string]Source
	terms   map[string]Terms
}

// NewTrackers makes connectors of their configurations, or says everything that
// is wrong with them. Names must differ.
func NewTrackers(configs []Config) (*Trackers, error) {
	t := &Trackers{sources: map[string]Source{}, terms: map[string]Terms{}}
	var errs []error
	for _, c := range configs {
		source, err := New(c)
		if _, twice := t.sources[c.Name]; twice {
			err = fmt.Errorf("ticket connector %q: there are two of this name", c.Name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.names = append(t.names, c.Name)
		t.sources[c.Name], t.terms[c.Name] = source, c.Terms()
	}
	return t, errors.Join(errs...)
}

// Names are the connectors' names, in the order of the configuration.
func (t *Trackers) Names() []string { return slices.Clone(t.names) }

// Ticket reads a reference of the connector called system as the ticket that it
// means, asking nobody. With "" it is of the connector of which it can be a
// reference, if that is one and no more. Errors are for people to read, and quote
// nothing.
func (t *Trackers) Ticket(system, ref string) (approval.Ticket, error) {
	if system != "" {
		source, ok := t.sources[system]
		if !ok {
			return approval.Ticket{}, errors.New("there is no such ticket system here, only " + list(t.names))
		}
		read, err := source.Ref(ref)
		if err != nil {
			return approval.Ticket{}, errors.New("the text is no reference of " + system)
		}
		return approval.Ticket{System: system, Ref: read}, nil
	}
	var fits []approval.Ticket
	var of []string
	for _, name := range t.names {
		if read, err := t.sources[name].Ref(ref); err == nil {
			fits, of = append(fits, approval.Ticket{System: name, Ref: read}), append(of, name)
		}
	}
	switch len(fits) {
	case 0:
		return approval.Ticket{}, errors.New("the text is no reference of " + list(t.names))
	case 1:
		return fits[0], nil
	}
	return approval.Ticket{}, errors.New("it could be one of " + list(of) + "; say of which system it is")
}

func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Check asks the ticket's tracker whether it covers a call that was requested at
// requestedAt, by terms where they say something and by the connector's own
// where not. The answer says what the tracker says; Code and Message say why the
// ticket does not cover the call. An error means that there is no usable answer
// now; it holds neither secrets nor anything that a tracker wrote.
func (t *Trackers) Check(ctx context.Context, asked approval.Ticket, terms *engine.TicketTerms, requestedAt, now time.Time) (approval.Ticket, error) {
	source, ok := t.sources[asked.System]
	if !ok {
		return asked, fmt.Errorf("ask about a ticket: %w: no connector of its name is configured", ErrUnavailable)
	}
	answer := approval.Ticket{System: asked.System, Ref: asked.Ref}
	want := Terms{}
	if terms != nil {
		if terms.System != "" && terms.System != asked.System {
			answer.Code, answer.Message = string(TicketOtherSystem), "The ticket is of a system that does not cover this call."
			return answer, nil
		}
		want = Terms{Projects: terms.Projects, States: terms.States, MaxAge: time.Duration(terms.MaxAge)}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupFor)
	defer cancel()
	found, err := source.Lookup(ctx, asked.Ref)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrBadRef):
		answer.Code, answer.Message = string(TicketNotFound), "There is no such ticket, or it cannot be seen from here."
		return answer, nil
	case err != nil:
		return asked, fmt.Errorf("ask %s about a ticket: %w", asked.System, err)
	}
	answer.Title, answer.Project, answer.State, answer.URL = plainText(found.Title), plainText(found.Project), plainText(found.State), found.URL
	if reason := Judge(found, want.Or(t.terms[asked.System]), requestedAt, now); reason != nil {
		answer.Code, answer.Message = string(reason.Code), reason.Message
	}
	return answer, nil
}

// plainText is a tracker's text without what cannot be kept or shown.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
