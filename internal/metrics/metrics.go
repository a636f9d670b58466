// Package metrics is what those who run serve and worker watch, as Prometheus metrics:
// what waits and for how long, what people have decided, how the audit log, Postgres,
// Temporal and the policy stand. No label ever holds an id of an approval, an agent or a
// person, or anything else that a caller wrote. It decides nothing, and serves nothing.
package metrics

import (
	"encoding/json"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/tally"
)

// NewRegistry is a registry with the metrics that every process has: those of the Go
// runtime and of the system, and which build it is.
func NewRegistry(version string) *prometheus.Registry {
	revision, goVersion := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdpoint_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": goVersion},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// NewSettings is the metric that says which settings a process was started with: the same text for the
// same settings.
func NewSettings(program, settings string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdpoint_settings_info", Help: "Always 1; the label settings is the same where processes of one program were started with the same settings.",
		ConstLabels: prometheus.Labels{"program": program, "settings": settings},
	})
	info.Set(1)
	return info
}

// Counters count what this process has written since it started. It is a
// store.Observer: what did not commit is not counted. Sum them over all processes.
type Counters struct {
	votes          *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	escalations    prometheus.Counter
	nobody         prometheus.Counter
	breakGlass     prometheus.Counter
	signIns        prometheus.Counter
	signInFailures prometheus.Counter
}

// The labels of votes.
const (
	approve, deny   = "approve", "deny"
	person, byGrant = "person", "grant"
)

// NewCounters returns counters that are registered and all there, at 0.
func NewCounters(r *prometheus.Registry) *Counters {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	c := &Counters{
		votes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_votes_total", Help: "Votes that were recorded, by what they say and whether a person or a standing grant cast them.",
		}, []string{"decision", "by"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdpoint_approval_duration_seconds", Help: "Time from an approval's opening to its end, by how it ended.",
			Buckets: []float64{1, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600, 48 * 3600, 7 * 24 * 3600},
		}, []string{"status"}),
		escalations:    counter("holdpoint_escalations_total", "Times that an approval was opened to another role, because of the time or because nobody else could decide."),
		nobody:         counter("holdpoint_approvals_without_eligible_people_total", "Times that an approval was found to wait for people who are not there."),
		breakGlass:     counter("holdpoint_break_glass_total", "Emergency approvals by one person."),
		signIns:        counter("holdpoint_sign_ins_total", "Sign-ins to the console."),
		signInFailures: counter("holdpoint_sign_in_failures_total", "Attempts to sign in that were refused; beyond 20 of a kind, those of a minute are added at its end."),
	}
	for _, status := range []approval.Status{approval.Approved, approval.Denied, approval.Expired, approval.Cancelled} {
		c.duration.WithLabelValues(string(status))
	}
	for _, decision := range []string{approve, deny} {
		c.votes.WithLabelValues(decision, person)
	}
	c.votes.WithLabelValues(approve, byGrant)
	r.MustRegister(c.votes, c.duration, c.escalations, c.nobody, c.breakGlass, c.signIns, c.signInFailures)
	return c
}

// Recorded counts sign-ins.
func (c *Counters) Recorded(e engine.Event) {
	switch {
	case e.Type != engine.SignIn || len(e.Reasons) == 0:
	case e.Outcome == engine.Deny:
		var more tally.Count
		if json.Unmarshal(e.SafePayload, &more) != nil || more.N < 1 {
			more.N = 1
		}
		c.signInFailures.Add(float64(more.N))
	case e.Reasons[0].Code == "SIGNED_IN":
		c.signIns.Inc()
	}
}

// Contributed counts votes and emergencies.
func (c *Counters) Contributed(f approval.Fact) {
	switch f.Kind { //nolint:exhaustive // the others are not counted
	case approval.Vote:
		decision, by := deny, person
		if f.Yes {
			decision = approve
		}
		if f.Details.Grant != "" {
			by = byGrant
		}
		c.votes.WithLabelValues(decision, by).Inc()
	case approval.BreakGlass:
		c.breakGlass.Inc()
	}
}

// Announced counts what people had to be told of an approval.
func (c *Counters) Announced(kind engine.NotificationKind) {
	switch kind { //nolint:exhaustive // the others are not counted
	case engine.NotifyEscalated:
		c.escalations.Inc()
	case engine.NotifyNobodyEligible:
		c.nobody.Inc()
	}
}

// Ended takes down how long an approval has waited.
func (c *Counters) Ended(status approval.Status, after time.Duration) {
	c.duration.WithLabelValues(string(status)).Observe(after.Seconds())
}
