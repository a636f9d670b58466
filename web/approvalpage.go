package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// Cards is everything that a reviewer needs to decide. Errors are as Inbox's are.
type Cards interface {
	// Card returns a call's card, and records when the look at it shows the person
	// all of the arguments.
	Card(ctx context.Context, p engine.Person, id string, look gate.Display) (gate.Card, error)
	// Show records that the person is about to be shown cards with all of their
	// arguments. Nothing is shown when it fails.
	Show(ctx context.Context, p engine.Person, channel string, cards ...gate.SeenCard) error
	// RuleTrace says which rules met the call of a card that the person has read; nil where
	// that is not for them to know.
	RuleTrace(ctx context.Context, p engine.Person, c gate.Card) (*gate.RuleTrace, error)
}

// Requirements takes what discharges a requirement, beside votes. The console keeps
// no answer for repetitions: once is nil. Errors are as Inbox's are.
type Requirements interface {
	// MayStepUp refuses, before a code is spent on it, what StepUp would refuse.
	MayStepUp(ctx context.Context, s gate.Contribution, digest string, version int) error
	// StepUp records that the accountable person has just proved, by the method, who
	// they are; or, without yes, that they do not want the call.
	StepUp(ctx context.Context, s gate.Contribution, method string, yes bool, digest string, version int, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	// AnswerInPerson supplies what the call asks for.
	AnswerInPerson(ctx context.Context, s gate.Contribution, values canon.Value, digest string, version int, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	AttachTicketInPerson(ctx context.Context, s gate.Contribution, system, ref string, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
}

// cardHandler serves the page of one approval, and the proof of identity on it.
type cardHandler struct {
	site         *site
	cards        Cards
	inbox        Inbox
	requirements Requirements
	prover       Prover            // nil when nobody can give a proof
	factors      *identity.Factors // nil when nobody can have any
}

func (h *cardHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /approvals/{id}", h.site.signedIn(h.show))
	mux.HandleFunc("GET /approvals/{id}/arguments", h.site.signedIn(h.exact))
	for form, has := range offered {
		mux.HandleFunc("GET /approvals/{id}/"+form, h.site.signedIn(h.form(form, has)))
	}
	mux.HandleFunc("POST /approvals/{id}/reveal", h.site.takesForm(h.reveal))
	mux.HandleFunc("POST /approvals/{id}/step-up", h.site.takesForm(h.proveIdentity))
}

func (h *cardHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := refusePrefetch(r); err != nil {
		return err
	}
	look := viewingOf(r)
	if look == gate.Excerpt && r.URL.Query().Get("full") == "1" {
		look = gate.Full
	}
	return h.render(w, r, p, look, http.StatusOK, remarks{})
}

// reveal shows the card with what looks like a secret. It is on record before it is sent.
func (h *cardHandler) reveal(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.render(w, r, p, gate.Revealed, http.StatusOK, remarks{})
}

// exact sends the exact arguments, to those who have been shown them.
func (h *cardHandler) exact(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	found, err := h.cards.Card(r.Context(), p, r.PathValue("id"), gate.Unrecorded)
	if err == nil {
		err = requireShown(found)
	}
	if err == nil && found.Arguments == nil {
		err = &access.Refusal{Kind: access.Conflict, Code: "erased", Detail: "The arguments have been erased."}
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="arguments-`+found.Approval.ID+`.json"`)
	_, err = w.Write(found.Arguments)
	return err
}

// remarks are what to say of a form that was not taken just now: of a proof that was
// none, and of a vote.
type remarks struct {
	proof, vote string
	about       *gate.VoteRequest // the vote, which was on this card as it is; nil for none
}

// render shows the card.
func (h *cardHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, look gate.Display, status int, say remarks) error {
	found, err := h.cards.Card(r.Context(), p, r.PathValue("id"), look)
	if err == nil && say.about != nil && !isAbout(*say.about, found) {
		err = errChanged
	}
	if err != nil {
		return err
	}
	kills := h.site.killsOn(found.Approval.Call.AgentID) // before the card is made: what is turned meanwhile is news
	v := card(found, p, look, h.site.stopped(found.Approval.Call.AgentID))
	if k, on := h.site.inForce().Registered.Kills[found.Approval.Call.AgentID]; on && !over(found.Approval) {
		v.AgentStopped = views.Kill{On: true, Reason: k.Reason, At: k.At}
	}
	signedHere(&v.Decide, passkeysElsewhere(h.factors, r))
	// What is evidence is rendered once: these bytes are hashed, kept and sent.
	if v.Seen, err = views.RenderCard(r.Context(), shownCard(found).Open(), v, audit.CardEnd); err != nil {
		return err
	}
	if look != gate.Unrecorded && found.Arguments != nil && !v.Secrets.Hidden && !v.Arguments.Cut() {
		if err := h.cards.Show(r.Context(), p, "console", gate.SeenCard{Approval: found.Approval, Card: []byte(v.Seen), Revealed: look == gate.Revealed && found.Masked != nil}); err != nil {
			return err
		}
	}
	if found.Shown && found.Arguments != nil && !v.Secrets.Hidden {
		v.Arguments.ExactURL = cardURL(v.ID) + "/arguments"
	}
	if v.Tasks.StepUp != nil {
		if err := h.stepUpForm(r, p, v.Tasks.StepUp); err != nil {
			return err
		}
		v.Tasks.StepUp.Failure = say.proof
	}
	if err := h.decisionForm(r, p, &v, say.vote); err != nil {
		return err
	}
	if len(v.Actions.Snooze) > 0 {
		if v.Actions.SnoozedUntil, err = h.inbox.Snoozed(r.Context(), p, v.ID); err != nil {
			h.site.logger.WarnContext(r.Context(), "snooze not read", "approval", v.ID, "error", err)
		}
	}
	v.Rules = h.site.rules(r, h.cards, p, found)
	if access.MayReadRules(p) {
		v.EvidenceURL = "/v1/audit/evidence?approval_id=" + url.QueryEscape(found.Approval.ID)
	}
	v.Frame = h.site.frame(p, v.Status.Word+": "+views.Visible(v.Tool), "")
	if !found.Now.IsZero() {
		v.Now = found.Now
	}
	if status == http.StatusOK {
		v.Notice = h.site.flash(w, r)
	}
	if v.Voted = v.Notice != "" && v.Notice == doneWords["voted"]; v.Voted {
		v.Notice, v.Next = "", h.next(r, p, v.ID)
	}
	if a := found.Approval; !final(a) || v.FollowUp.AwaitsReview {
		v.Live = "/approvals/" + url.PathEscape(a.ID) + "/live?seen=" + cardMark(a, kills)
		v.Refresh = v.Status.Code == "settling"
	}
	return h.site.render(w, r, status, views.ApprovalPage(v))
}

// cardMark names what an open card shows that may change.
func cardMark(a approval.Approval, kills string) string {
	return strconv.FormatInt(a.Revision, 10) + kills
}

// rules tells which rules met the call. That they cannot be read keeps nobody from the card.
func (s *site) rules(r *http.Request, cards Cards, p engine.Person, c gate.Card) *views.RuleTrace {
	t, err := cards.RuleTrace(r.Context(), p, c)
	if err != nil {
		s.logger.WarnContext(r.Context(), "rules of a card not read", "approval", c.Approval.ID, "error", err)
		return nil
	}
	return ruleTrace(t)
}

// shownCard says which card somebody is shown.
func shownCard(c gate.Card) audit.Card {
	return audit.Card{ApprovalID: c.Approval.ID, Edition: c.Approval.Plan.Edition, CallDigest: c.Approval.Call.Digest, Salt: c.Salt}
}

// viewingOf says how much of the card the answer to a request shows: nothing, when it
// is a HEAD, which has no body.
func viewingOf(r *http.Request) gate.Display {
	if r.Method == http.MethodHead {
		return gate.Unrecorded
	}
	return gate.Excerpt
}

// refusePrefetch refuses a GET whose answer may be on somebody's screen later, or
// never: what is sent of a card is on record as shown, and what is not on record is
// not sent.
func refusePrefetch(r *http.Request) error {
	if r.Method != http.MethodGet || onScreen(r) {
		return nil
	}
	return &access.Refusal{Kind: access.Unavailable, Code: "not_on_screen", Detail: "Cards are sent to a page that is being opened, and not ahead of it."}
}

// onScreen reports whether a GET may count as showing a page to somebody: it is
// no HEAD, no prefetch, and, where the browser says so, a page being opened or
// our own script looking again.
func onScreen(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if v := strings.ToLower(r.Header.Get(name)); strings.Contains(v, "prefetch") || strings.Contains(v, "preview") {
			return false
		}
	}
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "", "document":
		return true
	case "empty":
		return r.Header.Get("Sec-Fetch-Site") == "same-origin"
	}
	return false
}

// next is what waits for the person beside the call that they have just voted on; nil
// for nothing. Without it there is still the inbox, so that an outage of it is none of
// the card.
func (h *cardHandler) next(r *http.Request, p engine.Person, voted string) *views.NextCall {
	page, err := h.inbox.Inbox(r.Context(), p, gate.InboxSearch{Limit: 2})
	if err != nil {
		h.site.logger.WarnContext(r.Context(), "next call not found", "error", err)
		return nil
	}
	for _, row := range page.Rows {
		if row.ID != voted {
			name := h.site.names(r.Context(), row.Call.AgentID)
			return &views.NextCall{URL: cardURL(row.ID), Agent: name(row.Call.AgentID), Tool: calledTool(row.Call.Tool), Waiting: page.All}
		}
	}
	return nil
}

// decisionForm fills in what the person has written, the proof that goes with the vote,
// and why the one just now was not taken.
func (h *cardHandler) decisionForm(r *http.Request, p engine.Person, v *views.Approval, failure string) error {
	v.Drafts = h.site.draftsOf(r, p, v.ID)
	if v.Decide.Failure = failure; failure != "" {
		v.Drafts = v.Drafts.With("votes", draftOf("votes", "", r.PostForm))
	}
	if v.Decide.Verify == "" || h.prover == nil {
		return nil
	}
	methods, err := h.prover.Methods(r.Context(), p)
	if err != nil {
		return err
	}
	f := verifyForm(h.factors, r, methods, identity.ForSession)
	f.Focus = failure != ""
	if v.Decide.Sign {
		f.Passkey, f.Optional = false, true // the passkey is asked to sign
	}
	if f.Code || f.Password || f.Passkey {
		v.Decide.Prove = &f
	}
	return nil
}

// stepUpForm fills in how the person can prove who they are.
func (h *cardHandler) stepUpForm(r *http.Request, p engine.Person, f *views.StepUp) error {
	if h.prover == nil {
		return nil
	}
	methods, err := h.prover.Methods(r.Context(), p)
	f.Code, f.Passkey = slices.Contains(methods, "totp"), slices.Contains(methods, "passkey")
	return err
}

// proveIdentity takes the accountable person's proof for this very call, or their no.
func (h *cardHandler) proveIdentity(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	s, form := contributionOf(r, p), r.PostForm
	s.Comment = ""
	digest, version, err := cardVersion(form)
	if err != nil {
		return err
	}
	done, method, yes := "declined", "", form.Get("want") == "yes"
	switch {
	case yes:
		if h.prover == nil {
			return &access.Refusal{Kind: access.Forbidden, Code: "no_second_factor", Detail: "Nobody can prove here who they are."}
		}
		if err = h.requirements.MayStepUp(r.Context(), s, digest, version); err != nil {
			return err
		}
		method, err = h.prover.Verify(r.Context(), p, identity.ForApproval, proofBinding(s.ApprovalID, digest), proofOf(form))
		var refusal *access.Refusal
		if errors.As(err, &refusal) {
			retryAfter(w, refusal)
			return h.render(w, r, p, gate.Excerpt, httpstatus.Of(refusal.Kind), remarks{proof: refusal.Detail})
		}
		done = "proved"
	case form.Get("want") != "no":
		err = invalid("incomplete_form", "The form said neither yes nor no.")
	}
	if err == nil {
		_, err = h.requirements.StepUp(r.Context(), s, method, yes, digest, version, nil)
	}
	return h.site.redirectOrFail(w, r, err, done, cardURL(s.ApprovalID))
}

// proofBinding is what a proof for an approval is bound to: this very call.
func proofBinding(id, digest string) string { return id + "/" + digest }

// cardVersion is the digest and the version of the card that a form was on.
func cardVersion(form url.Values) (digest string, version int, err error) {
	digest = form.Get("digest")
	if version, err = strconv.Atoi(form.Get("version")); err != nil || digest == "" {
		return "", 0, invalid("incomplete_form", "The form did not say which version of the card it was about. Open the card again.")
	}
	return digest, version, nil
}

// proofOf is the proof that such a form carries.
func proofOf(form url.Values) identity.Proof {
	return identity.Proof{Code: form.Get("code"), Password: form.Get("password"), Assertion: []byte(form.Get("assertion")), ChallengeID: form.Get("challenge")}
}
