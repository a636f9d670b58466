package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first major version that is good enough: all the settings and the SQL exist there.
const oldest = 14

// installation is a directory with the programs of one Postgres version.
type installation struct {
	bin   string
	major int
}

func (i installation) postgres() string { return filepath.Join(i.bin, "postgres") }
func (i installation) initdb() string   { return filepath.Join(i.bin, "initdb") }

// locate finds the programs for a cluster of the given major version (0: a new one, any good version), and fetches them where
// none are installed.
func locate(ctx context.Context, dir directory, major int, progress func(string)) (installation, error) {
	inst, others := find(ctx, append(usualPlaces(ctx), fetchedPlaces(dir)...), major)
	if inst.bin != "" {
		return inst, nil
	}
	if err := context.Cause(ctx); err != nil { // then nothing could be asked for its version
		return installation{}, fmt.Errorf("look for postgres: %w", err)
	}
	want := cmp.Or(major, fetchedVersion)
	progress(fmt.Sprintf("no Postgres %s is installed: fetching version %d, about 30 MB", wanted(major), want))
	inst, err := fetch(ctx, dir, want, "")
	if err != nil {
		found := ""
		if len(others) > 0 {
			found = ", only " + strings.Join(others, " and ")
		}
		return installation{}, fmt.Errorf("no Postgres %s is installed%s, and fetching one did not work (%w): %s",
			wanted(major), found, err, advice(major))
	}
	return inst, nil
}

func wanted(major int) string {
	if major == 0 {
		return strconv.Itoa(oldest) + " or newer"
	}
	return strconv.Itoa(major) + " (it created this cluster)"
}

func advice(major int) string {
	if major == 0 {
		return "install it (apt install postgresql, dnf install postgresql-server, brew install postgresql) or put its bin directory into PATH"
	}
	return fmt.Sprintf("install Postgres %d, put its bin directory into PATH, or start with another data directory", major)
}

// find is the first place with programs of the wanted version. others describes the ones passed over.
func find(ctx context.Context, places []string, major int) (found installation, others []string) {
	var seen []string
	for _, place := range places {
		program, err := filepath.EvalSymlinks(filepath.Join(place, "postgres"))
		if err != nil || slices.Contains(seen, program) {
			continue
		}
		inst, err := inspect(ctx, place)
		if err != nil {
			continue
		}
		seen = append(seen, program) // only now: a link's target may lack the programs beside it
		switch {
		case major == 0 && inst.major >= oldest, major != 0 && inst.major == major:
			return inst, nil
		default:
			others = append(others, fmt.Sprintf("Postgres %d in %s", inst.major, place))
		}
	}
	return installation{}, others
}

// inspect asks the programs in bin for their version.
func inspect(ctx context.Context, bin string) (installation, error) {
	inst := installation{bin: bin}
	for _, path := range []string{inst.postgres(), inst.initdb()} {
		if _, err := exec.LookPath(path); err != nil {
			return installation{}, err
		}
	}
	cmd := exec.CommandContext(ctx, inst.postgres(), "-V")
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		return installation{}, err
	}
	// "postgres (PostgreSQL) 17.5 (Debian 17.5-1)", "postgres (PostgreSQL) 19devel"
	match := regexp.MustCompile(`\) (\d+)`).FindSubmatch(out)
	if match == nil {
		return installation{}, errors.New("no version")
	}
	inst.major, err = strconv.Atoi(string(match[1]))
	return inst, err
}

// usualPlaces are the directories where the programs may be, the best first: what the user chose by PATH or pg_config, then
// what packages of the usual systems install, newer versions first.
func usualPlaces(ctx context.Context) []string {
	var places []string
	for _, name := range []string{"postgres", "initdb"} {
		if path, err := exec.LookPath(name); err == nil {
			if resolved, err := filepath.EvalSymlinks(path); err == nil {
				places = append(places, filepath.Dir(resolved), filepath.Dir(path))
			}
		}
	}
	if path, err := exec.LookPath("pg_config"); err == nil {
		if out, err := exec.CommandContext(ctx, path, "--bindir").Output(); err == nil {
			places = append(places, strings.TrimSpace(string(out)))
		}
	}
	var installed []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/lib/postgresql*/bin",  // SUSE, Gentoo
		"/usr/libexec/postgresql*",  // Alpine
		"/usr/pgsql-*/bin",          // Fedora, RHEL
		"/usr/local/pgsql*/bin",     // built from source
		"/opt/homebrew/opt/postgres*/bin",
		"/usr/local/opt/postgres*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgres*/bin",
		"/opt/local/lib/postgresql*/bin", // MacPorts
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/Library/PostgreSQL/*/bin",
		"/opt/PostgreSQL/*/bin",
	} {
		matches, _ := filepath.Glob(pattern) // the patterns are well-formed
		installed = append(installed, matches...)
	}
	slices.SortStableFunc(installed, func(a, b string) int { return cmp.Compare(versionIn(b), versionIn(a)) })
	return append(places, installed...)
}

// versionIn is the last number in a path, 0 when it has none: enough to put newer installations first.
func versionIn(path string) int {
	numbers := regexp.MustCompile(`\d+`).FindAllString(path, -1)
	if len(numbers) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(numbers[len(numbers)-1])
	return n
}

// fetchedPlaces are the results of earlier fetches.
func fetchedPlaces(dir directory) []string {
	var places []string
	for major := range fetchable() {
		places = append(places, filepath.Join(fetchedTo(dir, major), "bin"))
	}
	slices.SortFunc(places, func(a, b string) int { return cmp.Compare(b, a) })
	return places
}
