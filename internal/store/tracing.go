package store

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceparentField is the name of W3C Trace Context's field.
const traceparentField = "traceparent"

// traceparent is a span as W3C Trace Context writes it, nil for none.
func traceparent(of trace.SpanContext) *string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), of), carrier)
	if text := carrier[traceparentField]; text != "" {
		return &text
	}
	return nil
}

// Message tells Temporal that an approval exists or has changed.
type Message struct {
	ApprovalID string
	// Traceparent is the span in which it was written, "" for none.
	Traceparent string
}

// Within is ctx within the span in which the message was written.
func (m Message) Within(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparentField: m.Traceparent})
}

// spanOf starts the span of a commit: a part of the first request's that is sampled, with
// links to the others.
func (s *db) spanOf(ctx context.Context, batch []*queued) (context.Context, trace.Span) {
	var first trace.SpanContext
	var others []trace.Link
	for _, q := range batch {
		switch {
		case !q.span.IsSampled():
		case !first.IsValid():
			first = q.span
		default:
			others = append(others, trace.Link{SpanContext: q.span})
		}
	}
	if !first.IsValid() {
		return ctx, trace.SpanFromContext(ctx)
	}
	return s.spans.Start(trace.ContextWithSpanContext(ctx, first), "commit", trace.WithLinks(others...), trace.WithAttributes(attribute.Int("holdpoint.submissions", len(batch))))
}
