package tracker

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// linear asks Linear's GraphQL API.
type linear struct{ tracker }

var (
	linearKey  = regexp.MustCompile(`^[A-Z][A-Z0-9]{0,19}-[1-9][0-9]{0,11}$`)
	linearPart = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// linearQuery takes the key as a variable, never as part of its text.
const linearQuery = `query($id: String!) { issue(id: $id) {
	identifier title url createdAt updatedAt completedAt canceledAt archivedAt
	state { name type } team { key } assignee { name }
} }`

// parseLinear reads ENG-12, which may be of any workspace, or
// https://linear.app/acme/issue/ENG-12/title, which is of the workspace acme.
func parseLinear(web place, ref string) (key, workspace string, err error) {
	rest, full, err := web.cut(ref)
	if err != nil {
		return "", "", err
	}
	key = rest
	if full {
		parts := strings.Split(rest, "/")
		if len(parts) < 3 || len(parts) > 4 || parts[1] != "issue" || slices.ContainsFunc(parts, func(p string) bool { return !linearPart.MatchString(p) }) {
			return "", "", ErrBadRef
		}
		workspace, key = parts[0], parts[2]
	}
	if !linearKey.MatchString(key) {
		return "", "", ErrBadRef
	}
	return key, workspace, nil
}

type linearReply struct {
	Data *struct {
		Issue *struct {
			Identifier, Title, URL              string
			CreatedAt, UpdatedAt                time.Time
			CompletedAt, CanceledAt, ArchivedAt *time.Time
			State                               struct{ Name, Type string }
			Team                                struct{ Key string }
			Assignee                            *struct{ Name string }
		}
	}
	Errors []struct {
		Message    string
		Extensions struct{ Code string }
	}
}

// Ref implements Source. An address stays one: it says of which workspace it is.
func (l *linear) Ref(ref string) (string, error) {
	key, workspace, err := parseLinear(l.web, ref)
	if err != nil {
		return "", err
	}
	if workspace != "" {
		return l.web.String() + "/" + workspace + "/issue/" + key, nil
	}
	return key, nil
}

// Lookup implements Source. Project is the team's key.
func (l *linear) Lookup(ctx context.Context, ref string) (Ticket, error) {
	key, workspace, err := parseLinear(l.web, ref)
	if err != nil {
		return Ticket{}, err
	}
	reply, err := l.ask(ctx, key)
	if err != nil {
		return Ticket{}, err
	}
	if err := reply.failure(); err != nil {
		return Ticket{}, err
	}
	issue := reply.Data.Issue
	if issue.Identifier == "" || issue.State.Type == "" || issue.Team.Key == "" {
		return Ticket{}, errUnreadable
	}
	// The old key of a ticket that went to another team leads to its new one.
	if issue.Identifier != key {
		return Ticket{}, ErrNotFound
	}
	t := Ticket{
		Ref: key, Title: issue.Title, Project: issue.Team.Key, State: issue.State.Name,
		Closed: issue.CompletedAt != nil || issue.CanceledAt != nil || issue.ArchivedAt != nil ||
			slices.Contains([]string{"completed", "canceled", "duplicate"}, issue.State.Type),
		CreatedAt: issue.CreatedAt, UpdatedAt: issue.UpdatedAt,
	}
	theirs, home, err := parseLinear(l.web, issue.URL)
	if err == nil && theirs == key && home != "" {
		t.URL = issue.URL
	}
	// The token belongs to one workspace: an address of another one must not
	// bring up our ticket of the same key.
	if workspace != "" && (t.URL == "" || home != workspace) {
		return Ticket{}, ErrNotFound
	}
	if issue.Assignee != nil {
		t.Assignee = issue.Assignee.Name
	}
	return t.finish()
}

// ask posts the query. Linear says what went wrong in the body, also with
// status 400, which it answers to whoever asks too often.
func (l *linear) ask(ctx context.Context, key string) (linearReply, error) {
	var reply linearReply
	body, err := json.Marshal(map[string]any{"query": linearQuery, "variables": map[string]string{"id": key}})
	if err != nil {
		return reply, errUnreadable
	}
	resp, err := l.send(ctx, http.MethodPost, "/graphql", body)
	if err != nil {
		return reply, err
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read, or will not be
	switch resp.StatusCode {
	case http.StatusOK, http.StatusBadRequest:
	case http.StatusNotFound, http.StatusGone:
		// The API is not there. That says nothing about a ticket.
		return reply, unavailable("there is no Linear API at its address")
	default:
		return reply, statusError(resp)
	}
	if err := decode(resp.Body, &reply); err != nil {
		return reply, err
	}
	if resp.StatusCode != http.StatusOK && len(reply.Errors) == 0 {
		return reply, statusError(resp)
	}
	return reply, nil
}

// failure is nil if the reply has an issue and no errors. What is missing has
// no code of its own, only its message.
func (r linearReply) failure() error {
	for _, e := range r.Errors {
		switch {
		case e.Extensions.Code == "RATELIMITED":
			return unavailable("it wants to be asked less often")
		case e.Extensions.Code == "AUTHENTICATION_ERROR":
			return unavailable("it does not accept the connector's credentials")
		case !strings.HasPrefix(e.Message, "Entity not found"):
			return unavailable("it answered with an error")
		}
	}
	switch {
	case len(r.Errors) > 0:
		return ErrNotFound
	case r.Data == nil:
		return errUnreadable
	case r.Data.Issue == nil:
		return ErrNotFound
	}
	return nil
}
