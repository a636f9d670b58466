// Package backup copies the database into a directory and brings such a copy back. The
// copy is one moment of the database, made by pg_dump; beside it are the checkpoint of
// the audit log at that moment and a manifest with digests. No key is in it.
//
//	DIR/manifest.json   what this is, of which moment, and the digests of the others
//	DIR/database.dump   pg_dump's custom format
//	DIR/checkpoint      the log's last signed checkpoint; missing while the log is empty
//	DIR.partial         a backup under way, or what an interruption left of one
//
// What is brought back may be older than what the world has seen. So nothing that could
// be spent a second time survives a restore, every agent is stopped until a person has
// looked, and a log whose end is lost says so in an event. Until all of this is done, no
// program takes the database for its own. This package never decides about a call.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Format is the version of a backup's layout.
const Format = 1

// The files of a backup.
const (
	manifestFile   = "manifest.json"
	dumpFile       = "database.dump"
	checkpointFile = "checkpoint"
)

// Manifest says what a backup is.
type Manifest struct {
	Format int       `json:"format"`
	MadeAt time.Time `json:"made_at"`
	// Program is the build that made it, and Schema the version of the database's schema.
	Program      string `json:"program"`
	Schema       int    `json:"schema"`
	Installation string `json:"installation"`
	// Postgres is the server's major version, and Dump that of pg_dump.
	Postgres int    `json:"postgres"`
	Dump     int    `json:"pg_dump"`
	Files    []File `json:"files"`
	// Log is how far the audit log had come; nil while it was empty.
	Log *Log `json:"log"`
	// Unplaced is how many events had no place in the log yet.
	Unplaced int64 `json:"unplaced"`
	Waiting  int64 `json:"waiting"`
	Unspent  int64 `json:"unspent_tokens"`
	// Keys are the ids of keys that are not in it, and without which it is worth little.
	Keys Keys `json:"keys"`
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Log is the audit log's state.
type Log struct {
	Origin string `json:"origin"`
	Size   int64  `json:"size"`
	Root   string `json:"root"`
}

// Keys are ids of keys.
type Keys struct {
	// Data are the data keys that records may be sealed with; where none is named, the
	// installation's first.
	Data []string `json:"data"`
	// Signing are the keys of tokens, and Log those that have signed the checkpoint.
	Signing []string `json:"signing"`
	Log     []string `json:"log"`
}

// readManifest reads a backup's manifest.
func readManifest(dir string) (Manifest, error) {
	var m Manifest
	data, err := os.ReadFile(filepath.Join(dir, manifestFile)) // #nosec G304 -- the operator names the directory
	if err != nil {
		return m, fmt.Errorf("%s is no backup: %w", dir, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("read %s: %w", filepath.Join(dir, manifestFile), err)
	}
	if m.Format != Format {
		return m, fmt.Errorf("%s has the format %d, and this program knows %d", dir, m.Format, Format)
	}
	want := []string{dumpFile}
	if m.Log != nil {
		want = append(want, checkpointFile)
	}
	names := make([]string, len(m.Files))
	for i, f := range m.Files {
		names[i] = f.Name
	}
	if slices.Sort(names); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
		return m, fmt.Errorf("the manifest of %s names other files than a backup has", dir)
	}
	return m, nil
}

// open opens a file of a backup whose bytes are those that the manifest names. What is
// read from it later are those very bytes, whatever becomes of its name.
func (m Manifest) open(dir, name string, progress func(done, all int64)) (*os.File, error) {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the manifest of %s does not name %s", dir, name)
	}
	f, err := os.Open(filepath.Join(dir, name)) // #nosec G304 -- the operator names the directory
	if err != nil {
		return nil, err
	}
	got, err := digest(f, name, m.Files[i].Size, progress)
	if err == nil && got != m.Files[i] {
		err = fmt.Errorf("%s is not the file that the manifest names: it has %d bytes and the SHA-256 %.16s…, and has to have %d and %.16s…. It was changed or damaged; nothing was restored",
			filepath.Join(dir, name), got.Size, got.SHA256, m.Files[i].Size, m.Files[i].SHA256)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// digest reads a file to its end.
func digest(r io.Reader, name string, size int64, progress func(done, all int64)) (File, error) {
	sum := sha256.New()
	done, err := io.Copy(sum, &counting{r: r, all: size, progress: progress})
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", name, err)
	}
	return File{Name: name, Size: done, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// counting tells how much was read.
type counting struct {
	r         io.Reader
	done, all int64
	progress  func(done, all int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.done += int64(n)
	if c.progress != nil {
		c.progress(c.done, c.all)
	}
	return n, err
}
