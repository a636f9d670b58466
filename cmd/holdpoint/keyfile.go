package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"holdpoint/internal/config"
	"holdpoint/internal/kms"
)

// keyFile is a file of a secret, in clear, or wrapped by the KMS that the settings name.
type keyFile struct {
	// setting is the secret's, to which what is wrapped is bound.
	setting, path string
	service       kms.Service // nil for none
}

// keyFile is a file that a command reads or writes. Of the settings it takes the KMS, and reads no other.
func (c *cli) keyFile(setting, path string) (keyFile, error) {
	f := keyFile{setting: setting, path: path}
	address, err := config.KMS(c.Config, os.Environ())
	if err != nil || address == "" {
		return f, err
	}
	if f.service, err = kms.Open(address); err != nil {
		return f, fmt.Errorf("kms: %w", err)
	}
	return f, nil
}

// read is what is in the file, in clear. fs.ErrNotExist: there is none.
func (f keyFile) read(ctx context.Context) ([]byte, error) {
	data, err := os.ReadFile(f.path)
	if err != nil || !kms.IsWrapped(string(data)) {
		return data, err
	}
	if f.service == nil {
		return nil, fmt.Errorf("%s: it is wrapped by a KMS, and kms is not set (HOLDPOINT_CONFIG names the settings)", f.path)
	}
	if data, err = kms.Unwrap(ctx, f.service, f.setting, string(data)); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return data, nil
}

// write replaces the file at once, and wraps it where there is a KMS.
func (f keyFile) write(ctx context.Context, data []byte) error {
	data, err := f.wrapped(ctx, data)
	if err != nil {
		return err
	}
	return writeSecret(f.path, data)
}

// create is write for a file that must not be there yet: fs.ErrExist.
func (f keyFile) create(ctx context.Context, data []byte) error {
	if _, err := os.Lstat(f.path); err == nil {
		return fs.ErrExist
	}
	data, err := f.wrapped(ctx, data)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(f.path)) // nobody has used it, and the next attempt would stumble over it
	}
	return nil
}

func (f keyFile) wrapped(ctx context.Context, data []byte) ([]byte, error) {
	if f.service == nil {
		return data, nil
	}
	data, err := kms.Wrap(ctx, f.service, f.setting, data)
	if err != nil {
		return nil, fmt.Errorf("%s: wrap it: %w", f.path, err)
	}
	return data, nil
}
