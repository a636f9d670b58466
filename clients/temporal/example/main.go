// The worker of an agent whose activities are decided by Holdpoint.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	holdpoint "holdpoint.example/client"

	holdpointtemporal "holdpoint.example/client/temporal"
)

type Payment struct {
	Amount string `json:"amount"`
	To     string `json:"to"`
}

func SendPayment(_ context.Context, p Payment) (string, error) {
	return fmt.Sprintf("paid %s to %s", p.Amount, p.To), nil
}

func PayInvoice(ctx workflow.Context, p Payment) (paid string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	err = workflow.ExecuteActivity(ctx, SendPayment, p).Get(ctx, &paid)
	return paid, err
}

func main() {
	c, err := client.Dial(client.Options{
		HostPort: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE"), Logger: sdklog.NewStructuredLogger(slog.Default()),
	})
	if err != nil {
		log.Fatal(err)
	}
	hp := &holdpoint.Client{URL: os.Getenv("HOLDPOINT_URL"), Key: os.Getenv("HOLDPOINT_API_KEY")}
	gate := holdpointtemporal.New(hp, holdpointtemporal.Tools{"SendPayment": {RiskDomain: "finance"}})
	w := worker.New(c, "agents", worker.Options{Interceptors: []interceptor.WorkerInterceptor{gate}})
	w.RegisterWorkflow(PayInvoice)
	w.RegisterActivity(SendPayment)
	if err := w.Start(); err != nil {
		log.Fatal(err)
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: "invoice-42", TaskQueue: "agents"},
		PayInvoice, Payment{"12.50", "Paper & Pens Ltd."})
	if err != nil {
		log.Fatal(err)
	}
	var paid string
	if err := run.Get(context.Background(), &paid); err != nil {
		log.Fatal(err)
	}
	fmt.Println(paid)
}
