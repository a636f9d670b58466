package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// proposing are the headers of whatever proposes a call.
var proposing = []parameter{
	{sessionHeader, "The session that the call belongs to, where its document has no place for it."},
	{preconditionsHeader, "A JSON object of texts: what must be unchanged when the call runs."},
	{"Prefer", "token: a token for an accepted call, too. separate: an approval of its own where the very call waits already."},
}

// retrySoon is the Retry-After of a call that waits, in seconds.
const retrySoon = "2"

// preconditionsHeader holds what has to be unchanged when the call runs: a JSON
// object of texts, such as {"etag": "\"33a64df5\""}.
const preconditionsHeader = "Holdpoint-Preconditions"

// sessionHeader names the session that a call belongs to, for documents that
// have no place for it.
const sessionHeader = "Holdpoint-Session"

// keyed is what a repetition of the request is compared by: its body, and what it
// says beside it.
func keyed(body canon.Value, r gate.Request) canon.Value {
	if r.Session == "" && len(r.Preconditions) == 0 && !r.WantToken && !r.Separate && !r.DryRun {
		return body
	}
	members := []canon.Member{{Name: "body", Value: body}, {Name: "session", Value: canon.String(r.Session)}}
	if r.WantToken {
		members = append(members, canon.Member{Name: "token", Value: canon.Bool(true)})
	}
	if r.Separate {
		members = append(members, canon.Member{Name: "separate", Value: canon.Bool(true)})
	}
	if r.DryRun {
		members = append(members, canon.Member{Name: "dry run", Value: canon.Bool(true)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Preconditions)) {
		members = append(members, canon.Member{Name: "precondition " + name, Value: canon.String(r.Preconditions[name])})
	}
	return canon.Object(members...)
}

// asked is what a request says beside its body.
func asked(c *call) (gate.Request, error) {
	r := gate.Request{ID: RequestID(c.r.Context())}
	r.WantToken, r.Separate = prefers(c.r, "token"), prefers(c.r, "separate")
	r.Session = c.r.Header.Get(sessionHeader)
	if !utf8.ValidString(r.Session) {
		return r, &failure{Status: http.StatusBadRequest, Code: "session", Detail: "The header " + sessionHeader + " is not UTF-8."}
	}
	text := c.r.Header.Get(preconditionsHeader)
	if text == "" {
		return r, nil
	}
	v, err := canon.Parse([]byte(text))
	bad := &failure{Status: http.StatusBadRequest, Code: "preconditions", Detail: "The header " + preconditionsHeader + " has to be a JSON object of texts."}
	if err != nil || v.Kind() != canon.ObjectKind {
		return r, bad
	}
	r.Preconditions = map[string]string{}
	for name, value := range v.All() {
		if value.Kind() != canon.StringKind {
			return r, bad
		}
		r.Preconditions[name] = value.Str()
	}
	return r, nil
}

// prefers reports whether the request has a preference (RFC 7240) without a value.
func prefers(r *http.Request, name string) bool {
	for _, line := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(preference), name) {
				return true
			}
		}
	}
	return false
}

// proposed reads a proposal: its body, the document that a dialect's reader sees, and what
// the request says besides.
func proposed(c *call) (body, document canon.Value, request gate.Request, err error) {
	if body, err = readJSON(c); err != nil {
		return body, document, request, err
	}
	if request, err = asked(c); err != nil {
		return body, document, request, err
	}
	document, err = ownMembers(body, &request)
	return body, document, request, err
}

// Holdpoint's own members of a proposal.
const (
	wantTokenMember = "want_token"
	separateMember  = "separate"
)

// ownMembers takes Holdpoint's own members out of a proposal: no dialect's reader
// sees them.
func ownMembers(body canon.Value, r *gate.Request) (canon.Value, error) {
	some := false
	for name := range body.All() {
		some = some || name == wantTokenMember || name == separateMember
	}
	if !some {
		return body, nil // as nearly always
	}
	own := map[string]*bool{wantTokenMember: &r.WantToken, separateMember: &r.Separate}
	var rest []canon.Member
	for _, m := range body.Members() {
		into, ours := own[m.Name]
		switch {
		case !ours:
			rest = append(rest, m)
		case m.Value.Kind() != canon.BoolKind:
			return body, &failure{
				Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: m.Name + " has to be true or false.",
				Fields: []FieldError{{Path: "/" + m.Name, Message: "has to be true or false"}},
			}
		default:
			*into = *into || m.Value.Bool()
		}
	}
	return canon.Object(rest...), nil
}

// withToken gives the answer to an accepted call its token. The answer that is
// kept for a repetition has none: a token is signed whenever its agent asks.
func (a *API) withToken(c *call, reply access.Reply) (access.Reply, error) {
	var answer map[string]json.RawMessage
	var opened struct {
		Approval struct {
			ID string `json:"id"`
		} `json:"approval"`
	}
	if reply.Status != http.StatusOK || json.Unmarshal(reply.Body, &answer) != nil || json.Unmarshal(reply.Body, &opened) != nil || opened.Approval.ID == "" {
		return reply, nil
	}
	v, err := a.Gate.Accepted(c.r.Context(), c.principal, opened.Approval.ID)
	if err != nil {
		return reply, err
	}
	if answer["approval"], err = json.Marshal(a.wire(c.principal, v)); err != nil {
		return reply, err
	}
	reply.Body, err = json.Marshal(answer)
	return reply, err
}

// waiting is the approval of a call that waits, on the wire; nil for nil.
func (a *API) waiting(c *call, opened *approval.Approval) *Approval {
	if opened == nil {
		return nil
	}
	wire := a.wire(c.principal, gate.View{Approval: *opened})
	return &wire
}

// decidedReply answers a proposed call: 200 when it was decided at once, 202
// when it waits.
func decidedReply(answer any, waiting *Approval) (access.Reply, error) {
	if waiting == nil || waiting.Status.Terminal() || len(waiting.Requirements) == 0 {
		return jsonReply(http.StatusOK, answer, nil)
	}
	return jsonReply(http.StatusAccepted, answer, map[string]string{"Location": waiting.Links.Self, "Retry-After": retrySoon})
}

func (a *API) decided(dialect string, route engine.Route, started time.Time) {
	a.Metrics.decisions.WithLabelValues(dialect, route.String()).Inc()
	a.Metrics.decisionSeconds.Observe(time.Since(started).Seconds())
}
