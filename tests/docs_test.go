package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeBlock    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	namedPage    = regexp.MustCompile(`\b(?:docs|specs|seeds)/[\w/-]+\.md\b`)
	namedRecord  = regexp.MustCompile(`\bdecision (\d{3})\b`)
	namedTest    = regexp.MustCompile("(`|-run '?)(Test[A-Z]\\w*)")
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	namedPath    = regexp.MustCompile(`(?:^|[^\w./-])(?:\./)?((?:activities|api|cmd|clients|deploy|engine|examples|internal|migrations|schemas|tests|web|workflows)/[\w./-]*\w)`)
	namedSymbol  = regexp.MustCompile(`\.[A-Z][\w.]*$`)
	walkStep     = regexp.MustCompile("(?m)^\\|.*\\| `([\\w/]+)` \\| `(?:(\\w+)\\.)?(\\w+)` \\|$")
	goComment    = regexp.MustCompile(`(?m)^\s*// .*$`)
	tableRow     = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	quotedName   = regexp.MustCompile("`([\\w/-]+)`")
	notInAnchor  = regexp.MustCompile(`[^\w\- ]`)
)

// eachFile calls visit with the path from the root and the text of every file with
// one of the endings, but those that programs fetch or leave behind.
func eachFile(t *testing.T, endings []string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2):
			return filepath.SkipDir
		case entry.IsDir() || !slices.Contains(endings, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			visit(strings.TrimPrefix(filepath.ToSlash(path), "../"), string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// anchors are the fragments by which the headings of a page can be linked.
func anchors(page string) []string {
	var found []string
	for line := range strings.Lines(codeBlock.ReplaceAllString(page, "")) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			heading = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			found = append(found, strings.ReplaceAll(heading, " ", "-"))
		}
	}
	return found
}

// TestLinksLeadSomewhere follows each link of a page that stays in the repository,
// to its file and its heading.
func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	eachFile(t, []string{".md"}, func(path, text string) {
		for _, m := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			file := filepath.Join("..", filepath.Dir(path), target)
			if target == "" {
				file = filepath.Join("..", path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: there is no such file", path, m[1])
				continue
			}
			if anchor == "" {
				continue
			}
			page, err := os.ReadFile(file)
			if err != nil || !slices.Contains(anchors(string(page)), anchor) {
				t.Errorf("%s: %s: there is no such heading", path, m[1])
			}
		}
	})
	if links < 100 {
		t.Errorf("found %d links; that is not all of them", links)
	}
}

// TestCommentsCiteWhatIsHere looks up the pages and the decisions that code names.
func TestCommentsCiteWhatIsHere(t *testing.T) {
	cited := 0
	eachFile(t, []string{".go", ".templ", ".sql", ".yaml", ".yml", ".md"}, func(path, text string) {
		for _, page := range namedPage.FindAllString(text, -1) {
			cited++
			if _, err := os.Stat(filepath.Join("..", page)); err != nil {
				t.Errorf("%s names %s, which is not here", path, page)
			}
		}
		for _, m := range namedRecord.FindAllStringSubmatch(text, -1) {
			cited++
			if found, err := filepath.Glob(filepath.Join("..", "docs", "decisions", m[1]+"-*.md")); err != nil || len(found) != 1 {
				t.Errorf("%s names decision %s, which is not here", path, m[1])
			}
		}
	})
	if cited < 30 {
		t.Errorf("found %d references; that is not all of them", cited)
	}
}

// TestPathsThatAreNamedExist looks up the packages and files that pages and comments
// name, from the root or from where they are named.
func TestPathsThatAreNamedExist(t *testing.T) {
	count := 0
	eachFile(t, []string{".go", ".md"}, func(path, text string) {
		if filepath.Ext(path) == ".go" {
			text = strings.Join(goComment.FindAllString(text, -1), "\n")
		}
		for _, m := range namedPath.FindAllStringSubmatch(text, -1) {
			count++
			named := namedSymbol.ReplaceAllString(m[1], "") // engine/canon.Parse is in engine/canon
			_, errRoot := os.Stat(filepath.Join("..", named))
			_, errHere := os.Stat(filepath.Join("..", filepath.Dir(path), named))
			if errRoot != nil && errHere != nil {
				t.Errorf("%s names %s, which is not here", path, m[1])
			}
		}
	})
	if count < 100 {
		t.Errorf("found %d paths; that is not all of them", count)
	}
}

// TestPagesNameTestsThatThereAre looks for each test that a page promises.
func TestPagesNameTestsThatThereAre(t *testing.T) {
	there := map[string]bool{}
	eachFile(t, []string{".go"}, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testFunction.FindAllStringSubmatch(text, -1) {
				there[m[1]] = true
			}
		}
	})
	eachFile(t, []string{".md"}, func(path, text string) {
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if !there[m[2]] {
				t.Errorf("%s names %s, and there is no such test", path, m[2])
			}
		}
	})
}

// TestWalksAreTrue looks up each function of docs/walk.md in its package.
func TestWalksAreTrue(t *testing.T) {
	page, err := os.ReadFile("../docs/walk.md")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	eachFile(t, []string{".go"}, func(path, text string) {
		code[filepath.ToSlash(filepath.Dir(path))] += text
	})
	steps := walkStep.FindAllStringSubmatch(string(page), -1)
	if len(steps) < 30 {
		t.Errorf("found %d steps; that is not all of them", len(steps))
	}
	for _, step := range steps {
		receiver := ""
		if step[2] != "" {
			receiver = `\((\w+ )?\*?` + step[2] + `\) `
		}
		if !regexp.MustCompile(`(?m)^func ` + receiver + step[3] + `[(\[]`).MatchString(code[step[1]]) {
			t.Errorf("docs/walk.md: %s has no %s", step[1], strings.TrimPrefix(step[2]+"."+step[3], "."))
		}
	}
}

// TestDecisionsAreListed holds the index of the decisions against their files.
func TestDecisionsAreListed(t *testing.T) {
	index, err := os.ReadFile("../docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob("../docs/decisions/[0-9]*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	for _, record := range records {
		if !strings.Contains(string(index), "("+filepath.Base(record)+")") {
			t.Errorf("docs/decisions/README.md does not list %s", filepath.Base(record))
		}
	}
}

// TestPackagesAreInTheTable: ARCHITECTURE has one row for each package, and no other.
func TestPackagesAreInTheTable(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Packages\n")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, row := range tableRow.FindAllStringSubmatch(table, -1) {
		for _, name := range quotedName.FindAllStringSubmatch(row[1], -1) {
			if listed[name[1]] {
				t.Errorf("ARCHITECTURE lists %s twice", name[1])
			}
			listed[name[1]] = true
		}
	}
	there := map[string]bool{}
	eachFile(t, []string{".go"}, func(path, _ string) {
		if dir := filepath.ToSlash(filepath.Dir(path)); !strings.HasSuffix(path, "_test.go") && !ownModule(dir) {
			there[dir] = true
		}
	})
	for name := range there {
		if !listed[name] {
			t.Errorf("ARCHITECTURE has no row for %s", name)
		}
	}
	for name := range listed {
		if !there[name] {
			t.Errorf("ARCHITECTURE has a row for %s, which is no package", name)
		}
	}
}

// ownModule reports whether a directory belongs to a module beside Holdpoint's.
func ownModule(dir string) bool {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join("..", dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// TestFrontDoorIsShort keeps the two pages that everybody reads first from growing.
func TestFrontDoorIsShort(t *testing.T) {
	for name, most := range map[string]int{"README.md": 150, "ARCHITECTURE.md": 250} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > most {
			t.Errorf("%s has %d lines, more than %d: move something to docs/", name, lines, most)
		}
	}
}
