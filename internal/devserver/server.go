//go:build !nodev

package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"go.uber.org/fx"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdpoint/internal/freeport"
)

const (
	// shards is the number of history shards. A database keeps the number it was made with for ever.
	shards = 4
	// retention is how long the history of a finished workflow can still be looked at.
	retention = 72 * time.Hour
	// startTimeout bounds a start whose context has no deadline.
	startTimeout = time.Minute
	// maxAttempts is how often the server is started when somebody takes one of its ports meanwhile.
	maxAttempts = 3
	// stopTimeout is what Stop waits at most. A server with a healthy Postgres needs one second.
	stopTimeout = 3 * time.Second

	// Each of the four services has a pool of its own, so that these come to 40 connections at most.
	conns = 10

	loopback    = "127.0.0.1"
	clusterName = "active"
)

// Config says where the server keeps its state and what it serves.
type Config struct {
	// PostgresURL leads to the Postgres and names the role that owns, or may create, the database below. Its own database
	// part does not matter.
	PostgresURL string
	// Database is created when it is missing. It belongs to the server alone.
	Database string
	// Namespace exists when Start returns.
	Namespace string
	// Logger receives the server's warnings and errors. Nil: nothing is logged.
	Logger *slog.Logger
	// Ending is closed when what uses the server begins to stop, before the server does: that work is cut off with it is logged at
	// level debug from then on. Nil: never.
	Ending <-chan struct{}
	// FrontendPort is used when it is free; else, and when 0, any free one.
	FrontendPort int
}

// Server is a running Temporal server. All methods are safe for concurrent use.
type Server struct {
	address string
	server  temporal.Server
	log     *logger
	stop    sync.Once
	done    chan struct{}
}

// Start brings up the database (made or updated as needed), the server and the namespace, and returns when the frontend
// answers: a fraction of a second with an existing database, about one with a new one. ctx bounds the start only, not the server's
// life. A start that was interrupted at any point can be repeated.
func Start(ctx context.Context, cfg Config) (*Server, error) { return start(ctx, cfg, choosePorts) }

func start(ctx context.Context, cfg Config, choose func(preferred int) (ports, error)) (*Server, error) {
	began := time.Now()
	worker.SetBinaryChecksum("holdpoint") // of the server's own workers; without it the SDK reads and hashes all of the program
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Namespace == "" || cfg.Database == "" {
		return nil, errors.New("start temporal: a namespace and a database are needed")
	}
	postgres, err := pgx.ParseConfig(cfg.PostgresURL)
	if err != nil {
		return nil, fmt.Errorf("start temporal: parse postgres url: %w", err)
	}

	state := store{database: cfg.Database, schema: mainSchema, version: mainVersion, conns: conns}
	if err := state.prepare(ctx, postgres, newLogger(cfg.Logger, cfg.Ending)); err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	for attempt := 1; ; attempt++ {
		ports, err := choose(cfg.FrontendPort)
		if err != nil {
			return nil, fmt.Errorf("start temporal: %w", err)
		}
		s := &Server{address: ports.address(primitives.FrontendService), log: newLogger(cfg.Logger, cfg.Ending), done: make(chan struct{})}
		err = s.run(ctx, configure(postgres, state, ports), ports)
		if err == nil {
			if err = s.register(ctx, cfg.Namespace); err != nil {
				s.Stop()
			}
		}
		if err == nil {
			cfg.Logger.Debug("temporal is ready", "address", s.address, "took", time.Since(began).Round(time.Millisecond))
			return s, nil
		}
		// Somebody may be quicker between our look at the ports and the server's bind. Of that error the server logs the text only.
		if attempt == maxAttempts || !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			return nil, fmt.Errorf("start temporal: %w", err)
		}
	}
}

// run builds and starts the server. It does so in a goroutine of its own, because where the server gives up it expects its
// logger not to return.
func (s *Server) run(ctx context.Context, cfg *config.Config, ports ports) error {
	type result struct {
		server temporal.Server
		err    error
	}
	results := make(chan result, 1)
	go func() {
		r := result{err: errors.New("the server gave up")}
		defer func() {
			// The end of this goroutine by the logger turns into a panic where it passes a sync.OnceValue.
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the server panicked: %v", p)
			}
			results <- r
		}()
		server, err := newServer(cfg, ports, s.log)
		if err != nil {
			r.err = err
			return
		}
		r.server = server
		r.err = server.Start()
	}()
	var err error
	select {
	case r := <-results:
		s.server, err = r.server, r.err
		results <- r
	case <-s.log.failed:
		err = s.log.err()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	// What the server said when it gave up tells more than how its construction failed.
	if fatal := s.log.err(); fatal != nil {
		err = fatal
	}
	s.log.stopping()
	go func() { // as far as it came
		if r := <-results; r.server != nil {
			_ = r.server.Stop()
		}
	}()
	return err
}

// newServer wires the parts. Replacing the span exporters keeps those out that it would take from OTEL_* variables.
func newServer(cfg *config.Config, ports ports, log *logger) (*temporal.ServerFx, error) {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, service := range services() {
		hosts[service] = static.SingleLocalHost(ports.address(service))
	}
	return temporal.NewServerFx(
		fx.Options(temporal.TopLevelModule, fx.Replace([]trace.SpanExporter{})),
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithDynamicConfigClient(dynamicSettings()),
		temporal.WithCustomVisibilityStoreFactory(unlisted{}),
		temporal.WithLogger(log),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
	)
}

// dynamicSettings are the settings that differ from the server's defaults, which are made for large clusters.
func dynamicSettings() dynamicconfig.Client {
	return dynamicconfig.StaticClient{
		// How often the queues of a shard may look for work: at the default of 20 a second a cycle of an approval waits for it.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   1000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      1000,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 100,
		// A long poll that is cut by a restart is taken up again soon.
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): 5 * time.Second,
		dynamicconfig.EnableActivityEagerExecution.Key():      true,
		// One partition a task queue: more would make workers and tasks look for each other, on a single machine for nothing.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// How many workflows it keeps in memory, at some 10 KB each. By default it is 128,000: all that wait.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 1000,
		// It would ask the makers of the server for news.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
}

// configure is the server's configuration: no metrics, no profiling, no archival, everything on the loopback interface.
func configure(postgres *pgx.ConnConfig, state store, ports ports) *config.Config {
	disabled := "disabled"
	cfg := &config.Config{
		// Nothing is joined. The server gives its services twice that time to start, and 15 s at least, which a machine
		// that is busy with other things can be too slow for.
		Global: config.Global{Membership: config.Membership{BroadcastAddress: loopback, MaxJoinDuration: startTimeout / 2}},
		Persistence: config.Persistence{
			DefaultStore:     state.database,
			VisibilityStore:  unlistedName,
			NumHistoryShards: shards,
			DataStores: map[string]config.DataStore{
				state.database: {SQL: state.sql(postgres)},
				unlistedName:   {CustomDataStoreConfig: &config.CustomDatastoreConfig{Name: unlistedName, IndexName: unlistedName}},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             ports.address(primitives.FrontendService),
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            map[string]config.Service{},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: disabled},
			Visibility: config.VisibilityArchival{State: disabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: disabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: disabled},
		}},
		PublicClient: config.PublicClient{HostPort: ports.address(primitives.FrontendService)},
	}
	for service, port := range ports {
		cfg.Services[string(service)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
	}
	return cfg
}

// sql is the store's part of the configuration.
func (s store) sql(postgres *pgx.ConnConfig) *config.SQL {
	return &config.SQL{
		PluginName:      postgresql.PluginNamePGX,
		ConnectProtocol: "tcp",
		ConnectAddr:     net.JoinHostPort(postgres.Host, strconv.Itoa(int(postgres.Port))),
		User:            postgres.User,
		Password:        postgres.Password,
		DatabaseName:    s.database,
		MaxConns:        s.conns,
		MaxIdleConns:    s.conns,
		MaxConnLifetime: time.Hour,
	}
}

// register makes sure that the frontend answers and that the namespace exists.
func (s *Server) register(ctx context.Context, namespace string) error {
	c, err := client.NewNamespaceClient(client.Options{HostPort: s.address, Logger: s.log.sdk()})
	if err != nil {
		return fmt.Errorf("connect to the frontend: %w", err)
	}
	defer c.Close()
	for {
		// Registering comes first: asking for a namespace that is not there yet would have the server remember so for a second.
		err := c.Register(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace:                        namespace,
			Description:                      "Approvals that wait",
			WorkflowExecutionRetentionPeriod: durationpb.New(retention),
		})
		var exists *serviceerror.NamespaceAlreadyExists
		if err == nil || errors.As(err, &exists) {
			_, err = c.Describe(ctx, namespace)
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.log.failed:
			return s.log.err()
		case <-ctx.Done():
			return fmt.Errorf("register namespace %s: %w", namespace, err)
		case <-time.After(20 * time.Millisecond): // the frontend is on its way
		}
	}
}

// Address is where the frontend listens: 127.0.0.1:port.
func (s *Server) Address() string { return s.address }

// Done is closed when the server has given up, as after losing a listener, or was stopped; Err tells which.
func (s *Server) Done() <-chan struct{} { return s.log.failed }

// Err is nil while the server runs and after Stop, else what it said when it gave up.
func (s *Server) Err() error { return s.log.err() }

// Stop ends the server, in about a second; one that hangs, say on its Postgres, is left behind after three. It reports whether the
// server has ended: one that is left behind may still answer. Everything acknowledged is in Postgres, which must be stopped after the
// server. Clients and workers should be closed before. Stopping twice is fine, and waits anew.
func (s *Server) Stop() (ended bool) {
	s.stop.Do(func() {
		s.log.stopping()
		go func() {
			defer close(s.done)
			_ = s.server.Stop()
		}()
	})
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
		return false
	}
}

// services are the parts of a Temporal server; each has a port.
func services() []primitives.ServiceName {
	return []primitives.ServiceName{
		primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
	}
}

// ports are where the services listen.
type ports map[primitives.ServiceName]int

func (p ports) address(service primitives.ServiceName) string {
	return net.JoinHostPort(loopback, strconv.Itoa(p[service]))
}

// choosePorts finds a free port for each service, and the preferred one for the frontend if it is free.
func choosePorts(preferred int) (ports, error) {
	chosen := ports{}
	for _, service := range services() {
		port := 0
		if service == primitives.FrontendService {
			port = preferred
		}
		l, err := freeport.Listen(port)
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // after the loop, so that no port is found twice
		chosen[service] = l.Addr().(*net.TCPAddr).Port
	}
	return chosen, nil
}
