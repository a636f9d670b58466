package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"

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
func temporalClient(cfg config.Config, to *slog.Logger) (client.Client, error) {
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
	c, err := client.NewLazyClient(client.Options{
		HostPort: cfg.TemporalAddress, Namespace: cfg.TemporalNamespace, Logger: temporalLog(to),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 5 * time.Second}), grpc.WithChainUnaryInterceptor(patient),
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the Temporal client: %w", err)
	}
	return c, nil
}

// temporalLog gives Temporal's client our logger, without its chatter.
func temporalLog(to *slog.Logger) log.Logger {
	return log.NewStructuredLogger(slog.New(quiet{to.Handler()}))
}

// quiet drops what is below a warning.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
