package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/policy"
	"holdpoint/engine/registry"
	"holdpoint/engine/toolcontract"
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
	Contracts     *toolcontract.Set
	ContractsFile []byte
	// Problem is why the last import changed nothing, one mistake a line, or "".
	Problem string
	// Registered is what is registered, as it was last read. It is never nil.
	Registered *registry.Snapshot
}

// registerOffice adds the pages for auditors and administrators.
func (c *Console) registerOffice(mux *http.ServeMux) {
	reads, administers := c.only(gate.MayReadRules, "auditors and administrators"), c.only(gate.MayAdminister, "administrators")
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

type handler = func(http.ResponseWriter, *http.Request, engine.Person)

// only lets through whom may says, asked anew at every request.
func (c *Console) only(may func(engine.Person) bool, whom string) func(handler) http.HandlerFunc {
	return func(h handler) http.HandlerFunc {
		return c.signed(func(w http.ResponseWriter, r *http.Request, p engine.Person) {
			if !may(p) {
				c.fail(w, r, p, &gate.Refusal{Status: http.StatusForbidden, Code: notOpen, Detail: "This page is for " + whom + ". " + standing(p)})
				return
			}
			if unsafe(r.Method) {
				if err := readForm(w, r); err != nil {
					c.fail(w, r, p, err)
					return
				}
			}
			h(w, r, p)
		})
	}
}

// notOpen is the code of a refusal to show a page.
const notOpen = "not_open"

func standing(p engine.Person) string {
	if len(p.Roles) == 0 {
		return "Your account has no roles."
	}
	return "Your account has " + plainWord(len(p.Roles), "the role ", "the roles ") + views.Visible(list(p.Roles)) + "."
}

func plainWord(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// by is the person as the one who administers, under a request id of its own.
func by(p engine.Person) gate.By { return gate.PersonAdministers(p, "console", "web_"+rand.Text()) }

// doneCookie carries the one sentence that the next page says. It names the
// sentence and does not hold it, so that nobody else can put words there.
const doneCookie = "holdpoint_done"

var doneWords = map[string]string{
	"held":        "The hold was placed. What it covers is kept until it is released.",
	"unheld":      "The hold was released.",
	"grant":       "The standing grant was made. It votes for calls that are proposed from now on.",
	"ungrant":     "The standing grant was revoked. It votes for nothing any more.",
	"agent":       "The agent's registration was changed. It holds from the next call on.",
	"revoked":     "The agent's registration was revoked. Its calls are refused now.",
	"restored":    "The agent's registration was restored.",
	"stopped":     "The agent's kill switch is on. Nothing is granted to it any more.",
	"released":    "The agent's kill switch is off. Its calls are judged again.",
	"allstop":     "The kill switch for all agents is on. No gate grants anything any more.",
	"allgo":       "The kill switch for all agents is off. Calls are judged again.",
	"settings":    "The settings for all agents were changed.",
	"tool":        "The tool's registration was changed.",
	"toolgone":    "The tool's registration was revoked. Calls of it are refused now.",
	"toolback":    "The tool's registration was restored.",
	"passkey":     "The passkey was added. You need it, or another second factor, to sign in from now on.",
	"renamed":     "The passkey was renamed.",
	"keygone":     "The passkey was removed.",
	"totp":        "The authenticator app was added. You need it, or another second factor, to sign in from now on.",
	"totpgone":    "The authenticator app was removed.",
	"away":        "The deputy decides for that time. You both find it on this page.",
	"back":        "The delegation was revoked. It is over now; what the deputy has decided stays decided.",
	"endpoint":    "The endpoint was added. Send it a test.",
	"endpointoff": "The endpoint was switched off. Nothing is sent there any more.",
	"endpointon":  "The endpoint was switched on.",
	"tested":      "A test is on its way. It counts as sent once the other side has it.",
	"rotated":     "The endpoint's address was changed.",
	"resent":      "The notification is sent again.",
	"commented":   "Your comment is on the card.",
	"asked":       "Your question was asked. The requesting side is told.",
	"answered":    "What you supplied is on record. The call goes on.",
	"informed":    "Your answer is on the card. The reviewers are told.",
	"claimed":     "You have taken this on for half an hour. Others can still decide it.",
	"unclaimed":   "You have given it back.",
	"extended":    "It has more time now.",
	"ticket":      "The ticket is attached. Its tracker is being asked.",
	"edited":      "The arguments were changed. Somebody else has to approve them.",
	"proved":      "You have proved who you are. The call goes on.",
	"declined":    "The call will not run, because you do not want it.",
	"broken":      "You have broken the glass. Everybody concerned is told.",
	"reconciled":  "What became of the call is on record.",
	"reviewed":    "What you say of it is on record.",
}

// done leads on after a change, to a page that says what was done.
func (c *Console) done(w http.ResponseWriter, r *http.Request, what, to string) {
	http.SetCookie(w, &http.Cookie{Name: doneCookie, Value: what, Path: "/", MaxAge: 60, HttpOnly: true, Secure: c.cfg.Secure, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// doneWord is what was done just now, said once.
func (c *Console) doneWord(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(doneCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: doneCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: c.cfg.Secure, SameSite: http.SameSiteLaxMode})
	return doneWords[cookie.Value]
}

// refused is a refusal that a form can show beside what was entered; anything
// else is for a page of its own.
func refused(err error) (string, bool) {
	var refusal *gate.Refusal
	if !errors.As(err, &refusal) || refusal.Status != http.StatusUnprocessableEntity {
		return "", false
	}
	return refusal.Detail, true
}

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

var errChanged = &gate.Refusal{
	Status: http.StatusConflict, Code: "changed", Detail: "Somebody has changed this since you opened the page, so nothing was saved. Open it again and look at what is there now.",
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
