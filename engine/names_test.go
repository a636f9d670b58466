package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// TestListsAreWhole: the lists of names have every constant of their type, as the
// source declares them.
func TestListsAreWhole(t *testing.T) {
	for _, tc := range []struct {
		file, kind string
		listed     []string
	}{
		{"event.go", "EventType", names(EventTypes())},
		{"route.go", "Outcome", names(Outcomes())},
		{"notification.go", "NotificationKind", names(NotificationKinds())},
	} {
		if declared := constants(t, tc.file, tc.kind); !slices.Equal(declared, tc.listed) {
			t.Errorf("%s declares %q, and lists %q", tc.file, declared, tc.listed)
		}
	}
}

func names[T ~string](list []T) []string {
	var sorted []string
	for _, name := range list {
		sorted = append(sorted, string(name))
	}
	slices.Sort(sorted)
	return sorted
}

func constants(t *testing.T, file, kind string) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != kind {
			return true
		}
		for _, value := range spec.Values {
			text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, text)
		}
		return true
	})
	slices.Sort(found)
	return found
}
