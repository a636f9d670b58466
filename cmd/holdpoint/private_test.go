package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A command that saves an endpoint knows the networks of the dev program that it is for.
func TestNetworksOfADataDirectory(t *testing.T) {
	dir := t.TempDir()
	got, err := devPrivate(dir)
	if fmt.Sprint(got, err) != "[127.0.0.0/8 ::1/128] <nil>" {
		t.Errorf("of no settings: %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, settingsFile), []byte("outbound_allow_private: [10.20.0.0/16]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = devPrivate(dir); fmt.Sprint(got, err) != "[10.20.0.0/16 127.0.0.0/8 ::1/128] <nil>" {
		t.Errorf("of its settings: %v, %v", got, err)
	}
}
