package ocsf

import (
	"cmp"
	"encoding/json"
	"strings"

	"holdpoint/engine"
)

// class is one of the schema's event classes; its category is the thousands.
type class struct {
	uid  int
	name string
}

var (
	accountChange    = class{3001, "Account Change"}
	authentication   = class{3002, "Authentication"}
	entityManagement = class{3004, "Entity Management"}
	apiActivity      = class{6003, "API Activity"}
)

// other is the activity that its name alone tells of.
const other = 99

// The activities of API Activity that each type of event is. The types that are
// not here have another class, or are not known.
var operations = map[engine.EventType]named{
	engine.Decided: {1, "Create"}, engine.ToolContract: {2, "Read"}, engine.Shown: {2, "Read"}, engine.Exported: {2, "Read"},
	engine.Voted: {3, "Update"}, engine.Answered: {3, "Update"}, engine.Cancelled: {3, "Update"}, engine.Proved: {3, "Update"},
	engine.Ticketed: {3, "Update"}, engine.Asked: {3, "Update"}, engine.Commented: {3, "Update"}, engine.Claimed: {3, "Update"},
	engine.Extended: {3, "Update"}, engine.Escalated: {3, "Update"}, engine.Edited: {3, "Update"}, engine.Reopened: {3, "Update"},
	engine.Broken: {3, "Update"}, engine.Afterward: {3, "Update"}, engine.Settled: {3, "Update"}, engine.Redeemed: {3, "Update"},
	engine.Executed: {3, "Update"}, engine.Ungated: {1, "Create"},
	engine.Refusal: {0, "Unknown"}, // the request was not read
}

// entityActivities are the activities of Entity Management by the verb, the last
// word of a code.
var entityActivities = map[string]named{
	"ADDED": {1, "Create"}, "CREATED": {1, "Create"}, "MADE": {1, "Create"}, "PLACED": {1, "Create"},
	"CHANGED": {3, "Update"}, "SET": {3, "Update"}, "ROTATED": {3, "Update"},
	"DELETED": {4, "Delete"}, "REMOVED": {4, "Delete"}, "ERASED": {4, "Delete"}, "REQUEST": {4, "Delete"}, "AGE": {4, "Delete"}, // ERASED_ON_REQUEST, ERASED_BY_AGE
	"REGISTERED": {6, "Enroll"},
	"ENABLED":    {8, "Enable"}, "RESTORED": {8, "Enable"},
	"DISABLED": {9, "Disable"}, "REVOKED": {9, "Disable"}, "GONE": {9, "Disable"},
	"ACTIVATED": {10, "Activate"},
	"SWITCH":    {12, "Suspend"}, // a kill switch, thrown
	"RELEASED":  {13, "Resume"}, "RESENT": {13, "Resume"},
}

// accounts are the activities of Account Change by the whole code.
var accounts = map[string]named{
	"USER_ADDED": {1, "Create"}, "USER_ENABLED": {2, "Enable"}, "USER_DISABLED": {5, "Disable"}, "USER_DELETED": {6, "Delete"},
	"PASSWORD_CHANGED": {3, "Password Change"}, "PASSWORD_SET": {3, "Password Change"}, "PASSWORD_RESET": {4, "Password Reset"},
	"USER_ROLES_CHANGED": {other, "Change Roles"}, "USER_RENAMED": {other, "Rename"}, "USER_SIGNED_OUT": {other, "Sign Out"},
	"FACTOR_ADDED": {10, "MFA Factor Enable"}, "FACTOR_REMOVED": {11, "MFA Factor Disable"}, "FACTORS_RESET": {11, "MFA Factor Disable"},
}

// particulars is what a mapping needs to know of an event beyond its fields.
type particulars struct {
	code    string // of the first reason
	payload map[string]json.RawMessage
}

// read looks into the payloads of those types whose class depends on them. A
// payload that is no object has nothing to say; it is kept either way.
func read(e engine.Event) particulars {
	var p particulars
	if len(e.Reasons) > 0 {
		p.code = e.Reasons[0].Code
	}
	switch e.Type { //nolint:exhaustive // the class of the others follows from their type
	case engine.Admin, engine.Granted, engine.Notified, engine.Refusal, engine.Held, engine.Erased:
		_ = json.Unmarshal(e.SafePayload, &p.payload)
	}
	return p
}

// text is a member of the payload that is a text; "" otherwise.
func (p particulars) text(name string) string {
	var s string
	if json.Unmarshal(p.payload[name], &s) != nil {
		return ""
	}
	return s
}

func (p particulars) class(e engine.Event) class {
	switch e.Type { //nolint:exhaustive // all others are uses of the API
	case engine.SignIn:
		return authentication
	case engine.Granted, engine.Notified, engine.Held, engine.Erased:
		return entityManagement
	case engine.Admin:
		if _, ok := accounts[p.code]; ok {
			return accountChange
		}
		return entityManagement
	}
	return apiActivity
}

func (p particulars) activity(e engine.Event) named {
	switch p.class(e) {
	case authentication:
		switch p.code {
		case "SIGNED_OUT":
			return named{2, "Logoff"}
		case "VERIFIED":
			return named{other, "Verify"} // somebody who is signed in proves it again
		}
		// A proof that failed may have been for either; taken for a logon, nobody
		// who counts failed ones misses it.
		return named{1, "Logon"}
	case accountChange:
		return accounts[p.code]
	case entityManagement:
		_, verb := split(p.code)
		if a, ok := entityActivities[verb]; ok {
			return a
		}
		return named{other, cmp.Or(p.code, string(e.Type))}
	}
	if a, ok := operations[e.Type]; ok {
		return a
	}
	return named{other, cmp.Or(string(e.Type), unknown)}
}

// api is the use of Holdpoint's API that an event tells of. A door that turned
// a request away knows only which door it is.
func (p particulars) api(e engine.Event, product Product) *api {
	a := &api{Operation: cmp.Or(string(e.Type), unknown), Service: service{Name: product.Name}}
	if e.RequestID != "" {
		a.Request = &request{UID: e.RequestID}
	}
	if e.Type != engine.Refusal {
		return a
	}
	a.Operation = cmp.Or(p.text("route"), a.Operation)
	var status int
	if json.Unmarshal(p.payload["status"], &status) == nil && status >= 100 && status <= 599 {
		a.Response = &response{Code: status}
		if len(e.Reasons) > 0 {
			a.Response.Error, a.Response.ErrorMessage = e.Reasons[0].Code, e.Reasons[0].Message
		}
	}
	return a
}

// account is whose account was changed: the subject of a command, else the
// person who did it, for people see to their own factors.
func (p particulars) account(e engine.Event) user {
	if subject := p.text("subject"); subject != "" {
		return user{UID: subject, TypeID: 1, Type: "User"}
	}
	return userOf(e.Actor)
}

// split takes a code apart: what it is about, and what was done to it. A code
// that is not made of capitals is a refusal's, and says neither.
func split(code string) (what, verb string) {
	if code != strings.ToUpper(code) {
		return "", ""
	}
	i := strings.LastIndexByte(code, '_')
	if i < 0 {
		return "", code
	}
	return strings.ToLower(strings.ReplaceAll(code[:i], "_", " ")), code[i+1:]
}

// whose are the members of payloads that name what an event is about, in the
// order in which they are asked.
var whose = []string{"grant", "hold", "erasure", "notification_id", "endpoint_id", "delegation", "schedule", "means", "subject"}

// entity is what was administered. It has a name if nothing else: its type's.
func (p particulars) entity(e engine.Event) *entity {
	what, verb := split(p.code)
	switch {
	case e.Type == engine.Granted:
		what = "grant"
	case e.Type == engine.Held:
		what = "hold"
	case e.Type == engine.Erased:
		what = "erasure"
	case verb == "SWITCH":
		what = "kill switch" // GLOBAL_KILL_SWITCH, AGENT_KILL_SWITCH
	case e.Type == engine.Notified && (what == "" || verb == "UP"):
		what = "notification"
	case what == "":
		what = cmp.Or(string(e.Type), unknown)
	}
	o := &entity{TypeID: other, Type: what}
	for _, name := range whose {
		if what == "endpoint" && name == "notification_id" {
			continue
		}
		if o.UID = p.text(name); o.UID != "" {
			break
		}
	}
	switch what {
	case "policy", "tool contracts":
		o.TypeID, o.Type, o.Name = 5, "Policy", what
		if o.UID = cmp.Or(o.UID, e.PolicyDigest); o.UID != "" {
			o.Policy = &policy{UID: o.UID}
		}
	case "tool":
		o.Name = e.ToolName
	case "agent", "kill switch":
		o.UID = cmp.Or(e.AgentID, o.UID)
	}
	if o.UID == "" && o.Name == "" {
		o.Name = what
	}
	return o
}
