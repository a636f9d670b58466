package mcp

import (
	"cmp"
	_ "embed" // a schema
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/schemas"
)

// Names of the tools (docs/spec/wire.md).
const (
	preToolCheckTool = "aana_pre_tool_check"
	checkTool        = "holdpoint_check"
	awaitTool        = "holdpoint_await"
	cancelTool       = "holdpoint_cancel"
	redeemTool       = "holdpoint_redeem"
	reportTool       = "holdpoint_report"
)

// How long holdpoint_await waits, in seconds: clients give up after 60.
const (
	usualWait   = 25
	longestWait = 50
)

//go:embed check.schema.json
var checkSchema []byte

//go:embed answers.schema.json
var answersSchema []byte

const preToolCheckDoc = `Ask whether a tool call may run, before you make it. Call this for every call that writes, pays, sends, deletes, deploys or reads private data. It runs nothing.

Give the exact tool name, the exact proposed_arguments, and honest authorization and evidence: claims above what your key may make are lowered, and recommended_route can only make the decision stricter.

What to do with the answer:
- execution_allowed is true: run the tool now, with exactly these arguments. With want_token, the host spends approval.resumption_token first.
- approval is there, and pending: do not run the tool. People decide. Tell the user, then call holdpoint_await with approval.id.
- otherwise: do not run the tool. recovery_suggestion, hard_blockers and missing_evidence say what is lacking. Ask the user or gather it, and propose the call again; never rephrase a call to get it past a refusal.
- an error: do not run the tool; nothing has been granted.

Changed arguments are another call: propose it again.`

const checkDoc = `Ask whether a tool call may run, before you make it, in the words of Agent-SPM. Use this when your host speaks Agent-SPM, else aana_pre_tool_check; one of the two is enough. It runs nothing.

Answer: {allowed, decision {outcome, reasons, …}, event, approval}.
- allowed is true: run the tool now, with exactly these arguments, keeping to decision.constraints. With want_token, the host spends approval.resumption_token first.
- approval is there, and pending: do not run the tool. People decide. Tell the user, then call holdpoint_await with approval.id.
- otherwise: do not run the tool. decision.reasons says why; never rephrase a call to get it past a refusal.
- an error: do not run the tool; nothing has been granted.`

const awaitDoc = `Wait for the decision on a call that needs approval. It returns when the approval is decided, or after timeout_seconds with status pending. It changes nothing, so call it again as often as you like.

Answer: the approval. What to do by its status:
- pending: do not run the tool. Call this again, or go on with other work and come back before expires_at. If next_action is answer, attach_ticket or verify, tell the user that this is needed; links.review is the page where people decide.
- approved: the host spends resumption_token with POST /v1/tokens/redeem, naming the same tool and the same arguments, and runs the tool once, only after that succeeded. A host that has no code for that calls holdpoint_redeem. Where edited is there, the arguments are edited.arguments. Never show the token or put it anywhere else.
- denied: do not run the tool. denial.kind says how to go on: wrong_args (correct the arguments as denial.comment says and propose again), needs_info (supply it and propose again), not_now (propose again after denial.retry_after seconds), never (give it up).
- expired or cancelled: do not run the tool; propose the call again if it is still wanted.`

const cancelDoc = `Take back a call that waits for approval, because it is no longer wanted or its arguments have changed. This cannot be undone: the call would have to be proposed again. Answer: the approval, cancelled. What is decided already cannot be taken back and is answered with an error.`

const redeemDoc = `Ask, right before a tool runs, whether an approved call may run now. It is for hosts that have no code of their own to spend a token with; this tool neither takes nor shows one. Run the tool only when the answer has run: true, once, and with exactly the arguments that you sent here. Where the approval has edited, send edited.arguments, which are what people approved.

It permits a call once: what is asked again is refused, also when the answer was lost. Any error means: do not run the tool. Afterwards say what became of the call with holdpoint_report, before lease_until.`

const reportDoc = `Say what became of a call after holdpoint_redeem permitted it: succeeded, failed, or unknown when it may or may not have had its effect. It is said once, and a person reads it; never say what you do not know. With output, the answer's output.safe_response is what of it may be shown.`

// withOwnMembers adds to the schema of events what Holdpoint itself takes beside them.
// The schema is the contract's own otherwise.
func withOwnMembers(event []byte) ([]byte, error) {
	var schema, check map[string]json.RawMessage
	var properties, own map[string]json.RawMessage
	err := errors.Join(json.Unmarshal(event, &schema), json.Unmarshal(checkSchema, &check))
	if err == nil {
		err = errors.Join(json.Unmarshal(schema["properties"], &properties), json.Unmarshal(check["properties"], &own))
	}
	if err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	for _, name := range []string{"want_token", "separate"} {
		properties[name] = own[name]
	}
	if schema["properties"], err = json.Marshal(properties); err == nil {
		event, err = json.Marshal(schema)
	}
	if err != nil {
		return nil, fmt.Errorf("encode a schema: %w", err)
	}
	return event, nil
}

// answering is the schema of a tool's structured content, of the kind of answer and of a
// problem. It says what is always there: answers have more, and get more, which a client
// of today has to take.
func answering(kind string) (json.RawMessage, error) {
	var defs map[string]json.RawMessage
	if err := json.Unmarshal(answersSchema, &defs); err != nil {
		return nil, fmt.Errorf("read the schemas of answers: %w", err)
	}
	own := defs[kind]
	if own == nil {
		return nil, fmt.Errorf("there is no schema of the answer %q", kind)
	}
	type ref struct {
		Ref string `json:"$ref"`
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "anyOf": []ref{{"#/$defs/" + kind}, {"#/$defs/problem"}},
		"$defs": map[string]json.RawMessage{kind: own, "approval": defs["approval"], "problem": defs["problem"]},
	})
	if err != nil {
		return nil, fmt.Errorf("encode a schema: %w", err)
	}
	return schema, nil
}

// toolDefinitions are the tools, with the schemas of their answers.
func toolDefinitions() ([]toolDefinition, error) {
	list, err := describedOffers()
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{preToolCheckTool: "decision", checkTool: "verdict", redeemTool: "permission"}
	for _, o := range list {
		kind := cmp.Or(kinds[o.tool.Name], "approval")
		schema, err := answering(kind)
		if err != nil {
			return nil, err
		}
		o.tool.OutputSchema = schema
	}
	return list, nil
}

func describedOffers() ([]toolDefinition, error) {
	event, err := schemas.FS.ReadFile(schemas.AgentActionContractV1)
	if err != nil {
		return nil, fmt.Errorf("read the schema of events: %w", err)
	}
	if event, err = withOwnMembers(event); err != nil {
		return nil, err
	}
	yes, no := true, false
	id := `"approval_id": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$", "description": "The approval's id, apr_…, as the check answered it."}`
	await := fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["approval_id"], "properties": {%s,
		"timeout_seconds": {"type": "integer", "minimum": 0, "maximum": %d, "default": %d, "description": "How long to wait at most."}}}`, id, longestWait, usualWait)
	cancel := fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["approval_id"], "properties": {%s}}`, id)
	redeem := fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["approval_id", "tool_name", "arguments"], "properties": {%s,
		"tool_name": {"type": "string", "minLength": 1, "description": "The exact name of the tool that is about to run."},
		"arguments": {"type": "object", "description": "Exactly the arguments that it is about to run with."},
		"lease_seconds": {"type": "integer", "minimum": 0, "maximum": 86400, "description": "How long the call may take; 900 when left out."},
		"preconditions": {"type": "object", "additionalProperties": {"type": "string"}, "description": "What the things that the call depends on are now, by the approval's names for them."}}}`, id)
	report := fmt.Sprintf(`{"type": "object", "additionalProperties": false, "required": ["approval_id", "outcome"], "properties": {%s,
		"outcome": {"enum": ["succeeded", "failed", "unknown"]},
		"duration_ms": {"type": "integer", "minimum": 0},
		"output": {"description": "What the tool answered. It is looked at and not kept."}}}`, id)
	return []toolDefinition{
		{&sdk.Tool{
			Name: preToolCheckTool, Title: "May this tool call run?", Description: preToolCheckDoc, InputSchema: json.RawMessage(event),
			// It adds to the audit log and may ask people.
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
		}, (*Tools).preToolCheck},
		{&sdk.Tool{
			Name: checkTool, Title: "May this tool call run? (Agent-SPM)", Description: checkDoc, InputSchema: json.RawMessage(checkSchema),
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
		}, (*Tools).check},
		{&sdk.Tool{
			Name: awaitTool, Title: "Wait for people to decide", Description: awaitDoc, InputSchema: json.RawMessage(await),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no},
		}, (*Tools).await},
		{&sdk.Tool{
			Name: cancelTool, Title: "Take a waiting call back", Description: cancelDoc, InputSchema: json.RawMessage(cancel),
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
		}, (*Tools).cancel},
		{&sdk.Tool{
			Name: redeemTool, Title: "May the approved call run now?", Description: redeemDoc, InputSchema: json.RawMessage(redeem),
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
		}, (*Tools).redeem},
		{&sdk.Tool{
			Name: reportTool, Title: "Say what became of a call", Description: reportDoc, InputSchema: json.RawMessage(report),
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
		}, (*Tools).report},
	}, nil
}
