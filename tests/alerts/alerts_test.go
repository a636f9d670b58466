// Package alerts has the tests of deploy/alerts.yaml and deploy/dashboard.json by Prometheus' own
// library: a module of its own, so that what Prometheus is made of is no part of Holdpoint.
package alerts

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// alerts are the rules of deploy/alerts.yaml, as "promtool check rules" reads them.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile("../../deploy/alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// series are what an installation gives in two hours, a value each minute, by alert: while all is well, and
// when it is not.
var series = map[string][2]string{
	"HoldpointDown":                 {`up{job="holdpoint"} 1x120`, `up{job="holdpoint"} 1x100 0x20`},
	"HoldpointPostgresDown":         {`holdpoint_postgres_up 1x120`, `holdpoint_postgres_up 1x100 0x20`},
	"HoldpointTemporalDown":         {`holdpoint_temporal_up 1x120`, `holdpoint_temporal_up 1x100 0x20`},
	"HoldpointDeadlinesLate":        {`holdpoint_approvals_late 0x120`, `holdpoint_approvals_late 0x100 3x20`},
	"HoldpointOutboxStuck":          {`holdpoint_outbox_oldest_age_seconds 1x120`, `holdpoint_outbox_oldest_age_seconds 0+60x120`},
	"HoldpointApprovalsWaitLong":    {`holdpoint_role_approvals_oldest_age_seconds{role="r"} 14400x120`, `holdpoint_role_approvals_oldest_age_seconds{role="r"} 14401x120`},
	"HoldpointApprovalsExpire":      {`holdpoint_approval_duration_seconds_count{status="expired"} 9x120`, `holdpoint_approval_duration_seconds_count{status="expired"} 0+1x120`},
	"HoldpointNobodyEligible":       {`holdpoint_approvals_without_eligible_people_total 4x120`, `holdpoint_approvals_without_eligible_people_total 4x110 5x10`},
	"HoldpointBreakGlass":           {`holdpoint_break_glass_total 4x120`, `holdpoint_break_glass_total 4x110 5x10`},
	"HoldpointReviewsOwed":          {`holdpoint_break_glass_reviews_owed 0x120`, `holdpoint_break_glass_reviews_owed 1x120`},
	"HoldpointEverythingStopped":    {`holdpoint_kill_switches{scope="agent"} 7x120`, `holdpoint_kill_switches{scope="all"} 1x120`},
	"HoldpointSignInFailures":       {`holdpoint_sign_in_failures_total 0+20x120`, `holdpoint_sign_in_failures_total 0+60x120`},
	"HoldpointLogStopped":           {`holdpoint_log_delay_seconds 1x120`, `holdpoint_log_delay_seconds 11x120`},
	"HoldpointLogUnsigned":          {"holdpoint_log_unsigned_events 5x120\nholdpoint_log_checkpoint_timestamp_seconds 0+60x120", "holdpoint_log_unsigned_events 5x120\nholdpoint_log_checkpoint_timestamp_seconds 60x120"},
	"HoldpointFloorBehind":          {"holdpoint_log_events 9x120\nholdpoint_log_floor_events 9x120\nholdpoint_log_floor_timestamp_seconds 60x120", "holdpoint_log_events 9x120\nholdpoint_log_floor_events 8x120\nholdpoint_log_floor_timestamp_seconds 60x120"},
	"HoldpointFactsNotInLog":        {`holdpoint_facts_not_in_log 0x120`, `holdpoint_facts_not_in_log 1x120`},
	"HoldpointStreamBehind":         {`holdpoint_log_stream_oldest_age_seconds{stream="s"} 60x120`, `holdpoint_log_stream_oldest_age_seconds{stream="s"} 601x120`},
	"HoldpointNotificationsLate":    {`holdpoint_notifications_late_seconds 60x120`, `holdpoint_notifications_late_seconds 601x120`},
	"HoldpointNotificationsDead":    {`holdpoint_notifications_dead 3x120`, `holdpoint_notifications_dead 3x110 4x10`},
	"HoldpointPolicyExpires":        {`holdpoint_policy_expires_timestamp_seconds 700000x120`, `holdpoint_policy_expires_timestamp_seconds 600000x120`},
	"HoldpointPolicyUnusable":       {`holdpoint_policy_usable 1x120`, `holdpoint_policy_usable 0x120`},
	"HoldpointPoliciesDiffer":       {"holdpoint_policy_info{version=\"1\",instance=\"a\"} 1x120\nholdpoint_policy_info{version=\"1\",instance=\"b\"} 1x120", "holdpoint_policy_info{version=\"1\"} 1x120\nholdpoint_policy_info{version=\"2\"} 1x120"},
	"HoldpointSettingsDiffer":       {"holdpoint_settings_info{program=\"serve\",settings=\"1\"} 1x120\nholdpoint_settings_info{program=\"worker\",settings=\"2\"} 1x120", "holdpoint_settings_info{program=\"serve\",settings=\"1\"} 1x120\nholdpoint_settings_info{program=\"serve\",settings=\"2\"} 1x120"},
	"HoldpointConnectionsExhausted": {`holdpoint_postgres_connection_wait_seconds_total 0+6x120`, `holdpoint_postgres_connection_wait_seconds_total 0+120x120`},
	"HoldpointSlowDecisions":        {"holdpoint_decision_seconds_bucket{le=\"1\"} 0+99x120\nholdpoint_decision_seconds_bucket{le=\"2\"} 0+99x120\nholdpoint_decision_seconds_bucket{le=\"+Inf\"} 0+99x120", "holdpoint_decision_seconds_bucket{le=\"1\"} 0+90x120\nholdpoint_decision_seconds_bucket{le=\"2\"} 0+99x120\nholdpoint_decision_seconds_bucket{le=\"+Inf\"} 0+99x120"},
	"HoldpointErrors":               {"holdpoint_http_requests_total{status=\"200\"} 0+1000x120\nholdpoint_http_requests_total{status=\"503\"} 0+1x120", "holdpoint_http_requests_total{status=\"200\"} 0+90x120\nholdpoint_http_requests_total{status=\"503\"} 0+10x120"},
}

// TestAlertsFire: Prometheus fires each alert by the figures of an installation that is not well, and none
// by those of one that is.
func TestAlertsFire(t *testing.T) {
	engine := promqltest.NewTestEngine(t, false, 0, 100_000)
	known := alerts(t)
	if len(known) != len(series) {
		t.Errorf("%d alerts, and figures for %d", len(known), len(series))
	}
	for _, a := range known {
		figures, ok := series[a.Alert]
		if !ok {
			t.Errorf("%s: there are no figures", a.Alert)
			continue
		}
		for i, text := range figures {
			var load strings.Builder
			load.WriteString("load 1m\n")
			for line := range strings.Lines(text) {
				load.WriteString("  " + strings.TrimSpace(line) + "\n")
			}
			storage := promqltest.LoadedStorage(t, load.String())
			query, err := engine.NewInstantQuery(t.Context(), storage, nil, a.Expr, time.Unix(0, 0).Add(2*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			found := query.Exec(t.Context())
			fires, err := found.Vector()
			if err != nil || (len(fires) > 0) != (i == 1) {
				t.Errorf("%s by %q: %v, %v", a.Alert, text, fires, err)
			}
			query.Close()
		}
	}
}

// TestDashboard: each of the dashboard's queries can be read.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../../deploy/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			n++
			text := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(text); err != nil {
				t.Errorf("%s: %s: %v", p.Title, q.Expr, err)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d queries were found", n)
	}
}
