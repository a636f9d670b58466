package tracker

import (
	"net/http"
	"slices"
	"strings"
)

// The kinds of tracker.
const (
	Jira       = "jira"
	GitHub     = "github"
	GitLab     = "gitlab"
	Linear     = "linear"
	ServiceNow = "servicenow"
	HTTP       = "http"
)

// kind is what differs between trackers beside their references and answers.
// docs/adding.md says what a new one needs.
type kind struct {
	name string
	// source asks a tracker of this kind.
	source func(tracker) Source
	// api and web are the addresses of the public tracker: a base_url that is
	// missing or is web means api. Without them base_url must be given.
	api, web string
	// apiPath is what comes after the web address of a private one to make its API's.
	apiPath string
	// needsToken and needsUser say what must be configured, takesUser what may be.
	needsToken, takesUser, needsUser bool
	// authorize makes the header that a token without a user goes into.
	authorize func(token string) (name, value string)
	// header goes with every request.
	header http.Header
}

func bearer(token string) (name, value string) { return "Authorization", "Bearer " + token }

// kinds has every kind, in the order in which people read of them.
var kinds = []kind{
	{name: Jira, source: func(t tracker) Source { return &jira{t} }, authorize: bearer, needsToken: true, takesUser: true},
	{
		name: GitHub, source: func(t tracker) Source { return &gitHub{t} }, authorize: bearer,
		api: "https://api.github.com", web: "https://github.com", apiPath: "/api/v3",
		header: http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}},
	},
	{
		name: GitLab, source: func(t tracker) Source { return &gitLab{t} }, api: "https://gitlab.com", web: "https://gitlab.com",
		authorize: func(token string) (name, value string) { return "Private-Token", token },
	},
	{
		name: Linear, source: func(t tracker) Source { return &linear{t} }, api: "https://api.linear.app", web: "https://linear.app", needsToken: true,
		authorize: func(token string) (name, value string) { return "Authorization", token },
	},
	{name: ServiceNow, source: func(t tracker) Source { return &serviceNow{t} }, authorize: bearer, needsToken: true, takesUser: true, needsUser: true},
	{name: HTTP, source: func(t tracker) Source { return &plain{t} }, authorize: bearer},
}

// kindOf is the kind of a name. ok is false for one that there is not.
func kindOf(name string) (k kind, ok bool) {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name }); i >= 0 {
		return kinds[i], true
	}
	return kind{}, false
}

// namesOf are the names of the kinds that are so.
func namesOf(so func(kind) bool) (names []string) {
	for _, k := range kinds {
		if so(k) {
			names = append(names, k.name)
		}
	}
	return names
}

// base is the address of the API, for the one that is configured.
func (k kind) base(configured string) string {
	if base := strings.TrimSuffix(configured, "/"); k.api == "" || base != "" && !strings.EqualFold(base, k.web) {
		return base
	}
	return k.api
}

// pages is where people see the tickets of an API at base.
func (k kind) pages(base string) string {
	if strings.EqualFold(base, k.api) {
		return k.web
	}
	return strings.TrimSuffix(base, k.apiPath)
}
