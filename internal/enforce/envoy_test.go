package enforce

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logged "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	extauthz "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	connections "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"holdpoint/engine/canon"
)

// likeEnvoy is a proxy that speaks Envoy's protocols with an authorizer: it does with a
// request what the answer says, and logs it.
type likeEnvoy struct {
	t        *testing.T
	upstream string
	direct   *Authorizer
	auth     auth.AuthorizationClient
	log      accesslog.AccessLogService_StreamAccessLogsClient
	// change makes a check what another configuration of Envoy would make it.
	change func(*auth.AttributeContext_HttpRequest)
}

// behindEnvoy is a stand whose proxy is an Envoy with an authorizer.
func behindEnvoy(t *testing.T) (*stand, *likeEnvoy) {
	t.Helper()
	s := newStand(t)
	routes, err := Load([]byte(routesFile), "routes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	gate, err := url.Parse(s.gate.URL)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAuthorizer(Config{Gate: gate, Key: "hp_proxy", Authorization: "Bearer upstream", Routes: routes, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := a.Server()
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	e := &likeEnvoy{t: t, upstream: s.upstream.URL, direct: a, auth: auth.NewAuthorizationClient(conn), change: func(*auth.AttributeContext_HttpRequest) {}}
	e.log, err = accesslog.NewAccessLogServiceClient(conn).StreamAccessLogs(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	s.front.Close()
	s.front = httptest.NewServer(e)
	t.Cleanup(func() {
		s.front.Close()
		if _, err := e.log.CloseAndRecv(); err != nil {
			t.Errorf("the log's stream: %v", err)
		}
		server.GracefulStop()
		a.Wait()
		_ = conn.Close()
	})
	return s, e
}

func (e *likeEnvoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		e.t.Error(err)
	}
	in := &auth.AttributeContext_HttpRequest{Method: r.Method, Path: r.RequestURI, Headers: map[string]string{":method": r.Method, ":path": r.RequestURI}, RawBody: body}
	for name, values := range r.Header {
		in.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	if len(body) > 0 {
		in.Headers["x-envoy-auth-partial-body"] = "false"
	}
	e.change(in)
	out, err := e.auth.Check(r.Context(), &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: in}}})
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if no := out.GetDeniedResponse(); no != nil {
		set(w.Header(), no.GetHeaders())
		w.WriteHeader(int(no.GetStatus().GetCode()))
		_, _ = io.WriteString(w, no.GetBody())
		return
	}
	yes := out.GetOkResponse()
	entry := &logged.HTTPAccessLogEntry{Response: &logged.HTTPResponseProperties{}, CommonProperties: &logged.AccessLogCommon{
		AccessLogType: logged.AccessLogType_DownstreamEnd, Metadata: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{filterName: out.GetDynamicMetadata()}},
	}}
	entry.Response.ResponseCode = wrapperspb.UInt32(uint32(e.forward(w, r, body, yes, entry)))
	if err := e.log.Send(&accesslog.StreamAccessLogsMessage{LogEntries: &accesslog.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslog.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*logged.HTTPAccessLogEntry{
			{CommonProperties: &logged.AccessLogCommon{AccessLogType: logged.AccessLogType_DownstreamStart, Metadata: entry.CommonProperties.Metadata}}, entry,
		}},
	}}); err != nil {
		e.t.Error(err)
	}
}

func (e *likeEnvoy) forward(w http.ResponseWriter, r *http.Request, body []byte, yes *auth.OkHttpResponse, entry *logged.HTTPAccessLogEntry) (status int) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, e.upstream+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		e.t.Error(err)
		return 0
	}
	out.Header = r.Header.Clone()
	set(out.Header, yes.GetHeaders())
	for _, name := range yes.GetHeadersToRemove() {
		out.Header.Del(name)
	}
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		entry.CommonProperties.ResponseFlags = &logged.ResponseFlags{UpstreamConnectionFailure: true}
		w.WriteHeader(http.StatusServiceUnavailable)
		return http.StatusServiceUnavailable
	}
	defer func() { _ = res.Body.Close() }()
	maps.Copy(w.Header(), res.Header)
	set(w.Header(), yes.GetResponseHeadersToAdd())
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
	return res.StatusCode
}

func set(header http.Header, options []*core.HeaderValueOption) {
	for _, o := range options {
		header.Set(o.GetHeader().GetKey(), o.GetHeader().GetValue())
	}
}

func TestEnvoyForwards(t *testing.T) {
	s, _ := behindEnvoy(t)
	token := s.approve("create_transfer", `{"to":"DE02","amount":120}`)
	g := s.send("POST", "/transfers", token, transfer, "Cookie", "a=b", "Authorization", "Bearer mine", "X-Http-Method-Override", "DELETE", "X-Forwarded-For", "1.2.3.4",
		"X-Envoy-Retry-On", "5xx", "X-Envoy-Max-Retries", "9", ApprovalHeader, "apr_other", ConstraintsHeader, "{}", "Accept", "text/plain")
	if g.StatusCode != 200 || g.body != "done" || g.Header.Get(ApprovalHeader) != "apr_1" {
		t.Fatalf("got %d %s %v", g.StatusCode, g.body, g.Header)
	}
	s.reported("apr_1 succeeded")
	if r := s.seen[0]; r.URL.Path != "/transfers" || s.bodies[0] != transfer {
		t.Errorf("forwarded %s %q", r.URL, s.bodies[0])
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer upstream", "Accept": "text/plain", "Content-Type": "application/json", ApprovalHeader: "apr_1", maxRetriesHeader: "0",
		"Cookie": "", "X-Http-Method-Override": "", "X-Forwarded-For": "", "X-Envoy-Retry-On": "", TokenHeader: "", ConstraintsHeader: "",
	} {
		if got := s.seen[0].Header.Get(name); got != want {
			t.Errorf("forwarded %s: %q, want %q", name, got, want)
		}
	}
	if again := s.send("POST", "/transfers", token, transfer); again.StatusCode != 409 || again.code() != "token_used" {
		t.Errorf("sent again: %d %s", again.StatusCode, again.body)
	}
	token = s.approve("close_account", `{"account_id":"a-1","reason":"x y&z"}`)
	if g := s.send("DELETE", "/accounts/a-1?reason=x+y%26z", token, ""); g.StatusCode != 400 || g.code() != "bad_query" {
		t.Errorf("a query that servers read in two ways: %d %s", g.StatusCode, g.body)
	}
	if g := s.send("DELETE", "/accounts/a-1?reason=x%20y%26z", token, "", "If-Match", `"1"`); g.StatusCode != 200 {
		t.Fatalf("got %d %s", g.StatusCode, g.body)
	}
	s.reported("apr_1 succeeded")
	if r := s.seen[1]; r.URL.RequestURI() != "/accounts/a-1?reason=x%20y%26z" || r.Header.Get("If-Match") != `"1"` || s.forwards() != 2 {
		t.Errorf("forwarded %s", r.URL.RequestURI())
	}
	bound := s.approve("limited", `{"a":1}`, constrainedClaims)
	if g := s.send("POST", "/limited", bound, `{"a":1}`); g.StatusCode != 200 || s.seen[2].Header.Get(ConstraintsHeader) != `{"max":1}` {
		t.Errorf("got %d %s", g.StatusCode, g.body)
	}
	s.reported("apr_1 succeeded")
}

func TestEnvoyRefuses(t *testing.T) {
	s, _ := behindEnvoy(t)
	s.refuses()
}

// A body that the check lacks, or has in part, is not the one that is forwarded.
func TestEnvoyHidesABody(t *testing.T) {
	s, e := behindEnvoy(t)
	token := s.approve("create_transfer", transfer)
	account := s.approve("close_account", `{"account_id":"1"}`)
	raw := func(in *auth.AttributeContext_HttpRequest, also ...string) {
		in.HeaderMap = &core.HeaderMap{}
		for _, name := range slices.Sorted(maps.Keys(in.GetHeaders())) {
			in.HeaderMap.Headers = append(in.HeaderMap.Headers, &core.HeaderValue{Key: name, RawValue: []byte(in.GetHeaders()[name])})
		}
		for i := 0; i < len(also); i += 2 {
			in.HeaderMap.Headers = append(in.HeaderMap.Headers, &core.HeaderValue{Key: also[i], RawValue: []byte(also[i+1])})
		}
		in.Headers = nil
	}
	for name, tc := range map[string]struct {
		change              func(in *auth.AttributeContext_HttpRequest)
		method, path, token string
		status              int
		code                string
	}{
		"no body is shown": {func(in *auth.AttributeContext_HttpRequest) { in.RawBody = nil }, "POST", "/transfers", token, 422, "invalid_body"},
		"of a deletion":    {func(in *auth.AttributeContext_HttpRequest) { in.RawBody = nil }, "DELETE", "/accounts/1", account, 422, "invalid_body"},
		"in chunks": {func(in *auth.AttributeContext_HttpRequest) {
			in.RawBody = nil
			delete(in.Headers, "content-length")
			in.Headers["transfer-encoding"] = "chunked"
		}, "DELETE", "/accounts/1", account, 422, "invalid_body"},
		"a part of it":            {func(in *auth.AttributeContext_HttpRequest) { in.Headers["x-envoy-auth-partial-body"] = "true" }, "POST", "/transfers", token, 413, "too_large"},
		"nobody says that is all": {func(in *auth.AttributeContext_HttpRequest) { delete(in.Headers, "x-envoy-auth-partial-body") }, "POST", "/transfers", token, 413, "too_large"},
		"the caller says so too":  {func(in *auth.AttributeContext_HttpRequest) { raw(in, "x-envoy-auth-partial-body", "true") }, "POST", "/transfers", token, 413, "too_large"},
		"an address as the path":  {func(in *auth.AttributeContext_HttpRequest) { in.Path = "http://other.example/transfers" }, "POST", "/transfers", token, 400, "path_unclear"},
		"no path":                 {func(in *auth.AttributeContext_HttpRequest) { in.Path = "" }, "POST", "/transfers", token, 400, "path_unclear"},
		"nothing at all":          {func(in *auth.AttributeContext_HttpRequest) { in.Reset() }, "POST", "/transfers", token, 400, "path_unclear"},
	} {
		e.change = tc.change
		if g := s.send(tc.method, tc.path, tc.token, transfer, "Content-Type", "application/json"); g.StatusCode != tc.status || g.code() != tc.code {
			t.Errorf("%s: got %d %s, want %d %s", name, g.StatusCode, g.body, tc.status, tc.code)
		}
	}
	if n := s.forwards(); n != 0 {
		t.Errorf("%d requests were forwarded", n)
	}
	e.change = func(in *auth.AttributeContext_HttpRequest) {
		raw(in)
		in.Body, in.RawBody = string(in.GetRawBody()), nil
	}
	if g := s.send("POST", "/transfers", token, transfer); g.StatusCode != 200 {
		t.Errorf("raw headers, and the body as text: %d %s", g.StatusCode, g.body)
	}
	s.reported("apr_1 succeeded")
}

// What is known of a call is reported, and nothing that a caller writes is.
func TestEnvoyReports(t *testing.T) {
	for name, tc := range map[string]struct {
		code  uint32
		flags *logged.ResponseFlags
		want  string
	}{
		"done":                 {204, nil, "succeeded"},
		"no flag is set":       {200, &logged.ResponseFlags{}, "succeeded"},
		"refused by the tool":  {409, nil, "failed"},
		"elsewhere":            {302, nil, "failed"},
		"broken":               {500, nil, "unknown"},
		"too late":             {408, nil, "unknown"},
		"no answer":            {0, nil, "unknown"},
		"cut off":              {200, &logged.ResponseFlags{UpstreamRemoteReset: true}, "unknown"},
		"the caller has gone":  {0, &logged.ResponseFlags{DownstreamConnectionTermination: true}, "unknown"},
		"timed out":            {504, &logged.ResponseFlags{UpstreamRequestTimeout: true}, "unknown"},
		"it could not be sent": {503, &logged.ResponseFlags{UpstreamConnectionFailure: true}, "failed"},
		"nobody is there":      {503, &logged.ResponseFlags{NoHealthyUpstream: true}, "failed"},
	} {
		if got := outcomeOf(&logged.HTTPAccessLogEntry{CommonProperties: &logged.AccessLogCommon{ResponseFlags: tc.flags}, Response: &logged.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(tc.code)}}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	s, e := behindEnvoy(t)
	if g := s.send("POST", "/transfers", "a."+freeClaims+".b", transfer, ApprovalHeader, "apr_1"); g.StatusCode != 401 {
		t.Errorf("got %d", g.StatusCode)
	}
	s.upstream.Close()
	if g := s.send("POST", "/transfers", s.approve("create_transfer", transfer), transfer); g.StatusCode != 503 {
		t.Errorf("got %d %s", g.StatusCode, g.body)
	}
	s.reported("apr_1 failed")
	// Envoy gives up while the gate is asked: it forwards nothing, and the token is spent.
	token := s.approve("create_transfer", transfer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := &auth.AttributeContext_HttpRequest{Method: "POST", Path: "/transfers", RawBody: []byte(transfer), Headers: map[string]string{
		"content-type": "application/json", "holdpoint-token": token, "x-envoy-auth-partial-body": "false",
	}}
	if _, err := e.direct.Check(ctx, &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: in}}}); err == nil {
		t.Error("it is let through")
	}
	s.reported("apr_1 failed")
}

// The file for Envoy is one by Envoy's own schema, and keeps to what safety rests on.
func TestEnvoyFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var all bootstrap.Bootstrap
	if err := protojson.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if err := all.ValidateAll(); err != nil {
		t.Error(err)
	}
	var manager connections.HttpConnectionManager
	if err := all.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	var filter extauthz.ExtAuthz
	if err := manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(&filter); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{manager.ValidateAll(), filter.ValidateAll()} {
		if err != nil {
			t.Error(err)
		}
	}
	route := manager.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute()
	if b := filter.GetWithRequestBody(); filter.GetFailureModeAllow() || b.GetMaxRequestBytes() != canon.MaxBytes || b.GetAllowPartialMessage() || !b.GetPackAsBytes() ||
		filter.GetAllowedHeaders() != nil || route.GetRetryPolicy() != nil || len(route.GetRequestMirrorPolicies()) > 0 || len(manager.GetHttpFilters()) != 2 || len(manager.GetAccessLog()) != 1 || route.GetHostRewriteLiteral() == "" {
		t.Errorf("the filter is %v", &filter)
	}
}
