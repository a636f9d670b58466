package gate_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/internal/metrics"
	"holdpoint/internal/notify"
	"holdpoint/internal/store/storetest"
)

// scraper reads metrics as Prometheus does.
type scraper struct {
	t        testing.TB
	registry *prometheus.Registry
}

// figure is the sum of a metric's values, of a histogram the number of observations;
// labels are pairs of which each has to be there. There is none where found is false.
func (s scraper) figure(name string, labels ...string) (sum float64, found bool) {
	s.t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
	if err != nil || w.Code != http.StatusOK {
		s.t.Fatalf("%d %v\n%s", w.Code, err, w.Body)
	}
	for _, m := range families[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && has[labels[i]] == labels[i+1]
		}
		if fits {
			found = true
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum, found
}

func (s scraper) want(what string, want float64, name string, labels ...string) {
	s.t.Helper()
	if got, found := s.figure(name, labels...); !found || got != want {
		s.t.Errorf("%s: %s%v is %v (%t), want %v", what, name, labels, got, found, want)
	}
}

// rises fails the test unless the figure is greater than 0.
func (s scraper) rises(what, name string, labels ...string) {
	s.t.Helper()
	if got, _ := s.figure(name, labels...); got <= 0 {
		s.t.Errorf("%s: %s%v is %v", what, name, labels, got)
	}
}

// watchedHarness is a harness whose figures are read anew by every scrape.
func watchedHarness(t *testing.T, r approval.Routing) (*harness, scraper) {
	t.Helper()
	s := scraper{t, metrics.NewRegistry("v1.2.3")}
	db := storetest.New(t)
	db.Observer = metrics.NewCounters(s.registry)
	h := harnessOn(t, db, r)
	h.settler.Notifier = &notify.Notifier{PublicURL: "https://console.example.com"}
	s.registry.MustRegister(&metrics.State{
		Store: h.Store, Logger: slog.New(slog.DiscardHandler), Every: 1, Temporal: func(context.Context) error { return nil },
		Policy: func() metrics.Policy {
			p := h.rules.Policy
			return metrics.Policy{Version: p.Version, ExpiresAt: p.ExpiresAt, Usable: true}
		},
		Floor: func() (metrics.Floor, error) { return metrics.Floor{Size: 3, KeptAt: time.Unix(5, 0)}, nil },
	})
	return h, s
}

// TestFiguresFollowWhatIsDone: each figure is seen to change by the act that it is about.
func TestFiguresFollowWhatIsDone(t *testing.T) {
	r := routing(time.Hour, 1)
	r.Default.Escalation = []engine.Escalation{{After: engine.Duration(time.Millisecond), Role: "other"}}
	h, s := watchedHarness(t, r)
	ctx := context.Background()

	s.want("at first", 0, "holdpoint_approvals_pending", "kind", "review")
	s.want("at first", 0, "holdpoint_votes_total")
	s.want("always", 1, "holdpoint_build_info", "version", "v1.2.3")
	s.want("always", 1, "holdpoint_policy_info", "version", "1")
	s.want("always", float64(h.rules.Policy.ExpiresAt.Unix()), "holdpoint_policy_expires_timestamp_seconds")
	s.want("always", 1, "holdpoint_postgres_up")
	s.want("always", 24, "holdpoint_postgres_connections_max")
	s.want("always", 3, "holdpoint_log_floor_events")
	s.want("always", 5, "holdpoint_log_floor_timestamp_seconds")

	approved, denied := h.open(deferred), h.open(another(deferred))
	s.want("two wait", 2, "holdpoint_approvals_pending", "kind", "review")
	s.want("two wait", 2, "holdpoint_role_approvals_pending", "role", "reviewer")
	s.rises("two wait", "holdpoint_approvals_oldest_age_seconds", "kind", "review")
	s.rises("two wait", "holdpoint_role_approvals_oldest_age_seconds", "role", "reviewer")
	s.want("two wait", 2, "holdpoint_outbox_messages")
	s.rises("two wait", "holdpoint_outbox_oldest_age_seconds")
	s.rises("no sequencer runs", "holdpoint_log_delay_seconds")

	h.settle(approved.ID)
	s.want("a time has passed", 1, "holdpoint_escalations_total")
	s.want("another role may decide", 1, "holdpoint_role_approvals_pending", "role", "other")
	if err := h.vote("ada", approved, true); err != nil {
		t.Fatal(err)
	}
	if err := h.vote("owner", denied, false); err == nil {
		t.Fatal("the agent's owner has voted")
	}
	if err := h.vote("ada", denied, false); err != nil {
		t.Fatal(err)
	}
	s.want("a yes", 1, "holdpoint_votes_total", "decision", "approve", "by", "person")
	s.want("a no", 1, "holdpoint_votes_total", "decision", "deny", "by", "person")
	h.settle(approved.ID)
	h.settle(denied.ID)
	h.settle(denied.ID) // again, which changes nothing
	s.want("approved", 1, "holdpoint_approval_duration_seconds", "status", "approved")
	s.want("denied", 1, "holdpoint_approval_duration_seconds", "status", "denied")
	s.want("none waits", 0, "holdpoint_approvals_pending")

	h.give("ben", approval.BreakGlassRole)
	a := h.open(another(deferred))
	if _, err := h.Contributions.BreakGlass(ctx, h.says("ben", a.ID, "the house is on fire"), true, a.Call.Digest, a.Version, nil); err != nil {
		t.Fatal(err)
	}
	h.settle(a.ID)
	s.want("an emergency", 1, "holdpoint_break_glass_total")
	s.want("an emergency", 1, "holdpoint_break_glass_reviews_owed")
	if _, err := h.Contributions.ReviewBreakGlass(ctx, h.says("ada", a.ID, "it was"), true, nil); err != nil {
		t.Fatal(err)
	}
	s.want("it was looked at", 0, "holdpoint_break_glass_reviews_owed")

	s.want("no switch", 0, "holdpoint_kill_switches")
	for _, agent := range []string{"", "bot"} {
		if err := h.Registry.ThrowKillSwitch(ctx, access.Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: "usr_1", Channel: "cli"}}, agent, "fire", nil); err != nil {
			t.Fatal(err)
		}
	}
	s.want("all are stopped", 1, "holdpoint_kill_switches", "scope", "all")
	s.want("one is stopped", 1, "holdpoint_kill_switches", "scope", "agent")
}

// TestFiguresOfWhatEndsByItself: expiries, what nobody looks at, and what nobody may do.
func TestFiguresOfWhatEndsByItself(t *testing.T) {
	h, s := watchedHarness(t, routing(300*time.Millisecond, 1))
	a := h.open(deferred)
	h.db.Exec(`UPDATE approvals SET wake_at = clock_timestamp() - interval '2 minutes' WHERE id = $1`, a.ID)
	s.want("no worker runs", 1, "holdpoint_approvals_late")
	for deadline := time.Now().Add(20 * time.Second); h.get(a.ID).Approval.Status == approval.Pending; {
		if time.Now().After(deadline) {
			t.Fatal("it does not expire")
		}
		h.settle(a.ID)
	}
	s.want("it has expired", 1, "holdpoint_approval_duration_seconds", "status", "expired")
	s.want("it has ended", 0, "holdpoint_approvals_late")

	lonely := routing(time.Hour, 1)
	lonely.Default.Role = "nobody-has-it"
	h.judgeBy(gate.Rules{Environment: "test", Routing: lonely})
	h.settle(h.open(another(deferred)).ID)
	s.want("nobody has the role", 1, "holdpoint_approvals_without_eligible_people_total")

	// Those who try passwords are all counted, however few of them are on record.
	in := identity.NewSignIn(h.config.Factors)
	const tries = 30
	for i := range tries {
		if _, err := in.SignIn(context.Background(), "nobody@example.com", "wrong", "", "192.0.2.1", ""); err == nil {
			t.Fatal("signed in", i)
		}
	}
	in.Flush()
	s.want("passwords were tried", tries, "holdpoint_sign_in_failures_total")
	s.want("nobody is in", 0, "holdpoint_sign_ins_total")
}

// TestFiguresKeepToTheConventions: of Prometheus, by its own linter.
func TestFiguresKeepToTheConventions(t *testing.T) {
	_, s := watchedHarness(t, routing(time.Hour, 1))
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
