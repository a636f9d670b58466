package tracker

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// gitLab asks GitLab, on gitlab.com or anywhere else, for issues of projects.
type gitLab struct{ tracker }

// gitLabPath is a project with its groups. No part of it can be "." or "-".
var gitLabPath = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*){1,20}$`)

// parseGitLab reads group/project#12 or https://gitlab.com/group/project/-/issues/12.
func parseGitLab(web place, ref string) (project, iid string, err error) {
	rest, full, err := web.cut(ref)
	if err != nil {
		return "", "", err
	}
	if full {
		var found bool
		if project, iid, found = strings.Cut(rest, "/-/issues/"); !found {
			project, iid, _ = strings.Cut(rest, "/-/work_items/")
		}
	} else {
		project, iid, _ = strings.Cut(rest, "#")
	}
	if !gitLabPath.MatchString(project) || !issueID.MatchString(iid) {
		return "", "", ErrBadRef
	}
	return project, iid, nil
}

// Ref implements Source.
func (g *gitLab) Ref(ref string) (string, error) {
	project, iid, err := parseGitLab(g.web, ref)
	if err != nil {
		return "", err
	}
	return project + "#" + iid, nil
}

// Lookup implements Source.
func (g *gitLab) Lookup(ctx context.Context, ref string) (Ticket, error) {
	project, iid, err := parseGitLab(g.web, ref)
	if err != nil {
		return Ticket{}, err
	}
	var issue struct {
		IID        int64 `json:"iid"`
		Title      string
		State      string
		MovedToID  json.RawMessage `json:"moved_to_id"`
		References struct{ Full string }
		CreatedAt  time.Time `json:"created_at"`
		UpdatedAt  time.Time `json:"updated_at"`
		Assignees  []struct{ Name string }
	}
	if err := g.get(ctx, "/api/v4/projects/"+url.PathEscape(project)+"/issues/"+iid, &issue); err != nil {
		return Ticket{}, err
	}
	theirs, number, _ := strings.Cut(issue.References.Full, "#")
	if !gitLabPath.MatchString(theirs) || issue.State != "opened" && issue.State != "closed" {
		return Ticket{}, errUnreadable
	}
	if strconv.FormatInt(issue.IID, 10) != iid || number != iid || !strings.EqualFold(theirs, project) || isSet(issue.MovedToID) {
		return Ticket{}, ErrNotFound
	}
	t := Ticket{
		Ref: theirs + "#" + iid, Title: issue.Title, Project: theirs, State: issue.State,
		URL: g.web.String() + "/" + theirs + "/-/issues/" + iid, Closed: issue.State == "closed",
		CreatedAt: issue.CreatedAt, UpdatedAt: issue.UpdatedAt,
	}
	if len(issue.Assignees) > 0 {
		t.Assignee = issue.Assignees[0].Name
	}
	return t.finish()
}
