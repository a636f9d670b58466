package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	codeRow  = regexp.MustCompile(`(?m)^\| \d{3} \| ([^|]+) \|`)
	codeWord = regexp.MustCompile("`([A-Za-z_]+)`")
)

// TestCodesAreInTheTable holds the codes of docs/errors.md against those of the refusals
// in the code, in both directions.
func TestCodesAreInTheTable(t *testing.T) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, catalogue, _ := strings.Cut(string(page), "\n## Every code\n")
	var listed []string
	for _, row := range codeRow.FindAllStringSubmatch(catalogue, -1) {
		for _, word := range codeWord.FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, word[1])
		}
	}
	refusals, texts := codesInCode(t)
	if len(listed) < 100 || len(refusals) < 100 {
		t.Fatalf("%d codes are listed, and %d are in the code: that is not all of them", len(listed), len(refusals))
	}
	for code, at := range refusals {
		if !slices.Contains(listed, code) {
			t.Errorf("%s has the code %s, which docs/errors.md does not have", at, code)
		}
	}
	for i, code := range listed {
		prefix, state, _ := strings.Cut(code, "_")
		if !texts[code] && !(prefix == "already" && texts[state]) {
			t.Errorf("docs/errors.md has the code %s, and the code does not", code)
		}
		if slices.Contains(listed[:i], code) {
			t.Errorf("docs/errors.md has the code %s twice", code)
		}
	}
}

// codesInCode are the codes that refusals are made with, each with its file, and all
// texts that there are.
func codesInCode(t *testing.T) (refusals map[string]string, texts map[string]bool) {
	t.Helper()
	refusals, texts = map[string]string{}, map[string]bool{}
	for _, dir := range []string{"../api", "../engine", "../internal"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../internal/enforce/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
						texts[text] = true
					}
				case *ast.CallExpr: // wrong("code", "What to do.")
					if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "wrong" && len(n.Args) == 2 && (strings.Contains(path, "internal/admin/") || strings.Contains(path, "internal/report/")) {
						if code := textOf(n.Args[0]); code != "" {
							refusals[code] = path
						}
					}
				case *ast.CompositeLit:
					if code := refusalCode(n); code != "" {
						refusals[code] = path
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return refusals, texts
}

// refusalCode is the code of a literal of a refusal, "" for any other.
func refusalCode(c *ast.CompositeLit) string {
	name := ""
	switch kind := c.Type.(type) {
	case *ast.Ident:
		name = kind.Name
	case *ast.SelectorExpr:
		name = kind.Sel.Name
	}
	if c.Type == nil && len(c.Elts) == 4 { // a row: error, access.Kind, code, detail
		if kind, ok := c.Elts[1].(*ast.SelectorExpr); ok {
			if from, ok := kind.X.(*ast.Ident); ok && from.Name == "access" {
				return textOf(c.Elts[2])
			}
		}
	}
	if name != "Refusal" && name != "failure" {
		return ""
	}
	for _, e := range c.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, isKey := pair.Key.(*ast.Ident)
		if isKey && key.Name == "Code" {
			return textOf(pair.Value)
		}
	}
	return ""
}

// textOf is a text that is written out, "" for anything else.
func textOf(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, _ := strconv.Unquote(literal.Value)
	return text
}
