package mcpproxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	holdpoint "holdpoint.example/client"
)

// filtered is what of a server's answer the tool's contract lets the agent see. The
// contract's fields are those of structuredContent; of an answer without that there is
// one field, content. Nothing else of the answer is kept: text that says again what
// structuredContent has is written anew, and what cannot be looked at is held back.
func (p *Proxy) filtered(ctx context.Context, c *call, a *jsonrpc.Response, approval string) *jsonrpc.Response {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), gateWithin)
	defer stop()
	kept, err := p.Gate.filter(ctx, ToolName(p.Name, c.tool), a)
	if err != nil {
		p.Logger.WarnContext(ctx, "a result is held back", "tool", ToolName(p.Name, c.tool), "error", err)
		text := "The tool has run, and Holdpoint could not say what of its answer may be shown: it is held back. Do not call it again for that."
		var known *holdpoint.Problem
		if errors.As(err, &known) {
			text += fmt.Sprintf(" (%s)", known.Code)
		}
		return result(c, text, approval)
	}
	return &jsonrpc.Response{ID: a.ID, Result: kept}
}

// nothingShown stands in place of what a contract leaves nothing of.
const nothingShown = "The tool has answered. Nothing of its answer is for the agent, by the tool's contract."

// filter asks what of an answer may be shown, and is the result made of that.
func (g *Gate) filter(ctx context.Context, tool string, a *jsonrpc.Response) (json.RawMessage, error) {
	var said struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if a.Error != nil {
		content, err := json.Marshal([]block{{"text", a.Error.Error()}})
		if err != nil {
			return nil, fmt.Errorf("encode an error: %w", err)
		}
		said.Content, said.IsError = content, true
	} else if err := json.Unmarshal(a.Result, &said); err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	fields, structured := said.Structured, true
	if trimmed := bytes.TrimSpace(fields); len(trimmed) == 0 || trimmed[0] != '{' {
		members := map[string]json.RawMessage{}
		if structured = false; said.Content != nil {
			members["content"] = said.Content
		}
		var err error
		if fields, err = json.Marshal(members); err != nil {
			return nil, fmt.Errorf("encode the content: %w", err)
		}
	}
	safe, err := g.safe(ctx, tool, fields)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"isError": said.IsError, "content": []block{{"text", nothingShown}}}
	if structured {
		text, err := json.Marshal(safe)
		if err != nil {
			return nil, fmt.Errorf("encode what may be shown: %w", err)
		}
		out["structuredContent"], out["content"] = safe, []block{{"text", string(text)}}
	} else if content, ok := safe["content"]; ok {
		out["content"] = content
	}
	return json.Marshal(out)
}

// safe is what the tool's contract lets the agent see of these fields.
func (g *Gate) safe(ctx context.Context, tool string, fields json.RawMessage) (map[string]json.RawMessage, error) {
	body, err := json.Marshal(struct {
		Tool     string          `json:"tool_name"`
		Response json.RawMessage `json:"response"`
	}{tool, fields})
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	var answer struct {
		Safe map[string]json.RawMessage `json:"safe_response"`
	}
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {rand.Text()}}
	if _, err := g.send(ctx, "/v1/tool-contracts/intercept-response", header, body, &answer); err != nil {
		return nil, err
	}
	if answer.Safe == nil {
		return nil, errors.New("the server's answer does not say what may be shown")
	}
	return answer.Safe, nil
}
