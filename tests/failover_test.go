package tests

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres"
)

// standby makes a second Postgres that follows the first one, to which every commit waits
// for it, and gives everybody the address of both.
func (c *cluster) standby() *postgres.Server {
	c.t.Helper()
	ctx := context.Background()
	hba, err := os.OpenFile(filepath.Join(c.dir, "postgres", "data", "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := hba.WriteString("host replication all 127.0.0.1/32 scram-sha-256\n"); err != nil {
		c.t.Fatal(err)
	}
	if err := hba.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.superuser("postgres", "SELECT pg_reload_conf()")
	program, _, err := postgres.Client(ctx, "pg_basebackup", 14)
	if err != nil {
		c.t.Fatal(err)
	}
	dir := filepath.Join(c.dir, "standby")
	if err := os.Mkdir(dir, 0o711); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(program, "-d", c.postgres.SuperuserURL("postgres")+"&application_name=standby", "-D", filepath.Join(dir, "data"), "-X", "stream", "-c", "fast", "-R").CombinedOutput(); err != nil {
		c.t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	second, err := postgres.Start(ctx, postgres.Config{Dir: dir, NoSync: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.superuser("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	eventually(c.t, readyWithin, "the standby is synchronous", func() bool {
		return number(c.t, c.postgres.SuperuserURL("postgres"), `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	both := func(of string) string {
		u, err := url.Parse(of)
		if err != nil {
			c.t.Fatal(err)
		}
		other, err := url.Parse(second.SuperuserURL("postgres"))
		if err != nil {
			c.t.Fatal(err)
		}
		u.Host += "," + other.Host
		return u.String()
	}
	for i, variable := range c.env {
		if name, value, _ := strings.Cut(variable, "="); name == "HOLDPOINT_DATABASE_URL" {
			c.env[i] = name + "=" + both(value)
		}
	}
	c.OwnerURL = both(c.OwnerURL) + "&target_session_attrs=read-write"
	return second
}

// number is what a query that has one number says.
func number(t testing.TB, url, sql string) (n int64) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFailover: Postgres is lost under load, with its machine, and its synchronous standby
// takes over. Gates and workers go on by themselves, and nothing that was acknowledged is
// lost: not even what a commit that was given up had left for others to see.
func TestFailover(t *testing.T) {
	ownPrograms(t)
	c := layCluster(t, true)
	second := c.standby()
	t.Cleanup(func() {
		if err := second.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.startPrograms(2, 2)
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	waits := agent.hold("pay", map[string]any{"word": "before"})
	spent := agent.hold("pay", map[string]any{"word": "spent"})
	reviewer.approve(spent)
	token := agent.wait(spent.ID).Token
	agent.redeem(token, "pay", map[string]any{"word": "spent"}).want(t, 200)

	// While the standby stands still nothing is acknowledged, however often it is asked: the
	// first attempts are committed at the primary, where everybody can see them.
	signalAll(second.PID(), syscall.SIGSTOP)
	key := header{"Idempotency-Key", newID("k-")}
	attempt := func(i int) {
		t.Helper()
		if got := agent.at(c.where(i)).propose(event("search_docs", "accept", map[string]any{"word": "unseen"}), key); got.Status != 503 {
			t.Errorf("attempt %d is answered although the standby has nothing of it: %s", i, got)
		}
	}
	attempt(0)
	eventually(t, settleWithin, "what was given up is there for all to see", func() bool {
		return number(t, c.postgres.SuperuserURL("holdpoint"), `SELECT count(*) FROM idempotency WHERE status = 200`) > 0
	})
	attempt(1)
	signalAll(second.PID(), syscall.SIGCONT)
	agent.propose(event("search_docs", "accept", map[string]any{"word": "unseen"}), key).want(t, 200)

	var before, after, refused atomic.Int64
	var lost atomic.Bool // the primary
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range 6 {
		agent := c.agent(t).at(c.where(i))
		load.Go(func() {
			for n := 0; ; n++ {
				key := header{"Idempotency-Key", newID("k-")}
				for again := false; ; again = true { // what is not answered is asked again, as a client does
					select {
					case <-stop:
						return
					default:
					}
					was := lost.Load()
					got := agent.propose(event(fmt.Sprintf("load_%d", i), []string{"accept", "defer"}[n%10/9], map[string]any{"n": n}), key)
					if got.Err == nil && got.Status/100 == 2 {
						if was {
							after.Add(1)
						} else if !again {
							before.Add(1)
						}
						break
					}
					refused.Add(1)
					if got.Err != nil || got.Status != 503 {
						t.Errorf("while Postgres is away: %s", got)
						return
					}
				}
			}
		})
	}
	eventually(t, settleWithin, "the load runs", func() bool { return before.Load() > 200 })
	began := time.Now()
	lost.Store(true)
	signalAll(c.postgres.PID(), syscall.SIGKILL)
	<-c.postgres.Done()
	if number(t, second.SuperuserURL("postgres"), `SELECT pg_promote()::int`) != 1 {
		t.Fatal("the standby was not promoted")
	}
	promoted := time.Since(began)
	eventually(t, healWithin, "calls are answered again", func() bool { return after.Load() > 0 })
	t.Logf("promoted after %s, the first call answered after %s; %d calls before, %d attempts refused", promoted.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), before.Load(), refused.Load())
	eventually(t, settleWithin, "the load runs", func() bool { return after.Load() > 200 })
	close(stop)
	load.Wait()

	// What waited waits, what was spent is spent, and who was signed in is signed in.
	for i := range 2 {
		agent, reviewer := agent.at(c.where(i)), reviewer.at(c.where(i))
		agent.redeem(token, "pay", map[string]any{"word": "spent"}).want(t, 409, "token_used")
		if i == 0 {
			reviewer.approve(agent.get(waits.ID))
			agent.redeem(agent.wait(waits.ID).Token, "pay", map[string]any{"word": "before"}).want(t, 200)
		}
		a := agent.hold("pay", map[string]any{"word": fmt.Sprint("after ", i)})
		reviewer.approve(a)
		if got := agent.wait(a.ID); got.Status != "approved" {
			t.Errorf("after the failover: %+v", got)
		}
	}
	c.admin(t).do("GET", "/v1/audit/events?limit=1", nil).want(t, 200) // waits for the log
}

// TestTemporalLost: Temporal is lost with all that it had. Started empty, it has a workflow
// for everything that waits, while everybody goes on, and what was decided meanwhile ends.
func TestTemporalLost(t *testing.T) {
	ownPrograms(t)
	c := startCluster(t, 1, 1)
	agent, reviewer := c.agent(t), c.reviewer(t, 0)
	n := 200
	if *long {
		n = 900 // of 1,000 that one agent may have
	}
	waits := make([]approval, n)
	for i := range waits {
		waits[i] = agent.hold("pay", map[string]any{"n": i})
	}
	c.stopTemporal()
	c.superuser("postgres", "DROP DATABASE temporal WITH (FORCE)")
	reviewer.approve(waits[0])
	late := agent.hold("soon_pay", nil)

	began := time.Now()
	c.startTemporal()
	c.rebuilt(t, waits[1:], began)
	for _, i := range []int{1, n / 2, n - 1} {
		reviewer.approve(waits[i])
	}
	for _, i := range []int{0, 1, n / 2, n - 1} {
		got := agent.wait(waits[i].ID)
		if got.Status != "approved" {
			t.Fatalf("after Temporal was lost: %+v", got)
		}
		agent.redeem(got.Token, "pay", map[string]any{"n": i}).want(t, 200)
	}
	if got := agent.wait(late.ID); got.Status != "expired" || got.EndedAt.Before(late.ExpiresAt) {
		t.Errorf("deadline %s, ended %s at %s", late.ExpiresAt, got.Status, got.EndedAt)
	}
}

// signalAll sends a signal to a process and all below it.
func signalAll(pid int, s syscall.Signal) {
	for _, pid := range append([]int{pid}, descendants(pid)...) {
		_ = syscall.Kill(pid, s) // one that has ended meanwhile needs none
	}
}
