package enforce

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logged "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"holdpoint/engine/canon"
)

// What Envoy calls its filter, in the metadata of a request, and its header which says
// whether a check has all of a body.
const (
	filterName        = "envoy.filters.http.ext_authz"
	partialBodyHeader = "X-Envoy-Auth-Partial-Body"
	maxRetriesHeader  = "X-Envoy-Max-Retries"
)

// kept are the headers that are Envoy's own: it needs them, or writes them anew.
var kept = []string{"Host", "Content-Length", "Transfer-Encoding", "X-Forwarded-Proto"}

// maxReports is how many outcomes are reported at a time. Envoy waits for the others.
const maxReports = 64

// Authorizer answers Envoy's external authorization (service.auth.v3) for tools behind
// an Envoy: a request is let through once the gate has spent its token. What became of
// it, it reads from Envoy's access log (service.accesslog.v3).
// It is safe for concurrent use.
type Authorizer struct {
	auth.UnimplementedAuthorizationServer
	accesslog.UnimplementedAccessLogServiceServer
	routes        Routes
	lease         time.Duration
	authorization string
	logger        *slog.Logger
	gate          *gate
	reports       sync.WaitGroup
	slots         chan struct{}
}

// NewAuthorizer returns an authorizer. The upstream is Envoy's, so c has none.
func NewAuthorizer(c Config) (*Authorizer, error) {
	if c.Gate == nil || c.Key == "" || len(c.Routes) == 0 || c.Logger == nil {
		return nil, errors.New("an authorizer needs a gate, a key, routes and a logger")
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	return &Authorizer{
		routes: c.Routes, lease: c.Timeout, authorization: c.Authorization, logger: c.Logger,
		gate: newGate(c.Gate.String(), c.Key), slots: make(chan struct{}, maxReports),
	}, nil
}

// Server returns a gRPC server that answers for the authorizer.
func (a *Authorizer) Server() *grpc.Server {
	// Besides the body a check has the headers, which Envoy bounds.
	server := grpc.NewServer(grpc.MaxRecvMsgSize(canon.MaxBytes + 1<<20))
	auth.RegisterAuthorizationServer(server, a)
	accesslog.RegisterAccessLogServiceServer(server, a)
	return server
}

// Wait returns once every outcome that was read has been reported, or given up.
func (a *Authorizer) Wait() { a.reports.Wait() }

// Check lets a request through if its token permits it.
func (a *Authorizer) Check(ctx context.Context, in *auth.CheckRequest) (*auth.CheckResponse, error) {
	r, c, permitted, refused := a.permit(ctx, in.GetAttributes().GetRequest().GetHttp())
	if refused != nil {
		a.logger.Info("a request was refused", "code", refused.code)
		return denied(refused), nil
	}
	if ctx.Err() != nil {
		// Envoy has given up and refused the request by itself.
		a.report(permitted.ApprovalID, "failed", 0)
		return nil, ctx.Err()
	}
	return a.allowed(r, c, permitted), nil
}

func (a *Authorizer) permit(ctx context.Context, in *auth.AttributeContext_HttpRequest) (*http.Request, call, permission, *refusal) {
	var by permission
	r, refused := requestOf(in)
	if refused != nil {
		return nil, call{}, by, refused
	}
	body, refused := readBody(nil, r)
	if refused != nil {
		return nil, call{}, by, refused
	}
	c, refused := a.routes.read(r, body)
	if refused != nil {
		return nil, c, by, refused
	}
	if !slices.Equal(pairs(r.URL.RawQuery), pairs(strings.ReplaceAll(c.target.RawQuery, "+", "%20"))) {
		return nil, c, by, refuse(http.StatusBadRequest, "bad_query", "The query is forwarded as it is: write each parameter as name=value, with a per cent sign for all but letters, digits and -._~.")
	}
	token, refused := tokenOf(r, c.route)
	if refused != nil {
		return nil, c, by, refused
	}
	// That Envoy gives up now changes nothing: the token may be spent already.
	by, refused = a.gate.redeem(context.WithoutCancel(ctx), token, c, a.lease)
	if refused == nil && !c.constraints && by.constrained() {
		a.report(by.ApprovalID, "failed", 0)
		refused = refuse(http.StatusForbidden, "constraints_not_kept", "The call has constraints that this route's upstream does not keep to. Nothing was sent.")
	}
	return r, c, by, refused
}

// pairs are the parameters of a query as they are written, in the order of the letters.
func pairs(query string) []string {
	list := strings.Split(query, "&")
	slices.Sort(list)
	return list
}

// requestOf reads the request that Envoy asks about, with all of its body.
func requestOf(in *auth.AttributeContext_HttpRequest) (*http.Request, *refusal) {
	// What is forwarded is the path as it is written: with a scheme or a host it would be another one than the route's.
	target, err := url.ParseRequestURI(in.GetPath())
	if err != nil || !strings.HasPrefix(in.GetPath(), "/") {
		return nil, refuse(http.StatusBadRequest, "path_unclear", "The path cannot be read.")
	}
	header := http.Header{}
	for name, value := range in.GetHeaders() {
		header.Add(name, value)
	}
	for _, h := range in.GetHeaderMap().GetHeaders() {
		header.Add(h.GetKey(), h.GetValue()+string(h.GetRawValue()))
	}
	body := in.GetRawBody()
	if len(body) == 0 {
		body = []byte(in.GetBody())
	}
	r := &http.Request{Method: in.GetMethod(), URL: target, Header: header, Body: io.NopCloser(bytes.NewReader(body))}
	needed := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method)
	length := header.Get("Content-Length")
	switch {
	case len(body) > 0 && !slices.Equal(header.Values(partialBodyHeader), []string{"false"}):
		return nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "The body is larger than what Envoy shows of it.")
	case len(body) == 0 && needed:
		// A body that Envoy does not show would look the same.
		return nil, refuse(http.StatusUnprocessableEntity, "invalid_body", "Send the arguments as the body, {} when there are none. If you did, Envoy's filter lacks with_request_body.")
	case len(body) == 0 && (length != "" && length != "0" || header.Get("Transfer-Encoding") != ""):
		return nil, refuse(http.StatusUnprocessableEntity, "invalid_body", "The request has a body that Envoy does not show: its filter lacks with_request_body.")
	}
	return r, nil
}

// allowed lets the request through with the headers of the call, and no others.
func (a *Authorizer) allowed(r *http.Request, c call, by permission) *auth.CheckResponse {
	// One token is one request: Envoy does not send it again.
	set := map[string]string{ApprovalHeader: by.ApprovalID, maxRetriesHeader: "0"}
	if a.authorization != "" {
		set["Authorization"] = a.authorization
	}
	if c.constraints && len(by.Constraints) > 0 {
		set[ConstraintsHeader] = string(by.Constraints)
	}
	ok := &auth.OkHttpResponse{ResponseHeadersToAdd: headers(map[string]string{ApprovalHeader: by.ApprovalID}), Headers: headers(set)}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		_, ours := set[name]
		if !ours && !strings.HasPrefix(name, ":") && !slices.Contains(slices.Concat(kept, forwarded, c.headers), name) {
			ok.HeadersToRemove = append(ok.HeadersToRemove, strings.ToLower(name))
		}
	}
	return &auth.CheckResponse{
		Status:          &status.Status{Code: int32(codes.OK)},
		HttpResponse:    &auth.CheckResponse_OkResponse{OkResponse: ok},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{"approval_id": structpb.NewStringValue(by.ApprovalID)}},
	}
}

// headers are set in place of those of the same name.
func headers(values map[string]string) (list []*core.HeaderValueOption) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, &core.HeaderValueOption{
			Header: &core.HeaderValue{Key: strings.ToLower(name), Value: values[name]}, AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return list
}

func denied(f *refusal) *auth.CheckResponse {
	body, err := json.Marshal(f.problem())
	if err != nil {
		body = nil // the status says it
	}
	return &auth.CheckResponse{
		Status: &status.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{
			Status:  &envoy.HttpStatus{Code: envoy.StatusCode(f.status)}, //nolint:gosec // a status has three digits
			Headers: headers(map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store"}),
			Body:    string(body),
		}},
	}
}

// StreamAccessLogs reads from Envoy's log what became of the calls.
func (a *Authorizer) StreamAccessLogs(stream accesslog.AccessLogService_StreamAccessLogsServer) error {
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return stream.SendAndClose(&accesslog.StreamAccessLogsResponse{})
		case err != nil:
			return err
		}
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			common := e.GetCommonProperties()
			kind := common.GetAccessLogType()
			// Metadata are not the caller's: only what Check has let through has the id.
			id := common.GetMetadata().GetFilterMetadata()[filterName].GetFields()["approval_id"].GetStringValue()
			if id != "" && (kind == logged.AccessLogType_NotSet || kind == logged.AccessLogType_DownstreamEnd) {
				a.report(id, outcomeOf(e), common.GetDuration().AsDuration())
			}
		}
	}
}

// outcomeOf is what an entry says of a call: succeeded, failed or unknown.
func outcomeOf(e *logged.HTTPAccessLogEntry) string {
	flags := e.GetCommonProperties().GetResponseFlags()
	if flags == nil {
		flags = &logged.ResponseFlags{}
	}
	code := e.GetResponse().GetResponseCode().GetValue()
	switch {
	case flags.GetNoHealthyUpstream(), flags.GetNoRouteFound(), flags.GetNoClusterFound(), flags.GetUpstreamConnectionFailure():
		return "failed" // nothing was sent
	case !proto.Equal(flags, &logged.ResponseFlags{}):
		return "unknown"
	case code/100 == 2:
		return "succeeded"
	case code < 300, code >= 500, code == http.StatusRequestTimeout:
		return "unknown"
	}
	return "failed"
}

// report says what became of a call, in its own time.
func (a *Authorizer) report(id, outcome string, took time.Duration) {
	a.slots <- struct{}{}
	a.reports.Go(func() {
		defer func() { <-a.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), reportWithin)
		defer cancel()
		if err := a.gate.report(ctx, id, outcome, took); err != nil {
			a.logger.Error("the outcome could not be reported", "approval", id, "outcome", outcome, "error", err)
		}
	})
}
