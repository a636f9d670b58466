package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// MarkdownBody is a ThreeGate document.
type MarkdownBody string

// RequestedTool is the answer to a ThreeGate draft.
type RequestedTool struct {
	RequestID string          `json:"request_id"`
	Digest    string          `json:"digest" doc:"SHA-256 of the document's bytes."`
	Outcome   engine.Outcome  `json:"outcome"`
	Reasons   []engine.Reason `json:"reasons"`
	Approval  *Approval       `json:"approval,omitempty" doc:"The approval that the draft waits for."`
	Joined    bool            `json:"joined,omitempty" doc:"True when the very call waited already: approval is that one, and nobody is asked again. separate asks for another."`
}

// threegate is the door for ThreeGate's tool execution requests.
func (a dialectDoor) threegate() []operation {
	return []operation{
		{
			method: "POST", headers: proposing, path: "/v1/tool-requests", summary: "Request a tool execution (ThreeGate)", scope: identity.ScopeCheck,
			detail: "Takes a draft: approved_by and approved_utc are left out or empty. 202: a person has to approve it; the approval then holds the promoted document and a token bound to it. 422 names every rule that is broken. A document that is approved already is taken only with the token, as Holdpoint-Token; nothing is spent.",
			in:     MarkdownBody(""), out: RequestedTool{}, statuses: []int{200, 202}, problems: dialectProblems, repeats: true, handle: a.requestTool, takes: "text/markdown",
		},
	}
}

// tokenHeader carries the token of a document that is approved already.
const tokenHeader = "Holdpoint-Token"

func (a dialectDoor) requestTool(c *call) error {
	started := time.Now()
	if err := ofType(c.r, "text/markdown"); err != nil {
		return err
	}
	document, err := readAll(c, &bytes.Buffer{})
	if err != nil {
		return err
	}
	raw := c.r.Header.Get(tokenHeader)
	// What a repetition is compared by: the document's and the token's bytes.
	sum := sha256.Sum256(append(append(document, 0), raw...))
	key := canon.String(hex.EncodeToString(sum[:]))
	request, err := asked(c)
	if err != nil {
		return err
	}
	render := func(checked gate.CheckedDocument) (access.Reply, error) {
		answer := RequestedTool{
			RequestID: checked.RequestID, Digest: checked.Digest, Outcome: checked.Decision.Outcome,
			Reasons: engine.Reasons(checked.Decision.Findings), Approval: a.waiting(c, checked.Approval), Joined: checked.Joined,
		}
		if raw != "" {
			return jsonReply(http.StatusOK, answer, nil)
		}
		return decidedReply(answer, answer.Approval)
	}
	return answer(a.API, c, keyed(key, request), func(once *access.Idempotency[gate.CheckedDocument]) (gate.CheckedDocument, error) {
		var checked gate.CheckedDocument
		var broken []gate.Violation
		var err error
		if raw != "" {
			checked, broken, err = a.Gate.ApprovedTool(c.r.Context(), c.principal, document, raw, RequestID(c.r.Context()))
		} else {
			checked, broken, err = a.Gate.RequestTool(c.r.Context(), c.principal, document, request, once)
		}
		if len(broken) > 0 {
			return checked, &failure{
				Status: http.StatusUnprocessableEntity, Code: "invalid_tool_request", Violations: broken,
				Detail: "The document breaks the rules of tool requests: " + broken[0].Rule + ", " + broken[0].Message,
			}
		}
		if err == nil && raw == "" {
			a.decided(gate.DialectThreeGate, checked.Decision.Route, started)
		}
		return checked, err
	}, render)
}
