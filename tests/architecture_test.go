package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// goPackage is what "go list -json" says of a package.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	packages, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

var listOnce = sync.OnceValues(func() (packages []goPackage, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...", "holdpoint.example/client")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
})

// The dependency rule of the house (ARCHITECTURE.md): who never imports what. A
// name that ends in "/" stands for everything below it as well.
var never = []struct {
	who     string
	imports []string
}{
	{"holdpoint/schemas", []string{"holdpoint/"}},
	{"holdpoint/migrations", []string{"holdpoint/"}},
	{"holdpoint/engine", []string{"holdpoint/"}},
	{"holdpoint/engine/", []string{
		"holdpoint/internal/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web",
		"os", "os/", "net", "net/", "database/", "log", "log/", "math/rand", "math/rand/", "crypto/rand", "io/ioutil", "sync",
		"github.com/jackc/", "go.temporal.io/",
	}},
	{"holdpoint/workflows", []string{"holdpoint/", "os", "net", "net/", "database/", "math/rand", "crypto/rand", "github.com/jackc/"}},
	{"holdpoint/activities", []string{"net/http", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/gate", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/notify", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/internal/gate", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/access", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/internal/gate", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/setup", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/internal/gate", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/admin", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/internal/gate", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/report", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	// Only the doors know HTTP's status codes.
	{"holdpoint/internal/httpstatus", []string{"holdpoint/internal/store", "holdpoint/internal/gate"}},
	{"holdpoint/internal/store", []string{"net/http", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/internal/gate", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/rules", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/fair", []string{"holdpoint/", "github.com/", "go.temporal.io/"}},
	{"holdpoint/internal/tally", []string{"holdpoint/", "github.com/", "go.temporal.io/"}},
	{"holdpoint/internal/outbound", []string{"holdpoint/", "github.com/", "go.temporal.io/"}},
	{"holdpoint/internal/auditlog", []string{"net/http", "os", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/internal/gate", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/worker", []string{"net/http", "github.com/jackc/", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/backup", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/internal/gate", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/evidence", []string{"net/http", "os", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/simulation", []string{"net/http", "os", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	// Whoever verifies trusts nobody, and has nothing but bytes.
	{"holdpoint/internal/observer", []string{"github.com/", "go.temporal.io/", "holdpoint/internal/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/mcpproxy", []string{"holdpoint/internal/", "holdpoint/api", "holdpoint/web", "holdpoint/workflows", "holdpoint/activities", "github.com/jackc/", "go.temporal.io/"}},
	{"holdpoint/internal/auditlog/floor", []string{"github.com/", "go.temporal.io/", "holdpoint/"}},
	{"holdpoint/internal/witness", []string{"github.com/jackc/", "go.temporal.io/", "holdpoint/internal/store", "holdpoint/workflows", "holdpoint/activities", "holdpoint/internal/gate", "holdpoint/api", "holdpoint/web"}},
	// What is said to the outside world goes through outbound, and is decided elsewhere.
	{"holdpoint/internal/tracker", []string{
		"os", "net", "database/", "github.com/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web",
		"holdpoint/internal/gate", "holdpoint/internal/store", "holdpoint/internal/config", "holdpoint/internal/notify", "holdpoint/internal/notify/",
	}},
	{"holdpoint/internal/notify/", []string{
		"os", "database/", "github.com/jackc/", "go.temporal.io/", "holdpoint/engine/approval", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api",
		"holdpoint/web", "holdpoint/internal/gate", "holdpoint/internal/store", "holdpoint/internal/config", "holdpoint/internal/tracker", "holdpoint/internal/notify",
	}},
	{"holdpoint/internal/slack", []string{"net/http", "github.com/jackc/", "go.temporal.io/", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api", "holdpoint/web"}},
	{"holdpoint/internal/kms", []string{"holdpoint/", "net/http", "github.com/", "go.temporal.io/"}},
	{"holdpoint/internal/pkcs11", []string{"holdpoint/", "net", "net/http", "google.golang.org/", "go.temporal.io/"}},
	{"holdpoint/internal/stream", []string{
		"os", "database/", "github.com/jackc/", "go.temporal.io/", "holdpoint/engine/approval", "holdpoint/workflows", "holdpoint/activities", "holdpoint/api",
		"holdpoint/web", "holdpoint/internal/gate", "holdpoint/internal/config", "holdpoint/internal/tracker",
	}},
	{"holdpoint/api/", []string{"holdpoint/internal/", "github.com/jackc/", "go.temporal.io/", "holdpoint/web"}},
	{"holdpoint/api", []string{"holdpoint/internal/store", "github.com/jackc/", "go.temporal.io/", "github.com/gorilla/", "holdpoint/web"}},
	{"holdpoint/api/", []string{"holdpoint/internal/store", "github.com/jackc/", "go.temporal.io/", "github.com/gorilla/", "holdpoint/web"}},
	{"holdpoint/web", []string{"holdpoint/internal/store", "github.com/jackc/", "go.temporal.io/"}},
	{"holdpoint/web/", []string{"holdpoint/internal/store", "github.com/jackc/", "go.temporal.io/"}},
	{"holdpoint/web/views", []string{"net/http", "holdpoint/internal/"}},
	{"holdpoint.example/client", []string{"holdpoint/", "holdpoint.example/", "github.com/", "golang.org/", "go.temporal.io/"}},
}

func within(name, path string) bool {
	if prefix, ok := strings.CutSuffix(name, "/"); ok {
		return strings.HasPrefix(path, prefix+"/")
	}
	return name == path
}

// TestDependencyRule keeps the house in order: each package imports only what
// its place allows.
func TestDependencyRule(t *testing.T) {
	packages := listPackages(t)
	for _, rule := range never {
		matched := false
		for _, p := range packages {
			if !within(rule.who, p.ImportPath) {
				continue
			}
			matched = true
			for _, imported := range p.Imports {
				for _, name := range rule.imports {
					// What is below the forbidden tree may use its own tree's siblings.
					if within(name, imported) {
						t.Errorf("%s imports %s: its place in the house forbids %s", p.ImportPath, imported, name)
					}
				}
			}
		}
		if !matched {
			t.Errorf("the rule for %s is about no package", rule.who)
		}
	}
}

// TestProgramIsStatic: nothing in the released program loads a C library, which would make
// it depend on the system's; holdpoint-pkcs11 alone does.
func TestProgramIsStatic(t *testing.T) {
	for program, want := range map[string]bool{"holdpoint": false, "holdpoint-pkcs11": true} {
		cmd := exec.Command("go", "list", "-tags", "nodev", "-deps", "holdpoint/cmd/"+program)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(out), "\ngithub.com/ebitengine/purego\n"); got != want {
			t.Errorf("%s loads C: %t", program, got)
		}
	}
}

// TestTrackersAreAskedByOutbound: connectors ask by the one client that judges
// addresses when they are dialed.
func TestTrackersAreAskedByOutbound(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.ImportPath != "holdpoint/internal/tracker" {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := s.X.(*ast.Ident)
				if ok && (pkg.Name == "http" && slices.Contains([]string{"DefaultClient", "DefaultTransport", "Client", "Transport", "Get", "Post", "PostForm", "Head"}, s.Sel.Name) ||
					pkg.Name == "net" && strings.HasPrefix(s.Sel.Name, "Dial")) {
					t.Errorf("%s: %s.%s goes past outbound", fset.Position(n.Pos()), pkg.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
}

// TestCommandsHoldNoSQL: SQL is the store's, and only "dev", which makes the
// private cluster's roles, and migrations have any besides.
func TestOnlyTheStoreTalksToPostgres(t *testing.T) {
	allowed := []string{"holdpoint/internal/store", "holdpoint/internal/store/logtest", "holdpoint/internal/store/storetest", "holdpoint/internal/postgres", "holdpoint/internal/postgres/pgtest", "holdpoint/internal/devserver", "holdpoint/cmd/holdpoint"}
	for _, p := range listPackages(t) {
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "github.com/jackc/pgx") && !slices.Contains(allowed, p.ImportPath) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

// impure names what the pure packages must not call: clocks, chance, the
// outside world.
var impure = map[string][]string{
	"go":      {"*"}, // the statement
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"os":      {"*"},
	"rand":    {"*"},
	"slog":    {"*"},
	"fmt":     {"Print", "Println", "Printf", "Fprint", "Fprintln", "Fprintf", "Scan", "Scanln", "Scanf"},
	"runtime": {"*"},
}

// forbid holds every line of a package against names, by package.
func forbid(t *testing.T, p goPackage, names map[string][]string, where string) {
	t.Helper()
	for _, file := range p.GoFiles {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if names["go"] != nil {
					t.Errorf("%s: a goroutine %s", fset.Position(n.Pos()), where)
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && (slices.Contains(names[pkg.Name], "*") || slices.Contains(names[pkg.Name], n.Sel.Name)) {
					t.Errorf("%s: %s.%s %s", fset.Position(n.Pos()), pkg.Name, n.Sel.Name, where)
				}
			}
			return true
		})
	}
}

// Whatever decides goes by the database's clock (store.Clock), which is the same for
// every process.
func TestWhatDecidesHasNoClockOfItsOwn(t *testing.T) {
	clockless := []string{"holdpoint/internal/access", "holdpoint/internal/admin", "holdpoint/internal/gate", "holdpoint/internal/rules", "holdpoint/internal/setup"}
	for _, p := range listPackages(t) {
		if slices.Contains(clockless, p.ImportPath) {
			forbid(t, p, map[string][]string{"time": {"Now", "Since", "Until"}}, "where only the database's clock counts")
		}
	}
}

// TestEngineAndWorkflowsArePure holds every line of the pure packages against
// impure, and allows no goroutine.
func TestEngineAndWorkflowsArePure(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.ImportPath == "holdpoint/engine" || strings.HasPrefix(p.ImportPath, "holdpoint/engine/") || p.ImportPath == "holdpoint/workflows" {
			forbid(t, p, impure, "in a pure package")
		}
	}
}

// mostMethods bounds what one type does by itself, and mostWithEmbedded what it does with
// the types of ours that it embeds. One with more is several: find where it comes apart.
const (
	mostMethods      = 50
	mostWithEmbedded = 60
)

// sourceImporter checks packages of ours from their source, without the bodies of
// functions. Of others' packages it knows nothing: what of theirs a type embeds
// is not counted.
type sourceImporter struct {
	fset *token.FileSet
	ours map[string]goPackage
	done map[string]*types.Package
}

func (s *sourceImporter) Import(path string) (*types.Package, error) {
	if p := s.done[path]; p != nil {
		return p, nil
	}
	ours, ok := s.ours[path]
	if !ok {
		p := types.NewPackage(path, filepath.Base(path))
		p.MarkComplete()
		s.done[path] = p
		return p, nil
	}
	var files []*ast.File
	for _, name := range ours.GoFiles {
		file, err := parser.ParseFile(s.fset, filepath.Join(ours.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	cfg := types.Config{Importer: s, IgnoreFuncBodies: true, Error: func(error) {}} // others' packages are empty here
	p, _ := cfg.Check(path, s.fset, files, nil)
	s.done[path] = p
	return p, nil
}

// TestNoTypeDoesEverything counts the methods of each type.
func TestNoTypeDoesEverything(t *testing.T) {
	s := &sourceImporter{fset: token.NewFileSet(), ours: map[string]goPackage{}, done: map[string]*types.Package{}}
	packages := listPackages(t)
	for _, p := range packages {
		s.ours[p.ImportPath] = p
	}
	most, embedding := 0, 0
	for _, p := range packages {
		checked, err := s.Import(p.ImportPath)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range checked.Scope().Names() {
			declared, ok := checked.Scope().Lookup(name).(*types.TypeName)
			if !ok || declared.IsAlias() {
				continue
			}
			own, all := 0, types.NewMethodSet(types.NewPointer(declared.Type())).Len()
			if named, ok := declared.Type().(*types.Named); ok {
				own = named.NumMethods()
			}
			most, embedding = max(most, own), max(embedding, all)
			if own > mostMethods || all > mostWithEmbedded {
				t.Errorf("%s.%s has %d methods, %d with those that it embeds: at most %d and %d", p.ImportPath, name, own, all, mostMethods, mostWithEmbedded)
			}
		}
	}
	if most < mostMethods/2 || embedding <= most {
		t.Errorf("no type has more than %d methods, or %d with those that it embeds: are they counted?", most, embedding)
	}
}
