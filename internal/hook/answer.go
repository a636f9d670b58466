package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	holdpoint "holdpoint.example/client"

	"holdpoint/engine/canon"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 8 << 20

// lastAnswer is what the server last answered, as it came.
type lastAnswer struct {
	status int
	kind   string
	body   []byte
}

// RoundTrip sends a request as the standard library does.
func (h *lastAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	*h = lastAnswer{res.StatusCode, res.Header.Get("Content-Type"), body}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// check proposes a call. One that the rules accept is Allowed only if the answer says so in
// every place in which it can, and has one reading: any other yes is an error.
func (g *Gate) check(ctx context.Context, call holdpoint.ToolCall) (holdpoint.SecurityResult, error) {
	var h lastAnswer
	client := g.client()
	client.HTTP = &http.Client{Transport: &h, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := client.CheckToolCall(ctx, call)
	if err != nil || !r.Allowed {
		return r, err
	}
	if err := h.allows(); err != nil {
		return holdpoint.SecurityResult{}, fmt.Errorf("the server's answer is no permission: %w", err)
	}
	return r, nil
}

// allows says what is wrong with an answer that is taken for a permission.
func (h *lastAnswer) allows() error {
	if kind, _, err := mime.ParseMediaType(h.kind); err != nil || kind != "application/json" || h.status != http.StatusOK {
		return fmt.Errorf("it is %d with %q", h.status, h.kind)
	}
	answer, err := canon.Parse(h.body)
	if err != nil {
		return err
	}
	decision, _ := answer.Get("decision")
	for _, object := range []canon.Value{answer, decision} {
		if object.Kind() != canon.ObjectKind {
			return errors.New("it has no decision")
		}
		seen := map[string]bool{}
		for name := range object.All() {
			if name = strings.ToLower(strings.ToUpper(name)); seen[name] {
				return fmt.Errorf("it says %q twice", name)
			}
			seen[name] = true
		}
	}
	allowed, _ := answer.Get("allowed")
	outcome, _ := decision.Get("outcome")
	approval, _ := answer.Get("approval")
	if !allowed.Bool() || outcome.Str() != "ALLOW" || !approval.IsNull() {
		return errors.New("it contradicts itself")
	}
	return nil
}
