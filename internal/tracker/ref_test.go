package tracker

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// parsers read a reference of each kind and write it as the path of a request
// and as a reference again.
var parsers = map[string]struct {
	web   string
	parse func(web place, ref string) (path, again string, err error)
}{
	Jira: {"https://acme.atlassian.net", func(web place, ref string) (string, string, error) {
		key, err := parseJira(web, ref)
		return key, key, err
	}},
	GitHub: {"https://github.com", func(web place, ref string) (string, string, error) {
		repo, number, err := parseGitHub(web, ref)
		return repo + "/issues/" + number, repo + "#" + number, err
	}},
	GitLab: {"https://gitlab.example/tools", func(web place, ref string) (string, string, error) {
		project, iid, err := parseGitLab(web, ref)
		return url.PathEscape(project) + "/issues/" + iid, project + "#" + iid, err
	}},
	Linear: {"https://linear.app", func(web place, ref string) (string, string, error) {
		key, _, err := parseLinear(web, ref)
		return key, key, err
	}},
	ServiceNow: {"https://acme.service-now.com", func(web place, ref string) (string, string, error) {
		table, number, err := parseServiceNow(web, ref)
		return table + "/" + number, number, err
	}},
	HTTP: {"https://ops.example:8443/tickets", func(web place, ref string) (string, string, error) {
		name, err := parsePlain(web, ref)
		return url.PathEscape(name), name, err
	}},
}

func placeOf(t testing.TB, raw string) place {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return newPlace(u)
}

var goodRefs = map[string]map[string]string{
	Jira: {
		"PAY-12": "PAY-12", "A1_B-7": "A1_B-7", "https://acme.atlassian.net/browse/PAY-12": "PAY-12",
		"https://ACME.atlassian.net:443/browse/PAY-12": "PAY-12",
	},
	GitHub: {
		"acme/pay#1": "acme/pay#1", "a-b_c/.github#12": "a-b_c/.github#12", "https://github.com/acme/pay/issues/1": "acme/pay#1",
	},
	GitLab: {
		"acme/pay#1": "acme/pay#1", "a/b.c/_d-e#2": "a/b.c/_d-e#2",
		"https://gitlab.example/tools/acme/pay/-/issues/3":     "acme/pay#3",
		"https://gitlab.example/tools/acme/pay/-/work_items/3": "acme/pay#3",
	},
	Linear: {
		"ENG-1": "ENG-1", "https://linear.app/acme/issue/ENG-1": "ENG-1", "https://linear.app/acme/issue/ENG-1/a-title": "ENG-1",
	},
	ServiceNow: {
		"INC0010023": "INC0010023", "RITM1": "RITM1",
		"https://acme.service-now.com/incident.do?sysparm_query=number=INC0010023": "INC0010023",
	},
	HTTP: {
		"A.b_c-d:1#2": "A.b_c-d:1#2", "1": "1", "https://ops.example:8443/tickets/A-1": "A-1",
	},
}

var badRefs = map[string][]string{
	Jira: {
		"pay-12", "PAY", "PAY-", "PAY-0", "PAY-012", "PAY-1/../../x", "PAY-1?x", "PAY-1#x", "P-1", "1PAY-1", "PAY--1", "PAY-1-1",
		"https://acme.atlassian.net/PAY-12", "https://acme.atlassian.net/browse/", "https://acme.atlassian.net/browse/../PAY-12",
		"https://acme.atlassian.net//browse/PAY-12", "https://acme.atlassian.net/browse/PAY-12/", "http://acme.atlassian.net/browse/PAY-12",
		"https://acme.atlassian.net.evil.example/browse/PAY-12", "https://acme.atlassian.net:8443/browse/PAY-12",
		"https://x@acme.atlassian.net/browse/PAY-12", "https://evil.example/?u=https://acme.atlassian.net/browse/PAY-12", "browse/PAY-12",
		"//acme.atlassian.net/browse/PAY-12",
	},
	GitHub: {
		"acme#1", "acme/pay", "acme/pay#", "acme/pay#0", "acme/pay#01", "acme/pay#1#2", "acme/pay#-1", "acme/..#1", "acme/.#1", "../pay#1",
		"acme/pay/x#1", "/pay#1", "acme/#1", "acme/pay%2f#1", "acme/pay/issues/1", "https://github.com/acme/pay#1",
		"https://github.com/acme/pay/pull/1", "https://github.com/acme/pay/issues/1/", "https://github.com/acme/pay/issues/1#issuecomment-2",
		"https://github.com/acme/../issues/1", "https://gist.github.com/acme/pay/issues/1", "acme/pay#1234567890123",
	},
	GitLab: {
		"pay#1", "acme/pay", "acme/../pay#1", "acme/./pay#1", "acme/-/pay#1", "acme//pay#1", "/acme/pay#1", "acme/pay/#1", "acme/pay#1/2",
		"acme%2Fpay#1", "https://gitlab.example/acme/pay/-/issues/3", "https://gitlab.example/toolsacme/pay/-/issues/3",
		"https://gitlab.example/tools/acme/pay/issues/3", "https://gitlab.example/tools/acme/pay/-/merge_requests/3",
		"https://gitlab.example/tools/acme/pay/-/issues/3/-/issues/4",
	},
	Linear: {
		"eng-1", "ENG", "ENG-0", "ENG-01", `ENG-1"){x}`, "ENG-1\n", "https://linear.app/issue/ENG-1", "https://linear.app/acme/issue/ENG-1/a/b",
		"https://linear.app/acme/project/ENG-1", "https://linear.app//issue/ENG-1", "https://linear.app/acme/issue/../ENG-1",
		"https://linear.app/acme/issue/ENG-1/", "9f0d2c1e-0000-4000-8000-000000000000",
	},
	ServiceNow: {
		"inc1", "INC", "ABC1", "INC1^active=true", "INC1^ORnumber=INC2", "INC1&x=y", "INC 1", "SINC1", "INC1234567890123456",
		"https://acme.service-now.com/incident.do?sysparm_query=number=CHG1", "https://acme.service-now.com/incident.do?sys_id=1",
		"https://acme.service-now.com/incident.do?sysparm_query=number=INC1^active=true", "https://acme.service-now.com/incident.do",
		"https://acme.service-now.com/incident.do?sysparm_query=number=INC1&x=y", "https://acme.service-now.com/?sysparm_query=number=INC1",
		"incident.do?sysparm_query=number=INC1", "https://evil.example/incident.do?sysparm_query=number=INC1",
		"https://acme.service-now.com/x/incident.do?sysparm_query=number=INC1",
	},
	HTTP: {
		"..", ".", "../x", "a/b", "a?b", "a%2fb", "-a", "a b", "a\\b", "https://ops.example/tickets/A-1", "https://ops.example:8443/A-1",
		"https://ops.example:8443/tickets/", "https://ops.example:8443/tickets/a/b", "https://ops.example:8443/tickets/..",
		"https://ops.example:8443/tickets/A#1",
	},
}

func TestRefs(t *testing.T) {
	everywhere := []string{
		"", " ", "\x00", "PAY-12 ", " PAY-12", "PAY-12\r\nHost: evil", "PAY-12\n", "PAY\u200b-12", "\uff30AY-12", "ü",
		strings.Repeat("A", 201), strings.Repeat("A", 198) + "-12", "https://", "://", "https://[::1", "javascript://x/PAY-12", "file:///PAY-12",
	}
	for kind, p := range parsers {
		web := placeOf(t, p.web)
		for ref, want := range goodRefs[kind] {
			if _, got, err := p.parse(web, ref); err != nil || got != want {
				t.Errorf("%s %q: %q, %v; want %q", kind, ref, got, err, want)
			}
		}
		for _, ref := range append(badRefs[kind], everywhere...) {
			if _, got, err := p.parse(web, ref); !errors.Is(err, ErrBadRef) {
				t.Errorf("%s %q: %q, %v", kind, ref, got, err)
			}
		}
	}
}

// Whatever is accepted stays within its place in a request, is short and
// visible, and reads the same when it is read again.
func fuzzRefs(f *testing.F, kind string) {
	p := parsers[kind]
	for ref := range goodRefs[kind] {
		f.Add(ref)
	}
	for _, ref := range badRefs[kind] {
		f.Add(ref)
	}
	web := placeOf(f, p.web)
	f.Fuzz(func(t *testing.T, ref string) {
		path, again, err := p.parse(web, ref)
		if err != nil {
			// The very error: no words from outside may have been added.
			if err != ErrBadRef {
				t.Fatalf("%q: %v", ref, err)
			}
			return
		}
		if len(ref) > maxRef || !visible(ref) {
			t.Fatalf("accepted %q", ref)
		}
		u, err := url.Parse("https://api.example/before/" + path + "/after")
		if err != nil || u.RawQuery != "" || u.Fragment != "" || u.Host != "api.example" || u.User != nil {
			t.Fatalf("%q: path %q, %v", ref, path, err)
		}
		if clean := u.JoinPath(); clean.EscapedPath() != u.EscapedPath() || strings.Count(u.EscapedPath(), "//") > 0 {
			t.Fatalf("%q: path %q becomes %q", ref, u.EscapedPath(), clean.EscapedPath())
		}
		if _, third, err := p.parse(web, again); err != nil || third != again {
			t.Fatalf("%q: %q, then %q, %v", ref, again, third, err)
		}
	})
}

func FuzzJiraRef(f *testing.F)       { fuzzRefs(f, Jira) }
func FuzzGitHubRef(f *testing.F)     { fuzzRefs(f, GitHub) }
func FuzzGitLabRef(f *testing.F)     { fuzzRefs(f, GitLab) }
func FuzzLinearRef(f *testing.F)     { fuzzRefs(f, Linear) }
func FuzzServiceNowRef(f *testing.F) { fuzzRefs(f, ServiceNow) }
func FuzzPlainRef(f *testing.F)      { fuzzRefs(f, HTTP) }
