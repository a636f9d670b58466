package enforce

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdpoint/engine/canon"
)

// The headers of the proxy.
const (
	// TokenHeader carries the token of the call. It is not forwarded.
	TokenHeader = "Holdpoint-Token"
	// ApprovalHeader names, to the upstream and in the answer, the approval by which the
	// call was permitted. An answer without it was not the upstream's.
	ApprovalHeader = "Holdpoint-Approval"
	// ConstraintsHeader tells the upstream what the call has to keep to, as JSON.
	ConstraintsHeader = "Holdpoint-Constraints"
)

// forwarded are the headers that are forwarded though they are no part of the call:
// they change the form of the answer, and not what is done.
var forwarded = []string{"Accept", "Accept-Language", "Content-Type", "Traceparent", "Tracestate", "User-Agent"}

// ours are the headers that no route may forward: they are the proxy's, or a
// connection's.
var ours = []string{
	"Authorization", "Connection", "Content-Encoding", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", TokenHeader, ApprovalHeader, ConstraintsHeader,
}

// ofConnection are the headers of an answer that are for the next hop only.
var ofConnection = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", ApprovalHeader,
}

// Config is what a Proxy is made of.
type Config struct {
	// Upstream is the tool's server, and Gate is Holdpoint's. Neither has a query; the
	// path of Upstream is put before that of a request.
	Upstream, Gate *url.URL
	// Key is an API key of the agent whose tokens are spent, with the scope redeem.
	Key string
	// Authorization, when set, is sent to the upstream as the header of that name. That
	// of a request is never forwarded.
	Authorization string
	Routes        Routes
	// Timeout is how long the upstream may take in all; 15 minutes when zero. It is the
	// lease of the redemption as well.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Proxy forwards each request for which the gate spends a token. It is safe for
// concurrent use.
type Proxy struct {
	Config
	gate      *gate
	transport *http.Transport
	reports   sync.WaitGroup
}

const (
	defaultTimeout = 15 * time.Minute
	reportWithin   = 30 * time.Second
)

// New returns a proxy.
func New(c Config) (*Proxy, error) {
	if c.Upstream == nil || c.Gate == nil || c.Key == "" || len(c.Routes) == 0 || c.Logger == nil {
		return nil, errors.New("a proxy needs an upstream, a gate, a key, routes and a logger")
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	return &Proxy{Config: c, gate: newGate(c.Gate.String(), c.Key), transport: &http.Transport{
		// On a connection that was used before, the library sends some requests a second
		// time by itself, and over HTTP/2 too: one token is one request.
		DisableKeepAlives: true,
		TLSNextProto:      map[string]func(string, *tls.Conn) http.RoundTripper{},
		// What the upstream answers is passed on as it is.
		DisableCompression: true,
		DialContext:        (&net.Dialer{Timeout: askedWithin}).DialContext,
	}}, nil
}

// Wait returns once the outcome of every request has been reported, or given up.
func (p *Proxy) Wait() { p.reports.Wait() }

// ServeHTTP forwards the request if its token permits it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, refused := readBody(w, r)
	if refused != nil {
		p.refuse(w, r, refused)
		return
	}
	c, refused := p.Routes.read(r, body)
	if refused != nil {
		p.refuse(w, r, refused)
		return
	}
	token, refused := tokenOf(r, c.route)
	if refused != nil {
		p.refuse(w, r, refused)
		return
	}
	p.reports.Add(1)
	defer p.reports.Done()
	// A caller who leaves now changes nothing: the token is spent, and somebody has to
	// report.
	ctx := context.WithoutCancel(r.Context())
	permitted, refused := p.gate.redeem(ctx, token, c, p.Timeout)
	if refused != nil {
		p.refuse(w, r, refused)
		return
	}
	began := time.Now()
	outcome, broken := p.forward(ctx, w, r, body, c, permitted)
	if broken {
		// An answer that did not come to its end must not look as if it had.
		defer panic(http.ErrAbortHandler)
	}
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	if err := p.gate.report(ctx, permitted.ApprovalID, outcome, time.Since(began)); err != nil {
		p.Logger.Error("the outcome could not be reported", "approval", permitted.ApprovalID, "outcome", outcome, "error", err)
	}
}

func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, f *refusal) {
	p.Logger.Info("a request was refused", "method", r.Method, "code", f.code)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(f.problem()) // a caller who has gone cannot be told so
}

// readBody reads all of the body: what is judged is what is forwarded.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, canon.MaxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "The body may have at most %d bytes.", canon.MaxBytes)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "unreadable_body", "The body could not be read to its end.")
	case r.Header.Get("Content-Encoding") != "":
		return nil, refuse(http.StatusUnsupportedMediaType, "content_encoding", "Send the body as it is, without a Content-Encoding.")
	case len(r.Trailer) > 0 || r.Header.Get("Upgrade") != "":
		return nil, refuse(http.StatusBadRequest, "unreadable_body", "Trailers and other protocols are not forwarded.")
	case len(body) == 0:
		return nil, nil
	}
	types := r.Header.Values("Content-Type")
	kind, params, err := mime.ParseMediaType(strings.Join(types, ", "))
	if err != nil || len(types) != 1 || kind != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return nil, refuse(http.StatusUnsupportedMediaType, "content_type", "Send the arguments as application/json, in UTF-8.")
	}
	return body, nil
}

// tokenOf is the request's token. One with constraints is for a route whose upstream
// keeps to them.
func tokenOf(r *http.Request, to route) (string, *refusal) {
	values := r.Header.Values(TokenHeader)
	// Envoy joins headers of one name by commas.
	if len(values) != 1 || values[0] == "" || strings.Contains(values[0], ",") {
		return "", refuse(http.StatusUnauthorized, "token_missing", "Send the token of the approved call in the header %s.", TokenHeader)
	}
	bound, err := constrained(values[0])
	switch {
	case err != nil:
		return "", refuse(http.StatusUnauthorized, "token_invalid", "The token cannot be read: %s.", err)
	case bound && !to.constraints:
		return "", refuse(http.StatusForbidden, "constraints_not_kept", "The token carries constraints, and this route's upstream does not say that it keeps to them.")
	}
	return values[0], nil
}

// forward sends the request, once, and passes the answer on. It returns what is known
// of the call: succeeded, failed or unknown; broken is an answer that has begun and will
// never end.
func (p *Proxy) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte, c call, by permission) (outcome string, broken bool) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	unsent := func(detail string) (string, bool) {
		p.refuse(w, r, refuse(http.StatusBadGateway, "upstream_unavailable", "%s Nothing was sent.", detail))
		return "failed", false
	}
	if by.constrained() && !c.constraints {
		return unsent("The call has constraints that this route's upstream does not keep to.")
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	out, err := http.NewRequestWithContext(ctx, r.Method, p.Upstream.JoinPath(c.target.Path).String(), bytes.NewReader(body))
	if err != nil {
		return unsent("The request could not be made.")
	}
	out.URL.RawQuery = c.target.RawQuery
	for _, name := range slices.Concat(forwarded, c.headers) {
		if values := r.Header.Values(name); len(values) > 0 {
			out.Header[name] = values
		}
	}
	if _, said := out.Header["User-Agent"]; !said {
		out.Header["User-Agent"] = nil // or the library says its own
	}
	if p.Authorization != "" {
		out.Header.Set("Authorization", p.Authorization)
	}
	out.Header.Set(ApprovalHeader, by.ApprovalID)
	if c.constraints && len(by.Constraints) > 0 {
		out.Header.Set(ConstraintsHeader, string(by.Constraints))
	}
	res, err := p.transport.RoundTrip(out)
	switch {
	case err != nil && !connected.Load():
		p.Logger.Warn("the upstream cannot be reached", "approval", by.ApprovalID, "error", err)
		return unsent("The upstream cannot be reached.")
	case err != nil:
		p.Logger.Warn("the upstream did not answer", "approval", by.ApprovalID, "error", err)
		w.Header().Set(ApprovalHeader, by.ApprovalID)
		p.refuse(w, r, refuse(http.StatusBadGateway, "outcome_unknown", "The request was sent, and the upstream has not answered: nobody knows whether the call ran."))
		return "unknown", false
	}
	defer func() { _ = res.Body.Close() }()
	maps.Copy(w.Header(), res.Header)
	for _, name := range slices.Concat(ofConnection, strings.Split(res.Header.Get("Connection"), ",")) {
		w.Header().Del(strings.TrimSpace(name))
	}
	w.Header().Set(ApprovalHeader, by.ApprovalID)
	w.WriteHeader(res.StatusCode)
	if !stream(w, res.Body) {
		return "unknown", true
	}
	switch {
	case res.StatusCode/100 == 2:
		return "succeeded", false
	case res.StatusCode >= 500, res.StatusCode == http.StatusRequestTimeout:
		// It may come from something before the upstream, or from the middle of the call.
		return "unknown", false
	}
	return "failed", false
}

// stream passes an answer on as it comes, and reports whether it came to its end. It is
// read to its end even when nobody reads on: only then is it known.
func stream(w http.ResponseWriter, from io.Reader) (whole bool) {
	out := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	listening := true
	for {
		n, err := from.Read(buffer)
		if n > 0 && listening {
			_, wrong := w.Write(buffer[:n])
			listening = wrong == nil && out.Flush() == nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		}
	}
}
