package api

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the server's Prometheus metrics. No label ever holds anything
// that a caller wrote.
type Metrics struct {
	*prometheus.Registry
	decisions       *prometheus.CounterVec
	decisionSeconds prometheus.Histogram
	redeemed        prometheus.Counter
	turnedAway      *prometheus.CounterVec
	requests        *prometheus.CounterVec
	requestSeconds  *prometheus.HistogramVec
	waiting         prometheus.Gauge
	commitSize      prometheus.Histogram
	commitSeconds   prometheus.Histogram
}

// NewMetrics returns metrics that are registered.
func NewMetrics(r *prometheus.Registry) *Metrics {
	m := &Metrics{
		Registry: r,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_decisions_total",
			Help: "Calls that were judged, by dialect and route.",
		}, []string{"dialect", "route"}),
		decisionSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdpoint_decision_seconds",
			Help: "Time from reading a proposed call to its durable decision.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		redeemed: prometheus.NewCounter(prometheus.CounterOpts{Name: "holdpoint_tokens_redeemed_total", Help: "Tokens that were spent."}),
		turnedAway: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_requests_turned_away_total",
			Help: "Requests that a door turned away before they were judged, by code.",
		}, []string{"code"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdpoint_http_requests_total",
			Help: "HTTP requests, by route and status.",
		}, []string{"route", "status"}),
		requestSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdpoint_http_request_seconds",
			Help: "Time to answer, by route; held requests included.", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"route"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdpoint_waiting_readers", Help: "Requests that are held until an approval changes."}),
		commitSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdpoint_group_commit_events",
			Help: "Events that shared one commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdpoint_group_commit_seconds",
			Help: "Time of one group commit.", Buckets: prometheus.ExponentialBuckets(0.0002, 2, 14),
		}),
	}
	r.MustRegister(m.decisions, m.decisionSeconds, m.redeemed, m.turnedAway, m.requests, m.requestSeconds, m.waiting, m.commitSize, m.commitSeconds)
	return m
}

// Commit observes one group commit.
func (m *Metrics) Commit(size int, took time.Duration) {
	m.commitSize.Observe(float64(size))
	m.commitSeconds.Observe(took.Seconds())
}

// Gauge adds a gauge that is read when metrics are.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Handler serves the metrics under /metrics, and nothing else, to whoever asks: for
// an address that only those reach who may.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", exposition(m.Registry))
	return mux
}

// Monitoring serves /healthz, /readyz and /metrics, and nothing else, to whoever asks:
// for an address that only those reach who may.
func Monitoring(r *prometheus.Registry, probes []Probe) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", health(func(context.Context) (int, Health) { return http.StatusOK, alive }))
	mux.HandleFunc("GET /readyz", health(func(ctx context.Context) (int, Health) { return ready(ctx, probes) }))
	mux.Handle("GET /metrics", exposition(r))
	return mux
}

// health answers with what ask says.
func health(ask func(context.Context) (int, Health)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, h := ask(r.Context())
		reply, err := jsonReply(status, h, nil)
		if err != nil {
			reply = (&failure{Status: http.StatusInternalServerError, Code: "internal"}).reply()
		}
		writeReply(w, reply)
	}
}

// exposition is the metrics as text. Those that can be had are there, whatever becomes
// of the others.
func exposition(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

func (a systemDoor) metrics(c *call) error {
	exposition(a.Metrics.Registry).ServeHTTP(c.w, c.r)
	return nil
}

// Probe asks one dependency whether it is there.
type Probe struct {
	Name string
	// Required: without it nothing can be decided. Without the others, what
	// waits goes on waiting.
	Required bool
	Ask      func(context.Context) error
}

// Health says how the server is.
type Health struct {
	Status  string   `json:"status" enum:"ok,degraded,unavailable"`
	Missing []string `json:"missing" doc:"Dependencies that do not answer."`
}

var alive = Health{Status: "ok", Missing: []string{}}

func (a systemDoor) healthz(c *call) error { return writeJSON(c, http.StatusOK, alive) }

// probeTimeout bounds a readiness answer.
const probeTimeout = 2 * time.Second

func (a systemDoor) readyz(c *call) error {
	status, h := ready(c.r.Context(), a.Probes)
	return writeJSON(c, status, h)
}

// ready asks all dependencies at once.
func ready(ctx context.Context, probes []Probe) (status int, h Health) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	errs := make([]chan error, len(probes))
	for i, p := range probes {
		errs[i] = make(chan error, 1)
		go func() { errs[i] <- p.Ask(ctx) }()
	}
	h, status = Health{Status: "ok", Missing: []string{}}, http.StatusOK
	for i, p := range probes {
		var err error
		select {
		case err = <-errs[i]:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err == nil {
			continue
		}
		h.Missing = append(h.Missing, p.Name)
		if p.Required {
			h.Status, status = "unavailable", http.StatusServiceUnavailable
		} else if h.Status == "ok" {
			h.Status = "degraded"
		}
	}
	return status, h
}

func writeJSON(c *call, status int, body any) error {
	reply, err := jsonReply(status, body, nil)
	if err != nil {
		return err
	}
	writeReply(c.w, reply)
	return nil
}

func (a systemDoor) jwks(c *call) error {
	set, err := a.Gate.Queries.JWKS(c.r.Context())
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/jwk-set+json")
	c.w.Header().Set("Cache-Control", "public, max-age=60")
	_, _ = c.w.Write(set)
	return nil
}
