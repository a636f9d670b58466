package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestAddingNamesFilesThatAre: every file that docs/adding.md sends people to is
// there.
func TestAddingNamesFilesThatAre(t *testing.T) {
	text, err := os.ReadFile("../docs/adding.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllSubmatch(text, -1)
	if len(links) < 20 {
		t.Errorf("the page has %d links", len(links))
	}
	for _, link := range links {
		if _, err := os.Stat(filepath.Join("../docs", string(link[1]))); err != nil {
			t.Error(err)
		}
	}
}

// TestKindsAreComparedNowhere: what differs between kinds of requirement is in the
// table of engine/kind.go. Code that compares kinds, switches on them or maps them
// would be a second place.
func TestKindsAreComparedNowhere(t *testing.T) {
	kinds := kindNames(t)
	for _, p := range listPackages(t) {
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			named := func(e ast.Expr) {
				if s, ok := e.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); !ok || x.Name != "engine" {
						return
					}
					e = s.Sel
				} else if p.ImportPath != "holdpoint/engine" {
					return
				}
				if id, ok := e.(*ast.Ident); ok && slices.Contains(kinds, id.Name) {
					t.Errorf("%s: %s is compared; make it a field of engine.Traits", fset.Position(id.Pos()), id.Name)
				}
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr:
					named(n.X)
					named(n.Y)
				case *ast.CaseClause:
					for _, e := range n.List {
						named(e)
					}
				case *ast.CompositeLit:
					if _, ok := n.Type.(*ast.MapType); !ok {
						return true
					}
					for _, e := range n.Elts {
						if pair, ok := e.(*ast.KeyValueExpr); ok {
							named(pair.Key)
						}
					}
				}
				return true
			})
		}
	}
}

// kindNames are the names of the constants of type Kind.
func kindNames(t *testing.T) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../engine/kind.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" {
				names = append(names, spec.Names[0].Name)
			}
		}
		return true
	})
	if len(names) < 5 {
		t.Fatalf("engine/kind.go has the kinds %v", names)
	}
	return names
}
