package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Exposure is who else on the machine may open a file of a secret.
type Exposure struct {
	Mode fs.FileMode
	// Read and Written say that everybody on the machine may do that: by the file's mode, and by those of the
	// directories that lead to it. A group does not count: files that Kubernetes mounts have one.
	Read, Written bool
}

// Exposed is who else may open a file, or what a link leads to.
func Exposed(path string) (e Exposure, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return e, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return e, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return e, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o006 == 0 {
		return e, nil
	}
	e.Mode = info.Mode().Perm()
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if info, err = os.Stat(path); err != nil || info.Mode().Perm()&0o001 == 0 {
			return e, err
		}
	}
	e.Read, e.Written = e.Mode&0o004 != 0, e.Mode&0o002 != 0
	return e, nil
}

// Open are the files of secrets that everybody on the machine may read, each with its mode. Check comes first.
func (c *Config) Open() []string {
	var open []string
	for _, f := range c.files {
		if e, err := Exposed(f.Path); err == nil && e.Read {
			open = append(open, f.Path+" ("+e.Mode.String()+")")
		}
	}
	slices.Sort(open)
	return slices.Compact(open)
}
