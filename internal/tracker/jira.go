package tracker

import (
	"context"
	"regexp"
	"strings"
	"time"
)

// jira asks Jira Cloud and Jira Data Center, which share version 2 of the API.
type jira struct{ tracker }

var jiraKey = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,49}-[1-9][0-9]{0,11}$`)

// jiraTime has no colon in its offset, unlike RFC 3339.
const jiraTime = "2006-01-02T15:04:05.000-0700"

// parseJira reads PAY-12 or https://acme.atlassian.net/browse/PAY-12.
func parseJira(web place, ref string) (string, error) {
	key, full, err := web.cut(ref)
	if err != nil {
		return "", err
	}
	if full {
		var found bool
		if key, found = strings.CutPrefix(key, "browse/"); !found {
			return "", ErrBadRef
		}
	}
	if !jiraKey.MatchString(key) {
		return "", ErrBadRef
	}
	return key, nil
}

// Ref implements Source.
func (j *jira) Ref(ref string) (string, error) {
	return parseJira(j.web, ref)
}

// Lookup implements Source. Closed is the status category "done".
func (j *jira) Lookup(ctx context.Context, ref string) (Ticket, error) {
	key, err := parseJira(j.web, ref)
	if err != nil {
		return Ticket{}, err
	}
	var issue struct {
		Key    string
		Fields struct {
			Summary string
			Status  struct {
				Name           string
				StatusCategory struct{ Key string }
			}
			Project          struct{ Key string }
			Created, Updated string
			Assignee         *struct{ DisplayName string }
		}
	}
	if err := j.get(ctx, "/rest/api/2/issue/"+key+"?fields=summary,status,project,created,updated,assignee", &issue); err != nil {
		return Ticket{}, err
	}
	f := issue.Fields
	if issue.Key == "" || f.Project.Key == "" || f.Status.StatusCategory.Key == "" {
		return Ticket{}, errUnreadable
	}
	// A ticket that was moved answers to its old key with its new one.
	if issue.Key != key {
		return Ticket{}, ErrNotFound
	}
	t := Ticket{
		Ref: key, Title: f.Summary, Project: f.Project.Key, State: f.Status.Name, URL: j.web.String() + "/browse/" + key,
		Closed: f.Status.StatusCategory.Key == "done",
	}
	if t.CreatedAt, err = time.Parse(jiraTime, f.Created); err != nil {
		return Ticket{}, errUnreadable
	}
	if t.UpdatedAt, err = time.Parse(jiraTime, f.Updated); err != nil {
		return Ticket{}, errUnreadable
	}
	if f.Assignee != nil {
		t.Assignee = f.Assignee.DisplayName
	}
	return t.finish()
}
