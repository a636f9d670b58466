package api

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"holdpoint/engine/canon"
)

// MessageBody is a JSON-RPC 2.0 message, for the documentation; the MCP SDK reads it.
type MessageBody struct {
	Version string `json:"jsonrpc" enum:"2.0"`
	ID      any    `json:"id,omitempty" doc:"A string or a whole number below 2^53; left out of a notification."`
	Method  string `json:"method,omitempty" doc:"Such as initialize, tools/list or tools/call."`
	Params  any    `json:"params,omitempty"`
	Result  any    `json:"result,omitempty"`
	Error   any    `json:"error,omitempty"`
}

// modelContext is the door of the Model Context Protocol, where there is one.
func (a *API) modelContext() []operation {
	if a.MCP == nil {
		return nil
	}
	operations := []operation{{
		method: "POST", path: mcpPath, summary: "Model Context Protocol (streamable HTTP)", scope: anyKey, held: true,
		detail: "Tools: aana_pre_tool_check, holdpoint_check, holdpoint_await, holdpoint_cancel, holdpoint_redeem, holdpoint_report. Every message carries the key; there are no sessions and no batches. A call of holdpoint_await with a progressToken is answered as text/event-stream, with its progress first; every other message as application/json.",
		in:     MessageBody{}, statuses: []int{200, 202}, problems: []int{400, 401, 403, 413, 415, 503}, handle: a.serveModelContext,
	}}
	for _, resource := range []string{"", mcpPath} {
		operations = append(operations, operation{
			method: "GET", path: protectedResource + resource, summary: "How to be let in (OAuth 2.0 Protected Resource Metadata)", scope: public, out: ResourceMetadata{}, statuses: []int{200},
			detail: "RFC 9728. There is no authorization_servers: a key is a bearer token that the operator of this server issues (holdpoint key create).",
			handle: func(c *call) error {
				return writeJSON(c, http.StatusOK, ResourceMetadata{Resource: a.PublicURL + resource, Methods: []string{"header"}, Name: "Holdpoint", Documentation: a.PublicURL + "/docs"})
			},
		})
	}
	return operations
}

const (
	mcpPath           = "/mcp"
	protectedResource = "/.well-known/oauth-protected-resource"
)

// ResourceMetadata is OAuth 2.0 Protected Resource Metadata (RFC 9728), which clients of
// the Model Context Protocol read when they are turned away.
type ResourceMetadata struct {
	Resource      string   `json:"resource"`
	Methods       []string `json:"bearer_methods_supported"`
	Name          string   `json:"resource_name"`
	Documentation string   `json:"resource_documentation"`
}

// mcpWithin bounds a message: the longest wait, and time to write its answer.
const mcpWithin = maxWait + writeWithin

// serveModelContext reads the message as every other body is read and hands it
// on in its canonical form, which nobody can read in another way.
func (a *API) serveModelContext(c *call) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	if body.Kind() != canon.ObjectKind {
		return &failure{Status: http.StatusBadRequest, Code: "batch", Detail: "Send one JSON-RPC message, an object; batches are not taken."}
	}
	id, _ := body.Get("id")
	if _, whole := id.Int(); id.Kind() == canon.NumberKind && !whole {
		// The SDK would answer another id, which may be another call's.
		return &failure{Status: http.StatusBadRequest, Code: "message_id", Detail: "An id that is a number is a whole one, less than 2^53."}
	}
	rc := http.NewResponseController(c.w)
	// A writer that cannot do this has no deadlines to move.
	_ = rc.SetReadDeadline(time.Now().Add(mcpWithin))
	_ = rc.SetWriteDeadline(time.Now().Add(mcpWithin))
	message := body.Canonical()
	r := c.r.Clone(c.r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(message)), int64(len(message))
	a.MCP.ServeHTTP(c.w, r)
	return nil
}
