package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is whom the server runs as. Postgres refuses to run as root.
type account struct {
	name     string // for people
	uid, gid int    // who owns the cluster's files
	// restrict turns a child into this account.
	restrict func(*syscall.SysProcAttr)
}

// chooseAccount is the present user, or for root the first that can run the server in dir: user postgres, user nobody, and
// where a parent directory shuts both out, root without its powers in a user namespace.
func chooseAccount(ctx context.Context, dir directory, inst installation) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{name: "user " + strconv.Itoa(uid), uid: uid, gid: os.Getegid(), restrict: func(*syscall.SysProcAttr) {}}, nil
	}
	users := unprivilegedUsers()
	if len(users) == 0 {
		return account{}, errors.New("postgres refuses to run as root and there is neither a user postgres nor a user nobody " +
			"to run it as: create one, or run this as an ordinary user")
	}
	for _, u := range users {
		if u.tryIn(ctx, dir, inst) == nil {
			return u, nil
		}
	}
	inside := users[0]
	ns, err := namespaced(inside)
	if err == nil {
		err = ns.tryIn(ctx, dir, inst)
	}
	if err == nil {
		return ns, nil
	}
	return account{}, fmt.Errorf("postgres refuses to run as root, %s cannot enter %s, and a user namespace does not help (%w): "+
		"choose a data directory that every user can reach (such as one under /var/lib), or run this as an ordinary user",
		inside.name, firstClosed(dir, inst, inside), err)
}

func unprivilegedUsers() []account {
	var found []account
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 != nil || err2 != nil || uid <= 0 || gid < 0 {
			continue
		}
		found = append(found, account{name: "user " + name, uid: uid, gid: gid, restrict: func(attr *syscall.SysProcAttr) {
			attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}})
	}
	return found
}

// tryIn finds out by trying whether the account can run the server with dir as working directory: permission bits alone do not
// tell (access lists, mount options, security modules).
func (a account) tryIn(ctx context.Context, dir directory, inst installation) error {
	cmd := a.commandContext(ctx, dir, inst.postgres(), "-V")
	err := run(cmd)
	return err
}

// command is a program that runs as the account in dir: in a session of its own, so that a Ctrl-C at our terminal reaches us
// alone and we stop the server when we no longer need it.
func (a account) command(dir directory, path string, args ...string) *exec.Cmd {
	return a.commandContext(context.Background(), dir, path, args...)
}

func (a account) commandContext(ctx context.Context, dir directory, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = string(dir)
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	a.restrict(cmd.SysProcAttr)
	return cmd
}

// own gives path and everything in it to the account. The top comes last, so that an interrupted pass is noticed and redone.
func (a account) own(path string) error {
	if owner, err := ownerOf(path); err != nil || owner == a.uid {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s belongs to another user (it was created as root?): give it to %s or use another directory", path, a.name)
	}
	err := filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != path {
			err = os.Lchown(name, a.uid, a.gid)
		}
		return err
	})
	if err == nil {
		err = os.Lchown(path, a.uid, a.gid)
	}
	if err != nil {
		return fmt.Errorf("give %s to %s: %w", path, a.name, err)
	}
	return nil
}

func ownerOf(path string) (int, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, fmt.Errorf("look up owner: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("look up owner of %s: not supported here", path)
	}
	return int(stat.Uid), nil
}

// firstClosed is the outermost directory on the way to the cluster or the binaries that the account may not enter, as far as
// permission bits tell; for an error message.
func firstClosed(dir directory, inst installation, a account) string {
	for _, target := range []string{string(dir), inst.bin} {
		path := "/"
		for _, part := range append([]string{""}, strings.Split(target, "/")...) {
			path = filepath.Join(path, part)
			info, err := os.Stat(path)
			if err != nil {
				return path
			}
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				continue
			}
			enter := info.Mode().Perm() & 0o001
			if int(stat.Gid) == a.gid {
				enter = info.Mode().Perm() & 0o010
			}
			if int(stat.Uid) == a.uid {
				enter = info.Mode().Perm() & 0o100
			}
			if enter == 0 {
				return fmt.Sprintf("%s (mode %04o)", path, info.Mode().Perm())
			}
		}
	}
	return string(dir)
}
