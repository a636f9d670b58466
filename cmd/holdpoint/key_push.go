package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"holdpoint/internal/notify/webpush"
)

type keyPush struct {
	File string `arg:"" type:"path" help:"File that HOLDPOINT_PUSH_KEY_FILE names; it must not be there yet."`
}

// Help is shown by "holdpoint key push --help".
func (keyPush) Help() string {
	return `Pushes to people's browsers are signed with this key (VAPID). Serve and worker have
the same one. Browsers take pushes of the key that they subscribed to: with another
one people switch notifications on again.

Example:
  holdpoint key push /etc/holdpoint/push-key`
}

func (k *keyPush) Run(*cli) error {
	if err := newPushKey(k.File); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "made %s\n", k.File)
	return nil
}

// newPushKey writes a private key to a new file.
func newPushKey(path string) error {
	private, err := webpush.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- the operator names the file
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: browsers have subscribed to its key", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(private + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path)) // nobody has used it, and the next attempt would stumble over it
	}
	return nil
}
