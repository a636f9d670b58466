package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"holdpoint/api"
	"holdpoint/internal/store"
)

// source is a store that says what it is told to.
type source struct {
	figures store.Metrics
	err     error
	read    atomic.Int64
}

func (s *source) Metrics(context.Context) (store.Metrics, error) {
	s.read.Add(1)
	return s.figures, s.err
}

func (*source) Connections() store.Connections { return store.Connections{} }

// state is a State of the source, registered.
func state(s *source, temporal error) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&State{Store: s, Logger: slog.New(slog.DiscardHandler), Temporal: func(context.Context) error { return temporal }, Policy: func() Policy { return Policy{} }})
	return r
}

// gathered are the metrics by name.
func gathered(t *testing.T, r *prometheus.Registry) map[string][]*dto.Metric {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]*dto.Metric{}
	for _, f := range families {
		found[f.GetName()] = f.GetMetric()
	}
	return found
}

// However many scrape at once, and however often: Postgres is read every 15 seconds.
func TestPostgresIsReadNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		r := state(s, nil)
		var scraping sync.WaitGroup
		for range 20 {
			scraping.Go(func() { gathered(t, r) })
		}
		scraping.Wait()
		time.Sleep(14 * time.Second)
		gathered(t, r)
		if n := s.read.Load(); n != 1 {
			t.Errorf("read %d times within 15 s", n)
		}
		time.Sleep(time.Second)
		gathered(t, r)
		if n := s.read.Load(); n != 2 {
			t.Errorf("read %d times after 15 s", n)
		}
	})
}

// What is not known is left out, and not shown as it was.
func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	s := &source{err: errors.New("away")}
	found := gathered(t, state(s, errors.New("away, too")))
	for _, name := range []string{"holdpoint_postgres_up", "holdpoint_temporal_up", "holdpoint_policy_usable"} {
		if len(found[name]) != 1 || found[name][0].GetGauge().GetValue() != 0 {
			t.Errorf("%s: %v", name, found[name])
		}
	}
	for _, name := range []string{"holdpoint_outbox_messages", "holdpoint_approvals_pending", "holdpoint_log_floor_events", "holdpoint_policy_info"} {
		if len(found[name]) != 0 {
			t.Errorf("%s: %v", name, found[name])
		}
	}
}

// Every figure is in docs/metrics.md, and nothing there is made up.
func TestEveryFigureIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`holdpoint_[a-z_]+`).FindAllString(string(page), -1)
	given := regexp.MustCompile(`holdpoint_[a-z_]+`).FindAllString(fmt.Sprint(all), -1)
	r := NewRegistry("v")
	NewCounters(r)
	api.NewMetrics(r)
	r.MustRegister(NewSettings("serve", "0011223344556677"))
	for name := range gathered(t, r) {
		given = append(given, name)
	}
	given = append(given, vectors...)
	for _, name := range given {
		if strings.HasPrefix(name, "holdpoint_") && !slices.Contains(documented, name) {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(given, name) {
			t.Errorf("%s is documented, and there is no such figure", name)
		}
	}
}

// vectors are of package api, and there once something was counted.
var vectors = []string{
	"holdpoint_decisions_total", "holdpoint_requests_turned_away_total", "holdpoint_http_requests_total", "holdpoint_http_request_seconds",
	"holdpoint_in_flight_calls", "holdpoint_in_flight_bytes", "holdpoint_in_flight_waiting",
}

// Roles are of policies; there are no more series than a bound, whatever those name.
func TestRolesAreBounded(t *testing.T) {
	s := &source{}
	for i := range 1000 {
		s.figures.ByRole = append(s.figures.ByRole, store.WaitingApprovals{For: fmt.Sprintf("role-%d\xff", i), N: 2, Oldest: time.Duration(i) * time.Second})
	}
	found := gathered(t, state(s, nil))
	sum := 0.0
	for _, m := range found["holdpoint_role_approvals_pending"] {
		sum += m.GetGauge().GetValue()
	}
	if n := len(found["holdpoint_role_approvals_pending"]); n != maxRoles+1 || sum != 2000 {
		t.Errorf("%d series of %v approvals", n, sum)
	}
}
