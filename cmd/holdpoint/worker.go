package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"holdpoint/activities"
	"holdpoint/api"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/auditlog/floor"
	"holdpoint/internal/config"
	"holdpoint/internal/gate"
	"holdpoint/internal/metrics"
	"holdpoint/internal/notify"
	"holdpoint/internal/store"
	"holdpoint/internal/worker"
	"holdpoint/workflows"
)

type workerCommand struct{}

// Help is shown by "holdpoint worker --help".
func (workerCommand) Help() string {
	return `The worker relays what the gate has stored to Temporal, settles approvals, puts
events into the audit log and signs it, tells people by the endpoints of
"holdpoint notify", erases by age, and starts again what Temporal has lost. Any
number may run. It takes the settings of serve, and Temporal's:
HOLDPOINT_TEMPORAL_ADDRESS and HOLDPOINT_TEMPORAL_NAMESPACE. For the audit log:
  HOLDPOINT_LOG_KEY_FILE       made by "holdpoint key log FILE"; signs checkpoints
  HOLDPOINT_LOG_FLOOR_FILE     where the last checkpoint is kept outside Postgres
  HOLDPOINT_LOG_FLOOR_WEBHOOK  an address that the last checkpoint is posted to
  log_streams                  only in the file: receivers that events are sent to
                               (docs/siem.md)
  HOLDPOINT_METRICS_LISTEN     address of /healthz, /readyz and /metrics, without a key
  HOLDPOINT_RETENTION          how long after its end what an approval was about is
                               kept, such as 2160h; none, the default, keeps it
For telling people:
  HOLDPOINT_SMTP_ADDR, _FROM, _USER, _PASSWORD_FILE, _TLS (starttls, tls, plain)
  HOLDPOINT_PUSH_KEY_FILE      the same as for serve: signs what browsers are pushed
  HOLDPOINT_OUTBOUND_ALLOW_PRIVATE  networks of receivers inside the house, such
                               as 10.20.0.0/16; all others have to be public

Example:
  HOLDPOINT_CONFIG=/etc/holdpoint.yaml holdpoint worker`
}

func (workerCommand) Run(ctx context.Context, c *cli) error {
	cfg, err := c.load(workerNeeds)
	if err != nil {
		return err
	}
	log := logger(cfg)
	warnOfOpenFiles(cfg, log)
	cfg.Recorded = true
	return work(ctx, cfg, log, func() { log.Info("working", "temporal", cfg.TemporalAddress, "namespace", cfg.TemporalNamespace) })
}

// stickyWorkflows is how many workflows that wait a worker keeps in memory, at some 50 KB
// each with their stacks; another one is read from Temporal when something happens to it.
const stickyWorkflows = 500

// withoutFiles are the settings as a worker has them: serve imports files, and what it has put in force
// is what counts.
func withoutFiles(cfg config.Config) config.Config {
	cfg.PolicyFile, cfg.ContractsFile = "", ""
	return cfg
}

// nameForTemporal gives Temporal the name of this build, which its histories hold beside each task. Without one,
// Temporal's SDK reads the whole program and hashes it at each start: a quarter of a second of a processor.
func nameForTemporal() {
	b := thisBuild()
	sdk.SetBinaryChecksum(b.Version + " " + b.Commit)
}

// work runs the worker until ctx ends, calling ready once Temporal has taken it.
// While Temporal does not answer it keeps trying.
func work(ctx context.Context, cfg config.Config, log *slog.Logger, ready func()) error {
	sdk.SetStickyWorkflowCacheSize(stickyWorkflows)
	nameForTemporal()
	cfg = withoutFiles(cfg)
	traces, endTraces, err := startTraces(ctx, "holdpoint-worker", log)
	if err != nil {
		return err
	}
	defer endTraces()
	registry := metrics.NewRegistry(version())
	var watched monitored
	end, err := serveMetrics(ctx, cfg, api.Monitoring(registry, watched.probes()), log, func(err error) {
		if !errors.Is(err, http.ErrServerClosed) {
			log.Error("health and metrics are served no more; the work goes on", "error", err)
		}
	})
	if err != nil {
		return err
	}
	defer end()
	var sequencer *auditlog.Sequencer
	s, keeper, err := open(ctx, cfg, store.Config{URL: cfg.DatabaseURL, PeopleURL: cfg.DatabasePeopleURL, Sealer: cfg.Sealer, Logger: log, MaxConns: cfg.DatabaseConns, Traces: traces, Observer: metrics.NewCounters(registry)}, "worker", func(s *store.Store) (err error) {
		sequencer, err = newSequencer(ctx, cfg, s, log)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while it waited
		}
		return err
	}
	defer s.Close()
	dataKeys, err := followDataKeys(ctx, cfg, s, "worker", log)
	if err != nil {
		return err
	}
	defer dataKeys()
	if err := recordStart(ctx, cfg, s, "worker", registry); err != nil {
		return err
	}
	following := followRules(ctx, keeper)
	defer following()
	temporal, err := temporalClient(cfg, log, traces)
	if err != nil {
		return err
	}
	defer temporal.Close()
	reached(&watched.postgres, s.Ping)
	registry.MustRegister(stateOf(cfg, s, keeper, reachable(temporal), log))

	settle := activities.Settle{Settler: &gate.Settler{
		Store: s, Sealer: cfg.Sealer, Rules: keeper, Documents: keeper, Notifier: &notify.Notifier{PublicURL: cfg.PublicURL, Logger: log},
		Validity: time.Duration(cfg.TokenValidity), Logger: log,
	}}
	check := activities.CheckTicket{Checker: &gate.TicketChecker{Store: s, Sealer: cfg.Sealer, Tracker: tracked(cfg), Logger: log}}
	deliverer, err := newDeliverer(cfg, s, log)
	if err != nil {
		return err
	}
	polling := func() sdk.Worker {
		w := sdk.New(temporal, workflows.TaskQueue, sdk.Options{
			WorkerStopTimeout: 3 * time.Second,
			// Work that a worker remembers is offered to the others this soon after
			// it has died.
			StickyScheduleToStartTimeout: time.Second,
		})
		w.RegisterWorkflowWithOptions(workflows.Approval, workflow.RegisterOptions{Name: workflows.ApprovalWorkflow})
		w.RegisterActivityWithOptions(settle.Settle, activity.RegisterOptions{Name: workflows.SettleActivity})
		w.RegisterActivityWithOptions(check.CheckTicket, activity.RegisterOptions{Name: workflows.CheckTicketActivity})
		w.RegisterWorkflowWithOptions(workflows.Notification, workflow.RegisterOptions{Name: workflows.NotificationWorkflow})
		w.RegisterActivityWithOptions(activities.Deliver{Deliverer: deliverer}.Deliver, activity.RegisterOptions{Name: workflows.DeliverActivity})
		return w
	}

	streams, err := newStreams(cfg, s, log)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { sequencer.Run(ctx) })
	if witnessing := newWitnessing(cfg, s, log); witnessing != nil {
		running.Go(func() { witnessing.Run(ctx) })
	}
	running.Go(func() { runStreams(ctx, streams) })
	relay := &worker.Relay{Store: s, Temporal: temporal, Settler: settle.Settler, Ready: reachable(temporal), Logger: log}
	running.Go(func() { relay.Run(ctx) })
	deadlines := &worker.Deadlines{Store: s, Settler: settle.Settler, Logger: log, Ready: reachable(temporal)}
	running.Go(func() { deadlines.Run(ctx) })
	dispatcher := &worker.Dispatcher{Store: s, Temporal: temporal, Logger: log}
	running.Go(func() { dispatcher.Run(ctx) })
	reviews := &worker.AccessReviews{Store: s, Notifier: settle.Settler.Notifier, Logger: log}
	running.Go(func() { reviews.Run(ctx) })
	cleaner := &worker.Cleaner{Store: s, Logger: log}
	running.Go(func() { cleaner.Run(ctx) })
	retention := &worker.Retention{Store: s, After: cfg.KeepFor, Logger: log}
	running.Go(func() { retention.Run(ctx) })
	if cfg.LogFloorFile != "" {
		erased := &worker.Erased{Store: s, File: floor.ErasedBeside(cfg.LogFloorFile), Logger: log}
		running.Go(func() { erased.Run(ctx) })
	}

	if w := startPolling(ctx, polling, func(err error) error { return temporalCause(cfg, err) }, log); w != nil {
		reached(&watched.temporal, reachable(temporal))
		reconciler := &worker.Reconciler{Store: s, Temporal: temporal, Logger: log}
		running.Go(func() { reconciler.Run(ctx) })
		ready()
		<-ctx.Done()
		w.Stop()
	}
	running.Wait()
	return nil
}
