package tracker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	var reply plainReply
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

// plainReply is what a tracker answers. Members are read by their exact names, and each is
// there once: others than these do no harm, also where they differ by capitals only.
type plainReply struct {
	Ref, Title, Project, State, URL, Assignee string
	Closed                                    *bool
	CreatedAt, UpdatedAt                      time.Time
}

// UnmarshalJSON reads an object.
func (r *plainReply) UnmarshalJSON(data []byte) error {
	named := map[string]any{
		"ref": &r.Ref, "title": &r.Title, "project": &r.Project, "state": &r.State, "url": &r.URL, "assignee": &r.Assignee,
		"closed": &r.Closed, "created_at": &r.CreatedAt, "updated_at": &r.UpdatedAt,
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errUnreadable
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return fmt.Errorf("read a member: %w", err)
		}
		text, _ := name.(string) // as all names of members are
		into, wanted := named[text]
		if !wanted {
			continue
		}
		if into == nil {
			return errUnreadable // it is there twice
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("read %s: %w", text, err)
		}
		named[text] = nil
	}
	return nil
}
