package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"

	"holdpoint/api"
)

// given are the names of all series that serve and worker give.
func given(t *testing.T) []string {
	t.Helper()
	r := NewRegistry("v")
	NewCounters(r)
	r.MustRegister(NewSettings("serve", "0011223344556677"))
	api.NewMetrics(r)
	found := append([]string{"up"}, vectors...)
	for _, d := range all {
		found = append(found, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		found = append(found, f.GetName())
	}
	return found
}

// unknown are the names in an expression that are no series of ours.
func unknown(series []string, expr string) (names []string) {
	for _, name := range regexp.MustCompile(`\b(?:holdpoint_\w+|up)\b`).FindAllString(expr, -1) {
		bare := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			bare = strings.TrimSuffix(bare, suffix)
		}
		if !slices.Contains(series, name) && !slices.Contains(series, bare) {
			names = append(names, name)
		}
	}
	return names
}

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// TestAlertsCanFire: each alert is about figures that there are, and leads to its page.
func TestAlertsCanFire(t *testing.T) {
	data, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	series, seen := given(t), map[string]bool{}
	for _, a := range file.Groups[0].Rules {
		if names := unknown(series, a.Expr); len(names) > 0 || !strings.Contains(a.Expr, "up") && !strings.Contains(a.Expr, "holdpoint_") {
			t.Errorf("%s: there is no %v in %s", a.Alert, names, a.Expr)
		}
		if _, err := model.ParseDuration(a.For); a.For != "" && err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
		if !slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) || a.Annotations["summary"] == "" || seen[a.Alert] {
			t.Errorf("%+v", a)
		}
		seen[a.Alert] = true
		if a.Annotations["runbook_url"] != "docs/runbooks.md#"+strings.ToLower(a.Alert) || !strings.Contains(string(page), "\n## "+a.Alert+"\n") {
			t.Errorf("%s leads to %s", a.Alert, a.Annotations["runbook_url"])
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		if !seen[heading[1]] {
			t.Errorf("the page has %s, and there is no such alert", heading[1])
		}
	}
}

// TestDashboardShowsWhatThereIs: each panel is about figures that there are.
func TestDashboardShowsWhatThereIs(t *testing.T) {
	data, err := os.ReadFile("../../deploy/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	series, shown := given(t), 0
	for i, p := range board.Panels {
		if p.ID != i+1 || p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%+v", p)
		}
		for _, q := range p.Targets {
			shown++
			if names := unknown(series, q.Expr); len(names) > 0 || !strings.Contains(q.Expr, "holdpoint_") {
				t.Errorf("%s: there is no %v in %s", p.Title, names, q.Expr)
			}
		}
	}
	if shown < 30 {
		t.Errorf("only %d queries were found", shown)
	}
}
