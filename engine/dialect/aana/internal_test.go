package aana

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

func names[S ~string](list []S) (out []string) {
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func parseErrors(t *testing.T, document any) []ValidationError {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	v, err := canon.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := Parse(v)
	return errs
}

// Every sentence is one that a person can read at a glance.
func TestMessages(t *testing.T) {
	for code, m := range messages {
		if len(m) < 20 || len(m) > 120 || !strings.HasSuffix(m, ".") || strings.Count(m, ".") != 1 || strings.Contains(m, "_") {
			t.Errorf("%s: %q is not one short sentence", code, m)
		}
	}
	for _, e := range evidenceRoutes {
		if messages[e.code] == "" || e.route < engine.Defer {
			t.Errorf("%s: message %q, route %s", e.code, messages[e.code], e.route)
		}
	}
	for _, code := range evidenceWarnings {
		if messages["evidence_warning:"+code] == "" {
			t.Errorf("%s: no message", code)
		}
	}
	for _, route := range routes {
		if recoveries[route] == "" {
			t.Errorf("%s: no recovery suggestion", route)
		}
	}
	for _, route := range routes {
		if _, err := engine.ParseRoute(route); err != nil {
			t.Error(err)
		}
	}
}

// An Event that did not come from Parse is refused rather than judged in part.
func TestMalformedEventIsRefused(t *testing.T) {
	whole := Event{ToolName: "t", Category: PublicRead, State: None, RiskDomain: "hr", Arguments: canon.Object(), Recommended: engine.Accept}
	if r := whole.Judge(time.Date(2026, 4, 2, 12, 0, 0, 0, time.UTC)); r.Route != engine.Accept {
		t.Fatalf("the whole event: got %s", r.Route)
	}
	for name, spoil := range map[string]func(*Event){
		"name":     func(e *Event) { e.ToolName = "\t" },
		"category": func(e *Event) { e.Category = "" },
		"state":    func(e *Event) { e.State = "root" },
		"domain":   func(e *Event) { e.RiskDomain = "" },
		"null":     func(e *Event) { e.Arguments = canon.Null() },
		"array":    func(e *Event) { e.Arguments = canon.Array() },
		"route":    func(e *Event) { e.Recommended = 4 },
	} {
		e := whole
		spoil(&e)
		r := e.Judge(time.Date(2026, 4, 2, 12, 0, 0, 0, time.UTC))
		if r.Route != engine.Refuse || !slices.Equal(r.HardBlockers, []string{"schema_validation_failed"}) || len(r.ValidationErrors) != 1 {
			t.Errorf("%s: got %s %q %v", name, r.Route, r.HardBlockers, r.ValidationErrors)
		}
	}
}
