package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holdpoint/internal/config"
	"holdpoint/internal/kms"
)

// wrappable says which files “keys wrap” and “keys unwrap” are about.
type wrappable struct {
	Files []string `arg:"" optional:"" type:"path" help:"Files of secrets, of those that the settings name; all of them when left out." placeholder:"FILE"`
	For   string   `help:"The setting that the files are for, such as data_key, if the settings do not name them." placeholder:"SETTING"`
}

type keysWrap struct{ wrappable }

// Help is shown by "holdpoint keys wrap --help".
func (keysWrap) Help() string {
	return `Takes the files of secrets that the settings name (data_key_file, signing_keys_file,
smtp.password_file, …), encrypts each with a key of its own, has the service at kms
encrypt that, and puts the result in place of the file. What a former key of the service
has wrapped is wrapped with its present one. It may be stopped and started again at any
time, and first makes sure that the service opens what it has wrapped.

Serve, worker and commands open the files when they start, and when they read them again.
Where kms is set they take no key of Holdpoint's own in clear.

Examples:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint keys wrap
  holdpoint keys wrap --for data_key /etc/holdpoint/data_key`
}

type keysUnwrap struct{ wrappable }

// Help is shown by "holdpoint keys unwrap --help".
func (keysUnwrap) Help() string {
	return `The way back from “keys wrap”: the files are in clear again. Take kms out of the
settings then.

Example:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint keys unwrap`
}

// files are those that the command is about, and the service.
func (w *wrappable) files(c *cli) (files []keyFile, err error) {
	cfg, err := config.Load(c.Config, os.Environ())
	if err != nil {
		return nil, err
	}
	if cfg.KMS == "" {
		return nil, errors.New("kms: it is missing: want unix:///…, the socket of a KMS plugin, or file:///… (docs/kms.md)")
	}
	service, err := kms.Open(cfg.KMS)
	if err != nil {
		return nil, fmt.Errorf("kms: %w", err)
	}
	named := cfg.SecretFiles()
	if w.For != "" {
		if !slices.Contains(config.SecretSettings(), w.For) {
			return nil, fmt.Errorf("--for: want one of %s", strings.Join(config.SecretSettings(), ", "))
		}
		if len(w.Files) == 0 {
			return nil, errors.New("--for: name the files")
		}
		named = nil
		for _, path := range w.Files {
			named = append(named, config.SecretFile{Setting: w.For, Path: path})
		}
	}
	for _, path := range w.Files {
		if !slices.ContainsFunc(named, func(f config.SecretFile) bool { return absolute(f.Path) == path }) {
			return nil, fmt.Errorf("%s: no setting names it: say what it is by --for, such as --for data_key", path)
		}
	}
	for _, f := range named {
		path := absolute(f.Path)
		if len(w.Files) > 0 && !slices.Contains(w.Files, path) {
			continue
		}
		one := keyFile{setting: f.Setting, path: path, service: service}
		if i := slices.IndexFunc(files, func(k keyFile) bool { return k.path == path }); i >= 0 && files[i].setting != one.setting {
			return nil, fmt.Errorf("%s is a %s and a %s: give each a file of its own", path, files[i].setting, one.setting)
		} else if i >= 0 {
			continue
		}
		files = append(files, one)
	}
	if len(files) == 0 {
		return nil, errors.New("the settings name no file of secrets: name one, and say what it is by --for")
	}
	return files, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// each runs f on one file after another, with the name of the service's key, and goes on
// after one that fails.
func (w *wrappable) each(ctx context.Context, c *cli, f func(file keyFile, now string) error) error {
	files, err := w.files(c)
	if err != nil {
		return err
	}
	now, err := files[0].service.KeyID(ctx)
	if err != nil {
		return fmt.Errorf("kms: %w", err)
	}
	for _, file := range files {
		if one := changing(file.path, func() error { return f(file, now) }); one != nil {
			if !strings.Contains(one.Error(), file.path) {
				one = fmt.Errorf("%s: %w", file.path, one)
			}
			err = errors.Join(err, one)
		}
	}
	return err
}

func (k *keysWrap) Run(ctx context.Context, c *cli) error {
	return k.each(ctx, c, func(f keyFile, now string) error {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		by := ""
		if kms.IsWrapped(string(text)) {
			was, err := kms.Parse(string(text))
			if err != nil {
				return err
			}
			if by = was.KeyID; by == now && was.For == f.setting {
				fmt.Fprintf(terminal, "%s is wrapped with %s already\n", f.path, now)
				return nil
			}
		}
		secret, err := f.read(ctx)
		if err != nil {
			return err
		}
		defer clear(secret)
		if err := f.write(ctx, secret); err != nil {
			return err
		}
		if by != "" {
			by = ", before with " + by
		}
		fmt.Fprintf(terminal, "%s (%s) is wrapped with %s%s\n", f.path, f.setting, now, by)
		return nil
	})
}

func (k *keysUnwrap) Run(ctx context.Context, c *cli) error {
	return k.each(ctx, c, func(f keyFile, _ string) error {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		if !kms.IsWrapped(string(text)) {
			fmt.Fprintf(terminal, "%s is in clear already\n", f.path)
			return nil
		}
		secret, err := f.read(ctx)
		if err != nil {
			return err
		}
		defer clear(secret)
		if err := writeSecret(f.path, secret); err != nil {
			return err
		}
		fmt.Fprintf(terminal, "%s (%s) is in clear\n", f.path, f.setting)
		return nil
	})
}

// addKMSKey puts a new key before those of a file of keys, or makes the file.
func addKMSKey(path string) error {
	former, err := kms.ReadPrivate(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if former != "" {
		former += "\n"
	}
	if err := writeSecret(path, []byte(kms.NewFileKey()+"\n"+former)); err != nil {
		return err
	}
	service, err := kms.Open((&url.URL{Scheme: "file", Path: path}).String())
	if err != nil {
		return err
	}
	id, err := service.KeyID(context.Background())
	if err != nil {
		return err
	}
	fmt.Fprintf(terminal, "%s wraps with %s; bring it to every machine, then: holdpoint keys wrap\n", path, id)
	return nil
}
