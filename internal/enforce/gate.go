package enforce

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"holdpoint/engine/canon"
)

// gate asks the server that spends tokens.
type gate struct {
	url, key string
	http     *http.Client
}

// Bounds of what the gate is asked.
const (
	tries       = 3
	pause       = 200 * time.Millisecond
	askedWithin = 10 * time.Second
	maxAnswer   = 1 << 20
)

func newGate(url, key string) *gate {
	return &gate{strings.TrimRight(url, "/"), key, &http.Client{
		Timeout: askedWithin, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// problem is what the gate's refusals look like.
type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// permission is a token that was spent.
type permission struct {
	ApprovalID  string          `json:"approval_id"`
	Redeemed    bool            `json:"redeemed"`
	Constraints json.RawMessage `json:"constraints"`
}

// constrained reports whether the call has to keep to something.
func (p permission) constrained() bool {
	return len(p.Constraints) > 0 && string(p.Constraints) != "{}"
}

// redeem spends a token for a call. The refusal is for whoever sent the request.
func (g *gate) redeem(ctx context.Context, token string, c call, lease time.Duration) (permission, *refusal) {
	var p permission
	status, body, err := g.post(ctx, "/v1/tokens/redeem", map[string]any{
		"token": token, "tool_name": c.tool, "arguments": json.RawMessage(c.arguments.Canonical()), "lease_seconds": int(lease / time.Second),
	})
	switch {
	case err != nil || status >= 500:
		return p, refuse(http.StatusServiceUnavailable, "gate_unavailable", "The gate cannot be asked, so nothing was forwarded.")
	case status != http.StatusOK:
		return p, turnedDown(status, body)
	}
	if err := json.Unmarshal(body, &p); err != nil || !p.Redeemed || p.ApprovalID == "" {
		return p, refuse(http.StatusServiceUnavailable, "gate_unavailable", "The gate's answer cannot be read, so nothing was forwarded.")
	}
	return p, nil
}

// turnedDown is the gate's no, with its own code. That the proxy's key is not good is
// not the caller's fault.
func turnedDown(status int, body []byte) *refusal {
	var said problem
	if err := json.Unmarshal(body, &said); err != nil || said.Code == "" || status < 400 || said.Code == "unauthenticated" || said.Code == "scope_missing" {
		return refuse(http.StatusServiceUnavailable, "gate_unavailable", "The gate does not let this proxy spend tokens, so nothing was forwarded.")
	}
	return &refusal{status, said.Code, said.Detail}
}

// report says what became of a call.
func (g *gate) report(ctx context.Context, approvalID, outcome string, took time.Duration) error {
	status, body, err := g.post(ctx, "/v1/executions", map[string]any{"approval_id": approvalID, "outcome": outcome, "duration_ms": took.Milliseconds()})
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the gate answers %d %.200s", status, body)
	}
	return nil
}

// post sends a request, and the very same again when its answer is lost or says that
// the gate cannot write: it is done once.
func (g *gate) post(ctx context.Context, path string, document any) (status int, body []byte, err error) {
	sent, err := json.Marshal(document)
	if err != nil {
		return 0, nil, fmt.Errorf("encode the request: %w", err)
	}
	key := rand.Text()
	for try := 1; ; try++ {
		status, body, err = g.once(ctx, path, key, sent)
		if try == tries || err == nil && status < 500 {
			return status, body, err
		}
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (g *gate) once(ctx context.Context, path, key string, document []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, bytes.NewReader(document))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+g.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	res, err := g.http.Do(r)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the gate: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("read the gate's answer: %w", err)
	}
	return res.StatusCode, body, nil
}

// constrained reports whether a token carries constraints, by what it says itself. It
// proves nothing: it saves a token that the route could not make use of. What counts
// are the constraints that the gate answers with.
func constrained(token string) (bool, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false, errors.New("it is no compact JWS")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false, errors.New("it is no compact JWS")
	}
	claims, err := canon.Parse(data)
	if err != nil {
		return false, errors.New("its claims cannot be read")
	}
	constraints, _ := claims.Get("constraints")
	return constraints.Len() > 0, nil
}
