package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// traced is the name under which Holdpoint's own code makes spans.
const traced = "holdpoint"

// startTraces returns what makes the spans of a process. Where they go, and how many of
// them, say OpenTelemetry's own variables (OTEL_…); without an endpoint there are none.
// What is waiting to be sent is sent by stop.
func startTraces(ctx context.Context, service string, log *slog.Logger) (traces trace.TracerProvider, stop func(), err error) {
	if !tracesWanted() {
		return noop.NewTracerProvider(), func() {}, nil
	}
	exporter, err := otlptrace.New(ctx, tracesClient())
	if err != nil {
		return nil, nil, fmt.Errorf("OpenTelemetry: %w", err)
	}
	// Of the process and its machine nothing is told that the operator does not name.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version())), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(logSometimes(log)))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans could not be sent", "error", err)
		}
	}, nil
}

// tracesWanted reports whether the environment names a collector.
func tracesWanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// tracesClient speaks OTLP by HTTP, or by gRPC where the environment says so.
func tracesClient() otlptrace.Client {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	if protocol == "grpc" {
		return otlptracegrpc.NewClient()
	}
	return otlptracehttp.NewClient()
}

// lostEvery is how often somebody is told that spans are lost.
const lostEvery = time.Minute

// logSometimes logs one of many errors.
func logSometimes(log *slog.Logger) func(error) {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) >= lostEvery {
			last = time.Now()
			log.Warn("spans are lost: OpenTelemetry's collector does not take them", "error", err)
		}
	}
}

// temporalTraces gives Temporal's workflows and activities the spans of who asked for
// them; none without a collector.
func temporalTraces(traces trace.TracerProvider) ([]interceptor.ClientInterceptor, error) {
	if _, off := traces.(noop.TracerProvider); off {
		return nil, nil
	}
	// Of a caller's baggage nothing is passed on; a span that cannot be read stops no workflow.
	i, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: traces.Tracer(traced), DisableBaggage: true, AllowInvalidParentSpans: true})
	if err != nil {
		return nil, fmt.Errorf("trace Temporal: %w", err)
	}
	return []interceptor.ClientInterceptor{i}, nil
}
