package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

type requestIDKey struct{}

// RequestID is the id of the request that ctx belongs to; "" outside one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// requestID takes the caller's id when it is a plain word, else makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c)
	}
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool { return !plain(c) }) {
		return newRequestID()
	}
	return id
}

// newRequestID is req_ and rand.Text in small letters, made at once.
func newRequestID() string {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	id := [4 + 26]byte{'r', 'e', 'q', '_'}
	rand.Read(id[4:])
	for i, b := range id[4:] {
		id[4+i] = letters[b%32]
	}
	return string(id[:])
}

// Observe is the outermost middleware of the whole server: it gives every
// request an id and a span, logs and counts it under its route's pattern, and turns a
// panic into a 500. It writes no URL, header or body into log or span: only the
// pattern, which holds nothing that a caller wrote.
func Observe(next http.Handler, log *slog.Logger, m *Metrics, spans trace.Tracer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		id := requestID(r)
		ctx, span := spanOf(r, spans)
		defer span.End()
		r = r.WithContext(context.WithValue(ctx, requestIDKey{}, id))
		w.Header().Set("X-Request-Id", id)
		if len(r.TransferEncoding) > 0 {
			// It may have said a Content-Length as well, which the library has dropped: a
			// proxy that goes by it would take what follows for another request (RFC 9112, 6.3).
			w.Header().Set("Connection", "close")
		}
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				// Its value may quote an argument: the stack is enough.
				log.Error("a handler panicked", "request_id", id, "route", r.Pattern, "stack", string(debug.Stack()))
				if rec.status == 0 {
					writeReply(rec, (&failure{Status: http.StatusInternalServerError, Code: "internal", Detail: "Something went wrong here. Nothing has been granted."}).reply())
				}
			}
			route, status := r.Pattern, rec.status
			route = cmp.Or(route, "unmatched")
			status = cmp.Or(status, http.StatusOK)
			took := time.Since(started)
			m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
			m.requestSeconds.WithLabelValues(route).Observe(took.Seconds())
			if span.IsRecording() {
				describe(span, id, route, status)
			}
			if level := levelOf(route); log.Enabled(ctx, level) {
				told := []any{"request_id", id, "route", route, "status", status, "ms", float64(took.Microseconds()) / 1000}
				if span.IsRecording() {
					told = append(told, "trace_id", span.SpanContext().TraceID().String())
				}
				log.Log(ctx, level, "request", told...)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// spanOf starts a request's span. Where nobody takes spans and the caller has none there is
// nothing to start.
func spanOf(r *http.Request, spans trace.Tracer) (context.Context, trace.Span) {
	if _, off := spans.(noop.Tracer); off && r.Header["Traceparent"] == nil {
		return r.Context(), noop.Span{}
	}
	return spans.Start(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), "HTTP", trace.WithSpanKind(trace.SpanKindServer))
}

// describe says what a request's span is of, in OpenTelemetry's words.
func describe(span trace.Span, id, route string, status int) {
	method, path, ok := strings.Cut(route, " ")
	if !ok {
		method, path = "HTTP", route
	}
	span.SetName(method + " " + path)
	span.SetAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", path), attribute.Int("http.response.status_code", status),
		attribute.String("holdpoint.request_id", id),
	)
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// unremarkable are the routes that programs ask all the time, and whose requests are
// logged for who looks for them only.
var unremarkable = []string{"GET /healthz", "GET /readyz", "GET /health", "GET /ready", "GET /metrics", "GET /static/"}

func levelOf(route string) slog.Level {
	if slices.Contains(unremarkable, route) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// recorder remembers the status that was written.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = cmp.Or(r.status, status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what is below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Server returns an HTTP server for the handler, with bounds on everything
// that a slow or hostile caller could stretch.
func Server(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
