package store

import (
	"context"
	"errors"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
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
	// MayWait says that nothing has changed but what is looked at when the approval's next
	// moment comes, which is Wait away; no more than 0 where it has come.
	MayWait bool
	Wait    time.Duration
}

// Within is ctx within the span in which the message was written.
func (m Message) Within(ctx context.Context) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparentField: m.Traceparent})
}

// spanOf starts the span of a commit: a part of the first request's that is sampled, with
// links to the others. It is never that of who makes the commit, and may not be in it.
func (s *Store) spanOf(ctx context.Context, batch []*queued) (context.Context, trace.Span) {
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
		return trace.ContextWithSpan(ctx, noop.Span{}), noop.Span{}
	}
	return s.spans.Start(trace.ContextWithSpanContext(ctx, first), "commit", trace.WithLinks(others...), trace.WithAttributes(attribute.Int("holdpoint.submissions", len(batch))))
}

// statementTracer makes the spans of statements. A message of Postgres may quote a row,
// and one of a connection its URL: a span has what the programs log of an error.
type statementTracer struct{ *otelpgx.Tracer }

func newStatementTracer(traces trace.TracerProvider) statementTracer {
	return statementTracer{otelpgx.NewTracer(otelpgx.WithTracerProvider(traces), otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableAcquireTracer())}
}

// traceable is an error as a span may have it; no rows are no error.
func traceable(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return translate(err)
}

// TraceQueryEnd ends the span of a statement.
func (t statementTracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	data.Err = traceable(data.Err)
	t.Tracer.TraceQueryEnd(ctx, conn, data)
}

// TraceCopyFromEnd ends the span of a COPY.
func (t statementTracer) TraceCopyFromEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromEndData) {
	data.Err = traceable(data.Err)
	t.Tracer.TraceCopyFromEnd(ctx, conn, data)
}

// TraceBatchQuery makes the span of a statement of a batch.
func (t statementTracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	data.Err = traceable(data.Err)
	t.Tracer.TraceBatchQuery(ctx, conn, data)
}

// TraceBatchEnd ends the span of a batch.
func (t statementTracer) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	data.Err = traceable(data.Err)
	t.Tracer.TraceBatchEnd(ctx, conn, data)
}

// TraceConnectEnd ends the span of a connection that is made.
func (t statementTracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	data.Err = traceable(data.Err)
	t.Tracer.TraceConnectEnd(ctx, data)
}

// TracePrepareEnd ends the span of a statement that is prepared.
func (t statementTracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	data.Err = traceable(data.Err)
	t.Tracer.TracePrepareEnd(ctx, conn, data)
}
