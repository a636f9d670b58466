package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Bounds of one request to the API, beyond the time that it is held on purpose.
const (
	answerWithin = 15 * time.Second
	maxAnswer    = 8 << 20
)

// answer is a 2xx answer of the API, or a 304, which has no body.
type answer struct {
	header http.Header
	body   []byte
}

// ask sends a request in the caller's name. hold is how long the API may hold
// the answer. The failure is a *problem, or ctx's.
func (t *Tools) ask(ctx context.Context, r request, method, path string, body []byte, hold time.Duration, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, hold+answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, t.URL+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", r.caller.authorization)
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.once != "" {
		req.Header.Set("Idempotency-Key", r.once)
	}
	if r.caller.requestID != "" {
		req.Header.Set("X-Request-Id", r.caller.requestID)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := t.Door.RoundTrip(req)
	if err != nil {
		return answer{}, t.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, t.unreachable(ctx, err)
	case res.StatusCode/100 != 2 && res.StatusCode != http.StatusNotModified:
		return answer{}, problemOf(res, data)
	case len(data) > maxAnswer:
		return answer{}, errors.New("the answer is too large")
	}
	return answer{res.Header, data}, nil
}

func (t *Tools) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	t.Logger.WarnContext(ctx, "the server cannot be reached", "error", err)
	return newProblem(http.StatusServiceUnavailable, "unreachable", "The Holdpoint server cannot be reached. Nothing has been granted; try again.")
}

// problem is what kept a tool from doing its work: the API's own problem
// document (RFC 9457), or one of this package's in the same form.
type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Errors []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	} `json:"errors"`

	retryAfter string
	document   json.RawMessage
}

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

// say is the problem in a line.
func (p *problem) say() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Do not run the tool: nothing has been granted. %s (%s)", p.Detail, p.Code)
	for i, e := range p.Errors {
		if i == 8 {
			fmt.Fprintf(&text, " And %d more.", len(p.Errors)-i)
			break
		}
		fmt.Fprintf(&text, " %s: %s.", e.Path, e.Message)
	}
	if p.retryAfter != "" {
		fmt.Fprintf(&text, " Try again after %s seconds.", p.retryAfter)
	}
	return text.String()
}

// newProblem makes a problem of this package's own.
func newProblem(status int, code, detail string) *problem {
	document, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{"urn:holdpoint:problem:" + code, http.StatusText(status), status, code, detail})
	if err != nil {
		document = json.RawMessage(`{"code":"internal"}`) // strings and numbers always encode
	}
	return &problem{Code: code, Detail: detail, document: document}
}

// broken is a mistake on this side.
func broken(detail string) *problem {
	return newProblem(http.StatusInternalServerError, "internal", detail+" Nothing has been granted.")
}

// problemOf reads an answer that is no 2xx. What is no problem document, such as
// a proxy's own page, gets the code "http_" and its status.
func problemOf(res *http.Response, body []byte) *problem {
	p := &problem{}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(body, p) != nil || p.Code == "" {
		p = newProblem(res.StatusCode, fmt.Sprintf("http_%d", res.StatusCode), fmt.Sprintf("The server answered %d without saying why.", res.StatusCode))
	} else {
		p.document = bytes.TrimSpace(body)
	}
	p.retryAfter = res.Header.Get("Retry-After")
	return p
}

// InProcess is the door to an API that this very program serves.
func InProcess(handler http.Handler) http.RoundTripper { return inProcess{handler} }

type inProcess struct{ handler http.Handler }

// RoundTrip has the handler answer in the caller's goroutine.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.Host, in.RequestURI, in.RemoteAddr = r.URL.Host, r.URL.RequestURI(), "in-process"
	w := &responseRecorder{header: http.Header{}}
	p.handler.ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil && w.status == 0 {
		return nil, err // the handler saw that nobody listens
	}
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// responseRecorder keeps an answer.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the answer's header.
func (m *responseRecorder) Header() http.Header { return m.header }

// WriteHeader sets the status; the first one counts.
func (m *responseRecorder) WriteHeader(status int) {
	m.status = cmp.Or(m.status, status)
}

// Write adds to the body.
func (m *responseRecorder) Write(data []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	return m.body.Write(data)
}
