package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// passwordName is the file in the cluster that holds the superuser's password. It lies with the data so that the two can
// neither be separated nor exist without each other.
const passwordName = "superuser.password"

// access is the cluster's whole pg_hba.conf: passwords only, this machine only.
const access = `# Written when the cluster was created.
host all all 127.0.0.1/32 scram-sha-256
`

// create makes the cluster under another name and renames it when it is complete and on disk, so that a crash at any point
// leaves either no cluster or a whole one.
func create(ctx context.Context, dir directory, inst installation, acc account, noSync bool) error {
	temp := dir.partial()
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("remove interrupted creation: %w", err)
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	if err := os.Chown(temp, acc.uid, acc.gid); err != nil {
		return err
	}
	// initdb wants an empty directory, so the password waits outside until it is done.
	waiting := dir.join(passwordName + ".partial")
	if err := writeSynced(waiting, rand.Text()+"\n", acc); err != nil {
		return err
	}

	args := []string{
		"-D", temp, "--username=" + superuser, "--pwfile=" + waiting, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--text-search-config=english",
	}
	if noSync {
		args = append(args, "--no-sync")
	}
	cmd := acc.commandContext(ctx, dir, inst.initdb(), args...)
	endWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	if err := run(cmd); err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(temp, "pg_hba.conf"), access, acc); err != nil {
		return err
	}
	if err := os.Rename(waiting, filepath.Join(temp, passwordName)); err != nil {
		return err
	}
	if err := syncDirectory(temp); err != nil {
		return err
	}
	if err := os.Rename(temp, dir.data()); err != nil {
		return err
	}
	return syncDirectory(string(dir))
}

// writeSynced replaces a file with one that only the account can read, and waits until it is on disk.
func writeSynced(path, text string, acc account) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chown(acc.uid, acc.gid)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
