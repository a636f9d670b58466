package setup_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine"
	"holdpoint/engine/registry"
	"holdpoint/engine/source"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/postgres/pgtest"
	"holdpoint/internal/setup"
	"holdpoint/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var command = access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops", Channel: "cli"}}

var roles = []string{"admin", "auditor", "finance-approver", "reviewer"}

// site is a system of its own.
type site struct {
	t       testing.TB
	db      *storetest.Database
	admin   *admin.Admin
	secrets []setup.Secret
}

func newSite(t testing.TB) *site {
	db := storetest.New(t)
	return &site{t: t, db: db, admin: admin.New(admin.Config{
		Store: db.Owner(), Owner: true, PublicURL: "https://hp.example.com", AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Roles: func(context.Context) ([]string, error) { return roles, nil },
	})}
}

func (s *site) now() *setup.Current {
	s.t.Helper()
	c, err := setup.Now(s.t.Context(), s.admin)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// compare reads one file and says what it would change.
func (s *site) compare(file, addresses string, o setup.Options) (setup.Plan, []source.Problem) {
	s.t.Helper()
	return s.compareAll([]setup.Input{{Name: "hp.yaml", Data: []byte(file)}}, addresses, o)
}

func (s *site) compareAll(files []setup.Input, addresses string, o setup.Options) (setup.Plan, []source.Problem) {
	s.t.Helper()
	w, problems := setup.Read(files, setup.Input{Name: "addresses.yaml", Data: []byte(addresses)})
	if len(problems) > 0 {
		return setup.Plan{}, problems
	}
	o.CheckEndpoint = s.admin.Endpoints.Check
	return setup.Compare(s.now(), w, o)
}

// plan is compare for what is right.
func (s *site) plan(file, addresses string, o setup.Options) setup.Plan {
	s.t.Helper()
	p, problems := s.compare(file, addresses, o)
	if len(problems) > 0 {
		s.t.Fatalf("%v\n%s", problems, file)
	}
	return p
}

// do applies a plan and returns what was refused.
func (s *site) do(p setup.Plan) []string {
	s.t.Helper()
	var refused []string
	a := &setup.Applier{
		Admin: s.admin, By: command, Show: func(made setup.Secret) error { s.secrets = append(s.secrets, made); return nil },
		Done: func(c setup.Change, err error) {
			if err != nil {
				refused = append(refused, fmt.Sprintf("%s %s %s: %v", c.Action, c.Kind, c.Name, err))
			}
		},
	}
	if _, _, err := a.Apply(s.t.Context(), p); err != nil {
		s.t.Fatal(err)
	}
	return refused
}

func (s *site) apply(file, addresses string, o setup.Options) {
	s.t.Helper()
	if refused := s.do(s.plan(file, addresses, o)); len(refused) > 0 {
		s.t.Fatal(refused)
	}
}

func (s *site) export() string {
	s.t.Helper()
	files, err := s.now().Export(true)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(files[0].Data)
}

// lines writes a plan: one line for each change.
func lines(p setup.Plan) string {
	var out strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&out, "%s %s %s:", c.Action, c.Kind, c.Name)
		for _, f := range c.Fields {
			fmt.Fprintf(&out, " %s %v→%v", f.Name, f.Old, f.New)
		}
		out.WriteString("\n")
	}
	return out.String()
}

const whole = `
settings: {limits: {agent: {calls: 600, per: 1m}}, min_trust_level: basic}
people:
  - {email: Olga@example.com, name: Olga, roles: [reviewer]}
  - {email: ada@example.com, name: "Ada: \"the\" <first>", roles: [reviewer, finance-approver]}
  - {email: ada.admin@example.com, name: "true", roles: [admin], same_as: ada@example.com}
  - {email: gone@example.com, roles: [], disabled: true}
tools:
  - tool_name: create_transfer
    tool_category: write
    risk_domain: finance
    side_effects: true
    stakes: "Pay {amount|money:currency} to {*payee}"
    input_schema: {type: object, properties: {amount: {type: number}, tags: {type: array, items: {type: string}}}}
  - {tool_name: old_tool, revoked: true}
agents:
  - {agent_id: billing-bot, owner: olga@example.com, trust_level: verified, roles: [finance.reader], limits: {agent: {calls: 60, per: 1m}}, webhook: {host: billing.example.com}}
  - {agent_id: plain}
endpoints:
  - {name: The reviewers, kind: email, to: [reviewers], digest: 15m}
  - {name: Incident desk, kind: webhook, host: desk.example.com, tells: [break_glass], ed25519: true}
  - {name: "#approvals", kind: slack, host: hooks.slack.com, disabled: true}
  - {name: Browsers, kind: push}
on_call:
  - schedule: payments
    shifts:
      - {people: [ada@example.com, olga@example.com], until: 2026-12-24T06:00:00Z}
      - {people: [olga@example.com], from: "2026-12-24T06:00:00Z", until: "2026-12-25T06:00:00Z"}
`

const wholeAddresses = `
agents: {billing-bot: "https://billing.example.com/hook?t=canary"}
endpoints: {Incident desk: "https://desk.example.com/canary", "#approvals": "https://hooks.slack.com/services/T0/B0/canary"}
`

// at moves the shifts of the example to a time that is still to come.
func at(file string, now time.Time) string {
	return strings.NewReplacer("2026-12-24", now.AddDate(0, 0, 2).Format(time.DateOnly), "2026-12-25", now.AddDate(0, 0, 3).Format(time.DateOnly)).Replace(file)
}

func (s *site) time() time.Time {
	s.t.Helper()
	now, err := s.db.Owner().Now(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return now.UTC()
}

func TestApply(t *testing.T) {
	s := newSite(t)
	file := at(whole, s.time())
	s.apply(file, wholeAddresses, setup.Options{})
	// Ada, Olga and the administrator are invited, whoever is kept out is not.
	var made []string
	for _, one := range s.secrets {
		made = append(made, one.What+" "+one.Name)
	}
	want := []string{"password_link olga@example.com", "password_link ada@example.com", "password_link ada.admin@example.com", "webhook_secret billing-bot", "webhook_secret Incident desk"}
	if !slices.Equal(made, want) {
		t.Errorf("made %q, want %q", made, want)
	}
	if again := lines(s.plan(file, wholeAddresses, setup.Options{Prune: setup.Prune{Entries: true, People: true}})); again != "" {
		t.Errorf("after apply there is still to do:\n%s", again)
	}
	exported := s.export()
	if again := lines(s.plan(exported, "", setup.Options{Prune: setup.Prune{Entries: true, People: true}})); again != "" {
		t.Errorf("after export there is still to do:\n%s", again)
	}
	for _, one := range s.secrets {
		if strings.Contains(exported, one.Text) {
			t.Errorf("the export has the %s of %s", one.What, one.Name)
		}
	}
	if strings.Contains(exported, "canary") || strings.Contains(exported, "argon2") {
		t.Errorf("the export has a secret:\n%s", exported)
	}
	other := newSite(t)
	other.apply(exported, wholeAddresses, setup.Options{})
	if got := other.export(); got != exported {
		t.Errorf("another system exports\n%s\nwant\n%s", got, exported)
	}
}

func TestChanges(t *testing.T) {
	s := newSite(t)
	file := at(whole, s.time())
	s.apply(file, wholeAddresses, setup.Options{})
	for _, tt := range []struct{ name, old, new, want string }{
		{"a field", "trust_level: verified", "trust_level: basic", "change agent billing-bot: trust_level verified→basic\n"},
		{"a limit less", ", limits: {agent: {calls: 60, per: 1m}}", "", "change agent billing-bot: limits.agent.calls 60→<nil> limits.agent.per 1m0s→<nil>\n"},
		{"roles", "roles: [reviewer]}", "roles: [auditor]}", "change person olga@example.com: roles [reviewer]→[auditor]\n"},
		{"kept out", "name: Olga,", "name: Olga, disabled: true,", ""},
		{"an endpoint", "to: [reviewers], digest: 15m", "to: [reviewers]", "change endpoint The reviewers: digest 15m0s→<nil>\n"},
		{"a revoked one stays", "{tool_name: old_tool, revoked: true}", "{tool_name: old_tool}", ""},
		{"a revoked one is restored", "revoked: true", "revoked: false", "change tool old_tool: revoked true→false\n"},
		{"settings", "min_trust_level: basic", "min_trust_level: verified", "change settings : min_trust_level basic→verified\n"},
		{"a shift less", "ada@example.com, olga@example.com], until", "ada@example.com], until", "change schedule payments: shifts[0].people [ada@example.com olga@example.com]→[ada@example.com]\n"},
	} {
		changed := strings.Replace(file, tt.old, tt.new, 1)
		if changed == file {
			t.Fatalf("%s: %q is not in the file", tt.name, tt.old)
		}
		if tt.name == "kept out" { // on call
			if _, problems := s.compare(changed, wholeAddresses, setup.Options{}); len(problems) != 2 {
				t.Errorf("%s: %v", tt.name, problems)
			}
			continue
		}
		p := s.plan(changed, wholeAddresses, setup.Options{})
		if got := lines(p); got != tt.want {
			t.Errorf("%s: the plan is\n%swant\n%s", tt.name, got, tt.want)
			continue
		}
		if refused := s.do(p); refused != nil {
			t.Errorf("%s: %v", tt.name, refused)
		}
		if left := lines(s.plan(changed, wholeAddresses, setup.Options{})); left != "" {
			t.Errorf("%s: still to do:\n%s", tt.name, left)
		}
		back := s.plan(file, wholeAddresses, setup.Options{})
		if tt.want != "" && len(back.Changes) != 1 {
			t.Errorf("%s: the way back is\n%s", tt.name, lines(back))
		}
		if refused := s.do(back); refused != nil {
			t.Errorf("%s: back: %v", tt.name, refused)
		}
	}
}

// A webhook whose settings or address change signs as before.
func TestWebhookKeepsItsSecret(t *testing.T) {
	s := newSite(t)
	const file, addresses = "endpoints: [{name: desk, kind: webhook, host: a.example.com, tells: [decided]}]", "endpoints: {desk: 'https://a.example.com/1'}"
	s.apply(file, addresses, setup.Options{})
	target := func() (url, secret string) {
		t.Helper()
		all, err := s.admin.Endpoints.Targets(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		for _, one := range all {
			url, secret = one.URL, one.Keys[0].Secret
		}
		return url, secret
	}
	_, first := target()
	s.apply(strings.Replace(file, "decided", "break_glass", 1), "", setup.Options{})
	if url, secret := target(); url != "https://a.example.com/1" || secret != first {
		t.Errorf("other settings, and it leads to %s, the same secret: %t", url, secret == first)
	}
	s.apply(strings.Replace(file, "a.example", "b.example", 1), strings.Replace(addresses, "a.example.com/1", "b.example.com/2", 1), setup.Options{})
	if url, secret := target(); url != "https://b.example.com/2" || secret != first {
		t.Errorf("another address, and it leads to %s, the same secret: %t", url, secret == first)
	}
}

// What no file names stays, unless it is pruned; people only where that is said.
func TestPrune(t *testing.T) {
	s := newSite(t)
	s.apply(at(whole, s.time()), wholeAddresses, setup.Options{})
	s.db.Exec(`UPDATE people SET password_hash = 'set' WHERE email = 'ada.admin@example.com'`)
	file := "tools: []\nagents: [{agent_id: plain}]\nendpoints: []\npeople: [{email: ada@example.com, name: Ada, roles: [reviewer]}]\n"
	if got := s.plan(file, "", setup.Options{}); len(got.Changes) != 1 {
		t.Errorf("without --prune:\n%s", lines(got))
	}
	want := `change person ada@example.com: name Ada: "the" <first>→Ada roles [finance-approver reviewer]→[reviewer]
remove endpoint Browsers: disabled false→true
remove endpoint Incident desk: disabled false→true
remove endpoint The reviewers: disabled false→true
remove agent billing-bot: revoked false→true
remove tool create_transfer: revoked false→true
`
	if got := lines(s.plan(file, "", setup.Options{Prune: setup.Prune{Entries: true}})); got != want {
		t.Errorf("with --prune:\n%swant\n%s", got, want)
	}
	want += "remove person ada.admin@example.com: disabled false→true\nremove person olga@example.com: disabled false→true\n"
	everything := setup.Options{Prune: setup.Prune{Entries: true, People: true}}
	p := s.plan(file, "", everything)
	if got := lines(p); got != want {
		t.Errorf("with --prune people:\n%swant\n%s", got, want)
	}
	// The last administrator stays, which is told, and everything else is done.
	refused := s.do(p)
	if len(refused) != 1 || !strings.Contains(refused[0], "last administrator") {
		t.Errorf("refused: %q", refused)
	}
	if got := lines(s.plan(file, "", everything)); got != "remove person ada.admin@example.com: disabled false→true\n" {
		t.Errorf("after that there is to do\n%s", got)
	}
	if kept := s.plan("tools: [{tool_name: create_transfer}]", "", setup.Options{}).StillRevoked; len(kept) != 1 {
		t.Errorf("kept: %q", kept)
	}
}

// Every mistake is told, each at its place, and nothing is planned.
func TestMistakes(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct{ file, addresses, want string }{
		{"agents:\n  - {agent_id: a, trust: high}\n", "", "hp.yaml:2:19: /agents/0/trust: there is no such field"},
		{"agents:\n  - {agent_id: a, trust_level: high}\n  - {agent_id: b, roles: x}", "", "hp.yaml:2:32: /agents/0/trust_level: unknown trust level \"high\"|hp.yaml:3:26: /agents/1/roles: want a list, got a text"},
		{"agents: [{agent_id: a}, {agent_id: a}]", "", `hp.yaml:1:25: agent "a": it is in hp.yaml:1:10 already`},
		{"agents: [{agent_id: a, limits: {agent: {calls: 6}}}]", "", `hp.yaml:1:40: agent "a": limits.agent.per: say within which time`},
		{"agents: [{agent_id: a, owner: x@example.com}]", "", `hp.yaml:1:31: agent "a": owner: there is nobody with the address "x@example.com"`},
		{"agents: [{agent_id: a, webhook: {host: h.example.com}}]", "", `hp.yaml:1:40: agent "a": webhook.host: the address at "h.example.com" is needed`},
		{"endpoints: [{name: d, kind: webhook, host: h.example.com}]", "endpoints: {d: 'https://x.example.com/'}", `hp.yaml:1:44: endpoint "d": host: it is "h.example.com", and the address that --addresses has leads elsewhere`},
		{"endpoints: [{name: d, kind: webhook, host: h.example.com}]", "endpoints: {d: 'http://h.example.com/'}", `hp.yaml:1:13: endpoint "d": `},
		{"endpoints: [{name: d, kind: webhook, host: 10.0.0.1}]", "endpoints: {d: 'https://10.0.0.1/'}", `hp.yaml:1:13: endpoint "d": url: `},
		{"tools: []", "endpoints: {d: 'https://x.example.com/'}", `--addresses: endpoint "d": no file names it`},
		{"people: [{email: x, roles: [revewer]}]", "", `hp.yaml:1:18: person "x": email: |hp.yaml:1:28: person "x": roles: No rule asks for "revewer"`},
		{"people: [{email: x@example.com, role: [reviewer]}]", "", "hp.yaml:1:33: /people/0/role: there is no such field (did you mean roles?)"},
		{"people: [{email: x@example.com}]", "", "hp.yaml:1:10: /people/0: roles is missing"},
		{"people: [{email: x@example.com, roles: [], same_as: y@example.com}]", "", `hp.yaml:1:53: person "x@example.com": same_as: there is nobody`},
		{"people: [{email: x@example.com, roles: [], same_as: x@example.com}]", "", `hp.yaml:1:53: person "x@example.com": same_as: the accounts are the same as each other in a circle`},
		{"tools: [{tool_name: t, tool_category: red}]\n", "", `hp.yaml:1:39: tool "t": tool_category: want one of`},
		{"tools: [{tool_name: раy}]\n", "", `hp.yaml:1:21: tool "раy": tool_name: `},
		{"on_call: [{schedule: p, shifts: [{people: [ada@example.com], until: 2026-12-01 10:00}]}]", "", `hp.yaml:1:69: /on_call/0/shifts/0/until: want a time such as 2026-12-24T06:00:00Z, got "2026-12-01 10:00"`},
		{"on_call: [{schedule: P, shifts: [{people: [], until: \"2020-01-01T00:00:00Z\"}]}]", "", `hp.yaml:1:43: schedule "P": shifts[0].people: name somebody`},
		{"on_call: [{schedule: p, shifts: [{people: [x@example.com], until: \"2100-01-01T00:00:00Z\"}]}]", "", `hp.yaml:1:43: schedule "p": shifts[0].people: there is no active account|hp.yaml:1:67: schedule "p": shifts[0].until: A shift ends at most a year from now`},
		{"settings: {max_delegation_depth: 101}", "", `hp.yaml:1:34: settings: max_delegation_depth: want 0 to 100`},
		{"settings: {max_delegation_depth: 1.5}", "", `hp.yaml:1:34: /settings/max_delegation_depth: want a whole number`},
		{"agent: []", "", "hp.yaml:1:1: /agent: there is no such field"},
		{"- a", "", "hp.yaml:1:1: "},
		{"agents:\n", "", "hp.yaml:1:8: /agents: want a list, got nothing"},
	} {
		p, problems := s.compare(tt.file, tt.addresses, setup.Options{})
		wants := strings.Split(tt.want, "|")
		if len(problems) != len(wants) || len(p.Changes) > 0 {
			t.Errorf("%s\ngot  %v\nwant %s", tt.file, problems, tt.want)
			continue
		}
		for i, want := range wants {
			if got := problems[i].String(); !strings.HasPrefix(got, want) {
				t.Errorf("%s\ngot  %s\nwant %s…", tt.file, got, want)
			}
		}
	}
	two := []setup.Input{{Name: "a.yaml", Data: []byte("tools: [{tool_name: t}]")}, {Name: "b.yaml", Data: []byte("tools: [{tool_name: t}]")}}
	if _, problems := s.compareAll(two, "", setup.Options{}); len(problems) != 1 || !strings.HasPrefix(problems[0].String(), `b.yaml:1:9: tool "t": it is in a.yaml:1:9 already`) {
		t.Errorf("the same in two files: %v", problems)
	}
}

// Whatever is set up, an export of it has nothing to change, and makes of an empty
// system one that exports the same.
func TestExportIsWhatIsSetUp(t *testing.T) {
	for seed := range 12 {
		s := newSite(t)
		drawn := rapid.Custom(func(r *rapid.T) [2]string { file, addresses := random(r, s.time()); return [2]string{file, addresses} }).Example(seed)
		file, addresses := drawn[0], drawn[1]
		s.apply(file, addresses, setup.Options{})
		exported := s.export()
		if left := lines(s.plan(exported, "", setup.Options{Prune: setup.Prune{Entries: true, People: true}})); left != "" {
			t.Fatalf("seed %d: after export there is to do\n%s\n%s", seed, left, exported)
		}
		other := newSite(t)
		other.apply(exported, addresses, setup.Options{})
		if got := other.export(); got != exported {
			t.Fatalf("seed %d: another system exports\n%s\nwant\n%s", seed, got, exported)
		}
		// In files, and from another system's state.
		parts, err := s.now().Export(false)
		if err != nil {
			t.Fatal(err)
		}
		p, problems := other.compareAll(parts, addresses, setup.Options{})
		if len(problems) > 0 || len(p.Changes) > 0 {
			t.Fatalf("seed %d: in files there is to do\n%s%v", seed, lines(p), problems)
		}
	}
}

// random is a file of anything that a file can have.
func random(r *rapid.T, now time.Time) (file, addresses string) {
	var out, endpoints, agents strings.Builder
	text := rapid.SampledFrom([]string{"true", "No", "1m", "a: b", "x # y", "é", "日本", "'", "\"", "- a", "null", "Ada  King", "0x1F", "[", "~", "=", "a\u00a0b"})
	some := func(label string, values ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, len(values), func(v string) string { return v }).Draw(r, label)
	}
	yes := func(label string) bool { return rapid.Bool().Draw(r, label) }
	people := some("people", "ada@example.com", "bo@example.com", "cy@example.com")
	out.WriteString("people:\n")
	for i, p := range people {
		fmt.Fprintf(&out, "  - {email: %s, name: %q, roles: [%s]", p, text.Draw(r, "name"), strings.Join(some("roles", roles...), ", "))
		if i > 0 && yes("same") {
			fmt.Fprintf(&out, ", same_as: %s", people[i-1])
		}
		out.WriteString("}\n")
	}
	out.WriteString("tools:\n")
	for _, name := range some("tools", "pay", "read.mail", "github.create_issue") {
		fmt.Fprintf(&out, "  - {tool_name: %s, verified: %t, side_effects: %t, revoked: %t", name, yes("verified"), yes("effects"), yes("revoked"))
		if yes("schema") {
			out.WriteString(`, input_schema: {"type": "object", "properties": {"b": {"type": "string", "enum": ["no", "1"]}, "a": {"type": "array", "items": {"type": "number"}}}}`)
		}
		out.WriteString("}\n")
	}
	out.WriteString("agents:\n")
	for _, id := range some("agents", "a", "billing-bot", "on", "7") {
		fmt.Fprintf(&out, "  - {agent_id: %q, name: %q, trust_level: %s, revoked: %t", id, text.Draw(r, "name"), rapid.SampledFrom(engine.TrustLevels()).Draw(r, "trust"), yes("revoked"))
		if len(people) > 0 && yes("owned") {
			fmt.Fprintf(&out, ", owner: %s", people[0])
		}
		if yes("limited") {
			fmt.Fprintf(&out, ", limits: {tool: {calls: %d, per: 90s}}", rapid.IntRange(0, 9).Draw(r, "calls"))
		}
		if yes("webhook") {
			out.WriteString(", webhook: {host: h.example.com}")
			fmt.Fprintf(&agents, "  %q: https://h.example.com/\n", id)
		}
		out.WriteString("}\n")
	}
	out.WriteString("endpoints:\n")
	for _, name := range some("endpoints", "no", "#a", "desk") {
		kind := rapid.SampledFrom([]string{"webhook", "email", "push"}).Draw(r, "kind")
		fmt.Fprintf(&out, "  - {name: %q, kind: %s, disabled: %t", name, kind, yes("off"))
		switch kind {
		case "webhook":
			fmt.Fprintf(&out, ", host: h.example.com, ed25519: %t", yes("pair"))
			fmt.Fprintf(&endpoints, "  %q: https://h.example.com/\n", name)
		case "email":
			out.WriteString(", to: [reviewers]")
		}
		out.WriteString("}\n")
	}
	if len(people) > 0 {
		fmt.Fprintf(&out, "on_call: [{schedule: p, shifts: [")
		for i := range rapid.IntRange(1, 3).Draw(r, "shifts") {
			fmt.Fprintf(&out, "{people: [%s], until: %q, from: %q}, ", rapid.SampledFrom(people).Draw(r, "who"), now.Add(time.Duration(i+2)*time.Hour).Format(time.RFC3339), now.Add(time.Duration(i+1)*time.Hour).Format(time.RFC3339))
		}
		out.WriteString("]}]\n")
	}
	file = strings.ReplaceAll(out.String(), ", ]", "]")
	for _, section := range []string{"people", "tools", "agents", "endpoints"} {
		if !strings.Contains(file, section+":\n  -") {
			file = strings.Replace(file, section+":\n", section+": []\n", 1)
		}
	}
	if agents.Len() > 0 {
		addresses += "agents:\n" + agents.String()
	}
	if endpoints.Len() > 0 {
		addresses += "endpoints:\n" + endpoints.String()
	}
	return file, addresses
}

// What changes while somebody is asked is not done by a plan that they have not seen.
func TestConfirm(t *testing.T) {
	s := newSite(t)
	const file = "people: [{email: ada@example.com, name: Ada, roles: [auditor, reviewer]}]\nsettings: {min_trust_level: basic}\n"
	s.apply(file, "", setup.Options{})
	changed := strings.Replace(file, "name: Ada", "name: Ada L", 1)
	p := s.plan(changed, "", setup.Options{})
	compare := func() (setup.Plan, error) { return s.plan(changed, "", setup.Options{}), nil }
	no := errors.New("no")
	if _, err := p.Confirm(func() error { return no }, compare); !errors.Is(err, no) {
		t.Errorf("whoever says no is told %v", err)
	}
	if same, err := p.Confirm(func() error { return nil }, compare); err != nil || lines(same) != lines(p) {
		t.Errorf("nothing has changed, and the plan is\n%s%v", lines(same), err)
	}
	for _, meanwhile := range []func() error{
		func() error {
			return s.admin.Registry.PutSettings(t.Context(), command, registry.DefaultSettings(), nil)
		},
		func() error {
			_, err := s.admin.People.Change(t.Context(), command, "ada@example.com", admin.PersonChange{RemoveRoles: []string{"reviewer"}}, nil)
			return err
		},
	} {
		p := s.plan(changed, "", setup.Options{})
		if _, err := p.Confirm(meanwhile, compare); err == nil || !strings.Contains(err.Error(), "has changed since") {
			t.Errorf("another plan was made meanwhile, and it is told %v", err)
		}
	}
	// The first plan gives no role again that it does not change.
	if refused := s.do(p); refused != nil {
		t.Fatal(refused)
	}
	if ada, err := s.admin.People.Find(t.Context(), "ada@example.com"); err != nil || ada.Name != "Ada L" || !slices.Equal(ada.Roles, []string{"auditor"}) {
		t.Errorf("Ada is %q with %v: %v", ada.Name, ada.Roles, err)
	}
}
