package config

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/calendar"
	"holdpoint/internal/seal"
	"holdpoint/internal/sso"
	"holdpoint/internal/tracker"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holdpoint.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVariablesWinOverTheFile(t *testing.T) {
	path := write(t, "listen: 127.0.0.1:1\ntoken_ttl: 3m\nrouting:\n  default: {role: a, needed: 2, expires_in: 1h}\n")
	c, err := Load(path, []string{"HOLDPOINT_LISTEN=127.0.0.1:2", "HOME=/x", "HOLDPOINT_CONFIG=" + path})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:2" || c.Routing.Default.Needed != 2 || c.TokenTTL == 0 {
		t.Errorf("got %+v", c)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"a line indented otherwise": {file: "smtp:\n  addr: a:25\n from: x@example.com\n", want: `[3:2] the line is indented otherwise than those that it belongs to`},
		"a list for names":          {file: "routing:\n  - role: x\n", want: `[2:3] want names with values (name: value), got a list`},
		"no colon":                  {file: "token_ttl 10m\n", want: `[1:1] want names with values (name: value), got a text: is a colon missing?`},
		"a variable's name":         {file: "HOLDPOINT_LISTEN: 127.0.0.1:1\n", want: `unknown field "HOLDPOINT_LISTEN": here it is called listen`},
		"a key of another part":     {file: "smtp: {issuer: x}\n", want: `unknown field "issuer" here: it is one of another part of the file`},
		"unknown key in the file":   {file: "listne: x\n", want: `unknown field "listne" (did you mean listen?)`},
		"a tab":                     {file: "routing:\n\tdefault: {}\n", want: ": [2:1] lines are indented with spaces, not with tabs"},
		"unknown key of a calendar": {
			file: "routing:\n  calendars:\n    office: {time_zone: UTC, hours: {mon: [\"09:00-17:00\"]}, holiday: [2026-12-25]}\n", want: `[3:61] unknown field "holiday"`,
		},
		"unknown key of an escalation": {file: "routing:\n  default:\n    escalation: [{after: 5m, rol: x}]\n", want: `[3:30] unknown field "rol" (did you mean role?)`},
		"no list":                      {file: "routing:\n  default:\n    extenders: admin\n", want: "[3:16] string was used where sequence is expected"},
		"no duration in a rule":        {file: "needed: 3\nrouting:\n  default:\n    pause_for: 3\n", want: "[4:16] pause_for: want a duration"},
		"no duration in a list":        {file: "routing:\n  rules:\n    - reminders: [30m, 1 day]\n", want: "[3:24] reminders: want a duration"},
		"no duration in a step":        {file: "routing:\n  default:\n    escalation:\n      - after: soon\n        role: a\n", want: "[4:16] after: want a duration"},
		"no duration at the top":       {file: "token_ttl: ten\n", want: "[1:12] token_ttl: want a duration"},
		"unknown variable":             {environ: []string{"HOLDPOINT_LISTNE=x"}, want: "HOLDPOINT_LISTNE: there is no such setting (did you mean HOLDPOINT_LISTEN?)"},
		"no number":                    {environ: []string{"HOLDPOINT_MAX_PENDING=many"}, want: "HOLDPOINT_MAX_PENDING"},
		"no duration":                  {environ: []string{"HOLDPOINT_TOKEN_TTL=10"}, want: "HOLDPOINT_TOKEN_TTL"},
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if tc.file != "" {
				path = write(t, tc.file)
			}
			if _, err := Load(path, tc.environ); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error naming %s", err, tc.want)
			}
		})
	}
}

// TestOneDirectory: one directory alone says who there is, and it has a login to write as.
func TestOneDirectory(t *testing.T) {
	provider := func(name string, scim bool) sso.Config {
		return sso.Config{Name: name, Issuer: "https://" + name + ".example.com", ClientID: "x", SCIM: scim, EmailDomains: []string{"example.com"}}
	}
	for want, c := range map[string]Config{
		"":                             {SSO: []sso.Config{provider("a", false), provider("b", true)}, DatabasePeopleURL: "x"},
		"sso[1].scim: a has it":        {SSO: []sso.Config{provider("a", true), provider("b", true)}, DatabasePeopleURL: "x"},
		"database_people_url: it is m": {SSO: []sso.Config{provider("a", true)}},
	} {
		if errs := c.sso(); (len(errs) == 0) != (want == "") || want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want)) {
			t.Errorf("want %q, got %v", want, errs)
		}
	}
}

func TestCheckReportsEverythingAtOnceAndNoSecret(t *testing.T) {
	c := Default()
	c.DatabaseURL = "mysql://root:hunter2@h/d"
	c.DataKey = "hunter2"
	c.PublicURL = "http://console.example.com"
	c.LogLevel = "loud"
	c.Routing.Default.Needed = 0
	err := c.Check(Database | Keys | HTTP)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"database_url:", "data_key:", "signing_keys:", "public_url:", "log_level:", "routing.default.needed:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is shown:\n%v", err)
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	c := Default()
	c.DataKeyFile = write(t, seal.NewKey()+"\n")
	if err := c.Check(0); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.ParseKey(c.DataKey); err != nil {
		t.Errorf("the file's key: %v", err)
	}
	c.DataKey = "x"
	if err := c.Check(0); err == nil || !strings.Contains(err.Error(), "data_key") {
		t.Errorf("given twice: %v", err)
	}
}

func TestRemote(t *testing.T) {
	c := Default()
	c.PublicURL, c.TrustedProxies = "https://holdpoint.example.com", "10.0.0.0/8, 192.0.2.7"
	if errs := c.http(); errs != nil {
		t.Fatal(errs)
	}
	for _, tc := range []struct{ peer, forwarded, want string }{
		{"203.0.113.9:1", "", "203.0.113.9"},
		{"203.0.113.9:1", "1.2.3.4", "203.0.113.9"},
		{"10.1.1.1:1", "1.2.3.4", "1.2.3.4"},
		{"10.1.1.1:1", "9.9.9.9, 1.2.3.4, 192.0.2.7", "1.2.3.4"},
		{"10.1.1.1:1", "", "10.1.1.1"},
		{"10.1.1.1:1", "nonsense", "10.1.1.1"},
		{"[2001:db8:1:2:3::4]:1", "", "2001:db8:1:2::/64"},
	} {
		r := &http.Request{RemoteAddr: tc.peer, Header: http.Header{}}
		if tc.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tc.forwarded)
		}
		if got := c.Remote(r); got != tc.want {
			t.Errorf("%s forwarding %q: %s, want %s", tc.peer, tc.forwarded, got, tc.want)
		}
	}
	c.TrustedProxies = "proxy"
	if errs := c.http(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "trusted_proxies") {
		t.Errorf("got %v", errs)
	}
}

// A file says all its times at once that are none, each with its file and place.
func TestEveryDurationIsNamed(t *testing.T) {
	path := write(t, "token_ttl: 1\nrouting:\n  default: {within: 2, expires_in: 1h}\n")
	_, err := Load(path, nil)
	if want := path + ": [1:12] token_ttl: want a duration such as 10m or 24h\n" + path + ": [3:21] within: want a duration such as 10m or 24h"; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestRoutingIsRead(t *testing.T) {
	c, err := Load(write(t, `routing:
  calendars:
    office:
      time_zone: Europe/Berlin
      hours: {mon: ["09:00-12:00", "13:00-17:00"]}
      holidays: [2026-12-25]
  default:
    role: reviewer
    needed: 1
    expires_in: 8h
    deny: 2
    calendar: office
    reminders: [30m, 2h]
    escalation: [{after: 3h, role: lead}]
    suggested: [ada@example.com]
    pause_for: 24h
    extenders: [admin]
    if_too_few: chief
`), nil)
	if err == nil {
		err = c.Check(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	hours := func(n float64) engine.Duration { return engine.Duration(n * float64(time.Hour)) }
	want := approval.Routing{
		Default: approval.Rule{
			Role: "reviewer", Needed: 1, ExpiresIn: hours(8), Deny: 2, Calendar: "office", Reminders: []engine.Duration{hours(0.5), hours(2)},
			Escalation: []engine.Escalation{{After: hours(3), Role: "lead"}}, Suggested: []string{"ada@example.com"}, PauseFor: hours(24), Extenders: []string{"admin"},
			IfTooFew: "chief",
		},
		Calendars: map[string]calendar.Calendar{"office": {
			TimeZone: "Europe/Berlin", Hours: map[string][]string{"mon": {"09:00-12:00", "13:00-17:00"}}, Holidays: []string{"2026-12-25"},
		}},
	}
	if !reflect.DeepEqual(c.Routing, want) {
		t.Errorf("got  %+v\nwant %+v", c.Routing, want)
	}
}

// The file that operators start from is right, also with all that it comments out.
func TestDeployedSettings(t *testing.T) {
	data, err := os.ReadFile("../../deploy/holdpoint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^( *)# (( +\S|[a-z_]+:).*)$`).ReplaceAllString(string(data), "$1$2")
	for _, text := range []string{string(data), all} {
		c, err := Load(write(t, text), nil)
		if err == nil {
			err = c.Check(0)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if text == all && (!c.Routing.Knows("office") || len(c.Routing.Rules[0].Escalation) != 1) {
			t.Errorf("what is commented out was not read: %+v", c.Routing)
		}
	}
}

const trackerFile = `tickets:
- {name: jira, kind: jira, base_url: "https://acme.example", token_file: FILE, projects: [PAY], max_age: 720h}
- {name: ops, kind: http, base_url: "http://10.1.2.3:8080/x", allow_private: [10.1.0.0/16], allow_http: true}
`

func TestTickets(t *testing.T) {
	token := write(t, " hunter2-token\n")
	c, err := Load(write(t, strings.Replace(trackerFile, "FILE", token, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.TemporalAddress = "h:1"
	if err := c.Check(Temporal); err != nil || c.Trackers == nil || c.Tickets[0].Token != "hunter2-token" {
		t.Fatalf("%v, %v", err, c.Tickets)
	}
	if ticket, err := c.Trackers.Ticket("", "PAY-12"); err == nil {
		t.Errorf("of either: %+v", ticket)
	}
	if ticket, err := c.Trackers.Ticket("jira", "https://acme.example/browse/PAY-12"); err != nil || ticket.Ref != "PAY-12" || ticket.System != "jira" {
		t.Errorf("%+v, %v", ticket, err)
	}
	if text := fmt.Sprintf("%v %+v", c, c.Tickets); strings.Contains(text, "hunter2") {
		t.Errorf("a secret is shown: %s", text)
	}
	if none := Default(); none.Check(Temporal) != nil || none.Trackers != nil {
		t.Errorf("without: %v", none.Trackers)
	}
	// Who asks no tracker needs no token of it.
	other := Config{Tickets: []tracker.Config{{Name: "x", TokenFile: "/nowhere"}}, LogLevel: "info", LogFormat: "json", Environment: "e", Routing: c.Routing}
	if err := other.Check(0); err != nil {
		t.Errorf("not needed: %v", err)
	}
}

func TestMistakesInTicketsAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		want     []string
	}{
		"no file":    {"FILE", "/nowhere/token", []string{"tickets[0].token_file:"}},
		"twice":      {"token_file: FILE", "token: hunter2, token_file: FILE", []string{"tickets[0].token:"}},
		"same name":  {"name: ops", "name: jira", []string{"tickets[1].name:"}},
		"everything": {"name: ops, kind: http", "name: OPS, kind: trello", []string{"tickets[1].name:", "tickets[1].kind:"}},
		"link-local": {"10.1.2.3:8080", "169.254.169.254", []string{"tickets[1].base_url:"}},
		"secret":     {"https://acme.example", "https://hunter2@acme.example", []string{"tickets[0].base_url:"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(trackerFile, tc.from, tc.to, 1)
			c, err := Load(write(t, strings.Replace(text, "FILE", write(t, "hunter2"), 1)), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = c.Check(Temporal)
			if err == nil || c.Trackers != nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not named in:\n%v", want, err)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got:\n%v", err)
			}
		})
	}
	if _, err := Load(write(t, "tickets:\n- {called: x}\n"), nil); err == nil || !strings.Contains(err.Error(), "called") {
		t.Errorf("got %v", err)
	}
}

func TestLogPublicKey(t *testing.T) {
	private, public, err := audit.NewKey(rand.Reader, "holdpoint.example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text string
		good bool
	}{
		"a key": {public + "\n", true}, "two": {public + "\n# the next one\n" + public, true}, "the private one": {private, false}, "a word": {"key", false},
	} {
		c, err := Load("", []string{"HOLDPOINT_LOG_PUBLIC_KEY_FILE=" + write(t, tc.text)})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Check(HTTP)
		if err == nil {
			t.Fatal("a configuration without anything else is taken")
		}
		if strings.Contains(err.Error(), "log_public_key") == tc.good {
			t.Errorf("%s: %v", name, err)
		}
		// PRIVATE+KEY+name+hash+key, of which the key may have a plus as well.
		if secret := strings.SplitN(private, "+", 5)[4]; strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the private key is in %v", name, err)
		}
	}
}
