package mcpproxy

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	holdpoint "holdpoint.example/client"

	"holdpoint/engine/canon"
)

// approvals are those of the agent at Holdpoint, as far as calls of one server are about them.
type approvals struct {
	gate   *Gate
	server string // the operator's name for it
	logger *slog.Logger

	mu     sync.Mutex
	asked  map[string]string // those that the host was told to come back for, by their call's name
	doubts map[string]string // those by which another proxy runs a call, or may, by the call's name
}

func newApprovals(cfg Config) *approvals {
	return &approvals{gate: cfg.Gate, server: cfg.Name, logger: cfg.Logger, asked: map[string]string{}, doubts: map[string]string{}}
}

// callName names a call at Holdpoint, so that it is found there when it is asked for
// again. Of a tool that is described otherwise it is another call: what people have
// approved was not that. Only who has the agent's key can try guesses at arguments
// against it.
func (s *approvals) callName(tool string, arguments canon.Value, def definition) string {
	h := hmac.New(sha256.New, []byte(s.gate.Client.Key))
	h.Write([]byte(canon.Digest(ToolName(s.server, tool), arguments) + " " + def.sum()))
	return "mcp-" + hex.EncodeToString(h.Sum(nil)[:20])
}

// lookUp is the approval of this very call that still counts: it waits, or is
// approved and was not run. nil: the call has to be proposed.
func (s *approvals) lookUp(ctx context.Context, c *call) (*holdpoint.Approval, error) {
	s.mu.Lock()
	id, doubted := s.asked[c.name], s.doubts[c.name] != ""
	if doubted {
		id = s.doubts[c.name]
	}
	s.mu.Unlock()
	awaited := id != ""
	if !awaited {
		last, err := s.gate.last(ctx, ToolName(s.server, c.tool), c.name)
		if err != nil || last == nil || last.Status != holdpoint.Pending && last.Status != holdpoint.Approved {
			return nil, err
		}
		id = last.ID
	}
	a, err := s.gate.get(ctx, id)
	var problem *holdpoint.Problem
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusNotFound:
		s.settled(c)
		return nil, nil
	case err != nil:
		return nil, err
	case a.Status == holdpoint.Pending, awaited && a.Status != holdpoint.Approved:
		return &a, nil
	case a.Status != holdpoint.Approved:
		return nil, nil
	}
	switch a.Execution {
	case "none":
		if a.Token != "" {
			return &a, nil
		}
	case "succeeded", "failed":
		if doubted {
			s.settled(c)
			return nil, hasRun(&a)
		}
	default:
		return nil, alreadyBegun(&a)
	}
	s.settled(c)
	return nil, nil
}

// remember remembers that the host was told to come back for a call.
func (s *approvals) remember(c *call, approvalID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[c.name] = approvalID
}

// rememberBegun remembers a call that another proxy runs, or may run: who asks for it again is told
// first what became of that.
func (s *approvals) rememberBegun(c *call, approvalID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts[c.name] = approvalID
}

// settled forgets that the host was to come back for a call, and that it was in doubt.
func (s *approvals) settled(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, c.name)
	delete(s.doubts, c.name)
}

// How often a redemption is tried whose answer leaves it open whether it was done, beside
// the tries of the client itself, and what lies between.
const (
	redeemTries = 3
	redeemPause = time.Second
)

// spend redeems a token under a key that nobody else has, and again under it where it is not
// known whether that was done: only what this key has redeemed is this proxy's to run, or to
// report as not run. Another proxy may have redeemed the token meanwhile, and run the call.
func (s *approvals) spend(ctx context.Context, c *call, a *holdpoint.Approval, arguments canon.Value) (holdpoint.Redemption, error) {
	key := rand.Text()
	for try := 1; ; try++ {
		r, err := s.gate.Client.RedeemAs(ctx, key, a.Token, ToolName(s.server, c.tool), json.RawMessage(arguments.Canonical()))
		var known *holdpoint.Problem
		if err == nil || errors.As(err, &known) && certain(known) || try == redeemTries {
			return r, err
		}
		select {
		case <-time.After(redeemPause):
		case <-ctx.Done():
			return r, err
		}
	}
}

// certain reports whether a refusal is Holdpoint's own last word. An outage, and what stands
// in between, say nothing of what has become of a token.
func certain(problem *holdpoint.Problem) bool {
	return problem.Status < 500 && !problem.Retryable() && !strings.HasPrefix(problem.Code, "http_")
}

// report tells Holdpoint what became of a call. What cannot be told is found out by
// a person, after the lease.
func (s *approvals) report(ctx context.Context, approvalID string, outcome holdpoint.Outcome, took time.Duration) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
	defer stop()
	if err := s.gate.Client.Report(ctx, approvalID, outcome, took); err != nil {
		s.logger.WarnContext(ctx, "what became of a call cannot be reported", "approval", approvalID, "outcome", outcome, "error", err)
	}
}
