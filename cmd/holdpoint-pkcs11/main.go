// Command holdpoint-pkcs11 is a KMS plugin whose key is in a hardware security module, or
// in whatever else has a PKCS#11 library. It speaks Kubernetes' KMS v2 protocol on a Unix
// socket, for Holdpoint and for anybody else who speaks that. It is a program of its own
// because it loads the module's library, which takes the system's C library; and so that
// the PIN is no business of Holdpoint's.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"holdpoint/internal/kms"
	"holdpoint/internal/pkcs11"
)

const description = `A KMS plugin whose key is in a hardware security module. It speaks Kubernetes' KMS v2
protocol; Holdpoint's setting kms names its socket.

The address of the key is by RFC 7512: which token (token, serial, manufacturer, model),
which key in it (object, its label; id), module-path, the PKCS#11 library, and
pin-source, a file with the PIN that others on this machine cannot read. The key is
AES, and neither extractable nor usable without the PIN. It decrypts with every key of
the token, and encrypts with this one. It ends with 2 when the PIN is refused, which
is not to be tried again, and with 1 after any other mistake.

Example:
  holdpoint-pkcs11 --socket /run/holdpoint-kms/kms.sock 'pkcs11:token=holdpoint;object=kek-2026?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/holdpoint/pin'`

type command struct {
	Socket string `required:"" type:"path" help:"Unix socket to listen on. Whoever may write to it may use the key: its directory says who." placeholder:"FILE"`
	PIN    string `name:"pin-file" type:"path" help:"File with the PIN, instead of pin-source in the address." placeholder:"FILE"`
	Key    string `arg:"" help:"Address of the key, pkcs11:…"`
}

// leaveIt is the status by which a supervisor can tell that another try does harm: each one with
// a wrong PIN brings the token nearer to locking it. It is none that a crash ends with.
const leaveIt = 78

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c command
	kong.Parse(&c, kong.Name("holdpoint-pkcs11"), kong.Description(description), kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}))
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "holdpoint-pkcs11:", err)
		status := 1
		if errors.Is(err, pkcs11.ErrPIN) {
			status = leaveIt
		}
		stop()
		os.Exit(status)
	}
}

func (c command) run(ctx context.Context) error {
	uri, err := pkcs11.ParseURI(c.Key)
	if err != nil {
		return err
	}
	if c.PIN != "" && uri.PINFile != "" {
		return errors.New("--pin-file: the address has pin-source as well; give one")
	}
	pin := ""
	if file := cmp.Or(c.PIN, uri.PINFile); file != "" {
		if pin, err = kms.ReadPrivate(file); err != nil {
			return fmt.Errorf("the PIN: %w", err)
		}
		if pin == "" {
			return fmt.Errorf("the PIN: %s is empty", file)
		}
	}
	token, err := pkcs11.Open(uri, []byte(pin))
	if err != nil {
		return err
	}
	defer token.Close()
	listener, err := listen(ctx, c.Socket)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	server := grpc.NewServer(grpc.MaxRecvMsgSize(mostMessage), grpc.ConnectionTimeout(kms.Wait))
	kmsapi.RegisterKeyManagementServiceServer(server, &service{token: token, log: log})
	go func() {
		<-ctx.Done()
		time.AfterFunc(2*time.Second, server.Stop)
		server.GracefulStop()
	}()
	log.Info("serving", "socket", c.Socket, "key", token.KeyID())
	return server.Serve(listener)
}

// mostMessage is the longest request: a key, its name, and what is around them.
const mostMessage = 64 << 10

// listen makes the socket, for this user and group. One that nobody listens on any more is
// replaced.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("--socket: %s is there, and no socket", path)
	} else if err == nil {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("--socket: somebody listens on %s already", path), conn.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && dir.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("--socket: everybody on this machine may write to %s, and put another socket there: want a directory of its own", filepath.Dir(path))
	}
	former := syscall.Umask(0o117) // rw-rw----, from the first moment on
	defer syscall.Umask(former)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("--socket: %w", err)
	}
	return listener, nil
}

// service answers by the protocol.
type service struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	token *pkcs11.Token
	log   *slog.Logger
}

func (s *service) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	health := "ok"
	if err := s.token.Alive(); err != nil {
		health = err.Error()
	}
	return &kmsapi.StatusResponse{Version: "v2", Healthz: health, KeyId: s.token.KeyID()}, nil
}

func (s *service) Encrypt(ctx context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	sealed, id, err := s.token.Encrypt(r.Plaintext)
	if s.note(ctx, "encrypt", r.Uid, id, err); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &kmsapi.EncryptResponse{Ciphertext: sealed, KeyId: id}, nil
}

func (s *service) Decrypt(ctx context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	plain, err := s.token.Decrypt(r.KeyId, r.Ciphertext)
	s.note(ctx, "decrypt", r.Uid, r.KeyId, err)
	switch {
	case errors.Is(err, pkcs11.ErrForeign):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case err != nil:
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}

// note says in the log what the key was used for: by its name, of what it never tells.
func (s *service) note(ctx context.Context, what, request, key string, err error) {
	if err != nil {
		s.log.WarnContext(ctx, "refused", "to", what, "request", request, "error", err)
		return
	}
	s.log.InfoContext(ctx, "the key was used", "to", what, "request", request, "key", key)
}
