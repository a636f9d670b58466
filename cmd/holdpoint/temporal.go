package main

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"holdpoint/internal/config"
)

// reconnectWithin is how long after Temporal is back, at the most, it is tried again.
const reconnectWithin = time.Second

// temporalClient is a lazy client of the configured Temporal: nothing waits for it
// until it is used. However long Temporal was away, workers poll again as soon as
// it is back: left to themselves, connection and polls each wait up to ten seconds.
func temporalClient(cfg config.Config, to *slog.Logger) (client.Client, error) {
	again := backoff.DefaultConfig
	again.BaseDelay, again.MaxDelay = 200*time.Millisecond, reconnectWithin
	// A poll waits for the connection, where other calls fail at once.
	patient := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasPrefix(path.Base(method), "Poll") {
			opts = append(opts, grpc.WaitForReady(true))
		}
		return invoke(ctx, method, req, reply, conn, opts...)
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
