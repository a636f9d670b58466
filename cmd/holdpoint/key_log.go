package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"holdpoint/engine/audit"
)

type keyLog struct {
	File string `arg:"" type:"path" help:"File that HOLDPOINT_LOG_KEY_FILE names; it must not be there yet."`
	Name string `required:"" help:"The log's name: the address under which it is served without https://, by custom." placeholder:"NAME"`
}

// Help is shown by "holdpoint key log --help".
func (keyLog) Help() string {
	return `The worker signs the audit log's checkpoints with this key. What is printed is the
public key: give it to everybody who verifies, by another way than the log itself.
It is written to FILE.pub as well. Whoever has the private key can sign another
history: keep it from the database's administrators.

Example:
  holdpoint key log /etc/holdpoint/log-key --name holdpoint.example.com/log`
}

func (k *keyLog) Run(ctx context.Context, c *cli) error {
	f, err := c.keyFile("log_key", k.File)
	if err != nil {
		return err
	}
	public, err := newLogKey(ctx, f, k.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "made %s; the public key is\n%s\n", k.File, public)
	return nil
}

// newLogKey writes the private key to a new file and the public one beside it.
func newLogKey(ctx context.Context, f keyFile, name string) (public string, err error) {
	private, public, err := audit.NewKey(rand.Reader, name)
	if err != nil {
		return "", errors.New("--name: want a name without blanks and plus signs, such as holdpoint.example.com/log")
	}
	err = f.create(ctx, []byte(private+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s is there already: a log keeps its key", f.path)
	}
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(f.path+".pub", []byte(public+"\n"), 0o644); err != nil { // #nosec G306 -- it is public
		return "", errors.Join(err, os.Remove(f.path)) // nobody has used it, and the next attempt would stumble over it
	}
	return public, nil
}

// addLogKey puts a further key of the same log into the file: the worker signs with all
// of them, so that whoever verifies by any has a signature.
func addLogKey(ctx context.Context, f keyFile) error {
	path := f.path
	data, err := f.read(ctx)
	if err != nil {
		return fmt.Errorf("%w (holdpoint key log makes the first key of a log)", err)
	}
	keys, err := audit.ParseKeys(string(data))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var private string
	for twin := true; twin; { // 32 bits tell the keys of a log apart
		if private, _, err = audit.NewKey(rand.Reader, keys[0].Name()); err != nil {
			return err
		}
		fresh, err := audit.ParseKeys(private)
		if err != nil {
			return err
		}
		twin = slices.ContainsFunc(keys, func(k audit.Key) bool { return k.KeyHash() == fresh[0].KeyHash() })
		if !twin {
			keys = append(keys, fresh[0])
		}
	}
	if err := f.write(ctx, append(bytes.TrimRight(data, "\n"), "\n"+private+"\n"...)); err != nil {
		return err
	}
	public := publicLogKeys(keys)
	if err := replaceFile(path+".pub", []byte(public+"\n")); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "%s has %d keys; whoever verifies takes any of these public keys, which are in %s.pub\n%s\n", path, len(keys), path, public)
	return nil
}

// publicLogKeys are the public halves of a file's keys, one a line.
func publicLogKeys(keys []audit.Key) string {
	lines := make([]string, len(keys))
	for i, k := range keys {
		lines[i] = k.Public
	}
	return strings.Join(lines, "\n")
}
