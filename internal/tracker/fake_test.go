package tracker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

const secret = "s3cr3t-t0k3n"

// record is what a fake tracker says of its ticket.
type record struct {
	id      string // what comes after the project, or the whole key
	project string
	closed  bool
	created time.Time
}

// fake speaks as one kind of tracker does.
type fake struct {
	kind   string
	user   string
	ref    string // the ticket that there is
	url    string // its address below the tracker's own
	want   Ticket // what Lookup makes of it; URL without the tracker's address
	good   record
	path   string // the request, escaped
	header map[string]string
	speak  func(r record, base string) string
	// request checks what else is to be checked of a request.
	request func(*http.Request) error
}

var (
	created = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	updated = time.Date(2026, 1, 3, 1, 2, 3, 0, time.UTC)
)

func text(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func pick(closed bool, yes, no string) string {
	if closed {
		return yes
	}
	return no
}

func stamp(t time.Time, layout string) string { return t.Format(layout) }

var fakes = []fake{
	{
		kind: Jira, user: "bot@acme.example", ref: "PAY-12", url: "/browse/PAY-12",
		want: Ticket{Ref: "PAY-12", Title: "Refund <b>4711</b>", Project: "PAY", State: "In Progress", URL: "/browse/PAY-12", Assignee: "Ann Lee"},
		good: record{id: "PAY-12", project: "PAY"},
		path: "/rest/api/2/issue/PAY-12?fields=summary,status,project,created,updated,assignee",
		header: map[string]string{
			"Authorization": "Basic Ym90QGFjbWUuZXhhbXBsZTpzM2NyM3QtdDBrM24=", "Accept": "application/json",
		},
		speak: func(r record, base string) string {
			return text(`{"expand": "renderedFields", "id": "10002", "self": "%s/rest/api/2/issue/10002", "key": %q, "fields": {
				"summary": "Refund <b>4711</b>", "assignee": {"accountId": "5b10", "displayName": "Ann Lee", "active": true},
				"project": {"id": "10000", "key": %q, "name": "Payments"}, "created": %q, "updated": %q,
				"status": {"name": %q, "id": "3", "statusCategory": {"id": 4, "key": %q, "name": "x"}}}}`,
				base, r.id, r.project, stamp(r.created, jiraTime), stamp(updated, jiraTime),
				pick(r.closed, "Done", "In Progress"), pick(r.closed, "done", "indeterminate"))
		},
	},
	{
		kind: GitHub, ref: "acme/pay.api#12", url: "/acme/pay.api/issues/12",
		want: Ticket{Ref: "acme/pay.api#12", Title: "Refund", Project: "acme/pay.api", State: "open", URL: "/acme/pay.api/issues/12", Assignee: "ann"},
		good: record{id: "12", project: "acme/pay.api"},
		path: "/repos/acme/pay.api/issues/12",
		header: map[string]string{
			"Authorization": "Bearer " + secret, "Accept": "application/vnd.github+json",
			"X-Github-Api-Version": "2022-11-28", "User-Agent": "holdpoint",
		},
		speak: func(r record, base string) string {
			return text(`{"id": 1, "url": "%s/repos/%s/issues/%s", "repository_url": "%s/repos/%s", "html_url": "https://elsewhere.example/",
				"number": %s, "state": %q, "state_reason": null, "title": "Refund", "locked": false, "assignee": {"login": "ann", "id": 1},
				"pull_request": null, "created_at": %q, "updated_at": %q}`,
				base, r.project, r.id, base, r.project, r.id, pick(r.closed, "closed", "open"), stamp(r.created, time.RFC3339), stamp(updated, time.RFC3339))
		},
	},
	{
		kind: GitLab, ref: "acme/core/pay#12", url: "/acme/core/pay/-/issues/12",
		want:   Ticket{Ref: "acme/core/pay#12", Title: "Refund", Project: "acme/core/pay", State: "opened", URL: "/acme/core/pay/-/issues/12", Assignee: "Ann Lee"},
		good:   record{id: "12", project: "acme/core/pay"},
		path:   "/api/v4/projects/acme%2Fcore%2Fpay/issues/12",
		header: map[string]string{"Private-Token": secret, "Authorization": ""},
		speak: func(r record, base string) string {
			return text(`{"project_id": 4, "id": 41, "iid": %s, "state": %q, "title": "Refund", "moved_to_id": null,
				"assignees": [{"id": 1, "name": "Ann Lee", "username": "ann"}], "assignee": {"name": "Ann Lee"},
				"references": {"short": "#%s", "relative": "#%s", "full": "%s#%s"}, "web_url": "%s/x",
				"created_at": %q, "updated_at": %q, "closed_at": null}`,
				r.id, pick(r.closed, "closed", "opened"), r.id, r.id, r.project, r.id, base,
				stamp(r.created, "2006-01-02T15:04:05.000Z"), stamp(updated, "2006-01-02T15:04:05.000Z"))
		},
	},
	{
		kind: Linear, ref: "ENG-12", url: "/acme/issue/ENG-12/refund-4711",
		want:   Ticket{Ref: "ENG-12", Title: "Refund", Project: "ENG", State: "In Progress", URL: "/acme/issue/ENG-12/refund-4711", Assignee: "Ann Lee"},
		good:   record{id: "ENG-12", project: "ENG"},
		path:   "/graphql",
		header: map[string]string{"Authorization": secret, "Content-Type": "application/json"},
		request: func(r *http.Request) error {
			var body struct {
				Query     string
				Variables map[string]string
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				return err
			}
			if r.Method != http.MethodPost || body.Query != linearQuery || len(body.Variables) != 1 || body.Variables["id"] != "ENG-12" {
				return fmt.Errorf("%s %v", r.Method, body)
			}
			return nil
		},
		speak: func(r record, base string) string {
			const layout = "2006-01-02T15:04:05.000Z"
			return text(`{"data": {"issue": {"identifier": %q, "title": "Refund", "url": "%s/acme/issue/%s/refund-4711",
				"createdAt": %q, "updatedAt": %q, "completedAt": %s, "canceledAt": null, "archivedAt": null,
				"state": {"name": %q, "type": %q}, "team": {"key": %q}, "assignee": {"name": "Ann Lee"}}}}`,
				r.id, base, r.id, stamp(r.created, layout), stamp(updated, layout), pick(r.closed, `"`+stamp(updated, layout)+`"`, "null"),
				pick(r.closed, "Done", "In Progress"), pick(r.closed, "completed", "started"), r.project)
		},
	},
	{
		kind: ServiceNow, user: "bot", ref: "CHG0010023", url: "/change_request.do?sysparm_query=number=CHG0010023",
		want: Ticket{
			Ref: "CHG0010023", Title: "Refund", Project: "change_request", State: "Implement",
			URL: "/change_request.do?sysparm_query=number=CHG0010023", Assignee: "Ann Lee",
		},
		good: record{id: "CHG0010023", project: "change_request"},
		path: "/api/now/table/change_request?sysparm_display_value=all" +
			"&sysparm_fields=number%2Cshort_description%2Cstate%2Cactive%2Csys_class_name%2Csys_created_on%2Csys_updated_on%2Cassigned_to" +
			"&sysparm_limit=1&sysparm_query=number%3DCHG0010023",
		header: map[string]string{"Authorization": "Basic Ym90OnMzY3IzdC10MGszbg=="},
		speak: func(r record, base string) string {
			return text(`{"result": [{"number": {"display_value": %q, "value": %q}, "short_description": {"display_value": "Refund", "value": "Refund"},
				"state": {"display_value": %q, "value": "-1"}, "active": {"display_value": "Wahr", "value": %q},
				"sys_class_name": {"display_value": "Change Request", "value": %q},
				"sys_created_on": {"display_value": "01/01/1999 07:04:05", "value": %q},
				"sys_updated_on": {"display_value": "01/01/1999 07:04:05", "value": %q},
				"assigned_to": {"display_value": "Ann Lee", "link": "%s/api/now/table/sys_user/46d4", "value": "46d4"}}]}`,
				r.id, r.id, pick(r.closed, "Closed", "Implement"), pick(r.closed, "false", "true"), r.project,
				stamp(r.created, serviceNowTime), stamp(updated, serviceNowTime), base)
		},
	},
	{
		kind: HTTP, ref: "OPS:12#a", url: "/OPS-12",
		want:   Ticket{Ref: "OPS:12#a", Title: "Refund", Project: "OPS", State: "ready", URL: "/see/12", Assignee: "Ann Lee"},
		good:   record{id: "OPS:12#a", project: "OPS"},
		path:   "/OPS:12%23a",
		header: map[string]string{"Authorization": "Bearer " + secret},
		speak: func(r record, base string) string {
			return text(`{"ref": %q, "title": "Refund", "project": %q, "state": %q, "closed": %t, "created_at": %q, "updated_at": %q,
				"url": "%s/see/12", "assignee": "Ann Lee", "more": [1]}`,
				r.id, r.project, pick(r.closed, "done", "ready"), r.closed, stamp(r.created, time.RFC3339), stamp(updated, time.RFC3339), base)
		},
	},
}

// config reaches a fake at base.
func (f fake) config(base string) Config {
	return Config{
		Name: "tracker", Kind: f.kind, BaseURL: base, Token: secret, User: f.user,
		AllowPrivate: []string{"127.0.0.1/32"}, AllowHTTP: true,
	}
}

// answer starts a server that answers every request with handler, after it
// has checked the request, and the source that asks it. The counter counts.
func (f fake) answer(t *testing.T, handler func(w http.ResponseWriter, base string)) (Source, string, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if got := r.URL.RequestURI(); f.path != "" && got != f.path {
			t.Errorf("asked for %s, want %s", got, f.path)
		}
		for name, want := range f.header {
			if got := r.Header.Get(name); got != want {
				t.Errorf("header %s: %q, want %q", name, got, want)
			}
		}
		if f.request != nil {
			if err := f.request(r); err != nil {
				t.Errorf("request: %v", err)
			}
		}
		handler(w, "http://"+r.Host)
	}))
	t.Cleanup(s.Close)
	source, err := New(f.config(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	return source, s.URL, &asked
}

// says answers with status 200 and a record.
func (f fake) says(r record) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, base string) {
		if r.created.IsZero() {
			r.created = created
		}
		io.WriteString(w, f.speak(r, base))
	}
}
