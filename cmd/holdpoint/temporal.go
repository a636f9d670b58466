package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdpoint/internal/config"
)

// maxPause is the longest pause between two attempts to connect.
const maxPause = time.Second

// temporalClient is a lazy client of the configured Temporal: nothing waits for it
// until it is used. However long Temporal was away, workers poll again as soon as
// it is back: left to themselves, connection and polls each wait up to ten seconds.
func temporalClient(cfg config.Config, to *slog.Logger, traces trace.TracerProvider) (client.Client, error) {
	tracing, err := temporalTraces(traces)
	if err != nil {
		return nil, err
	}
	again := backoff.DefaultConfig
	again.BaseDelay, again.MaxDelay = 200*time.Millisecond, maxPause
	// A poll waits for the connection, where other calls fail at once. When its time
	// is over, there was no task: the SDK would take an error as a reason to pause.
	patient := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if name := path.Base(method); !strings.HasPrefix(name, "Poll") || !strings.HasSuffix(name, "TaskQueue") {
			return invoke(ctx, method, req, reply, conn, opts...)
		}
		err := invoke(ctx, method, req, reply, conn, append(opts, grpc.WaitForReady(true))...)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && status.Code(err) == codes.DeadlineExceeded {
			return nil
		}
		return err
	}
	var who client.Credentials
	if cfg.TemporalKey != "" {
		who = client.NewAPIKeyStaticCredentials(cfg.TemporalKey)
	}
	c, err := client.NewLazyClient(client.Options{
		HostPort: cfg.TemporalAddress, Namespace: cfg.TemporalNamespace, Logger: temporalLog(to), Credentials: who, Interceptors: tracing,
		ConnectionOptions: client.ConnectionOptions{TLS: cfg.ToTemporal, TLSDisabled: cfg.ToTemporal == nil, DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 5 * time.Second}), grpc.WithChainUnaryInterceptor(patient),
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the Temporal client: %w", err)
	}
	return c, nil
}

// temporalCause says in one line why Temporal cannot be had, and what to do where that is
// known.
func temporalCause(cfg config.Config, err error) error {
	var missing *serviceerror.NamespaceNotFound
	var refused *serviceerror.PermissionDenied
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return fmt.Errorf("temporal_namespace: there is none of the name %s at %s: temporal operator namespace create -n %[1]s --retention 72h makes it (%[3]w)", cfg.TemporalNamespace, cfg.TemporalAddress, err)
	case errors.As(err, &refused):
		return fmt.Errorf("%w: temporal_api_key, or the certificate of temporal_tls, is not one that may use the namespace %s", err, cfg.TemporalNamespace)
	case cfg.ToTemporal == nil && strings.Contains(err.Error(), "error reading server preface"):
		return fmt.Errorf("temporal_address: %s closes connections without TLS: is temporal_tls missing? (%w)", cfg.TemporalAddress, err)
	}
	if cfg.ToTemporal != nil && slices.ContainsFunc(hungUp, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		return fmt.Errorf("temporal_address %s: %w: is the certificate in temporal_tls.cert_file one that Temporal takes?", cfg.TemporalAddress, err)
	}
	if cfg.ToTemporal != nil && strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
		return fmt.Errorf("temporal_address %s: it answers without TLS: is temporal_tls set for another server? (%w)", cfg.TemporalAddress, err)
	}
	return fmt.Errorf("temporal_address %s: %w", cfg.TemporalAddress, err)
}

// hungUp is what comes of a server that does not take the certificate of this process: it
// says so, or only hangs up, as the handshake is over here before it looks (RFC 8446, 4.4).
var hungUp = []string{"certificate required", "unknown certificate authority", "bad certificate", "broken pipe", "connection reset", "EOF"}

// temporalLog gives Temporal's client our logger, without its chatter.
func temporalLog(to *slog.Logger) log.Logger {
	return log.NewStructuredLogger(slog.New(warningsOnly{to.Handler()}))
}

// warningsOnly drops what is below a warning.
type warningsOnly struct{ slog.Handler }

func (q warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

func (q warningsOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningsOnly{q.Handler.WithAttrs(attrs)}
}

func (q warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{q.Handler.WithGroup(name)}
}
