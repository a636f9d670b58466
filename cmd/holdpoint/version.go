package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"holdpoint/internal/store"
)

type versionCommand struct {
	JSON bool `help:"As JSON." name:"json"`
}

// build is what a program says of itself.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// Changed says that it was built from files that were not committed.
	Changed bool   `json:"changed"`
	Go      string `json:"go"`
	// Schema is the version of the database's schema that it needs.
	Schema int `json:"schema"`
	// Dev says that the servers for "holdpoint dev" are in it.
	Dev bool `json:"dev"`
}

// thisBuild is this program's.
func thisBuild() build {
	b := build{Version: "unknown", Commit: "unknown", Schema: store.SchemaVersion(), Dev: withDev}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	return b
}

func (v versionCommand) Run() error {
	b := thisBuild()
	if v.JSON {
		return json.NewEncoder(os.Stdout).Encode(b)
	}
	changed, dev := "", "without “dev”"
	switch {
	case b.Changed:
		changed = ", with changes"
	case b.Commit == "unknown":
		changed = " (it is recorded by “go build” in a plain clone; not by “go run”, nor in a second worktree)"
	}
	if b.Dev {
		dev = "with “dev”"
	}
	fmt.Printf("holdpoint %s\ncommit %s%s\n%s\nschema version %d\n%s\n", b.Version, b.Commit, changed, b.Go, b.Schema, dev)
	return nil
}
