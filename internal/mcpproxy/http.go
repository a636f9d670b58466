package mcpproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote is a server that speaks streamable HTTP. The SDK's connection sends each
// message and reads its answer; what a server says besides comes by a stream that
// is read here, since the SDK opens it for its own client only.
type remote struct {
	sdk.Connection
	address string
	client  *http.Client

	ctx      context.Context //nolint:containedctx // of the connection, from its beginning to Close
	cancel   context.CancelFunc
	incoming chan jsonrpc.Message
	opened   sync.Once
	inOrder  sync.Mutex
	version  *versioned
}

// versioned adds to each request its headers and the version that was agreed on.
type versioned struct {
	header http.Header
	next   http.RoundTripper

	mu      sync.Mutex
	version string
}

// RoundTrip sends the request with its headers.
func (v *versioned) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, v.header)
	v.mu.Lock()
	if v.version != "" {
		r.Header.Set("Mcp-Protocol-Version", v.version)
	}
	v.mu.Unlock()
	return v.next.RoundTrip(r)
}

// Remote is the connection to a server over streamable HTTP, with these headers on
// each request. It follows no redirect.
func Remote(ctx context.Context, address string, header http.Header) (sdk.Connection, error) {
	version := &versioned{header: header, next: http.DefaultTransport}
	client := &http.Client{Transport: version, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	// A message is sent once: what is sent again may run twice.
	conn, err := (&sdk.StreamableClientTransport{Endpoint: address, HTTPClient: client, DisableStandaloneSSE: true, MaxEventSize: maxLine}).Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	r := &remote{Connection: conn, address: address, client: client, incoming: make(chan jsonrpc.Message), version: version}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go r.read()
	return r, nil
}

// read passes on what answers requests.
func (r *remote) read() {
	defer r.cancel()
	for {
		m, err := r.Connection.Read(r.ctx)
		if err != nil {
			return
		}
		r.deliver(m)
	}
}

func (r *remote) deliver(m jsonrpc.Message) {
	if a, ok := m.(*jsonrpc.Response); ok && a.Error == nil {
		var agreed struct {
			Version      string          `json:"protocolVersion"`
			Capabilities json.RawMessage `json:"capabilities"`
		}
		if json.Unmarshal(a.Result, &agreed) == nil && agreed.Version != "" && agreed.Capabilities != nil {
			r.opened.Do(func() {
				r.version.mu.Lock()
				r.version.version = agreed.Version
				r.version.mu.Unlock()
				go r.listen()
			})
		}
	}
	select {
	case r.incoming <- m:
	case <-r.ctx.Done():
	}
}

// Read returns the next message of the server's.
func (r *remote) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-r.incoming:
		return m, nil
	case <-r.ctx.Done():
		return nil, fmt.Errorf("the server's connection has ended: %w", r.ctx.Err())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message. The answer of a request may be as long in coming as the
// request takes: that is not waited for here, and what keeps a request from being
// answered is its answer.
func (r *remote) Write(_ context.Context, m jsonrpc.Message) error {
	request, ok := m.(*jsonrpc.Request)
	if !ok || !request.IsCall() {
		r.inOrder.Lock()
		defer r.inOrder.Unlock()
		ctx, stop := context.WithTimeout(r.ctx, gateWithin)
		defer stop()
		return r.Connection.Write(ctx, m)
	}
	go func() {
		if err := r.Connection.Write(r.ctx, m); err != nil {
			r.deliver(&jsonrpc.Response{ID: request.ID, Error: r.withoutAddress(err)})
		}
	}()
	return nil
}

// unreachable is an error whose text has the server's address, which a model need not
// know: it may be inside a network, or have a key in it.
type unreachable struct {
	error       // with the address
	cause error // for an operator, without the URL
}

// Error leaves it out.
func (*unreachable) Error() string { return "the server cannot be reached" }

// Unwrap is what happened.
func (u *unreachable) Unwrap() error { return u.error }

func (r *remote) withoutAddress(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return &unreachable{err, inner.Err}
	}
	// Also where it has become a part of a text.
	if at, wrong := url.Parse(r.address); wrong != nil || at.Host != "" && strings.Contains(err.Error(), at.Host) {
		return &unreachable{err, errors.New("the connection is broken")}
	}
	return err
}

// Close ends the conversation.
func (r *remote) Close() error {
	err := r.Connection.Close()
	r.cancel()
	return err
}

// listenAgain is how long after its end the stream is opened again.
const listenAgain = 3 * time.Second

// listen reads what the server says of itself, as long as it offers that.
func (r *remote) listen() {
	for r.ctx.Err() == nil {
		if !r.stream() {
			return
		}
		select {
		case <-time.After(listenAgain):
		case <-r.ctx.Done():
		}
	}
}

// stream reads one stream to its end, and reports whether to open another.
func (r *remote) stream() bool {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.address, nil)
	if err != nil {
		return false
	}
	req.Header.Set("Accept", "text/event-stream")
	if id := r.SessionID(); id != "" {
		req.Header.Set("Mcp-Session-Id", id)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return true
	}
	defer func() { _ = res.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // "" is none that fits
	if res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		return res.StatusCode >= 500
	}
	scanner := bufio.NewScanner(res.Body)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	var data strings.Builder
	for scanner.Scan() {
		line := scanner.Text()
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(strings.TrimPrefix(value, " ") + "\n")
		}
		if line != "" {
			continue
		}
		if m, err := jsonrpc.DecodeMessage([]byte(data.String())); err == nil {
			r.deliver(m)
		}
		data.Reset()
	}
	return true
}
