package approval

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"holdpoint/engine"
)

// TestEveryFactIsTold names the kinds of fact that a column of words lacks, or of which no
// event tells.
func TestEveryFactIsTold(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "fact.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if is, ok := spec.Type.(*ast.Ident); !ok || is.Name != "FactKind" {
			return true
		}
		kinds++
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		for _, yes := range []bool{true, false} {
			f := Fact{Kind: FactKind(name), Yes: yes}
			s := f.Statement()
			if s.Timeline == "" || s.Pack == "" || (s.Reason.Code == "" || s.Reason.Message == "") && f.Kind != Reopen {
				t.Errorf("%s, yes %t: it is told as %+v", name, yes, s)
			}
		}
		var types []engine.EventType
		for _, e := range engine.EventTypes() {
			if slices.Contains(FactKindsOf(e), FactKind(name)) {
				types = append(types, e)
			}
		}
		if len(types) != 1 {
			t.Errorf("%s: events of the types %q tell of it, want one type (FactKindsOf)", name, types)
		}
		return true
	})
	if kinds < 16 {
		t.Errorf("%d kinds of fact are found", kinds)
	}
}
