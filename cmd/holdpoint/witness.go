package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"holdpoint/api"
	"holdpoint/engine/cosign"
	"holdpoint/internal/witness"
)

type witnessCommand struct {
	Serve witnessServe `cmd:"" default:"withargs" help:"Witness logs: cosign each checkpoint that follows from the last one."`
	Key   witnessKey   `cmd:"" help:"Make a witness's key file, and print its public key."`
}

// Help is shown by "holdpoint witness --help".
func (witnessCommand) Help() string {
	return "Without a further word it is “witness serve”.\n\n" + witnessServe{}.Help()
}

type witnessServe struct {
	Listen  string   `default:"127.0.0.1:8090" help:"Where to listen, 127.0.0.1:8090 when left out; port 0 is any free one." placeholder:"ADDR"`
	KeyFile string   `name:"key" required:"" type:"path" help:"Key file, from “holdpoint witness key”." placeholder:"FILE"`
	State   string   `required:"" type:"path" help:"File for the latest checkpoints; made when it is not there. Never put an old copy back." placeholder:"FILE"`
	Log     []string `required:"" sep:"none" help:"Public key of a log, name+ID+key; ORIGIN=KEY if the log's origin is not the key's name. Once for each log and each of its keys." placeholder:"VKEY"`
}

// Help is shown by "holdpoint witness serve --help".
func (witnessServe) Help() string {
	return `Speaks C2SP tlog-witness: POST URL/add-checkpoint cosigns a checkpoint of a log
when a proof shows that its tree has grown from the last one that was cosigned,
and GET URL/HASH/checkpoint serves that one to monitors. It needs no database.
Who asks needs no key; put TLS in front. docs/witnesses.md says more.

Examples:
  holdpoint witness key witness.key --name witness.example.com/w1
  holdpoint witness --key witness.key --state witness.json --log 'log.example.com+0f3a…+AY7…'
  holdpoint witness --listen :8090 --key witness.key --state witness.json \
    --log 'example.com/audit=log.example.com+0f3a…+AY7…'`
}

func (w *witnessServe) Run(ctx context.Context, c *cli) error {
	f, err := c.keyFile("witness_key", w.KeyFile)
	if err != nil {
		return err
	}
	data, err := f.read(ctx)
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	signer, err := cosign.NewSigner(strings.TrimSuffix(string(data), "\n"))
	if err != nil {
		return fmt.Errorf("--key %s: %w", w.KeyFile, err)
	}
	logs, err := witness.ParseLogs(w.Log)
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server, err := witness.New(witness.Config{Signer: signer, Logs: logs, State: w.State, Now: time.Now, Logger: log})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	listener, err := listen(ctx, w.Listen)
	if err != nil {
		return err
	}
	door := api.Server(server, log)
	failed := make(chan error, 1)
	go func() { failed <- door.Serve(listener) }()
	fmt.Fprintf(terminal, "witness %s\nlistening on http://%s\n", signer.VerifierKey(), listener.Addr())
	for _, l := range logs {
		if size, ok := server.Latest(l.Origin); ok {
			fmt.Fprintf(terminal, "log %s: cosigned at size %d\n", l.Origin, size)
		} else {
			fmt.Fprintf(terminal, "log %s: nothing cosigned yet\n", l.Origin)
		}
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := door.Shutdown(down); err != nil {
		log.Warn("requests were cut off", "error", err)
		_ = door.Close()
	}
	return nil
}

type witnessKey struct {
	File string `arg:"" type:"path" help:"File to make; one that is there is left alone."`
	Name string `required:"" help:"The witness's name: best a URL without https://, and never changed." placeholder:"NAME"`
}

// Help is shown by "holdpoint witness key --help".
func (witnessKey) Help() string {
	return `The file is the private key: only its owner may read it. What is printed is the
public key, which the operators of logs and those who check them need.

Example:
  holdpoint witness key witness.key --name witness.example.com/w1`
}

func (w *witnessKey) Run(ctx context.Context, c *cli) error {
	f, err := c.keyFile("witness_key", w.File)
	if err != nil {
		return err
	}
	skey, vkey, err := cosign.GenerateKey(rand.Reader, w.Name)
	if err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	err = f.create(ctx, []byte(skey+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and a witness's key is not replaced: name another file", w.File)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(terminal, vkey)
	return nil
}
