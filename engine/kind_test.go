package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdpoint/engine"
)

// declared are the constants of a type in kind.go, in their order.
func declared(t *testing.T, of string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if is, ok := spec.Type.(*ast.Ident); ok && is.Name == of {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, name)
		}
		return true
	})
	return list
}

// TestEveryKindIsWhole names whatever the table of kinds lacks.
func TestEveryKindIsWhole(t *testing.T) {
	var kinds, dischargers []string
	for _, k := range engine.Kinds() {
		kinds = append(kinds, string(k))
	}
	if want := declared(t, "Kind"); !slices.Equal(kinds, want) {
		t.Errorf("the table has the kinds %q, declared are %q", kinds, want)
	}
	dischargers = declared(t, "Discharger")
	for i, k := range engine.Kinds() {
		kind := k.Traits()
		if k.Order() != i {
			t.Errorf("%s: its order is %d, want %d", k, k.Order(), i)
		}
		if !slices.Contains(dischargers, string(kind.Discharger)) {
			t.Errorf("%s: Discharger %q is none", k, kind.Discharger)
		}
		for _, yes := range []bool{true, false} {
			if statement := kind.Discharger.Says(yes); !k.PeopleDecide() && (statement.Reason.Code == "" || statement.Reason.Message == "" || statement.Timeline == "" || statement.Pack == "") {
				t.Errorf("%s: of a yes that is %t its giver says %+v", k, yes, statement)
			}
		}
		// What some kinds have and others must not. A test of the console knows who
		// has Wanted.
		optional := map[string]bool{
			"Waits":     !kind.VotesCount,
			"Wanted":    kind.Wanted != "",
			"AgentTask": kind.NextAction != "wait",
			"NoPeople":  kind.Discharger != engine.Accountable && !k.PeopleDecide(),
		}
		v := reflect.ValueOf(kind)
		for f := range v.NumField() {
			name, field := v.Type().Field(f).Name, v.Field(f)
			switch wanted, may := optional[name]; {
			case field.Kind() == reflect.Bool:
			case may && !wanted && !field.IsZero():
				t.Errorf("%s: %s is said, and nobody would read it", k, name)
			case (!may || wanted) && field.IsZero():
				t.Errorf("%s: %s is missing", k, name)
			}
		}
		if kind.Approved.Code == "" || kind.Approved.Message == "" || kind.Denied.Code == "" || kind.Denied.Message == "" {
			t.Errorf("%s: a reason has no code or no message: %+v, %+v", k, kind.Approved, kind.Denied)
		}
		if kind.Discharges == engine.Refuse || kind.Discharges != kind.Outcome.Route() {
			t.Errorf("%s: it discharges %s, and its outcome %s is of the route %s", k, kind.Discharges, kind.Outcome, kind.Outcome.Route())
		}
		if strings.Count(kind.AgentTask, "%") != strings.Count(kind.AgentTask, "%s") || strings.Count(kind.AgentTask, "%s") > 1 {
			t.Errorf("%s: AgentTask %q has room for more than the page", k, kind.AgentTask)
		}
	}
	for _, o := range engine.Outcomes() {
		if asked := o.Kind(); (asked != "") != o.Route().Waits() || asked != "" && asked.Traits().Outcome != o {
			t.Errorf("%s asks for %q, whose outcome is %s", o, asked, asked.Traits().Outcome)
		}
	}
}

// TestEveryKindIsNamed: what lists the kinds, and is not made of the table, has them
// all.
func TestEveryKindIsNamed(t *testing.T) {
	var quoted, plain []string
	for _, k := range engine.Kinds() {
		quoted, plain = append(quoted, strconv.Quote(string(k))), append(plain, string(k))
	}
	for path, list := range map[string][]string{
		"../schemas/ocsf/audit_event.schema.json": {`"kind": {"enum": [` + strings.Join(quoted, ", ") + `]}`},
		"../docs/spec/wire.md":                    {"A requirement's `kind`: " + strings.Join(plain, ", ") + "."},
		"../docs/approvals.md":                    strings.Split("| `"+strings.Join(plain, "` |\n| `")+"` |", "\n"),
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range list {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not say %s", path, want)
			}
		}
	}
}

// TestKindsAreForEver: their names and their order are on record in every approval.
func TestKindsAreForEver(t *testing.T) {
	want := []engine.Kind{"answer", "step_up", "ticket", "review", "human"}
	got := slices.DeleteFunc(engine.Kinds(), func(k engine.Kind) bool { return !slices.Contains(want, k) })
	if !slices.Equal(got, want) {
		t.Errorf("kinds are %q, want %q among them in this order", got, want)
	}
	if unknown := engine.Kind("vow").Traits(); unknown.Discharges != engine.Accept || unknown.VotesCount || unknown.Outcome != engine.RequireHuman {
		t.Errorf("a kind that is not known has %+v", unknown)
	}
}
