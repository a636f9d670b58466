package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"holdpoint/internal/outbound"
)

// gitHub asks GitHub and GitHub Enterprise Server for issues. A pull request,
// which the API counts among the issues, is no ticket.
type gitHub struct{ tracker }

// gitHubRepo is an owner and a repository. A repository called ".." would
// lead to another path.
var (
	gitHubRepo = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}$`)
	issueID    = regexp.MustCompile(`^[1-9][0-9]{0,11}$`)
)

func isGitHubRepo(repo string) bool {
	return gitHubRepo.MatchString(repo) && !strings.HasSuffix(repo, "/.") && !strings.HasSuffix(repo, "/..")
}

// parseGitHub reads owner/repo#12 or https://github.com/owner/repo/issues/12.
func parseGitHub(web place, ref string) (repo, number string, err error) {
	rest, full, err := web.cut(ref)
	if err != nil {
		return "", "", err
	}
	separator := "#"
	if full {
		separator = "/issues/"
	}
	repo, number, _ = strings.Cut(rest, separator)
	if !isGitHubRepo(repo) || !issueID.MatchString(number) {
		return "", "", ErrBadRef
	}
	return repo, number, nil
}

// Ref implements Source.
func (g *gitHub) Ref(ref string) (string, error) {
	repo, number, err := parseGitHub(g.web, ref)
	if err != nil {
		return "", err
	}
	return repo + "#" + number, nil
}

// Lookup implements Source.
func (g *gitHub) Lookup(ctx context.Context, ref string) (Ticket, error) {
	repo, number, err := parseGitHub(g.web, ref)
	if err != nil {
		return Ticket{}, err
	}
	var issue struct {
		Number        int64
		Title         string
		State         string
		PullRequest   json.RawMessage `json:"pull_request"`
		RepositoryURL string          `json:"repository_url"`
		CreatedAt     time.Time       `json:"created_at"`
		UpdatedAt     time.Time       `json:"updated_at"`
		Assignee      *struct{ Login string }
	}
	err = g.get(ctx, "/repos/"+repo+"/issues/"+number, &issue)
	// An issue that was transferred, or whose repository was renamed, is elsewhere now.
	var redirect *outbound.RedirectError
	if errors.As(err, &redirect) && redirect.Status == http.StatusMovedPermanently {
		return Ticket{}, ErrNotFound
	}
	if err != nil {
		return Ticket{}, err
	}
	_, theirs, ok := strings.Cut(issue.RepositoryURL, "/repos/")
	if !ok || !isGitHubRepo(theirs) || issue.State != "open" && issue.State != "closed" {
		return Ticket{}, errUnreadable
	}
	if strconv.FormatInt(issue.Number, 10) != number || !strings.EqualFold(theirs, repo) || isSet(issue.PullRequest) {
		return Ticket{}, ErrNotFound
	}
	t := Ticket{
		Ref: theirs + "#" + number, Title: issue.Title, Project: theirs, State: issue.State,
		URL: g.web.String() + "/" + theirs + "/issues/" + number, Closed: issue.State == "closed",
		CreatedAt: issue.CreatedAt, UpdatedAt: issue.UpdatedAt,
	}
	if issue.Assignee != nil {
		t.Assignee = issue.Assignee.Login
	}
	return t.finish()
}

// isSet reports whether a member is there and not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
