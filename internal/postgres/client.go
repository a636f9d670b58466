package postgres

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// Client finds a client program of Postgres, such as pg_dump, of a major version; where that one is not installed, the next
// newer one, which reads and writes what older servers have. The error says which versions were found instead.
func Client(ctx context.Context, name string, major int) (path string, version int, err error) {
	places := usualPlaces(ctx)
	if inPath, err := exec.LookPath(name); err == nil {
		// Last: on Debian it is a script that chooses a version by itself.
		places = append(places, filepath.Dir(inPath))
	}
	newest := 0
	for _, place := range places {
		program := filepath.Join(place, name)
		has := versionOf(ctx, program)
		newest = max(newest, has)
		if has >= major && (version == 0 || has < version) {
			path, version = program, has
		}
	}
	switch {
	case version > 0:
		return path, version, nil
	case newest > 0:
		return "", 0, fmt.Errorf("%s is of Postgres %d and has to be of %d or newer: install the client programs of Postgres %[3]d", name, newest, major)
	}
	return "", 0, fmt.Errorf("%s is not installed: install the client programs of Postgres %d (apt install postgresql-client-%[2]d, dnf install postgresql%[2]d, "+
		"brew install postgresql@%[2]d), or put their directory into PATH", name, major)
}

var versionAtEnd = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// versionOf asks a program for its major version; 0 where it does not say.
func versionOf(ctx context.Context, program string) int {
	cmd := exec.CommandContext(ctx, program, "-V") // #nosec G204 -- it is an installed program of Postgres
	cmd.Env = environment()
	out, err := cmd.Output()
	match := versionAtEnd.FindSubmatch(out)
	if err != nil || match == nil {
		return 0
	}
	version, _ := strconv.Atoi(string(match[1])) // they are digits
	return version
}
