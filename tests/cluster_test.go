package tests

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	temporalclient "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"holdpoint/internal/devserver"
	"holdpoint/internal/freeport"
	"holdpoint/internal/postgres"
)

// healWithin is how soon everything has to be as usual once what it depends on
// is back: 5 s, and much for a machine that others use as well.
const healWithin = 5*time.Second + 15*time.Second

// cluster is a production installation: any number of serve and worker
// processes on one Postgres and one Temporal, each of which a test can stop.
type cluster struct {
	*installation
	t   testing.TB
	dir string
	env []string // of every process
	// passwords are of the roles in Postgres.
	passwords struct{ owner, app, temporal string }
	postgres  *postgres.Server
	temporal  *devserver.Server
	// temporalURL is where Temporal keeps its state.
	temporalURL string
	logKey      string // its file
	// bin is the program of what is started; "" for the one under test.
	bin     string
	serves  []*program
	urls    []string
	workers []*program
}

const temporalNamespace = "holdpoint"

// clusterPolicy has a rule for every race.
const clusterPolicy = `routing:
  rules:
    - {tool: "quorum_*", role: reviewer, needed: 3, expires_in: 1h}
    - {tool: "pair_*", role: reviewer, needed: 2, expires_in: 1h}
    - {tool: "race_*", role: reviewer, needed: 1, expires_in: 500ms}
    - {tool: "brief_*", role: reviewer, needed: 1, expires_in: 1s}
    - {tool: "soon_*", role: reviewer, needed: 1, expires_in: 10s}
` + linearRule + `  default: {role: reviewer, needed: 1, expires_in: 1h}
`

// allowingPolicy leaves every call to the contract and the registry.
const allowingPolicy = `version: "0"
generated_at: "2026-01-01T00:00:00Z"
expires_at: "2099-01-01T00:00:00Z"
rules: []
defaults: {outcome: ALLOW}
`

// startCluster starts Postgres, Temporal and the given numbers of processes.
// After the test they must stop cleanly, and the database must be in order.
func startCluster(t testing.TB, serves, workers int) *cluster {
	t.Helper()
	c := layCluster(t, false)
	c.startPrograms(serves, workers)
	return c
}

// layCluster starts what an installation needs, with its roles, keys and people:
// everything but the programs. Where Temporal is apart, it keeps its state in a Postgres of its
// own, whose survival is not the test's.
func layCluster(t testing.TB, apart bool) *cluster {
	t.Helper()
	binary(t) // the first use builds it, which may take longer than a command may
	c := prepareCluster(t, filepath.Dir(devDir(t)))
	c.startPostgres()
	c.addresses()
	if apart {
		own, err := postgres.Start(context.Background(), postgres.Config{Dir: filepath.Join(c.dir, "temporal-postgres"), NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := own.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		c.temporalURL = own.SuperuserURL("postgres")
	}
	func() {
		starting <- struct{}{}
		defer func() { <-starting }()
		c.startTemporal()
	}()
	t.Cleanup(func() {
		c.temporal.Stop()
		if err := c.postgres.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})

	c.logKey = filepath.Join(c.dir, "log-key")
	c.env = []string{
		"HOLDPOINT_CONFIG=" + filepath.Join(c.dir, "holdpoint.yaml"), "HOLDPOINT_POLICY_FILE=" + filepath.Join(c.dir, "policy.yaml"),
		"HOLDPOINT_DATABASE_URL=" + c.RuntimeURL, "HOLDPOINT_TEMPORAL_ADDRESS=" + c.Temporal,
		"HOLDPOINT_TEMPORAL_NAMESPACE=" + temporalNamespace, "HOLDPOINT_DATA_KEY_FILE=" + filepath.Join(c.dir, "data_key"),
		"HOLDPOINT_SIGNING_KEYS_FILE=" + filepath.Join(c.dir, "signing-keys.json"), "HOLDPOINT_ISSUER=urn:holdpoint:tests", "HOLDPOINT_ENVIRONMENT=tests",
		"HOLDPOINT_LOG_KEY_FILE=" + c.logKey, "HOLDPOINT_LOG_FLOOR_FILE=" + filepath.Join(c.dir, "log-floor"),
	}
	return c
}

// startPrograms starts the programs; after the test they must stop cleanly, and the
// database must be in order.
func (c *cluster) startPrograms(serves, workers int) {
	c.t.Helper()
	t := c.t
	for range workers {
		c.startWorker()
	}
	for range serves {
		c.startServe(cmp.Or(c.bin, binary(t)))
	}
	c.URL = c.urls[0]
	t.Cleanup(func() {
		if !t.Failed() {
			c.check(t)
			if err := proves(c.logKey+".pub", c.env); err != nil {
				t.Error(err)
			}
		}
		var wait sync.WaitGroup
		for _, p := range append(c.serves, c.workers...) {
			wait.Go(func() {
				if err := p.stop(); err != nil {
					t.Error(err)
				} else if t.Failed() {
					t.Log(p.tail())
				}
			})
		}
		wait.Wait()
	})
}

// prepared is what an operator makes before the first program of a cluster starts: roles,
// databases, keys and people. It is made once, and each cluster has a copy.
var prepared struct {
	once sync.Once
	ok   bool
	cluster
}

// prepareCluster is a cluster in dir of which nothing runs yet.
func prepareCluster(t testing.TB, dir string) *cluster {
	t.Helper()
	prepared.once.Do(func() { prepared.ok = makePrepared(t, filepath.Join(built.data, "prepared")) })
	if !prepared.ok {
		t.Fatal("no cluster could be prepared; the first test that needs one says why")
	}
	// With owners: as root, Postgres runs as another user.
	if out, err := exec.Command("cp", "-a", prepared.dir+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v\n%s", prepared.dir, err, out)
	}
	in := *prepared.installation
	in.journal, in.sessions = &journal{}, &sync.Map{}
	return &cluster{t: t, dir: dir, installation: &in, passwords: prepared.passwords}
}

func makePrepared(t testing.TB, dir string) bool {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &prepared.cluster
	c.t, c.dir, c.installation = t, dir, &installation{}
	c.startPostgres()
	c.makeRoles()
	c.startTemporal()
	must(t, nil, "", "key", "rotate", filepath.Join(dir, "signing-keys.json"))
	must(t, nil, "", "key", "log", filepath.Join(dir, "log-key"), "--name", "log.example.com/tests")
	must(t, nil, "", "keys", "new", "--for", "data", filepath.Join(dir, "data_key"))
	for name, text := range map[string]string{"holdpoint.yaml": clusterPolicy, "policy.yaml": allowingPolicy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	admin := []string{"HOLDPOINT_DATABASE_ADMIN_URL=" + c.OwnerURL}
	must(t, admin, "", "migrate")
	c.makePeople(admin)
	c.stopTemporal()
	if err := c.postgres.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "postgres", "port")); err != nil { // each copy finds one of its own
		t.Fatal(err)
	}
	c.Temporal = ""
	return true
}

func (c *cluster) startPostgres() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(c.dir, "postgres"), NoSync: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.postgres = server
}

// makeRoles makes what an operator makes: an owner, a role for the programs
// that owns nothing, and one for Temporal.
func (c *cluster) makeRoles() {
	c.t.Helper()
	password := func() string { return strings.ToLower(rand.Text()) }
	c.passwords.owner, c.passwords.app, c.passwords.temporal = password(), password(), password()
	ctx := context.Background()
	run := func(database string, statements ...string) {
		conn, err := pgx.Connect(ctx, c.postgres.SuperuserURL(database))
		if err != nil {
			c.t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				c.t.Fatalf("%s: %v", strings.Split(s, "PASSWORD")[0], err)
			}
		}
	}
	run("postgres", "CREATE ROLE holdpoint_runtime NOLOGIN", "CREATE ROLE holdpoint_reader NOLOGIN", "CREATE ROLE holdpoint_people NOLOGIN", "CREATE ROLE hp_owner LOGIN PASSWORD '"+c.passwords.owner+"'",
		"CREATE ROLE hp_app LOGIN PASSWORD '"+c.passwords.app+"' IN ROLE holdpoint_runtime", "CREATE ROLE hp_temporal LOGIN CREATEDB PASSWORD '"+c.passwords.temporal+"'",
		"CREATE DATABASE holdpoint OWNER hp_owner")
	// And what the file of roles says of that database.
	file, err := os.ReadFile("../deploy/postgres/10-holdpoint.sql")
	if err != nil {
		c.t.Fatal(err)
	}
	_, last, found := strings.Cut(string(file), "\n\\connect holdpoint\n")
	if !found {
		c.t.Fatal("the file of roles says nothing of the database holdpoint")
	}
	run("holdpoint", "ALTER SCHEMA public OWNER TO hp_owner", strings.ReplaceAll(last, "holdpoint_owner", "hp_owner"))
	c.addresses()
}

// addresses says where Postgres has each role.
func (c *cluster) addresses() {
	c.OwnerURL = c.postgres.URL("hp_owner", c.passwords.owner, "holdpoint")
	c.RuntimeURL = c.postgres.URL("hp_app", c.passwords.app, "holdpoint")
	c.temporalURL = c.postgres.URL("hp_temporal", c.passwords.temporal, "postgres")
}

// startTemporal starts Temporal, again at the address that it had.
func (c *cluster) startTemporal() {
	c.t.Helper()
	port := 0
	if _, text, err := net.SplitHostPort(c.Temporal); err == nil {
		port, _ = strconv.Atoi(text)
	}
	server, err := devserver.Start(context.Background(), devserver.Config{
		PostgresURL: c.temporalURL, Database: "temporal",
		Namespace: temporalNamespace, Logger: slog.New(slog.DiscardHandler), FrontendPort: port,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if c.Temporal != "" && server.Address() != c.Temporal {
		c.t.Fatalf("Temporal is at %s now, it was at %s: somebody took its port", server.Address(), c.Temporal)
	}
	c.temporal, c.Temporal = server, server.Address()
}

// makePeople adds people, agents and keys by the real commands.
func (c *cluster) makePeople(admin []string) {
	c.t.Helper()
	add := func(name string, roles ...string) person {
		p := person{Email: name + "@example.com", Password: strings.ToLower(rand.Text()), Roles: roles}
		args := []string{"user", "add", p.Email, "--name", name, "--password-stdin"}
		for _, role := range roles {
			args = append(args, "--role", role)
		}
		must(c.t, admin, p.Password+"\n", args...)
		return p
	}
	c.Owner = add("olga", "reviewer")
	for _, name := range []string{"ada", "ben", "cleo", "dina", "emil"} {
		c.Reviewers = append(c.Reviewers, add(name, "reviewer"))
	}
	c.AgentKey = c.newKey(c.t, "--agent", "bot", "--owner", c.Owner.Email)
	c.RuntimeKey = c.newKey(c.t, "--agent", "bot", "--kind", "runtime")
	c.AdminKey = c.newKey(c.t, "--kind", "admin")
}

// startServe starts one more gate and waits until it answers.
func (c *cluster) startServe(bin string) {
	c.t.Helper()
	c.ready(c.beginServe(bin))
}

// ready waits until a gate answers that it is.
func (c *cluster) ready(p *program, url string) {
	c.t.Helper()
	at := c.client(c.t).at(url)
	eventually(c.t, readyWithin, p.name+" is ready", func() bool {
		if p.exited() {
			c.t.Fatal(p.tail())
		}
		return at.do("GET", "/readyz", nil).Status == 200
	})
}

// beginServe starts one more gate.
func (c *cluster) beginServe(bin string) (p *program, url string) {
	c.t.Helper()
	port, err := freeport.Find(0)
	if err != nil {
		c.t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p, err = run(bin, c.dir, fmt.Sprintf("serve-%d", len(c.urls)), environment(append(c.env, "HOLDPOINT_LISTEN="+address, "HOLDPOINT_PUBLIC_URL=http://"+address)...), nil, "serve")
	if err != nil {
		c.t.Fatal(err)
	}
	c.serves, c.urls = append(c.serves, p), append(c.urls, "http://"+address)
	return p, "http://" + address
}

// startWorker starts one more worker and waits until Temporal has taken it.
func (c *cluster) startWorker() {
	c.t.Helper()
	c.works(c.beginWorker())
}

// beginWorker starts one more worker.
func (c *cluster) beginWorker() *program {
	c.t.Helper()
	p, err := run(cmp.Or(c.bin, binary(c.t)), c.dir, newID("worker-"), environment(c.env...), nil, "worker")
	if err != nil {
		c.t.Fatal(err)
	}
	c.workers = append(c.workers, p)
	return p
}

// works waits until Temporal has taken a worker.
func (c *cluster) works(p *program) {
	c.t.Helper()
	eventually(c.t, readyWithin, p.name+" works", func() bool {
		if p.exited() {
			c.t.Fatal(p.tail())
		}
		return strings.Contains(p.text(), `"working"`)
	})
}

// stopTemporal ends Temporal, and returns when it answers nobody any more.
func (c *cluster) stopTemporal() {
	c.t.Helper()
	for range 20 { // a busy machine takes longer than a stop waits
		if c.temporal.Stop() {
			return
		}
	}
	c.t.Fatal("Temporal does not end")
}

// temporalClient is a client of the cluster's Temporal, with all its powers.
func (c *cluster) temporalClient() temporalclient.Client {
	c.t.Helper()
	cl, err := temporalclient.Dial(temporalclient.Options{HostPort: c.Temporal, Namespace: temporalNamespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// signalPostgres sends a signal to the server and all that it has forked.
func (c *cluster) signalPostgres(s syscall.Signal) {
	for _, pid := range append([]int{c.postgres.PID()}, descendants(c.postgres.PID())...) {
		_ = syscall.Kill(pid, s) // one that has ended meanwhile needs none
	}
}

// where is the i-th serve for a client of another one.
func (c *cluster) where(i int) string { return c.urls[i%len(c.urls)] }

// query is a query of the audit log.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}
