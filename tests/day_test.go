package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres"
	"holdpoint/internal/ssotest"
)

// day is a day in the life of an installation: what is done, with calls coming in all the
// time, how long each of it takes, and what is lost by it.
type day struct {
	*cluster
	t     *testing.T
	urls  atomic.Pointer[[]string] // of the gates that there are now
	rows  []string
	ended chan struct{}
	load  sync.WaitGroup
	// Cycles are calls that were proposed, approved and redeemed; attempts are requests that
	// were answered with 503, or not at all, and made again.
	cycles, attempts, lost atomic.Int64
}

// step does something and notes what it took.
func (d *day) step(what, command string, do func()) {
	d.t.Helper()
	began, cycles, attempts, lost := time.Now(), d.cycles.Load(), d.attempts.Load(), d.lost.Load()
	do()
	d.rows = append(d.rows, fmt.Sprintf("| %s | %s | %.1f s | %d | %d | %d |", what, command, time.Since(began).Seconds(), d.cycles.Load()-cycles, d.attempts.Load()-attempts, d.lost.Load()-lost))
	d.t.Log(d.rows[len(d.rows)-1])
}

// until makes a request at one gate after another until it is answered; any other answer
// than ok's is a loss.
func (d *day) until(i int, do func(at string) answer, ok ...int) (answer, bool) {
	for ; ; i++ {
		urls := *d.urls.Load()
		a := do(urls[i%len(urls)])
		for _, status := range ok {
			if a.Err == nil && a.Status == status {
				return a, true
			}
		}
		if a.Err == nil && a.Status != 503 {
			d.lost.Add(1)
			d.t.Errorf("lost: %s", a)
			return a, false
		}
		d.attempts.Add(1)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-d.t.Context().Done():
			return a, false
		}
	}
}

// callers begin to propose calls, have them approved and redeem them, until end.
func (d *day) callers(n int) {
	d.ended = make(chan struct{})
	for i := range n {
		agent, reviewer := d.agent(d.t), d.reviewer(d.t, i%len(d.Reviewers))
		d.load.Go(func() {
			for {
				select {
				case <-d.ended:
					return
				default:
				}
				if !d.cycle(i, agent, reviewer) {
					return
				}
			}
		})
	}
}

func (d *day) cycle(i int, agent, reviewer *client) bool {
	tool, args := fmt.Sprintf("load_%d", i), map[string]any{"id": newID("")}
	key := header{"Idempotency-Key", newID("k-")}
	got, ok := d.until(i, func(at string) answer { return agent.at(at).propose(event(tool, "defer", args), key) }, 202)
	if !ok {
		return false
	}
	var opened struct{ Approval approval }
	got.into(d.t, &opened)
	a := opened.Approval
	key = header{"Idempotency-Key", newID("k-")}
	if _, ok = d.until(i+1, func(at string) answer { return reviewer.at(at).vote(a, "approve", key) }, 200); !ok {
		return false
	}
	for a.Token == "" {
		if got, ok = d.until(i, func(at string) answer { return agent.at(at).do("GET", approvalPath(a.ID)+"?wait=5", nil) }, 200); !ok {
			return false
		}
		if a = got.approval(d.t); a.Status != "pending" && a.Status != "approved" {
			d.lost.Add(1)
			d.t.Errorf("lost: %s is %s", a.ID, a.Status)
			return false
		}
	}
	key = header{"Idempotency-Key", newID("k-")}
	if _, ok = d.until(i+1, func(at string) answer { return agent.at(at).redeem(a.Token, tool, args, key) }, 200); ok {
		d.cycles.Add(1)
	}
	return ok
}

// TestDayInTheLife goes through what an installation sees, from nothing to a restored
// backup, by the commands that operators use, while calls come in; docs/day.md has its
// table. It takes minutes, two of which it waits for a data key to be out of use.
func TestDayInTheLife(t *testing.T) {
	if !*long {
		t.Skip("with -long only")
	}
	ownPrograms(t)
	d := &day{t: t}
	provider := ssotest.New(t)
	var second *postgres.Server
	d.step("a primary and its synchronous standby, roles, keys, schema, first people", "`migrate`, `key …`, `user add`", func() {
		d.cluster = layCluster(t, true)
		second = d.standby()
		t.Cleanup(func() {
			if err := second.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		d.withPeople(provider)
	})
	d.step("two gates, two workers", "`serve`, `worker`", func() {
		d.startPrograms(2, 2)
		urls := d.cluster.urls
		d.urls.Store(&urls)
	})
	d.callers(3)
	d.step("300 people and 3 groups from the directory", "SCIM", d.directory)
	d.step("one of them signs in by single sign-on, and decides", "OpenID Connect", func() { d.signsIn(provider) })
	d.step("2,000 agents", "`apply -f agents`", d.agents)
	d.step("a change of the policy, proposed by one and approved by another", "`changes require`, `policy propose`, a vote", d.policyChange)
	d.step("another data key, from new to the former's retirement", "`keys new`, `use`, `reseal`, `retire`", d.dataKey)
	d.step("an upgrade, one process after another", "`migrate`, SIGTERM, `serve`, `worker`", d.upgrade)
	d.step("the primary is killed, the standby promoted", "SIGKILL, `pg_promote()`", func() {
		done := d.cycles.Load()
		signalAll(d.postgres.PID(), syscall.SIGKILL)
		<-d.postgres.Done()
		if number(t, second.SuperuserURL("postgres"), `SELECT pg_promote()::int`) != 1 {
			t.Fatal("the standby was not promoted")
		}
		eventually(t, settleWithin, "calls are redeemed again", func() bool { return d.cycles.Load() > done+3 })
	})
	close(d.ended)
	d.load.Wait()
	d.step("a backup, into a database that is new", "`backup`, `restore`, `release --all`", func() { d.restored(second) })
	d.step("the log, with everything of the day", "`audit export`, `audit verify`", func() {
		if err := proves(d.logKey+".pub", d.env); err != nil {
			t.Error(err)
		}
	})
	if d.lost.Load() != 0 || d.cycles.Load() < 50 {
		t.Errorf("%d calls were redeemed, %d lost", d.cycles.Load(), d.lost.Load())
	}
	t.Log("\n| step | by | took | calls redeemed meanwhile | attempts made again | lost |\n|---|---|---:|---:|---:|---:|\n" + strings.Join(d.rows, "\n"))
}

// withPeople adds the login for accounts, and the settings of single sign-on.
func (d *day) withPeople(p *ssotest.Provider) {
	d.superuser("postgres", "CREATE ROLE hp_people LOGIN PASSWORD 'of-the-people' IN ROLE holdpoint_runtime, holdpoint_people")
	u, err := url.Parse(d.OwnerURL)
	if err != nil {
		d.t.Fatal(err)
	}
	u.User = url.UserPassword("hp_people", "of-the-people")
	d.env = append(d.env, "HOLDPOINT_DATABASE_PEOPLE_URL="+u.String())
	settings := fmt.Sprintf(`sso:
  - name: corp
    label: Corp ID
    issuer: %s
    client_id: %s
    client_secret: %q
    scim: true
    email_domains: [example.com]
    roles: {deciders: [reviewer], finance: [finance], auditors: [auditor]}
`, p.URL, p.ClientID, p.ClientSecret)
	if err := os.WriteFile(filepath.Join(d.dir, "holdpoint.yaml"), []byte(settings+clusterPolicy), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// directory makes people and groups as a directory does.
func (d *day) directory() {
	key := d.newKey(d.t, "--kind", "admin", "--scope", "scim", "--label", "directory")
	scim := d.client(d.t).with(key)
	post := func(path string, body map[string]any) string {
		d.t.Helper()
		a := scim.do("POST", "/scim/v2"+path, body, header{"Content-Type", "application/scim+json"})
		var made struct{ ID string }
		if a.want(d.t, 201).into(d.t, &made); made.ID == "" {
			d.t.Fatalf("no id: %s", a)
		}
		return made.ID
	}
	members := [3][]map[string]string{}
	for i := range 300 {
		id := post("/Users", map[string]any{
			"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": fmt.Sprintf("p%03d@example.com", i),
			"displayName": fmt.Sprintf("Person %d", i), "externalId": fmt.Sprintf("x-%03d", i), "active": true,
		})
		members[i%3] = append(members[i%3], map[string]string{"value": id})
	}
	for i, group := range []string{"deciders", "finance", "auditors"} {
		post("/Groups", map[string]any{"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": group, "members": members[i]})
	}
	if n := number(d.t, d.OwnerURL, `SELECT count(*) FROM people WHERE 'reviewer' = ANY (roles) AND email LIKE 'p___@example.com'`); n != 100 {
		d.t.Errorf("%d of 300 are reviewers, want 100", n)
	}
}

// signsIn has one of the directory's people sign in at the provider and approve a call.
func (d *day) signsIn(p *ssotest.Provider) {
	p.Person("x-000", "p000@example.com", map[string]any{"groups": []string{"deciders"}})
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	at := d.cluster.urls[0]
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	res, err := browser.Get(at + "/login/sso/corp")
	if err != nil {
		d.t.Fatal(err)
	}
	_ = res.Body.Close()
	there, _ := url.Parse(at)
	c := d.client(d.t).at(at)
	var cookies []string
	for _, cookie := range jar.Cookies(there) {
		cookies = append(cookies, cookie.Name+"="+cookie.Value)
	}
	c.cookie = strings.Join(cookies, "; ")
	a := d.agent(d.t).at(at).hold("pay", map[string]any{"to": "somebody"})
	c.approve(a)
	if got := d.agent(d.t).at(at).wait(a.ID); got.Status != "approved" {
		d.t.Errorf("%+v", got)
	}
}

// agents registers two thousand by files.
func (d *day) agents() {
	dir := filepath.Join(d.dir, "agents")
	if err := os.Mkdir(dir, 0o755); err != nil {
		d.t.Fatal(err)
	}
	for file := range 4 {
		var list []map[string]any
		for i := range 500 {
			list = append(list, map[string]any{"agent_id": fmt.Sprintf("agent-%04d", 500*file+i), "owner": d.Owner.Email, "trust_level": "verified"})
		}
		text, err := json.Marshal(map[string]any{"agents": list})
		if err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", file)), text, 0o644); err != nil {
			d.t.Fatal(err)
		}
	}
	d.must("apply", "-f", dir, "--yes")
	if n := number(d.t, d.OwnerURL, `SELECT count(*) FROM agents WHERE id LIKE 'agent-____'`); n != 2000 {
		d.t.Errorf("%d agents, want 2000", n)
	}
	if said := d.must("diff", "-f", dir); strings.Contains(said, "agent-") {
		d.t.Errorf("there is a difference left: %s", said)
	}
}

// must runs a command of an operator, however long it takes.
func (d *day) must(args ...string) string {
	d.t.Helper()
	return must(d.t, append(d.operator(), "HOLDPOINT_PUBLIC_URL="+d.cluster.urls[0]), "", args...)
}

// policyChange has a policy that refuses a tool proposed by somebody, who does not decide about it,
// and approved by somebody else: every gate judges by it then, and by nothing before.
func (d *day) policyChange() {
	author, other := d.Reviewers[0], d.Reviewers[1]
	for _, p := range []person{author, other} {
		d.must("user", "set", p.Email, "--add-role", "policy-owner", "--allow-unknown-role")
	}
	d.must("changes", "require", "policy", "--role", "policy-owner", "--expires-in", "1h")
	text := strings.NewReplacer(`"0"`, `"of the day"`, "2026-01-01", "2026-01-02", "rules: []", `rules: [{id: none-abroad, description: Nothing is wired abroad., match: {tool_name: wire_abroad, environment: "*"}, outcome: DENY}]`).Replace(allowingPolicy)
	proposed := filepath.Join(d.dir, "proposed.yaml")
	if err := os.WriteFile(proposed, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	said := d.must("policy", "propose", proposed, "--author", author.Email, "--reason", "nothing is wired abroad")
	_, id, found := strings.Cut(said, "/approvals/")
	if !found {
		d.t.Fatalf("policy propose: %s", said)
	}
	call := func(at string) answer { return d.agent(d.t).at(at).propose(event("wire_abroad", "accept", nil)) }
	for _, at := range d.cluster.urls {
		call(at).want(d.t, 200)
	}
	id = strings.TrimSpace(id)
	reads := d.anew(d.t, other)
	waits := reads.get(id)
	if got := d.anew(d.t, author).vote(waits, "approve"); got.Status != 403 {
		d.t.Errorf("whoever has written it decides: %s", got)
	}
	reads.approve(waits)
	for _, at := range d.cluster.urls {
		eventually(d.t, settleWithin, "the gate refuses by it", func() bool { return strings.Contains(string(call(at).Body), "none-abroad") })
	}
	if n := number(d.t, d.OwnerURL, `SELECT count(*) FROM active_documents WHERE kind = 'policy' AND approval_id = '`+id+`'`); n != 1 {
		d.t.Errorf("the policy is in force by another approval than %s", id)
	}
	// The file that every process reads has it from now on, so that none proposes the former one.
	if err := os.WriteFile(filepath.Join(d.dir, "policy.yaml"), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// dataKey changes the data key of everything that runs.
func (d *day) dataKey() {
	file := filepath.Join(d.dir, "data_key")
	read := 0
	everyone := func() {
		read++
		for _, p := range append(append([]*program{}, d.serves...), d.workers...) {
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				d.t.Fatal(err)
			}
			eventually(d.t, settleWithin, p.name+" has read the data keys", func() bool { return strings.Count(p.text(), "the data keys were read again") >= read })
		}
	}
	added := strings.Fields(d.must("keys", "new", "--for", "data", file))
	everyone()
	d.must("keys", "use", file, added[len(added)-1])
	everyone()
	d.must("keys", "reseal")
	for deadline := time.Now().Add(4 * time.Minute); ; <-time.After(5 * time.Second) {
		got := cli(d.t, d.operator(), "", "keys", "retire", file)
		if got.code == 0 {
			break
		}
		if !strings.Contains(got.err, "last two minutes") || time.Now().After(deadline) {
			d.t.Fatalf("retire: %+v", got)
		}
	}
	everyone()
}

// upgrade stops each process and starts another in its place.
func (d *day) upgrade() {
	d.must("migrate")
	serves, workers := d.serves, d.workers
	d.serves, d.workers, d.cluster.urls = nil, nil, nil
	for _, former := range workers {
		d.startWorker()
		if err := former.stop(); err != nil {
			d.t.Error(err)
		}
	}
	before := *d.urls.Load()
	for i, former := range serves {
		d.startServe(binary(d.t))
		now := append(append([]string{}, d.cluster.urls...), before[i+1:]...)
		d.urls.Store(&now)
		if err := former.stop(); err != nil {
			d.t.Error(err)
		}
	}
	d.URL = d.cluster.urls[0]
}

// restored takes a backup, and goes on from it in a new database.
func (d *day) restored(second *postgres.Server) {
	agent, reviewer := d.agent(d.t), d.reviewer(d.t, 0)
	waits, spent := agent.hold("pay", map[string]any{"word": "waits"}), agent.hold("pay", map[string]any{"word": "spent"})
	reviewer.approve(spent)
	token := agent.wait(spent.ID).Token
	agent.redeem(token, "pay", map[string]any{"word": "spent"}).want(d.t, 200)
	d.admin(d.t).do("GET", "/v1/audit/events?limit=1", nil).want(d.t, 200) // waits for the log
	d.stopAll()
	copied := filepath.Join(d.dir, "copy")
	d.env = append(d.env, "HOLDPOINT_PUBLIC_URL=http://127.0.0.1")
	must(d.t, d.operator(), "", "backup", "--to", copied)

	for _, of := range []struct{ database, statement string }{{"postgres", "CREATE DATABASE restored OWNER hp_owner"}, {"restored", "ALTER SCHEMA public OWNER TO hp_owner"}} {
		conn, err := pgx.Connect(context.Background(), second.SuperuserURL(of.database))
		if err != nil {
			d.t.Fatal(err)
		}
		_, err = conn.Exec(context.Background(), of.statement)
		_ = conn.Close(context.Background())
		if err != nil {
			d.t.Fatal(err)
		}
	}
	moved := func(of string) string { return strings.Replace(of, "/holdpoint?", "/restored?", 1) }
	d.OwnerURL = moved(d.OwnerURL)
	for i := range d.env {
		d.env[i] = moved(d.env[i])
	}
	d.env = d.env[:len(d.env)-1]
	must(d.t, append(d.operator(), "HOLDPOINT_PUBLIC_URL=http://127.0.0.1"), "", "restore", "--from", copied)
	d.sessions.Clear()
	d.startAll()
	must(d.t, append(d.operator(), "HOLDPOINT_PUBLIC_URL="+d.URL), "", "release", "--all")
	agent, reviewer = d.agent(d.t), d.reviewer(d.t, 0)
	agent.redeem(token, "pay", map[string]any{"word": "spent"}).want(d.t, 409, "token_used")
	reviewer.approve(agent.get(waits.ID))
	agent.redeem(agent.wait(waits.ID).Token, "pay", map[string]any{"word": "waits"}).want(d.t, 200)
}
