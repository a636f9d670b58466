package migrations_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"holdpoint/migrations"
)

var update = flag.Bool("update", false, "add new migrations to those that are released")

// TestReleased: a migration that has been released has run in databases that
// nobody here sees, so its bytes never change. The first ones of the list are those
// of testdata/released.sha256, numbered without a gap; new ones come after them.
func TestReleased(t *testing.T) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "released.sha256")
	list, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	released := strings.Split(strings.TrimSpace(string(list)), "\n")
	var lines []string
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%05d_", i+1)) {
			t.Errorf("%s does not have the number %05d", name, i+1)
		}
		body, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%x  %s", sha256.Sum256(body), name))
	}
	for i, line := range released {
		if i >= len(lines) || lines[i] != line {
			t.Fatalf("a released migration has changed or is gone: %s", line)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compatible is the first migration that says which programs the schema fits.
const compatible = 39

// takesAway is what programs of before may miss, or be refused by.
var takesAway = regexp.MustCompile(`(?im)^\s*(?:DROP (?:TABLE|VIEW|TYPE)\b|REVOKE\b[^;]*|ALTER TABLE [^;]*\b(?:DROP COLUMN|RENAME|SET NOT NULL|ALTER COLUMN \w+ (?:SET DATA )?TYPE|ADD (?:CONSTRAINT \w+ )?CHECK|ADD COLUMN \w+ [^,;]*NOT NULL(?:[^,;]*)))`)

// without are parts of what takes something away that do not: a column with a value for
// programs that write none; a check in place of another one, which is yours to see; and a
// function that everybody could call, which is a new one: those of before have been revoked.
var without = regexp.MustCompile(`(?i)NOT NULL[^,;]*\b(?:DEFAULT|GENERATED)\b|\b(?:DEFAULT|GENERATED)\b[^,;]*NOT NULL|\bDROP CONSTRAINT \w+,\s*ADD CONSTRAINT \w+ CHECK$|^\s*REVOKE ALL ON FUNCTION [^;]* FROM PUBLIC$`)

var raises = regexp.MustCompile(`(?m)^UPDATE schema_compatibility SET oldest = (\d+);`)

// contracts reports whether a migration takes something away, and to what it raises the
// oldest schema whose programs run on this one; 0 for not at all.
func contracts(up string) (takes bool, raised int) {
	for _, found := range takesAway.FindAllString(up, -1) {
		takes = takes || !without.MatchString(found)
	}
	if found := raises.FindStringSubmatch(up); found != nil {
		raised, _ = strconv.Atoi(found[1])
	}
	return takes, raised
}

// TestTakingAwayIsSaid: programs of before a migration go on beside newer ones while these
// replace them. A migration that takes away what they use says so, and they are refused.
func TestTakingAwayIsSaid(t *testing.T) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[compatible:] {
		body, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(strings.TrimLeft(name[:5], "0"))
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(body), "-- +goose Down")
		takes, raised := contracts(up)
		if takes && raised != number {
			t.Errorf("%s takes something away: UPDATE schema_compatibility SET oldest = %d; (CONTRIBUTING, Migrations)", name, number)
		}
		if raised > number {
			t.Errorf("%s raises the oldest program's schema to %d", name, raised)
		}
	}
	for statement, want := range map[string]bool{
		"ALTER TABLE a ADD COLUMN b text;":                                 false,
		"ALTER TABLE a ADD COLUMN b text NOT NULL DEFAULT '';":             false,
		"CREATE TABLE a (b text NOT NULL);":                                false,
		"ALTER TABLE a ADD COLUMN b text NOT NULL;":                        true,
		"ALTER TABLE a\n    ADD COLUMN c int,\n    DROP COLUMN b;":         true,
		"ALTER TABLE a ALTER COLUMN b SET NOT NULL;":                       true,
		"ALTER TABLE a ALTER COLUMN b TYPE integer;":                       true,
		"ALTER TABLE a ADD CONSTRAINT c CHECK (b > 0);":                    true,
		"ALTER TABLE a DROP CONSTRAINT c, ADD CONSTRAINT c CHECK (b > 0);": false,
		"ALTER TABLE a RENAME TO b;":                                       true,
		"DROP TABLE a;":                                                    true,
		"REVOKE SELECT ON a FROM holdpoint_runtime;":                       true,
		"REVOKE ALL ON FUNCTION a, b FROM PUBLIC;":                         false,
	} {
		if got, _ := contracts(statement); got != want {
			t.Errorf("%s takes something away: %t, want %t", statement, got, want)
		}
	}
}
