package main

import (
	"bytes"
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

func (k *keyLog) Run(*cli) error {
	public, err := newLogKey(k.File, k.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "made %s; the public key is\n%s\n", k.File, public)
	return nil
}

// newLogKey writes the private key to a new file and the public one beside it.
func newLogKey(path, name string) (public string, err error) {
	private, public, err := audit.NewKey(rand.Reader, name)
	if err != nil {
		return "", errors.New("--name: want a name without blanks and plus signs, such as holdpoint.example.com/log")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the operator names the file
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s is there already: a log keeps its key", path)
	}
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(private + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.WriteFile(path+".pub", []byte(public+"\n"), 0o644) // #nosec G306 -- it is public
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(path)) // nobody has used it, and the next attempt would stumble over it
	}
	return public, nil
}

// addLogKey puts a further key of the same log into the file: the worker signs with all
// of them, so that whoever verifies by any has a signature.
func addLogKey(path string) error {
	data, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
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
	if err := writeSecret(path, append(bytes.TrimRight(data, "\n"), "\n"+private+"\n"...)); err != nil {
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
