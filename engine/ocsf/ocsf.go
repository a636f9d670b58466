// Package ocsf writes audit events in the Open Cybersecurity Schema Framework,
// so that a SIEM reads them without a parser of ours. It is a pure function of
// an event: it never reads a clock, and never looks anything up.
//
// The version is 1.6.0: the oldest release that has every attribute used here
// (the last one was resources[].role_id). Releases of 1.x only add, so whoever
// reads a later one reads this; the samples hold by 1.7.0 and 1.8.0 as well.
//
// # Classes
//
//	decision                       API Activity 6003       Create
//	contract, shown, export        API Activity 6003       Read
//	what is said of an approval,
//	settled, redeem, execution     API Activity 6003       Update
//	refusal                        API Activity 6003       Unknown
//	sign_in                        Authentication 3002     Logon, Logoff, Other (Verify)
//	admin of people and factors    Account Change 3001     by the reason's code
//	other admin, grant, hold,
//	erasure, notification          Entity Management 3004  by the reason's code
//
// The API of API Activity is Holdpoint's own, of which an event is one use: its
// operation is the event's type. What a tool does when it runs is not known
// here, so its name is never guessed into Create or Delete; it is a resource. A
// decision makes something, an approval where it waits; a question about a
// contract, a look and an export change nothing; all else that happens to an approval updates it.
// Authorize Session (3003) would be wrong for votes: it is about the privileges
// of a session that has just begun, and nobody is given any here. What Holdpoint
// did about the call is in the security_control profile: a call that waits
// is Delayed, what was only taken down is Logged.
//
// Grants are entities: they are made, used up and revoked, whoever they are for.
// User Access Management (3005) demands a user and privileges, which an attempt
// that was refused does not have. People and their factors have a class of their
// own, Account Change, which detections for lost second factors look at.
//
// The last word of an administrative reason's code says what was done (CREATED,
// REVOKED, …) and the words before it to what (API keys, agents, …), so that a
// new code needs no change here as long as it is named like the others.
//
// An event type that this package does not know becomes API Activity, Other: an
// export never stops at an event of a newer program.
//
// # What stays what it was
//
// The outcome is authorizations[0].decision, the policy digest the uid of its
// policy, the type metadata.event_code, the approval metadata.correlation_uid,
// the exact time metadata.original_time. What the class has no place for is
// under unmapped, by its own name.
package ocsf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
)

// Version is the release of the schema by which events are encoded.
const Version = "1.6.0"

// Product says what program the events are of. Name is required.
type Product struct {
	Name       string `json:"name"`
	VendorName string `json:"vendor_name,omitempty"`
	Version    string `json:"version,omitempty"`
}

// logName is the name of the log that every event is from.
const logName = "audit"

// unknown stands where the schema demands a name and the event has none.
const unknown = "unknown"

// Holdpoint is the product of this program's events.
var Holdpoint = Product{Name: "Holdpoint", VendorName: "Holdpoint"}

// Encode returns the event as one OCSF event: one line of JSON, without the line
// break, which is valid by schemas.OCSFEvent. An event that has no id or no
// timestamp is an error, and so is one whose payload is not JSON in UTF-8. An
// event that is not in the log's order yet has no metadata.sequence.
func Encode(e engine.Event, product Product) ([]byte, error) {
	switch {
	case product.Name == "":
		return nil, errors.New("encode an event for OCSF: the product has no name")
	case e.ID == "":
		return nil, errors.New("encode an event for OCSF: it has no event_id")
	case e.Timestamp.IsZero() || e.Timestamp.UnixMilli() < 0:
		return nil, fmt.Errorf("encode event %s for OCSF: it has no time since 1970", e.ID)
	}
	line, err := json.Marshal(record(e, product))
	if err == nil && !utf8.Valid(line) {
		err = errors.New("a payload is not UTF-8")
	}
	if err != nil {
		return nil, fmt.Errorf("encode event %s for OCSF: %w", e.ID, err)
	}
	return line, nil
}

// record is everything of an event in its places.
func record(e engine.Event, product Product) event {
	p := read(e)
	c, a := p.class(e), p.activity(e)
	s, t := statusOf(e), severityOf(e)
	act, d := control(e)
	o := event{
		Time: e.Timestamp.UnixMilli(), CategoryUID: c.uid / 1000, ClassUID: c.uid, ClassName: c.name,
		ActivityID: a.ID, ActivityName: a.Name, TypeUID: c.uid*100 + a.ID,
		SeverityID: t.ID, Severity: t.Name, StatusID: s.ID, Status: s.Name,
		ActionID: act.ID, Action: act.Name, DispositionID: d.ID, Disposition: d.Name,
		Message:  message(e.Reasons),
		Metadata: described(e, product), Actor: actor{User: userOf(e.Actor)}, SrcEndpoint: endpoint{ServiceName: cmp.Or(e.Actor.Channel, unknown)},
		Unmapped: unmappedOf(e, c),
	}
	if len(e.Reasons) > 0 {
		o.StatusCode, o.StatusDetail = e.Reasons[0].Code, e.Reasons[0].Message
	}
	if e.Outcome != "" || e.PolicyDigest != "" {
		one := authorization{Decision: string(e.Outcome)}
		if e.PolicyDigest != "" {
			one.Policy = &policy{UID: e.PolicyDigest}
		}
		o.Authorizations = []authorization{one}
	}
	switch c {
	case apiActivity:
		o.API, o.Resources = p.api(e, product), resources(e)
	case authentication:
		u := userOf(e.Actor)
		o.User, o.Service = &u, &service{Name: product.Name}
	case accountChange:
		u := p.account(e)
		o.User = &u
	case entityManagement:
		o.Entity = p.entity(e)
	}
	return o
}

// described says which event of which log this is.
func described(e engine.Event, product Product) metadata {
	m := metadata{
		Version: Version, Product: product, Profiles: []string{"security_control"},
		UID: e.ID, EventCode: string(e.Type), CorrelationUID: e.ApprovalID, LogName: logName,
		OriginalTime: e.Timestamp.UTC().Format(time.RFC3339Nano),
	}
	if e.Seq > 0 {
		m.Sequence = e.Seq
	}
	return m
}

// userOf is an actor as a user: OCSF knows no agents by that name.
func userOf(a engine.Actor) user {
	if a.ID == "" {
		return user{Name: unknown, Type: "Unknown"}
	}
	u := user{UID: a.ID}
	switch a.Kind {
	case engine.HumanActor:
		u.TypeID, u.Type = 1, "User"
	case engine.SystemActor:
		u.TypeID, u.Type = 3, "System"
	case engine.ServiceActor:
		u.TypeID, u.Type = 4, "Service"
	case engine.AgentActor:
		u.TypeID, u.Type = 99, "Agent"
	case "":
		u.Type = "Unknown"
	default:
		u.TypeID, u.Type = 99, string(a.Kind)
	}
	return u
}

// resources names the tool, the approval and the agent of a call.
func resources(e engine.Event) []resource {
	var list []resource
	if e.ToolName != "" {
		list = append(list, resource{Type: "tool", Name: e.ToolName, RoleID: 1, Role: "Target"})
	}
	if e.ApprovalID != "" {
		list = append(list, resource{Type: "approval", UID: e.ApprovalID, RoleID: 3, Role: "Affected"})
	}
	if e.AgentID != "" {
		r := resource{Type: "agent", UID: e.AgentID, RoleID: 4, Role: "Related"}
		if e.Actor.Kind == engine.AgentActor && e.Actor.ID == e.AgentID {
			r.RoleID, r.Role = 2, "Actor"
		}
		list = append(list, r)
	}
	return list
}

// message is what all reasons say, one after the other.
func message(reasons []engine.Reason) string {
	messages := make([]string, 0, len(reasons))
	for _, r := range reasons {
		if r.Message != "" {
			messages = append(messages, r.Message)
		}
	}
	return strings.Join(messages, " ")
}

// unmappedOf keeps what the class has no place for; nil when that is nothing.
func unmappedOf(e engine.Event, c class) *unmapped {
	u := unmapped{
		DigestHMAC: e.DigestHMAC, PrevOutcome: string(e.PrevOutcome), PluginSource: e.PluginSource, Requirements: e.Requirements,
	}
	if payload := bytes.TrimSpace(e.SafePayload); len(payload) > 0 && !bytes.Equal(payload, []byte("{}")) && !bytes.Equal(payload, []byte("null")) {
		u.SafePayload = payload
	}
	if len(e.Reasons) > 1 {
		u.Reasons = e.Reasons
	}
	if c != apiActivity {
		u.AgentID, u.ToolName, u.RequestID = e.AgentID, e.ToolName, e.RequestID
	}
	if u.AgentID == "" && u.ToolName == "" && u.RequestID == "" && u.DigestHMAC == "" && u.PrevOutcome == "" && u.PluginSource == "" &&
		len(u.Requirements) == 0 && len(u.Reasons) == 0 && len(u.SafePayload) == 0 {
		return nil
	}
	return &u
}
