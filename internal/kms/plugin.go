package kms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// plugin is a plugin of Kubernetes' KMS v2 protocol, at the path of its socket. Each
// question has a connection of its own: they are few, and a plugin may have been started
// again.
type plugin struct{ path string }

// The protocol's bounds, and how much of a plugin's words is told, in bytes.
const (
	mostKeyID       = 1 << 10
	mostCiphertext  = 1 << 10
	mostAnnotations = 32 << 10
	mostSaid        = 400
)

// ask asks the plugin one thing.
func (p plugin) ask(ctx context.Context, question func(context.Context, kmsapi.KeyManagementServiceClient) error) error {
	// A socket in the abstract namespace, or a file, has no owner to be trusted.
	if info, err := os.Stat(p.path); err != nil {
		return fmt.Errorf("the KMS cannot be reached: %w", err)
	} else if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("the KMS cannot be reached: %s is no socket", p.path)
	}
	ctx, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///kms", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.path)
		}))
	if err != nil {
		return fmt.Errorf("the KMS cannot be reached: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := question(ctx, kmsapi.NewKeyManagementServiceClient(conn)); err != nil {
		s, ok := status.FromError(err)
		switch {
		case ctx.Err() != nil, ok && (s.Code() == codes.DeadlineExceeded || s.Code() == codes.Canceled):
			return fmt.Errorf("the KMS at %s has not answered in time", p.path)
		case ok:
			return fmt.Errorf("the KMS at %s: %s", p.path, oneLine(s.Message()))
		}
		return err
	}
	return nil
}

// oneLine is what a plugin says, without what could deceive whoever reads it.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)), " ")
	if len(text) > mostSaid {
		text = strings.ToValidUTF8(text[:mostSaid], "") + "…"
	}
	return text
}

func checkKeyID(id string) error {
	if id == "" || len(id) >= mostKeyID || !printable(id) {
		return errors.New("the KMS gives no proper name of its key")
	}
	return nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (p plugin) KeyID(ctx context.Context) (id string, err error) {
	err = p.ask(ctx, func(ctx context.Context, c kmsapi.KeyManagementServiceClient) error {
		s, err := c.Status(ctx, &kmsapi.StatusRequest{})
		if err != nil {
			return err
		}
		if s.Version != "v2" && s.Version != "v2beta1" {
			return fmt.Errorf("the KMS at %s speaks %q, not v2 of the protocol", p.path, oneLine(s.Version))
		}
		if s.Healthz != "ok" {
			return fmt.Errorf("the KMS at %s is not well: %s", p.path, oneLine(s.Healthz))
		}
		id = s.KeyId
		return checkKeyID(id)
	})
	return id, err
}

func (p plugin) Encrypt(ctx context.Context, request string, key []byte) (s Sealed, err error) {
	err = p.ask(ctx, func(ctx context.Context, c kmsapi.KeyManagementServiceClient) error {
		r, err := c.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: key, Uid: request})
		if err != nil {
			return err
		}
		size := 0
		for name, value := range r.Annotations {
			size += len(name) + len(value)
		}
		if len(r.Ciphertext) == 0 || len(r.Ciphertext) > mostCiphertext || size > mostAnnotations {
			return fmt.Errorf("the KMS at %s answers with %d bytes and annotations of %d, and not by its protocol", p.path, len(r.Ciphertext), size)
		}
		s = Sealed{KeyID: r.KeyId, Ciphertext: r.Ciphertext, Annotations: r.Annotations}
		return checkKeyID(r.KeyId)
	})
	return s, err
}

func (p plugin) Decrypt(ctx context.Context, request string, s Sealed) (key []byte, err error) {
	err = p.ask(ctx, func(ctx context.Context, c kmsapi.KeyManagementServiceClient) error {
		r, err := c.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: s.Ciphertext, Uid: request, KeyId: s.KeyID, Annotations: s.Annotations})
		if err == nil {
			key = r.Plaintext
		}
		return err
	})
	return key, err
}
