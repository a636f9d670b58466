//go:build !nodev

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"holdpoint/internal/config"
)

// The settings of a new data directory are right, also with all that they
// comment out.
func TestExampleSettings(t *testing.T) {
	all := regexp.MustCompile(`(?m)^( *)# (( +\S|- |[a-z_]+: *).*)$`).ReplaceAllString(exampleSettings, "$1$2")
	for _, text := range []string{exampleSettings, all} {
		path := filepath.Join(t.TempDir(), settingsFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, nil)
		if err == nil {
			err = c.Check(0)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if r := c.Routing; r.Default.PauseFor == 0 || len(r.Default.Extenders) != 1 || len(r.Rules) != 3 {
			t.Errorf("got %+v", r)
		}
		if text == all && (!c.Routing.Knows("office") || len(c.Routing.Rules[2].Suggested) != 1) {
			t.Errorf("what is commented out was not read: %+v", c.Routing)
		}
	}
}
