package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdpoint/engine"
	"holdpoint/internal/store"
)

// every is for how long what was read is shown again: however many ask, Postgres and
// Temporal are asked no more often than that by one process.
const every = 15 * time.Second

// State collects how things stand. All fields but Floor and Every are required.
type State struct {
	Store interface {
		Metrics(ctx context.Context) (store.Metrics, error)
		Connections() store.Connections
	}
	// Temporal asks whether Temporal is there.
	Temporal func(context.Context) error
	// Policy says what this process judges by; no version for no policy.
	Policy func() Policy
	// Floor reads what is kept of the audit log outside Postgres; nil where nothing is.
	Floor func() (Floor, error)
	// Logger is told why something has not answered.
	Logger *slog.Logger
	// Every is for how long a reading is shown again; 15 s when 0.
	Every time.Duration

	mu   sync.Mutex
	last reading
}

// Policy is the policy in force, as a process knows it.
type Policy struct {
	Version   string
	ExpiresAt time.Time
	// Usable is false while every call is refused, because the policy has expired or
	// cannot be read.
	Usable bool
}

// Floor is a checkpoint that is kept outside Postgres.
type Floor struct {
	Size   int64 // events
	KeptAt time.Time
}

// reading is what was read together.
type reading struct {
	at       time.Time
	figures  store.Metrics
	postgres bool // Postgres has given the figures
	temporal bool
	floor    *Floor
}

// readWithin bounds a reading: a scrape waits for it.
const readWithin = 5 * time.Second

// maxRoles is how many roles have figures of their own; the others have them together,
// so that their number is bounded whatever policies name.
const (
	maxRoles   = 50
	otherRoles = "(others)"
)

var (
	all []*prometheus.Desc

	postgresUp   = desc("holdpoint_postgres_up", "Whether Postgres has answered; without it, what is read from it is left out.")
	temporalUp   = desc("holdpoint_temporal_up", "Whether Temporal has answered.")
	readAt       = desc("holdpoint_figures_timestamp_seconds", "When these were read that come from Postgres, Temporal and the floor, as Unix time.")
	connections  = desc("holdpoint_postgres_connections", "Connections to Postgres that this process has, by state.", "state")
	connectMax   = desc("holdpoint_postgres_connections_max", "Connections to Postgres that this process may have.")
	connectWaits = desc("holdpoint_postgres_connection_waits_total", "Times that a connection had to be waited for.")
	connectTime  = desc("holdpoint_postgres_connection_wait_seconds_total", "Time that was waited for connections.")

	pending    = desc("holdpoint_approvals_pending", "Approvals that wait, by the kind of what they wait for.", "kind")
	oldest     = desc("holdpoint_approvals_oldest_age_seconds", "How long ago the oldest approval that waits was opened, by the kind of what it waits for.", "kind")
	rolePend   = desc("holdpoint_role_approvals_pending", "Approvals that somebody with the role may decide on now.", "role")
	roleOldest = desc("holdpoint_role_approvals_oldest_age_seconds", "How long ago the oldest of those was opened.", "role")
	late       = desc("holdpoint_approvals_late", "Approvals that a worker should have looked at more than a minute ago: their deadlines pass without effect.")

	outbox       = desc("holdpoint_outbox_messages", "Messages that wait for Temporal.")
	outboxOldest = desc("holdpoint_outbox_oldest_age_seconds", "How long the oldest message has waited for Temporal.")

	notifications = desc("holdpoint_notifications_waiting", "Notifications that have not been sent yet.")
	notifyLate    = desc("holdpoint_notifications_late_seconds", "For how long the first of them should have been sent.")
	notifyDead    = desc("holdpoint_notifications_dead", "Notifications that were given up.")

	kills = desc("holdpoint_kill_switches", "Kill switches in force: of all agents, and of single ones.", "scope")
	owed  = desc("holdpoint_break_glass_reviews_owed", "Emergency approvals that nobody has looked at afterwards.")

	logEvents   = desc("holdpoint_log_events", "Events that have their place in the audit log.")
	logDelay    = desc("holdpoint_log_delay_seconds", "For how long the oldest event without a place in the audit log has waited for it.")
	logUnsigned = desc("holdpoint_log_unsigned_events", "Events with a place that no checkpoint covers yet.")
	logSigned   = desc("holdpoint_log_checkpoint_timestamp_seconds", "When the last checkpoint was signed, as Unix time.")
	floorEvents = desc("holdpoint_log_floor_events", "Events that the checkpoint in log_floor_file covers.")
	floorKept   = desc("holdpoint_log_floor_timestamp_seconds", "When log_floor_file was written, as Unix time.")
	notInLog    = desc("holdpoint_facts_not_in_log", "Facts of which no event tells, of approvals that wait or ended in the last hour: somebody writes around the programs.")
	behind      = desc("holdpoint_log_stream_behind_events", "Events that the receiver has yet to be sent.", "stream")
	behindFor   = desc("holdpoint_log_stream_oldest_age_seconds", "How long the oldest of those has had its place in the log.", "stream")
	failing     = desc("holdpoint_log_stream_failing", "Whether the last attempt to send to the receiver failed.", "stream")

	policyInfo    = desc("holdpoint_policy_info", "1 for the policy that this process judges by.", "version")
	policyExpires = desc("holdpoint_policy_expires_timestamp_seconds", "When that policy expires, as Unix time: every call is refused from then on.")
	policyUsable  = desc("holdpoint_policy_usable", "0 while every call is refused because the policy has expired or cannot be read.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	all = append(all, d)
	return d
}

// Describe names every metric.
func (s *State) Describe(to chan<- *prometheus.Desc) {
	for _, d := range all {
		to <- d
	}
}

// Collect gives what was read last, and reads again when that is too long ago. Who asks
// meanwhile waits for the same reading.
func (s *State) Collect(to chan<- prometheus.Metric) {
	r := s.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		for i, l := range labels {
			labels[i] = strings.ToValidUTF8(l, "\uFFFD") // any other is a panic
		}
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(readAt, unix(r.at))
	gauge(postgresUp, boolean(r.postgres))
	gauge(temporalUp, boolean(r.temporal))
	c := s.Store.Connections()
	gauge(connections, float64(c.Busy), "busy")
	gauge(connections, float64(c.Idle), "idle")
	gauge(connectMax, float64(c.Max))
	to <- prometheus.MustNewConstMetric(connectWaits, prometheus.CounterValue, float64(c.Waits))
	to <- prometheus.MustNewConstMetric(connectTime, prometheus.CounterValue, c.Waited.Seconds())
	p := s.Policy()
	gauge(policyUsable, boolean(p.Usable))
	if p.Version != "" {
		gauge(policyInfo, 1, p.Version)
		gauge(policyExpires, unix(p.ExpiresAt))
	}
	if r.floor != nil {
		gauge(floorEvents, float64(r.floor.Size))
		gauge(floorKept, unix(r.floor.KeptAt))
	}
	if r.postgres {
		collect(r.figures, gauge)
	}
}

// collect gives what comes from Postgres.
func collect(f store.Metrics, gauge func(*prometheus.Desc, float64, ...string)) {
	for _, w := range byKind(f.ByKind) {
		gauge(pending, float64(w.N), w.For)
		gauge(oldest, w.Oldest.Seconds(), w.For)
	}
	for _, w := range bounded(f.ByRole) {
		gauge(rolePend, float64(w.N), w.For)
		gauge(roleOldest, w.Oldest.Seconds(), w.For)
	}
	gauge(late, float64(f.Late))
	gauge(outbox, float64(f.Outbox))
	gauge(outboxOldest, f.OutboxOldest.Seconds())
	gauge(notifications, float64(f.Notifications))
	gauge(notifyLate, f.NotificationsLate.Seconds())
	gauge(notifyDead, float64(f.NotificationsDead))
	gauge(kills, boolean(f.AllKilled), "all")
	gauge(kills, float64(f.AgentsKilled), "agent")
	gauge(owed, float64(f.ReviewsOwed))
	gauge(logEvents, float64(f.LogSize))
	gauge(logDelay, f.LogDelay.Seconds())
	gauge(logUnsigned, float64(f.LogSize-f.Signed))
	if !f.SignedAt.IsZero() {
		gauge(logSigned, unix(f.SignedAt))
	}
	gauge(notInLog, float64(f.NotInLog))
	for _, p := range f.Streams {
		gauge(behind, float64(p.Behind()), p.Name)
		gauge(behindFor, p.Oldest.Seconds(), p.Name)
		gauge(failing, boolean(p.Error != ""), p.Name)
	}
}

// byKind has every kind, in order; what waits for nothing that people or agents could
// give is "none".
func byKind(found []store.WaitingApprovals) []store.WaitingApprovals {
	var list []store.WaitingApprovals
	for _, kind := range append(engine.Kinds(), "") {
		w := store.WaitingApprovals{For: string(kind)}
		if i := slices.IndexFunc(found, func(w store.WaitingApprovals) bool { return w.For == string(kind) }); i >= 0 {
			w = found[i]
		}
		w.For = cmp.Or(w.For, "none")
		list = append(list, w)
	}
	return list
}

// bounded puts together the roles that have the least.
func bounded(roles []store.WaitingApprovals) []store.WaitingApprovals {
	if len(roles) <= maxRoles {
		return roles
	}
	others := store.WaitingApprovals{For: otherRoles}
	for _, w := range roles[maxRoles:] {
		others.N += w.N
		others.Oldest = max(others.Oldest, w.Oldest)
	}
	return append(slices.Clone(roles[:maxRoles]), others)
}

// read is the last reading, or a new one.
func (s *State) read() reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.at.IsZero() && time.Since(s.last.at) < cmp.Or(s.Every, every) {
		return s.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	r := reading{}
	var asking sync.WaitGroup
	asking.Go(func() {
		err := s.Temporal(ctx)
		if r.temporal = err == nil; !r.temporal {
			s.Logger.Warn("figures not read", "of", "temporal", "error", err)
		}
	})
	asking.Go(func() {
		var err error
		r.figures, err = s.Store.Metrics(ctx)
		if r.postgres = err == nil; !r.postgres {
			s.Logger.Warn("figures not read", "of", "postgres", "error", err)
		}
	})
	if s.Floor != nil {
		if f, err := s.Floor(); err == nil {
			r.floor = &f
		} else {
			s.Logger.Warn("figures not read", "of", "floor", "error", err)
		}
	}
	asking.Wait()
	r.at = time.Now()
	s.last = r
	return r
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
