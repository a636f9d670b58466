package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// Office is what the console needs to administer; *gate.Registrar is one. Every
// change is on record with who made it. Errors are as Desk's are.
type Office interface {
	// Registry is everything that is registered, read now.
	Registry(ctx context.Context) (*registry.Snapshot, error)
	RegisterAgent(ctx context.Context, by gate.By, a registry.Agent, once *gate.Once) error
	RevokeAgent(ctx context.Context, by gate.By, id string, revoke bool, once *gate.Once) error
	RegisterTool(ctx context.Context, by gate.By, t registry.Tool, once *gate.Once) error
	RevokeTool(ctx context.Context, by gate.By, name string, revoke bool, once *gate.Once) error
	PutSettings(ctx context.Context, by gate.By, s registry.Settings, once *gate.Once) error
	// Throw and Release turn the kill switch of an agent, or of all for "".
	Throw(ctx context.Context, by gate.By, agentID, reason string, once *gate.Once) error
	Release(ctx context.Context, by gate.By, agentID string, once *gate.Once) error
}

// InForce is what this process judges by at this moment.
type InForce struct {
	// Digest is what events name as policy_digest.
	Digest string
	// Policy and Contracts are nil when there are none; the files are as their
	// authors wrote them.
	Policy        *policy.Bundle
	PolicyFile    []byte
	Contracts     *safeai.Set
	ContractsFile []byte
	// Problem is why the last import changed nothing, one mistake a line, or "".
	Problem string
	// Registered is what is registered, as it was last read. It is never nil.
	Registered *registry.Snapshot
}

// registerOffice adds the pages for auditors and administrators.
func (c *Console) registerOffice(mux *http.ServeMux) {
	reads, administers := c.site.onlyFor(gate.MayReadRules, "auditors and administrators"), c.site.onlyFor(gate.MayAdminister, "administrators")
	mux.HandleFunc("GET /policies", reads(c.policies))
	mux.HandleFunc("POST /policies", reads(c.tryCall))
	mux.HandleFunc("GET /agents", reads(c.agents))
	mux.HandleFunc("GET /agents/{id}", reads(c.agent))
	mux.HandleFunc("POST /agents/{id}", administers(c.changeAgent))
	mux.HandleFunc("POST /agents/{id}/registration", administers(c.revokeAgent))
	mux.HandleFunc("POST /agents/{id}/kill-switch", administers(c.switchAgent))
	mux.HandleFunc("GET /admin", administers(c.admin))
	mux.HandleFunc("POST /admin/kill-switch", administers(c.switchAll))
	mux.HandleFunc("POST /admin/settings", administers(c.changeSettings))
	mux.HandleFunc("GET /admin/tool", administers(c.tool))
	mux.HandleFunc("POST /admin/tool", administers(c.changeTool))
	mux.HandleFunc("POST /admin/tool/registration", administers(c.revokeTool))
}

// by is the person as the one who administers, under a request id of its own.
func by(p engine.Person) gate.By { return gate.PersonAdministers(p, "console", "web_"+rand.Text()) }

// seen names a registered value, so that a form that was made of an older one
// can be told.
func seen(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:12])
}

// switchForm reads a form that turns a kill switch. A switch is thrown with a
// reason, and turned either way only with an explicit second step.
func switchForm(form url.Values, confirm string) (throw bool, reason, failure string) {
	throw = form.Get("switch") == "throw"
	reason = strings.TrimSpace(form.Get("reason"))
	switch {
	case !throw && form.Get("switch") != "release":
		return throw, reason, "The form said neither throw nor release."
	case !strings.EqualFold(strings.TrimSpace(form.Get("confirm")), confirm):
		return throw, reason, "Nothing was switched: the confirmation is missing."
	case throw && reason == "":
		return throw, reason, "Nothing was switched: give a reason, for whoever finds everything refused."
	}
	return throw, reason, ""
}

// turn throws or releases a kill switch.
func (c *Console) turn(ctx context.Context, p engine.Person, agentID, reason string, throw bool) error {
	if throw {
		return c.cfg.Office.Throw(ctx, by(p), agentID, reason, nil)
	}
	return c.cfg.Office.Release(ctx, by(p), agentID, nil)
}

func kill(k registry.Kill, name func(string) string) views.Kill {
	who := name(k.By)
	if who == "" {
		who = "the command line"
	}
	return views.Kill{On: true, AgentID: k.AgentID, Reason: k.Reason, By: who, At: k.At}
}

// brief writes a duration without the parts that are zero: "15m", "1h30m".
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
