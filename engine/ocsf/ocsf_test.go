package ocsf_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"holdpoint/engine"
	"holdpoint/engine/ocsf"
	"holdpoint/internal/golden"
	"holdpoint/schemas"
)

var product = ocsf.Product{Name: "Holdpoint", VendorName: "Holdpoint", Version: "1.0.0"}

// schema is the published schema, formats included.
func schema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := schemas.FS.ReadFile(schemas.OCSFEvent)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:schema")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// samples are realistic events of every type, one a line in testdata.
func samples(t testing.TB) []engine.Event {
	t.Helper()
	f, err := os.Open("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var events []engine.Event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e engine.Event
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			t.Fatalf("sample %d: %v", len(events)+1, err)
		}
		events = append(events, e)
	}
	if err := lines.Err(); err != nil || len(events) == 0 {
		t.Fatalf("%d samples: %v", len(events), err)
	}
	return events
}

// failing is what a test and a property have in common.
type failing interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func encode(t failing, e engine.Event) []byte {
	t.Helper()
	line, err := ocsf.Encode(e, product)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func value(t failing, line []byte) map[string]any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return v.(map[string]any)
}

// TestSamplesAreValid holds every sample against the schema, and the whole text
// against the golden file.
func TestSamplesAreValid(t *testing.T) {
	s := schema(t)
	var got bytes.Buffer
	for _, e := range samples(t) {
		line := encode(t, e)
		if bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%s: more than one line", e.ID)
		}
		if err := s.Validate(value(t, line)); err != nil {
			t.Errorf("%s\n%v", line, err)
		}
		got.Write(line)
		got.WriteByte('\n')
	}
	golden.Equal(t, "testdata/events.ocsf.golden.jsonl", got.Bytes())
}

// TestEveryTypeHasItsPlace: each type of engine/event.go has a sample, and none
// falls back to what is done with types that nobody knows.
func TestEveryTypeHasItsPlace(t *testing.T) {
	missing := map[engine.EventType]bool{}
	for _, name := range engine.EventTypes() {
		missing[name] = true
	}
	for _, e := range samples(t) {
		delete(missing, e.Type)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("testdata/events.jsonl has no event of type %s", name)
	}
	page, err := os.ReadFile("../../docs/export-formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range engine.EventTypes() {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("docs/export-formats.md does not say what the type %s is", name)
		}
		e := engine.Event{ID: "6f1c0de0-0000-4000-8000-000000000001", Timestamp: time.Unix(1, 0), Type: name, Outcome: engine.Allow}
		if o := value(t, encode(t, e)); fmt.Sprint(o["type_uid"]) == "600399" {
			t.Errorf("the type %s is mapped to no class: put it into operations or class", name)
		}
	}
	o := value(t, encode(t, engine.Event{ID: "6f1c0de0-0000-4000-8000-000000000001", Timestamp: time.Unix(1, 0), Type: "of_tomorrow"}))
	if fmt.Sprintf("%v %v", o["type_uid"], o["activity_name"]) != "600399 of_tomorrow" {
		t.Errorf("an event of a type that is not known is %v, %v", o["type_uid"], o["activity_name"])
	}
	if err := schema(t).Validate(o); err != nil {
		t.Error(err)
	}
}

// TestWhatEventsAre says of each sample which activity of which class it is, how
// bad, and what became of it.
func TestWhatEventsAre(t *testing.T) {
	want := strings.Split(strings.TrimSpace(`
decision ALLOW RULE_MATCHED: 600301 Create, Informational, Success, Allowed
decision REQUIRE_APPROVAL LARGE_REFUND: 600301 Create, Informational, Waiting, Delayed
decision DENY TOOL_UNKNOWN: 600301 Create, Low, Failure, Blocked
decision KILL_SWITCH AGENT_KILL_SWITCH: 600301 Create, Medium, Failure, Blocked
decision RATE_LIMITED too_many_pending: 600301 Create, Low, Failure, Blocked
decision STEP_UP CONFIRM: 600301 Create, Informational, Waiting, Delayed
contract ALLOW REQUEST_ALLOWED: 600302 Read, Informational, Success, Allowed
vote REQUIRE_APPROVAL VOTE_APPROVE: 600303 Update, Informational, Success, Logged
vote DENY self_review: 600303 Update, Low, Failure, Blocked
vote REQUIRE_APPROVAL VOTE_BY_GRANT: 600303 Update, Informational, Success, Logged
answer STEP_UP ANSWER_CONFIRMED: 600303 Update, Informational, Success, Logged
cancel REQUIRE_APPROVAL CANCEL: 600303 Update, Informational, Success, Logged
verify STEP_UP STEP_UP_PASSED: 600303 Update, Informational, Success, Logged
ticket REQUIRE_TICKET TICKET_VALIDATED: 600303 Update, Informational, Success, Logged
question REQUIRE_APPROVAL QUESTION: 600303 Update, Informational, Success, Logged
comment REQUIRE_APPROVAL COMMENT: 600303 Update, Informational, Success, Logged
claim REQUIRE_APPROVAL CLAIM: 600303 Update, Informational, Success, Logged
extend REQUIRE_APPROVAL EXTEND: 600303 Update, Informational, Success, Logged
escalate REQUIRE_APPROVAL NOBODY_ELIGIBLE: 600303 Update, Medium, Success, Logged
edit REQUIRE_APPROVAL EDIT: 600303 Update, Informational, Success, Logged
reopen REQUIRE_HUMAN policy_changed: 600303 Update, Informational, Waiting, Delayed
break_glass REQUIRE_APPROVAL BREAK_GLASS: 600303 Update, High, Success, Logged
break_glass DENY not_eligible: 600303 Update, Medium, Failure, Blocked
review_afterwards ALLOW REVIEWED_AFTERWARDS: 600303 Update, Informational, Success, Logged
grant REQUIRE_APPROVAL GRANT_MADE: 300401 Create, Informational, Success, Logged
grant DENY not_found: 300499 not_found, Low, Failure, Blocked
grant ALLOW GRANT_REVOKED: 300409 Disable, Informational, Success, Allowed
notification ALLOW NOTIFICATION_GIVEN_UP: 300499 NOTIFICATION_GIVEN_UP, Medium, Failure, Logged
notification ALLOW ENDPOINT_GONE: 300409 Disable, Medium, Success, Logged
notification ALLOW NOTIFICATION_RESENT: 300413 Resume, Informational, Success, Logged
settled APPROVED HUMAN_APPROVED: 600303 Update, Informational, Success, Approved
settled REJECTED HUMAN_REJECTED: 600303 Update, Low, Failure, Rejected
settled TIMEOUT EXPIRED: 600303 Update, Low, Failure, Blocked
settled APPROVED BREAK_GLASS: 600303 Update, High, Success, Approved
redeem ALLOW REDEEMED: 600303 Update, Informational, Success, Allowed
redeem DENY token_used: 600303 Update, Low, Failure, Blocked
execution ALLOW EXECUTION_SUCCEEDED: 600303 Update, Medium, Success, Logged
execution ALLOW EXECUTION_FAILED: 600303 Update, Informational, Failure, Logged
execution ALLOW EXECUTION_UNKNOWN: 600303 Update, Medium, Unknown, Logged
refusal DENY unauthorized: 600300 Unknown, Low, Failure, Blocked
refusal DENY not_found: 600300 Unknown, Low, Failure, Blocked
sign_in ALLOW SIGNED_IN: 300201 Logon, Informational, Success, Allowed
sign_in DENY wrong_credentials: 300201 Logon, Low, Failure, Blocked
sign_in ALLOW VERIFIED: 300299 Verify, Informational, Success, Allowed
sign_in DENY verification_failed: 300201 Logon, Low, Failure, Blocked
sign_in ALLOW SIGNED_OUT: 300202 Logoff, Informational, Success, Allowed
admin ALLOW USER_ADDED: 300101 Create, Informational, Success, Allowed
admin ALLOW USER_DISABLED: 300105 Disable, Informational, Success, Allowed
admin ALLOW FACTOR_ADDED: 300110 MFA Factor Enable, Informational, Success, Allowed
admin ALLOW FACTOR_REMOVED: 300111 MFA Factor Disable, Informational, Success, Allowed
admin ALLOW FACTORS_RESET: 300111 MFA Factor Disable, Informational, Success, Allowed
admin ALLOW AGENT_REGISTERED: 300406 Enroll, Informational, Success, Allowed
admin ALLOW AGENT_REVOKED: 300409 Disable, Informational, Success, Allowed
admin ALLOW AGENT_RESTORED: 300408 Enable, Informational, Success, Allowed
admin ALLOW TOOL_REGISTERED: 300406 Enroll, Informational, Success, Allowed
admin ALLOW KEY_CREATED: 300401 Create, Informational, Success, Allowed
admin ALLOW SIGNING_KEY_REVOKED: 300409 Disable, Informational, Success, Allowed
admin ALLOW SETTINGS_CHANGED: 300403 Update, Informational, Success, Allowed
admin ALLOW ENDPOINT_ADDED: 300401 Create, Informational, Success, Allowed
admin ALLOW ENDPOINT_TESTED: 300499 ENDPOINT_TESTED, Informational, Success, Allowed
admin ALLOW DELEGATION_MADE: 300401 Create, Informational, Success, Allowed
admin ALLOW ON_CALL_SET: 300403 Update, Informational, Success, Allowed
admin ALLOW POLICY_ACTIVATED: 300410 Activate, Informational, Success, Allowed
admin ALLOW TOOL_CONTRACTS_ACTIVATED: 300410 Activate, Informational, Success, Allowed
admin ALLOW KILL_SWITCH_RELEASED: 300413 Resume, Informational, Success, Allowed
admin KILL_SWITCH GLOBAL_KILL_SWITCH: 300412 Suspend, High, Success, Allowed
admin DENY not_yours: 300499 not_yours, Low, Failure, Blocked
comment REQUIRE_APPROVAL COMMENT: 600303 Update, Informational, Success, Logged
shown REQUIRE_APPROVAL CARD_SHOWN: 600302 Read, Informational, Success, Logged
export ALLOW EXPORTED: 600302 Read, Informational, Success, Allowed
hold ALLOW HOLD_PLACED: 300401 Create, Informational, Success, Allowed
hold ALLOW HOLD_RELEASED: 300413 Resume, Informational, Success, Allowed
erasure ALLOW ERASED_ON_REQUEST: 300404 Delete, Informational, Success, Allowed
erasure DENY under_hold: 300499 under_hold, Low, Failure, Blocked
erasure ALLOW ERASED_BY_AGE: 300404 Delete, Informational, Success, Allowed
ungated ALLOW UNGATED_EXECUTION: 600301 Create, High, Success, Logged
`), "\n")
	events := samples(t)
	if len(events) != len(want) {
		t.Fatalf("%d samples, %d lines", len(events), len(want))
	}
	for i, e := range events {
		o := value(t, encode(t, e))
		got := fmt.Sprintf("%s %s %s: %v %v, %v, %v, %v", e.Type, e.Outcome, e.Reasons[0].Code, o["type_uid"], o["activity_name"], o["severity"], o["status"], o["disposition"])
		if got != want[i] {
			t.Errorf("sample %d\ngot:  %s\nwant: %s", i+1, got, want[i])
		}
	}
}

// TestEntities says what the administrative samples are about.
func TestEntities(t *testing.T) {
	const per, digest = "usr_01JZ8Q0000000000000000FINA", "sha256:5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f"
	want := map[string]string{
		"GRANT_MADE": "grant grt_01JZ8Q", "GRANT_REVOKED": "grant grt_01JZ8Q", "NOTIFICATION_GIVEN_UP": "notification not_01JZ8Q",
		"ENDPOINT_GONE": "endpoint ntf_slack", "NOTIFICATION_RESENT": "notification not_01JZ8Q",
		"USER_ADDED": "User " + per, "USER_DISABLED": "User finn@example.org", "FACTOR_ADDED": "User " + per, "FACTOR_REMOVED": "User " + per,
		"FACTORS_RESET": "User finn@example.org", "AGENT_REGISTERED": "agent refund-bot", "AGENT_REVOKED": "agent refund-bot",
		"AGENT_RESTORED": "agent refund-bot", "TOOL_REGISTERED": "tool payments.refund", "KEY_CREATED": "key key_01JZ8Q",
		"SIGNING_KEY_REVOKED": "signing key 2026-07", "SETTINGS_CHANGED": "settings settings", "ENDPOINT_ADDED": "endpoint ntf_slack",
		"ENDPOINT_TESTED": "endpoint ntf_slack", "DELEGATION_MADE": "delegation dlg_01JZ8Q", "ON_CALL_SET": "on call primary",
		"POLICY_ACTIVATED": "Policy " + digest + " policy", "TOOL_CONTRACTS_ACTIVATED": "Policy " + digest + " tool contracts",
		"KILL_SWITCH_RELEASED": "kill switch refund-bot", "GLOBAL_KILL_SWITCH": "kill switch kill switch", "not_yours": "admin admin",
		"HOLD_PLACED": "hold hold_01", "HOLD_RELEASED": "hold hold_01", "ERASED_ON_REQUEST": "erasure era_01", "under_hold": "erasure usr_01x",
		"ERASED_BY_AGE": "erasure era_02",
	}
	seen := map[string]bool{}
	for _, e := range samples(t) {
		o := value(t, encode(t, e))
		about, ok := o["entity"].(map[string]any)
		if fmt.Sprint(o["class_uid"]) == "3001" {
			about, ok = o["user"].(map[string]any), true
		}
		code := e.Reasons[0].Code
		if !ok || e.Type == engine.Granted && e.Outcome == engine.Deny {
			continue
		}
		seen[code] = true
		var parts []string
		for _, name := range []string{"type", "uid", "name"} {
			if s, ok := about[name].(string); ok {
				parts = append(parts, s)
			}
		}
		if got := strings.Join(parts, " "); got != want[code] {
			t.Errorf("%s is about %q, want %q", code, got, want[code])
		}
	}
	for code := range want {
		if !seen[code] {
			t.Errorf("no sample of %s is about anything", code)
		}
	}
}

// TestNothingIsLost: what an event says is found again in what is written.
func TestNothingIsLost(t *testing.T) {
	for _, e := range samples(t) {
		line := encode(t, e)
		var o struct {
			Time     int64
			Metadata struct {
				UID, CorrelationUID, EventCode, OriginalTime string
				Sequence                                     int64
			}
		}
		// The names of the schema differ from Go's by their underscores only.
		if err := json.Unmarshal(bytes.ReplaceAll(line, []byte("_"), nil), &o); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, o.Metadata.OriginalTime)
		if err != nil || !at.Equal(e.Timestamp) || o.Time != e.Timestamp.UnixMilli() {
			t.Errorf("%s: time %d, %s; want %s (%v)", e.ID, o.Time, o.Metadata.OriginalTime, e.Timestamp, err)
		}
		if o.Metadata.UID != e.ID || o.Metadata.Sequence != e.Seq {
			t.Errorf("%s %d: uid %s, sequence %d", e.ID, e.Seq, o.Metadata.UID, o.Metadata.Sequence)
		}
		texts := map[string]bool{}
		leaves(value(t, line), texts)
		want := []string{
			string(e.Type), e.RequestID, e.AgentID, e.ToolName, string(e.Outcome), e.PluginSource, e.ApprovalID, e.Actor.ID, e.Actor.Channel,
			e.DigestHMAC, e.PolicyDigest, string(e.PrevOutcome),
		}
		for _, r := range e.Reasons {
			want = append(want, r.Code, r.Message)
		}
		for _, text := range want {
			if text != "" && !texts[text] {
				t.Errorf("%s does not say %q", line, text)
			}
		}
		var payload any
		if err := json.Unmarshal(e.SafePayload, &payload); err != nil {
			t.Fatal(err)
		}
		inside := map[string]bool{}
		leaves(payload, inside)
		for text := range inside {
			if !texts[text] {
				t.Errorf("%s does not say %q of the payload", line, text)
			}
		}
	}
}

// leaves collects every text and number below v.
func leaves(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			leaves(one, into)
		}
	case []any:
		for _, one := range v {
			leaves(one, into)
		}
	default:
		into[fmt.Sprint(v)] = true
	}
}

func TestRefused(t *testing.T) {
	good := samples(t)[0]
	for name, spoil := range map[string]func(*engine.Event, *ocsf.Product){
		"no product":        func(_ *engine.Event, p *ocsf.Product) { p.Name = "" },
		"no id":             func(e *engine.Event, _ *ocsf.Product) { e.ID = "" },
		"no time":           func(e *engine.Event, _ *ocsf.Product) { e.Timestamp = time.Time{} },
		"before 1970":       func(e *engine.Event, _ *ocsf.Product) { e.Timestamp = time.Unix(-1, 0) },
		"payload not JSON":  func(e *engine.Event, _ *ocsf.Product) { e.SafePayload = json.RawMessage(`{"a":`) },
		"payload not UTF-8": func(e *engine.Event, _ *ocsf.Product) { e.SafePayload = json.RawMessage("{\"a\":\"\xff\"}") },
		"form not JSON": func(e *engine.Event, _ *ocsf.Product) {
			e.Requirements = []engine.Requirement{{Kind: engine.Answer, Form: json.RawMessage(`nope`)}}
		},
	} {
		e, p := good, product
		spoil(&e, &p)
		if line, err := ocsf.Encode(e, p); err == nil {
			t.Errorf("%s: written as %s", name, line)
		}
	}
}

// TestTheSchemaCanSayNo: without any one member that it requires, or with one
// more at any place, no sample is valid any longer. Payloads are free.
func TestTheSchemaCanSayNo(t *testing.T) {
	s := schema(t)
	optional := map[string]bool{
		"status_code": true, "status_detail": true, "authorizations": true, "message": true, "resources": true, "unmapped": true, "vendor_name": true,
		"sequence": true, "event_code": true, "correlation_uid": true, "request": true, "response": true, "error": true, "error_message": true,
		"policy": true, "decision": true,
	}
	removed := 0
	var spoil func(t *testing.T, root, at any, path string)
	spoil = func(t *testing.T, root, at any, path string) {
		switch at := at.(type) {
		case []any:
			for i, one := range at {
				spoil(t, root, one, fmt.Sprintf("%s/%d", path, i))
			}
		case map[string]any:
			at["brand_new"] = "x"
			if s.Validate(root) == nil {
				t.Errorf("%s may hold anything", path)
			}
			delete(at, "brand_new")
			for name, one := range maps.Clone(at) {
				if name == "unmapped" {
					continue
				}
				delete(at, name)
				lone := path == "/entity" && (name == "uid" || name == "name") && at["type"] == "Policy"
				version := path == "/metadata/product" && name == "version"
				if !optional[name] && !lone && !version {
					removed++
					if s.Validate(root) == nil {
						t.Errorf("%s may lack %s", path, name)
					}
				}
				at[name] = one
				spoil(t, root, one, path+"/"+name)
			}
		}
	}
	seen := map[string]bool{}
	for _, e := range samples(t) {
		root := value(t, encode(t, e))
		if kind := fmt.Sprintf("%s %v %v", e.Type, root["type_uid"], root["disposition"]); !seen[kind] {
			seen[kind] = true
			spoil(t, root, root, "")
		}
	}
	if removed < 1000 {
		t.Errorf("only %d members were removed", removed)
	}
}

func BenchmarkEncode(b *testing.B) {
	events := samples(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := ocsf.Encode(events[i%len(events)], product); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
