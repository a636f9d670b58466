package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"holdpoint/api"
	"holdpoint/internal/enforce"
)

// enforceFlags is what the commands before a tool's server have in common.
type enforceFlags struct {
	clientFlags
	Routes  string        `required:"" help:"File that says which requests are calls of which tools." type:"path" placeholder:"FILE"`
	Timeout time.Duration `help:"How long the upstream may take, its answer included." default:"15m"`
}

type enforceCommand struct {
	enforceFlags
	Upstream string `required:"" help:"Where the tool's server is." placeholder:"URL"`
	Listen   string `help:"Where to listen. It has to be the only way to the upstream." default:"127.0.0.1:8090" placeholder:"ADDR"`
}

// Help is shown by "holdpoint enforce --help".
func (enforceCommand) Help() string {
	return `A reverse proxy before a tool's server. It lets a request through only with the token
of exactly this call, in the header Holdpoint-Token; it spends the token, forwards the
request once, and reports what became of it. --url and --key-file say where Holdpoint is
and under which key of the agent tokens are spent: one with the scope redeem, which the
agent itself need not have. HOLDPOINT_UPSTREAM_AUTHORIZATION, when set, is sent to the
upstream as its Authorization. docs/enforce.md has the rules.

Example:
  holdpoint enforce --url https://holdpoint.example.com --key-file redeem.key \
    --upstream http://10.0.0.7:9000 --routes routes.yaml --listen 127.0.0.1:8090`
}

func (e *enforceCommand) Run(ctx context.Context, _ *cli) error {
	proxy, err := e.proxy()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, e.Listen)
	if err != nil {
		return err
	}
	server := api.Server(proxy, proxy.Logger)
	server.WriteTimeout = 0 // the upstream's answer may take as long as --timeout
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(terminal, "forwarding http://%s to %s\n", listener.Addr(), e.Upstream)
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := server.Shutdown(down); err != nil {
		// Their tokens are spent: the gate finds out at the end of their lease.
		proxy.Logger.Warn("requests were cut off; their outcome is unknown", "error", err)
		return server.Close()
	}
	proxy.Wait()
	return nil
}

func (e *enforceCommand) proxy() (*enforce.Proxy, error) {
	config, err := e.config()
	if err != nil {
		return nil, err
	}
	config.Upstream, err = url.Parse(e.Upstream)
	if u := config.Upstream; err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("--upstream: want an address such as http://10.0.0.7:9000, without a user or a query")
	}
	return enforce.New(config)
}

func (e *enforceFlags) config() (c enforce.Config, err error) {
	address, key, err := e.server()
	if err != nil {
		return c, err
	}
	gate, err := url.Parse(address)
	if err != nil {
		return c, fmt.Errorf("--url: %w", err)
	}
	data, err := os.ReadFile(e.Routes)
	if err != nil {
		return c, fmt.Errorf("--routes: %w", err)
	}
	routes, err := enforce.Load(data, e.Routes)
	if err != nil {
		return c, err
	}
	if e.Timeout < time.Second || e.Timeout > 24*time.Hour {
		return c, errors.New("--timeout: want 1s to 24h")
	}
	return enforce.Config{
		Gate: gate, Key: key, Authorization: strings.TrimSpace(os.Getenv("HOLDPOINT_UPSTREAM_AUTHORIZATION")), Routes: routes, Timeout: e.Timeout,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}, nil
}

type extAuthzCommand struct {
	enforceFlags
	Listen string `help:"Where to listen. Nobody but Envoy may reach it." default:"127.0.0.1:9191" placeholder:"ADDR"`
}

// Help is shown by "holdpoint ext-authz --help".
func (extAuthzCommand) Help() string {
	return `Envoy's external authorization: Envoy stands before the tool's server, and asks here
whether a request may pass. It may with the token of exactly this call, in the header
Holdpoint-Token, once. Envoy's access log says what became of it. It takes the same
routes, key and variables as "holdpoint enforce". docs/enforce.md has Envoy's part.

Example:
  holdpoint ext-authz --url https://holdpoint.example.com --key-file redeem.key \
    --routes routes.yaml --listen 127.0.0.1:9191`
}

func (e *extAuthzCommand) Run(ctx context.Context, _ *cli) error {
	config, err := e.config()
	if err != nil {
		return err
	}
	authorizer, err := enforce.NewAuthorizer(config)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, e.Listen)
	if err != nil {
		return err
	}
	server := authorizer.Server()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(terminal, "answering Envoy on %s\n", listener.Addr())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	// Envoy's log is a stream that never ends by itself.
	late := time.AfterFunc(stopWithin, server.Stop)
	defer late.Stop()
	server.GracefulStop()
	authorizer.Wait()
	return nil
}
