package mcpproxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	holdpoint "holdpoint.example/client"
)

// Gate is the Holdpoint server that decides. Client needs URL and Key.
type Gate struct {
	Client *holdpoint.Client
	// Agent is the id of the key's agent, if it is known; else it is learned from the
	// server's answers. The key counts, whatever it is.
	Agent string

	learned atomic.Pointer[string]
}

// noRedirects sends proposals: the client has no method that names the request.
var noRedirects = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

const maxAnswer = 8 << 20

// proposal is a call in the words of Agent-SPM.
type proposal struct {
	Tool      string
	Arguments json.RawMessage
	Manifest  string // SHA-256 of the tool's definition
	Separate  bool   // it joins nothing that waits
}

// checkAnswer is the answer to a proposal.
type checkAnswer struct {
	Allowed  bool `json:"allowed"`
	Decision struct {
		Outcome     string             `json:"outcome"`
		Reasons     []holdpoint.Reason `json:"reasons"`
		Constraints json.RawMessage    `json:"constraints"`
	} `json:"decision"`
	Event struct {
		AgentID string `json:"agent_id"`
	} `json:"event"`
	Approval *holdpoint.Approval `json:"approval"`
}

// allowed reports whether the call may run at once: the answer says so in every
// place in which it can.
func (c checkAnswer) allowed() bool {
	return c.Allowed && c.Decision.Outcome == "ALLOW" && c.Approval == nil
}

// check proposes a call under a name. It is tried once: a host that calls again
// joins what has been opened.
func (g *Gate) check(ctx context.Context, name string, p proposal) (checkAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, gateWithin)
	defer cancel()
	agent := g.Agent
	if id := g.learned.Load(); agent == "" && id != nil {
		agent = *id
	}
	agent = cmp.Or(agent, "mcp-proxy")
	members := map[string]any{
		"toolName": p.Tool, "toolArgs": p.Arguments, "agentId": agent,
		"toolIdentity": map[string]string{"tool_name": p.Tool, "provider": "mcp", "manifest_hash": p.Manifest},
	}
	if p.Separate {
		members["separate"] = true
	}
	body, err := json.Marshal(members)
	if err != nil {
		return checkAnswer{}, fmt.Errorf("encode the proposal: %w", err)
	}
	var answer checkAnswer
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {rand.Text()}, "X-Request-Id": {name}}
	status, err := g.send(ctx, "/v1/tool-calls/check", header, body, &answer)
	if err != nil {
		return checkAnswer{}, err
	}
	if answer.Allowed && status != http.StatusOK {
		return checkAnswer{}, errors.New("the server's answer contradicts itself")
	}
	if answer.Event.AgentID != "" {
		g.learned.Store(&answer.Event.AgentID)
	}
	return answer, nil
}

// lastCalls bounds how far back an agent's calls of one tool are looked through.
const lastCalls = 1000

// last is the newest approval of the tool's call with this name; nil for none.
func (g *Gate) last(ctx context.Context, tool, name string) (*holdpoint.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, gateWithin)
	defer cancel()
	seen := 0
	for a, err := range g.Client.List(ctx, holdpoint.Filter{ToolName: tool}) {
		if err != nil {
			return nil, err
		}
		if g.learned.Load() == nil {
			g.learned.Store(&a.AgentID)
		}
		if a.RequestID == name && a.ToolName == tool {
			return &a, nil
		}
		if seen++; seen == lastCalls {
			break
		}
	}
	return nil, nil
}

func (g *Gate) get(ctx context.Context, id string) (holdpoint.Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, gateWithin)
	defer cancel()
	return g.Client.Get(ctx, id)
}

// send posts a body and reads its answer into out. What is no 2xx is a
// *holdpoint.Problem.
func (g *Gate) send(ctx context.Context, path string, header http.Header, body []byte, out any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(g.Client.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make the request: %w", err)
	}
	req.Header = header
	req.Header.Set("Authorization", "Bearer "+g.Client.Key)
	req.Header.Set("Accept", "application/json, application/problem+json")
	res, err := noRedirects.Do(req)
	if err != nil {
		return 0, errUnreachable
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, errUnreachable
	case len(data) > maxAnswer:
		return 0, errors.New("the answer is too large")
	case res.StatusCode/100 != 2:
		problem := &holdpoint.Problem{}
		if json.Unmarshal(data, problem) != nil || problem.Code == "" {
			problem = &holdpoint.Problem{Code: fmt.Sprintf("http_%d", res.StatusCode), Detail: "The server does not say why."}
		}
		problem.Status = res.StatusCode
		return res.StatusCode, problem
	}
	if err := json.Unmarshal(data, out); err != nil {
		return 0, fmt.Errorf("read the answer: %w", err)
	}
	return res.StatusCode, nil
}

// errUnreachable leaves out the address, which a model need not know.
var errUnreachable = errors.New("the Holdpoint server cannot be reached")

// tokenConstraints reads a token's constraints without verifying it: redeeming does
// that. What cannot be read counts as a constraint.
func tokenConstraints(token string) json.RawMessage {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return json.RawMessage(`"unreadable"`)
	}
	var claims struct {
		Constraints json.RawMessage `json:"constraints"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return json.RawMessage(`"unreadable"`)
	}
	return claims.Constraints
}
