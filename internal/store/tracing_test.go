package store

import (
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestSpansOfFailures: what Postgres says of a row that it refuses is in no span.
func TestSpansOfFailures(t *testing.T) {
	kept := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(kept))
	s, owner := open(t)
	traced, err := Open(t.Context(), Config{URL: owner, Sealer: s.sealer, Traces: provider})
	if err != nil {
		t.Fatal(err)
	}
	defer traced.Close()
	ctx, span := provider.Tracer("test").Start(t.Context(), "request")
	if _, err := traced.pool.Exec(ctx, `SELECT 'lemon'::text::integer`); err == nil {
		t.Fatal("a word is a number")
	}
	span.End()
	failed := 0
	for _, of := range kept.Ended() {
		told := of.Status().Description
		for _, e := range of.Events() {
			for _, a := range e.Attributes {
				told += " " + a.Value.String()
			}
		}
		if strings.Contains(told, "lemon") {
			t.Errorf("the span %s says %q", of.Name(), told)
		}
		if strings.Contains(told, "22P02") {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no span says that the statement failed")
	}
}
