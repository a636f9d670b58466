package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"holdpoint/internal/config"
	"holdpoint/internal/seal"
)

func readIDs(t *testing.T, path string) []string {
	t.Helper()
	keys, err := readDataKeys(t.Context(), keyFile{path: path})
	if err != nil {
		t.Fatal(err)
	}
	return keys.IDs()
}

func makeDataKeys(t *testing.T, n int) (path string, ids []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data_key")
	for range n {
		if err := newDataKey(t.Context(), keyFile{path: path}); err != nil {
			t.Fatal(err)
		}
	}
	return path, readIDs(t, path)
}

func TestKeysThatAreAddedAtOnceAllStay(t *testing.T) {
	path, _ := makeDataKeys(t, 1)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if err := newDataKey(t.Context(), keyFile{path: path}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := len(readIDs(t, path)); n != 21 {
		t.Errorf("%d data keys are in the file, want 21", n)
	}
}

func TestUseOfADataKeyTwiceChangesNothing(t *testing.T) {
	path, ids := makeDataKeys(t, 2)
	if err := (&keysUse{File: path}).Run(t.Context(), &cli{}); err == nil {
		t.Error("nobody said which key is to seal")
	}
	for range 2 {
		if err := (&keysUse{File: path, ID: ids[1]}).Run(t.Context(), &cli{}); err != nil {
			t.Fatal(err)
		}
		if got := readIDs(t, path); got[0] != ids[1] {
			t.Errorf("%s seals, want %s", got[0], ids[1])
		}
	}
}

// What was put into the file while records were counted stays in it.
func TestAKeyIsTakenOutOfTheFileAsItIsNow(t *testing.T) {
	path, ids := makeDataKeys(t, 2)
	if err := newDataKey(t.Context(), keyFile{path: path}); err != nil {
		t.Fatal(err)
	}
	added := readIDs(t, path)[2]
	if err := (&keysUse{File: path, ID: added}).Run(t.Context(), &cli{}); err != nil {
		t.Fatal(err)
	}
	if err := takeOut(t.Context(), keyFile{path: path}, ids[1], path+".retired"); err != nil {
		t.Fatal(err)
	}
	if got, want := readIDs(t, path), []string{added, ids[0]}; !slices.Equal(got, want) {
		t.Errorf("the file has %v, want %v", got, want)
	}
	data, err := os.ReadFile(path + ".retired")
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := seal.ParseKeys(string(data)); err != nil || !slices.Equal(gone.IDs(), ids[1:]) {
		t.Errorf("retired: %v, %v", gone, err)
	}
	for _, id := range []string{added, ids[1]} {
		if err := takeOut(t.Context(), keyFile{path: path}, id, path+".again"); err == nil {
			t.Errorf("%s was taken out, which seals or is not there", id)
		}
	}
}

func TestAKeyFileKeepsOwnerGroupAndMode(t *testing.T) {
	path, _ := makeDataKeys(t, 1)
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 65532, 65531
	} else if groups, err := os.Getgroups(); err == nil {
		// One may give a file to the groups that one is in.
		gid = slices.Max(append(groups, gid))
	}
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := newDataKey(t.Context(), keyFile{path: path}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if is := info.Sys().(*syscall.Stat_t); int(is.Uid) != uid || int(is.Gid) != gid || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %d:%d %s, want %d:%d -rw-r-----", is.Uid, is.Gid, info.Mode().Perm(), uid, gid)
	}
}

func TestWhoMayOpenAKeyFile(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "hp-open-") // whose own directories everybody may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	secrets := filepath.Join(dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	path, link := filepath.Join(secrets, "data_key"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		outer, inner, file os.FileMode
		all                bool
	}{
		{0o755, 0o755, 0o644, true},
		{0o755, 0o711, 0o604, true},
		{0o755, 0o755, 0o646, true},
		{0o755, 0o755, 0o640, false},
		{0o755, 0o755, 0o660, false}, // a group's, as Kubernetes mounts them
		{0o755, 0o700, 0o644, false}, // as deploy/secrets.sh makes it
		{0o750, 0o755, 0o644, false},
	} {
		t.Run(fmt.Sprintf("%o %o %o", c.outer, c.inner, c.file), func(t *testing.T) {
			for name, mode := range map[string]os.FileMode{dir: c.outer, secrets: c.inner, path: c.file} {
				if err := os.Chmod(name, mode); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{path, link} {
				if e, err := config.Exposed(name); err != nil || e.Read != c.all || e.Written != (c.all && c.file&0o002 != 0) {
					t.Errorf("%s: %+v, %v; want %v", name, e, err, c.all)
				}
			}
		})
	}
}
