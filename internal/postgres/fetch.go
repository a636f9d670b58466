package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"holdpoint/internal/freeport"
)

// fetchedVersion is the major version that a new cluster gets where none is installed.
const fetchedVersion = 17

// fetchTimeout bounds a fetch on a slow line.
const fetchTimeout = 10 * time.Minute

// fetchable are the versions that can be fetched.
func fetchable() map[int]embeddedpostgres.PostgresVersion {
	return map[int]embeddedpostgres.PostgresVersion{
		14: embeddedpostgres.V14, 15: embeddedpostgres.V15, 16: embeddedpostgres.V16, 17: embeddedpostgres.V17, 18: embeddedpostgres.V18,
	}
}

func fetchedTo(dir directory, major int) string { return dir.join("postgresql-" + strconv.Itoa(major)) }

// fetch downloads and unpacks the programs of one version into dir. repository replaces the public one when not empty.
//
// The library has no way to only fetch: its Start downloads, unpacks, and then runs pg_ctl on a data directory. It gets one
// that is nothing but a version file, which it takes for a cluster and pg_ctl refuses, so that failure is what success looks
// like from here.
func fetch(ctx context.Context, dir directory, major int, repository string) (installation, error) {
	version, ok := fetchable()[major]
	if !ok {
		return installation{}, fmt.Errorf("no binaries of Postgres %d are offered", major)
	}
	interrupted, _ := filepath.Glob(dir.join("fetch-*")) // the pattern is well-formed
	for _, path := range interrupted {
		_ = os.RemoveAll(path)
	}
	scratch, err := os.MkdirTemp(string(dir), "fetch-")
	if err != nil {
		return installation{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	data, unpacked := filepath.Join(scratch, "data"), filepath.Join(scratch, "unpacked")
	if err := os.Mkdir(data, 0o700); err != nil {
		return installation{}, err
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(strconv.Itoa(major)+"\n"), 0o600); err != nil {
		return installation{}, err
	}
	port, err := freeport.Find(0)
	if err != nil {
		return installation{}, err
	}
	cfg := embeddedpostgres.DefaultConfig().Version(version).Port(uint32(port)).Logger(io.Discard).
		DataPath(data).BinariesPath(unpacked).
		RuntimePath(filepath.Join(scratch, "runtime")).CachePath(filepath.Join(scratch, "cache"))
	if repository != "" {
		cfg = cfg.BinaryRepositoryURL(repository)
	}

	result := make(chan error, 1)
	go func() { result <- embeddedpostgres.NewDatabase(cfg).Start() }()
	timeout := time.NewTimer(fetchTimeout)
	defer timeout.Stop()
	select {
	case err = <-result:
	case <-ctx.Done(): // the library cannot be interrupted; the download ends with the process
		return installation{}, context.Cause(ctx)
	case <-timeout.C:
		return installation{}, errors.New("it took too long")
	}
	if err == nil {
		return installation{}, errors.New("unexpected: something started in an empty directory")
	}
	if !strings.HasPrefix(err.Error(), "could not start postgres") {
		return installation{}, errors.New(lastLines(err.Error(), 1))
	}
	if err := os.Rename(unpacked, fetchedTo(dir, major)); err != nil {
		return installation{}, err
	}
	return inspect(ctx, filepath.Join(fetchedTo(dir, major), "bin"))
}
