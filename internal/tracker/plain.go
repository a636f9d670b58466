package tracker

import (
	"context"
	"net/url"
	"regexp"
	"time"
)

// plain asks a tracker that speaks our own shape, which docs/tickets.md has.
type plain struct{ tracker }

// plainRef begins with a letter or digit, so that it is no "..".
var plainRef = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:#-]*$`)

// parsePlain reads a reference of letters, digits, dots, underscores, hyphens,
// colons and number signs, or the tracker's address with such a reference.
func parsePlain(web place, ref string) (string, error) {
	name, _, err := web.cut(ref)
	if err != nil {
		return "", err
	}
	if !plainRef.MatchString(name) {
		return "", ErrBadRef
	}
	return name, nil
}

// Ref implements Source.
func (p *plain) Ref(ref string) (string, error) {
	return parsePlain(p.web, ref)
}

// Lookup implements Source.
func (p *plain) Lookup(ctx context.Context, ref string) (Ticket, error) {
	name, err := parsePlain(p.web, ref)
	if err != nil {
		return Ticket{}, err
	}
	var reply struct {
		Ref, Title, Project, State, URL, Assignee string
		Closed                                    *bool
		CreatedAt                                 time.Time `json:"created_at"`
		UpdatedAt                                 time.Time `json:"updated_at"`
	}
	if err := p.get(ctx, "/"+url.PathEscape(name), &reply); err != nil {
		return Ticket{}, err
	}
	if reply.Ref == "" || reply.Closed == nil {
		return Ticket{}, errUnreadable
	}
	if reply.Ref != name {
		return Ticket{}, ErrNotFound
	}
	t := Ticket{
		Ref: name, Title: reply.Title, Project: reply.Project, State: reply.State, Closed: *reply.Closed,
		CreatedAt: reply.CreatedAt, UpdatedAt: reply.UpdatedAt, Assignee: reply.Assignee,
	}
	// People will follow it.
	if _, err := p.urls.CheckURL(reply.URL); err == nil {
		t.URL = reply.URL
	}
	return t.finish()
}
