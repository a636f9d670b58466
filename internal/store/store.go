// Package store is all of Holdpoint's SQL. It keeps the append-only event log,
// approvals and the facts that people contribute to them, tokens, the outbox,
// and who may do what. A change of state and the event that records it always
// share one transaction; what counts as now is the database's clock. It never
// decides anything itself: callers decide while they hold an approval's lock.
// No pgx type leaves the package, and errors are translated at its border.
package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"holdpoint/internal/seal"
)

// Errors that callers test for.
var (
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrConflict: a row of that name is already there.
	ErrConflict = errors.New("it exists already")
	// ErrUnavailable: Postgres could not be asked, or did not answer in time.
	// What was tried may or may not have been done; a retry finds out.
	ErrUnavailable = errors.New("the event store is unavailable")
	// ErrAway: it is unavailable, and may be there later by itself: nothing listens
	// there, it is starting or stopping, or has no room for another connection.
	ErrAway = errors.New("the database is away")
	// ErrUnstorable: a text holds what Postgres cannot keep, such as a NUL.
	ErrUnstorable = errors.New("a text holds what cannot be stored")
	// ErrKilled: a kill switch stops the agent that something was to be granted to.
	ErrKilled = errors.New("a kill switch is on")
	// ErrOtherRequest: the Idempotency-Key was used for a different request.
	ErrOtherRequest = errors.New("the idempotency key belongs to a different request")
)

// Config says how to reach Postgres.
type Config struct {
	URL string // of the runtime role; of the owner for administration
	// Setting is what URL is called where people set it; database_url for "".
	Setting string
	// PeopleURL is of a login that may write accounts as well; "" where only the owner
	// does.
	PeopleURL string
	// Sealer holds the data key; without one, nothing can be checked against
	// it, and the store is good for administration only.
	Sealer *seal.Sealer
	Logger *slog.Logger
	// MaxConns bounds the pool; 0 means 16.
	MaxConns int
	// Timeout bounds every statement; 0 means 5 s.
	Timeout time.Duration
	// Observe, when set, is told of every group commit: how many submissions
	// shared it and how long it took.
	Observe func(size int, took time.Duration)
	// Traces makes the spans of statements and commits; nil for none.
	Traces trace.TracerProvider
	// Observer may be nil.
	Observer Observer
}

// Store is one pool of connections and the group-commit writer on top of it, with
// a sub-store for each room that it serves. Close ends both.
type Store struct {
	*db
	Approvals     Approvals
	Inbox         Inbox
	Outbox        Outbox
	Cards         Cards
	Drafts        Drafts
	Grants        Grants
	Events        Events
	Log           Log
	Streams       Streams
	Evidence      Evidence
	Reports       Reports
	Registry      Registry
	Rules         Rules
	People        People
	Directory     Directory
	Sessions      Sessions
	Factors       Factors
	Keys          Keys
	DataKeys      DataKeys
	Delegations   Delegations
	AccessReviews AccessReviews
	OnCall        OnCall
	Notifications Notifications
	Endpoints     Endpoints
	Push          Push
	Slack         Slack
	Retention     Retention
	Starts        Starts
}

// The sub-stores, which share one pool.
type (
	// Approvals keeps approvals: what waits, what has ended, and their facts.
	Approvals struct{ *db }
	// Inbox finds what waits for a person, and keeps their searches of it and what they have
	// snoozed.
	Inbox struct{ *db }
	// Outbox keeps what the worker has yet to hand to Temporal.
	Outbox struct{ *db }
	// Cards keeps what people were shown of a call.
	Cards struct{ *db }
	// Grants keeps standing grants.
	Grants struct{ *db }
	// Events keeps the audit log's events: read, searched, counted.
	Events struct{ *db }
	// Log keeps the Merkle tree over the events.
	Log struct{ *db }
	// Streams keeps how far the log was sent to receivers outside.
	Streams struct{ *db }
	// Evidence keeps what evidence packs are made of.
	Evidence struct{ *db }
	// Reports keeps what reports count.
	Reports struct{ *db }
	// Registry keeps agents, tools, limits and kill switches.
	Registry struct{ *db }
	// Rules keeps documents in force.
	Rules struct{ *db }
	// People keeps people's accounts, and agents' names and owners.
	People struct{ *db }
	// Sessions keeps sign-ins to the console.
	Sessions struct{ *db }
	// Factors keeps second factors, and attempts to prove them.
	Factors struct{ *db }
	// Keys keeps API keys and signing keys.
	Keys struct{ *db }
	// Delegations keeps who decides in whose place.
	Delegations struct{ *db }
	// AccessReviews keeps what people have said of who has which role.
	AccessReviews struct{ *db }
	// OnCall keeps on-call schedules.
	OnCall struct{ *db }
	// Notifications keeps what people are told, and its deliveries.
	Notifications struct{ *db }
	// Endpoints keeps where notifications go.
	Endpoints struct{ *db }
	// Retention keeps holds, erasures and the floor of retention.
	Retention struct{ *db }
)

func newStore(d *db) *Store {
	return &Store{
		db:            d,
		Approvals:     Approvals{d},
		Inbox:         Inbox{d},
		Outbox:        Outbox{d},
		Cards:         Cards{d},
		Drafts:        Drafts{d},
		Grants:        Grants{d},
		Events:        Events{d},
		Log:           Log{d},
		Streams:       Streams{d},
		Evidence:      Evidence{d},
		Reports:       Reports{d},
		Registry:      Registry{d},
		Rules:         Rules{d},
		People:        People{d},
		Directory:     Directory{d},
		Sessions:      Sessions{d},
		Factors:       Factors{d},
		Keys:          Keys{d},
		DataKeys:      DataKeys{d},
		Delegations:   Delegations{d},
		AccessReviews: AccessReviews{d},
		OnCall:        OnCall{d},
		Notifications: Notifications{d},
		Endpoints:     Endpoints{d},
		Push:          Push{d},
		Slack:         Slack{d},
		Retention:     Retention{d},
		Starts:        Starts{d},
	}
}

// db is what the sub-stores share.
type db struct {
	pool *pgxpool.Pool
	// reserve is for administration and for asking whether Postgres answers:
	// whoever throws a kill switch must not wait behind those whom it stops.
	reserve *pgxpool.Pool
	// people is for changes of accounts, as the role that may; nil where there is no
	// login for it.
	people  *pgxpool.Pool
	turns   nameLocks
	sealer  *seal.Sealer
	log     *slog.Logger
	timeout time.Duration
	// short and long are what waits for the two writers.
	short, long *pending
	writes      writes
	changes     *hub
	clock       clock
	sharedReads *sharedReads
	observe     func(int, time.Duration)
	spans       trace.Tracer
	observer    Observer
	stop        context.CancelFunc
	stopped     chan struct{}
}

// Open connects, checks that the schema is there and that the data key is the
// one that this database's records are sealed with, and starts the writer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", hideURL(err))
	}
	pc.MaxConns = 16
	if cfg.MaxConns > 0 {
		pc.MaxConns = int32(cfg.MaxConns) // #nosec G115 -- configuration bounds it
	}
	s := newStore(&db{
		sealer: cfg.Sealer, log: cfg.Logger, timeout: cfg.Timeout, observe: cfg.Observe, observer: cfg.Observer,
		short: newPending(), long: newPending(), stopped: make(chan struct{}), clock: clock{began: time.Now()},
	})
	s.timeout = cmp.Or(s.timeout, 5*time.Second)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Traces == nil {
		cfg.Traces = noop.NewTracerProvider()
	}
	s.spans = cfg.Traces.Tracer("holdpoint/store")
	if _, off := cfg.Traces.(noop.TracerProvider); !off {
		// A statement has a span where what it belongs to has one; its text holds no values.
		pc.ConnConfig.Tracer = newStatementTracer(cfg.Traces)
	}
	s.connectsLike(pc)
	if s.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, fmt.Errorf("open the database pool: %w", hideURL(err))
	}
	kept := pc.Copy()
	kept.MaxConns, kept.MinConns = 2, 0
	if s.reserve, err = pgxpool.NewWithConfig(ctx, kept); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("open the database pool: %w", hideURL(err))
	}
	setting := cmp.Or(cfg.Setting, "database_url")
	if cfg.PeopleURL != "" {
		if err = s.openPeople(ctx, cfg.PeopleURL, kept); err != nil {
			setting = "database_people_url"
		}
	}
	if err == nil {
		err = s.refusePooler(ctx)
	}
	switch {
	case err != nil:
	case s.sealer != nil:
		// How long it takes to count what is sealed is no sign that Postgres is away.
		if err = s.checkKey(ctx); err == nil {
			err = s.DataKeys.Check(ctx, s.sealer.Keys())
		}
	default:
		err = s.Ping(ctx)
	}
	if err == nil {
		err = s.readClock(ctx)
	}
	if err != nil {
		s.closePools()
		if errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%s: %w", setting, err)
		}
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = cancel
	s.changes, s.sharedReads = newHub(s.pool, s.log), newSharedReads(pc.MaxConns, s.Approvals.Get)
	go s.changes.run(run)
	var writers sync.WaitGroup
	for _, p := range []*pending{s.short, s.long} {
		writers.Go(func() { s.write(run, p) })
	}
	writers.Go(func() { s.followClock(run) })
	go func() {
		writers.Wait()
		close(s.stopped)
	}()
	return s, nil
}

// Close waits for what is being written, then closes the pool. Submissions
// after Close fail with ErrUnavailable.
func (s *Store) Close() {
	s.stop()
	<-s.stopped
	s.changes.wait()
	s.closePools()
}

func (s *Store) closePools() {
	for _, pool := range []*pgxpool.Pool{s.pool, s.reserve, s.people} {
		if pool != nil {
			pool.Close()
		}
	}
}

// openPeople opens the pool for changes of accounts, which connects as another login
// and is set like the one given.
func (s *Store) openPeople(ctx context.Context, url string, like *pgxpool.Config) error {
	own, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the people's database URL: %w", hideURL(err))
	}
	s.connectsLike(own)
	own.MaxConns, own.MinConns = like.MaxConns, like.MinConns
	if s.people, err = pgxpool.NewWithConfig(ctx, own); err != nil {
		return fmt.Errorf("open the people's database pool: %w", hideURL(err))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	may := false
	err = s.people.QueryRow(ctx, `SELECT coalesce(bool_and(pg_has_role(oid, 'USAGE')), false) FROM pg_roles WHERE rolname IN ('holdpoint_runtime', 'holdpoint_people')`).Scan(&may)
	if err == nil && !may {
		return errors.New("database_people_url: its role may not change accounts: log in as a member of holdpoint_runtime and holdpoint_people")
	}
	return translate(err)
}

// checkKey compares the data key with the one that the database was first used with.
func (s *Store) checkKey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var stored []byte
	err := s.pool.QueryRow(ctx, `SELECT key_check FROM installation`).Scan(&stored)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P01" {
		return fmt.Errorf("the database has no Holdpoint schema yet: run holdpoint migrate")
	}
	if err != nil {
		if isAway(err) {
			return &away{hideURL(err)}
		}
		return fmt.Errorf("read the installation: %w", hideURL(err))
	}
	if stored == nil {
		if _, err := s.pool.Exec(ctx, `UPDATE installation SET key_check = $1 WHERE key_check IS NULL`, s.sealer.Check()); err != nil {
			return fmt.Errorf("record the data key's check value: %w", translate(err))
		}
		return s.checkKey(ctx)
	}
	if !bytes.Equal(stored, s.sealer.Check()) {
		return errors.New("data_key: it is not the one that the database's records are encrypted with: give the key that was there before, or name another database")
	}
	return nil
}

// Ping reports whether Postgres answers.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return translate(s.reserve.Ping(ctx))
}

// Now is the database's clock.
func (s *db) Now(ctx context.Context) (time.Time, error) {
	return value[time.Time](ctx, s, `SELECT clock_timestamp()`)
}

// ValidApprovalID reports whether an id has the form of an approval's: what
// has not is not looked for, and is written nowhere.
func ValidApprovalID(id string) bool {
	rest, ok := strings.CutPrefix(id, "apr_")
	return ok && len(rest) == 26 && !strings.ContainsFunc(rest, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// NewID makes a random id: prefix, "_", and 26 lower-case characters.
func NewID(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()) }

// translate turns a driver's error into one of this package's; nil stays nil.
func translate(err error) error {
	if err == nil || isOurs(err) {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if isAway(err) {
		return &away{hideURL(err)}
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return fmt.Errorf("%w: %w", ErrUnavailable, hideURL(err))
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		switch {
		case pgErr.Code == "23505":
			return fmt.Errorf("%w (%s)", ErrConflict, pgErr.ConstraintName)
		case pgErr.Code == "23514" && strings.HasPrefix(pgErr.ConstraintName, "guarded_"):
			return ErrGuarded
		case pgErr.Code == "HPK01":
			return ErrKilled
		case pgErr.Code == "HPE01":
			return &NotErasable{Why: pgErr.Detail}
		case pgErr.Code == "22021" || pgErr.Code == "22P05":
			return ErrUnstorable
		case pgErr.Code == "42P01" || pgErr.Code == "42703" || pgErr.Code == "42883":
			return fmt.Errorf("%w: %s: its schema is not the one that this program knows (is a holdpoint migrate due, or is the program an older one?)", ErrUnavailable, pgErr.Code)
		case pgErr.Code == "53100" || pgErr.Code == readOnly || pgErr.Code == "42501" ||
			// A disk that fails, and pages that it has spoilt.
			pgErr.Code[:2] == "58" || pgErr.Code == "XX001" || pgErr.Code == "XX002":
			return &noWrites{pgErr.Code}
		case pgErr.Code[:2] == "57" || pgErr.Code[:2] == "53" || pgErr.Code[:2] == "08" || pgErr.Code == "40001" || pgErr.Code == "40P01":
			return fmt.Errorf("%w: %s", ErrUnavailable, pgErr.Code)
		}
		// A server message may quote a row; its code and object names do not.
		return &refusedByPostgres{code: pgErr.Code, at: strings.Join([]string{pgErr.TableName, pgErr.ColumnName, pgErr.ConstraintName}, ".")}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, hideURL(err))
}

// away is ErrAway, and ErrUnavailable, with what was found.
type away struct{ cause error }

func (e *away) Error() string { return ErrUnavailable.Error() + ": " + e.cause.Error() }

func (e *away) Is(target error) bool { return target == ErrUnavailable || target == ErrAway }

func (e *away) Unwrap() error { return e.cause }

// isAway reports whether an error of the driver is one of ErrAway.
func isAway(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		// Shutting down, crashed, starting; too many connections.
		return slices.Contains([]string{"57P01", "57P02", "57P03", "53300"}, pgErr.Code)
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// refusedByPostgres is an error that no caller tests for: a mistake of ours.
type refusedByPostgres struct{ code, at string }

func (e *refusedByPostgres) Error() string { return "postgres error " + e.code + " at " + e.at }

func isOurs(err error) bool {
	var refused *refusedByPostgres
	var kept *NotErasable
	return errors.As(err, &refused) || errors.As(err, &kept) || errors.Is(err, ErrUnstorable) || errors.Is(err, ErrKilled) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrGuarded) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOtherRequest)
}

// hideURL drops what a connection error says of user and host: it may hold a
// password that somebody put in the URL.
func hideURL(err error) error {
	var connect *pgconn.ConnectError
	var parse *pgconn.ParseConfigError
	switch {
	case errors.As(err, &parse):
		return errors.New("it is not a postgres:// URL that can be read")
	case errors.As(err, &connect):
		if inner := errors.Unwrap(connect); inner != nil {
			return errors.New("connect: " + causeOf(inner, connect.Config))
		}
	}
	return err
}

// noTLS is what the driver says of a server that takes connections without TLS only.
const noTLS = "server refused TLS connection"

// remedies say what to do about what Postgres says of a login.
var remedies = map[string]string{
	"28P01": ": give the URL the password that the role has",
	"28000": ": let the role in (pg_hba.conf), or give the URL another one",
	"3D000": ": make the database, or name another one in the URL",
}

// causeOf is the one line that says why there is no connection. There may be two
// attempts, with TLS and without, and several addresses: what a server has said about
// the login tells more than that another attempt found no TLS.
func causeOf(err error, to *pgconn.Config) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		where := ""
		if !slices.ContainsFunc(to.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != to.Host || f.Port != to.Port }) {
			where = net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))) + " says "
		}
		return fmt.Sprintf("%s%s: %s (SQLSTATE %s)%s", where, said.Severity, said.Message, said.Code, remedies[said.Code])
	}
	lines := strings.Split(err.Error(), "\n")
	for _, line := range slices.Backward(lines) {
		if !strings.Contains(line, noTLS) {
			return line
		}
	}
	return lines[0] + ", which sslmode in the URL asks for"
}

// inTx runs fn in one transaction at READ COMMITTED. Errors of fn come back as
// they are, errors of Postgres translated.
func (s *db) inTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inTxOn(ctx, s.pool, fn)
}

func (s *db) inTxOn(ctx context.Context, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return translate(err)
	}
	// After a commit this does nothing. It has its own context, so that a
	// caller who went away still gives the connection back clean.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := fn(ctx, tx); err != nil {
		var kept *Replay
		if !errors.As(err, &kept) {
			return err
		}
		_ = tx.Rollback(context.WithoutCancel(ctx)) // it holds the connection that the next line may need
		return cmp.Or(replicated(ctx, pool), err)
	}
	return translate(tx.Commit(ctx))
}

// LoggableApprovalID is the id if it has an approval's form, else "": a caller's own
// text is not put on record.
func LoggableApprovalID(id string) string {
	if ValidApprovalID(id) {
		return id
	}
	return ""
}
