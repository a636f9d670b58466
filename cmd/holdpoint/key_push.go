package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

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

func (k *keyPush) Run(ctx context.Context, c *cli) error {
	f, err := c.keyFile("push_key", k.File)
	if err != nil {
		return err
	}
	if err := newPushKey(ctx, f); err != nil {
		return err
	}
	fmt.Fprintf(terminal, "made %s\n", k.File)
	return nil
}

// newPushKey writes a private key to a new file.
func newPushKey(ctx context.Context, f keyFile) error {
	private, err := webpush.NewKey(rand.Reader)
	if err != nil {
		return err
	}
	err = f.create(ctx, []byte(private+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: browsers have subscribed to its key", f.path)
	}
	return err
}
