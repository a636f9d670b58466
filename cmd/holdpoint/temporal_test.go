package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"holdpoint/internal/config"
)

// frontend answers polls alone.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (frontend) PollActivityTaskQueue(context.Context, *workflowservice.PollActivityTaskQueueRequest) (*workflowservice.PollActivityTaskQueueResponse, error) {
	return &workflowservice.PollActivityTaskQueueResponse{}, nil
}

// TestPollsWaitForTemporal: a poll made while Temporal is away is answered when it is
// back, and fails at no time in between: nobody waits to make another. Anything else
// is told at once.
func TestPollsWaitForTemporal(t *testing.T) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	// Who connects is hung up on: nobody is there, and the port is ours all the same.
	away := make(chan struct{})
	go func() {
		defer close(away)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	c, err := temporalClient(config.Config{TemporalAddress: listener.Addr().String(), TemporalNamespace: "test"}, slog.New(slog.DiscardHandler), noop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	polled := make(chan error, 1)
	go func() {
		_, err := c.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{})
		polled <- err
	}()
	// However long nobody is there, that is no error of the poll's.
	brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if got, err := c.WorkflowService().PollActivityTaskQueue(brief, &workflowservice.PollActivityTaskQueueRequest{}); err != nil || len(got.GetTaskToken()) > 0 {
		t.Errorf("when its time is over: %v, %v", got, err)
	}
	// Several attempts to connect have failed by the time that this has.
	for range 3 {
		var unavailable *serviceerror.Unavailable
		if _, err := c.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{}); !errors.As(err, &unavailable) {
			t.Errorf("without Temporal: %v", err)
		}
		select {
		case err := <-polled:
			t.Fatalf("the poll ended: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
	}
	_ = listener.SetDeadline(time.Now())
	<-away
	_ = listener.SetDeadline(time.Time{})
	server := grpc.NewServer()
	defer server.Stop()
	workflowservice.RegisterWorkflowServiceServer(server, frontend{})
	go func() { _ = server.Serve(listener) }()
	if err := <-polled; err != nil {
		t.Errorf("with Temporal: %v", err)
	}
}
