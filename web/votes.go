package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// requireShown refuses a form with a call's arguments to who has not been shown its
// card: who has seen what is on record, and the form is not.
func requireShown(c gate.Card) error {
	if c.Shown {
		return nil
	}
	return &access.Refusal{Kind: access.Conflict, Code: notShown, Detail: "Read the call's card first, with all of the arguments: that you were shown them goes on record."}
}

// Votes takes people's decisions. Errors are as Inbox's are.
type Votes interface {
	// Vote records the person's vote and returns where that leaves the approval.
	Vote(ctx context.Context, v gate.VoteRequest, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	// SignVote gives what it takes to have the person's passkey sign that vote, and
	// SignBreakGlass the breaking of the glass.
	SignVote(ctx context.Context, v gate.VoteRequest) (identity.Ceremony, error)
	SignBreakGlass(ctx context.Context, s gate.Contribution, alone bool, digest string, version int) (identity.Ceremony, error)
	BreakGlass(ctx context.Context, s gate.Contribution, alone bool, digest string, version int, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
}

// voteHandler takes votes, and the breaking of the glass.
type voteHandler struct {
	site  *site
	votes Votes
	page  *cardHandler
}

func (h *voteHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("POST /approvals/{id}/votes", h.site.takesForm(h.vote))
	mux.HandleFunc("POST /approvals/{id}/votes/options", h.options(h.signVote))
	mux.HandleFunc("POST /approvals/{id}/break-glass/options", h.options(h.signBreakGlass))
	mux.HandleFunc("POST /approvals/{id}/break-glass", h.site.contribute("broken", h.breakGlass))
}

// vote records what the form says, and leads back to the card. A page's script is
// answered without a page: it could not tell one redirect from another.
func (h *voteHandler) vote(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	request, err := readVote(r, p)
	if err == nil {
		err = h.prove(r, &request)
	}
	if err == nil {
		_, err = h.votes.Vote(r.Context(), request, nil)
	}
	if err != nil {
		return h.showRefusal(w, r, request, err)
	}
	if fromScript(r) {
		h.site.setFlash(w, "voted")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h.site.redirectWithFlash(w, r, "voted", cardURL(request.ApprovalID))
	return nil
}

// prove takes the proof that the form of an approving vote carries: it counts for the
// session, and so for the vote.
func (h *voteHandler) prove(r *http.Request, v *gate.VoteRequest) error {
	form, proof := r.PostForm, proofOf(r.PostForm)
	typed := proof.Code != "" || proof.Password != ""
	if h.page.prover == nil || !v.Approve || form.Get("prove") != "yes" || form.Get("signs") == "yes" && !typed {
		return nil
	}
	v.Signed = identity.Proof{}
	if !typed && len(proof.Assertion) == 0 {
		return &access.Refusal{Kind: access.Forbidden, Code: notVerified, Detail: "Prove who you are to approve this. Nothing was recorded."}
	}
	method, err := h.page.prover.Verify(r.Context(), v.Person, identity.ForSession, "", proof)
	if err == nil {
		err = h.site.sessions.verified(r, v.Person, method)
	}
	if err == nil {
		v.Person, err = h.site.sessions.again(r)
	}
	if errors.Is(err, ErrNoSession) {
		return &access.Refusal{Kind: access.Forbidden, Code: notVerified, Detail: "Your session is over. Sign in again."}
	}
	return err
}

// options gives a browser what it needs to have a passkey sign what the form says.
func (h *voteHandler) options(sign func(r *http.Request, p engine.Person) (identity.Ceremony, error)) http.HandlerFunc {
	return h.site.signedIn(func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		var ceremony identity.Ceremony
		err := readFormBy(w, r, p, maxForm)
		if err == nil {
			ceremony, err = sign(r, p)
		}
		h.site.renderJSON(w, r, ceremony, err)
		return nil
	})
}

func (h *voteHandler) signVote(r *http.Request, p engine.Person) (identity.Ceremony, error) {
	request, err := readVote(r, p)
	if err != nil {
		return identity.Ceremony{}, err
	}
	return h.votes.SignVote(r.Context(), request)
}

func (h *voteHandler) signBreakGlass(r *http.Request, p engine.Person) (identity.Ceremony, error) {
	s, alone, digest, version, err := readBreakGlass(contributionOf(r, p), r.PostForm)
	if err != nil {
		return identity.Ceremony{}, err
	}
	return h.votes.SignBreakGlass(r.Context(), s, alone, digest, version)
}

func cardURL(id string) string { return "/approvals/" + url.PathEscape(id) }

// readVote reads a vote from a form. Only the body counts, never the address.
func readVote(r *http.Request, p engine.Person) (gate.VoteRequest, error) {
	form := r.PostForm
	v := gate.VoteRequest{
		Person: p, ApprovalID: r.PathValue("id"), Comment: form.Get("comment"), Digest: form.Get("digest"),
		RequestID: "web_" + rand.Text(), Channel: "console", Signed: signatureOf(form),
	}
	var err error
	if v.Version, err = strconv.Atoi(form.Get("version")); err != nil || v.Digest == "" {
		return v, invalid("incomplete_form", "The form did not say which version of the card it was about. Open the card again.")
	}
	if len(v.Comment) > gate.MaxComment {
		return v, invalid("comment_too_long", "The comment is longer than "+views.Thousands(gate.MaxComment)+" bytes. Shorten it and vote again.")
	}
	switch form.Get("decision") {
	case "approve":
		v.Approve = true
		return v, readTerms(form, &v)
	case "deny":
		if v.Denial = approval.Denial(form.Get("kind")); !v.Denial.Valid() {
			return v, invalid("incomplete_form", "Choose what kind of no it is.")
		}
		return v, nil
	}
	return v, invalid("incomplete_form", "The form said neither approve nor deny.")
}

// signatureOf is what a passkey has signed of a form; zero for nothing.
func signatureOf(form url.Values) identity.Proof {
	return identity.Proof{Assertion: []byte(form.Get("assertion")), ChallengeID: form.Get("challenge")}
}

// readTerms reads the tighter terms of an approving vote, where there are any.
func readTerms(form url.Values, v *gate.VoteRequest) error {
	if text := strings.TrimSpace(form.Get("constraints")); text != "" {
		v.Constraints = json.RawMessage(text)
		if read, err := canon.Parse(v.Constraints); err != nil || read.Kind() != canon.ObjectKind {
			return invalid("not_tighter", `The constraints are no JSON object, such as {"max_amount": 100}. Nothing was recorded.`)
		}
	}
	if err := readTermFields(form, v); err != nil {
		return err
	}
	if text := strings.TrimSpace(form.Get("valid_minutes")); text != "" {
		minutes, err := strconv.Atoi(text)
		if err != nil || minutes < 1 || minutes > maxValidMinutes {
			return invalid("valid_for", "Say for how many minutes the permission is good: a whole number of 1 or more. Nothing was recorded.")
		}
		v.ValidFor = time.Duration(minutes) * time.Minute
	}
	return nil
}

// maxValidMinutes bounds how long a vote can say that a permission is good.
const maxValidMinutes = 7 * 24 * 60

// showRefusal shows why a vote did not count. When the card has moved on since
// it was shown, the page says how.
func (h *voteHandler) showRefusal(w http.ResponseWriter, r *http.Request, v gate.VoteRequest, err error) error {
	var refusal *access.Refusal
	if !errors.As(err, &refusal) {
		return keeping(err, v.Comment)
	}
	fresh, unread := h.page.cards.Card(r.Context(), v.Person, v.ApprovalID, gate.Unrecorded)
	stale := unread == nil && !isAbout(v, fresh)
	retryAfter(w, refusal)
	switch {
	case stale && votesAgain(refusal):
		// The form of a card that has changed since is not offered again, however it was
		// filled in: its writer has not decided on what the card shows now.
	case votesAgain(refusal):
		if err := h.page.render(w, r, v.Person, gate.Excerpt, httpstatus.Of(refusal.Kind), remarks{vote: refusal.Detail, about: &v}); err == nil {
			return nil
		}
		return keeping(refusal, v.Comment)
	case refusal.Code == notShown || refusal.Kind != access.Conflict && refusal.Kind != access.Expired:
		return keeping(err, v.Comment)
	}
	m := views.Message{
		Frame: h.site.frame(v.Person, "Not recorded", ""), Heading: "Your vote was not recorded",
		Comment: v.Comment, LinkText: "Open the card as it is now", LinkTo: cardURL(v.ApprovalID),
	}
	m.Lines = append(m.Lines, refusal.Detail)
	if unread == nil {
		m.Lines = append(m.Lines, changesSince(v, fresh)...)
	}
	return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.MessagePage(m))
}

// votesAgain reports whether the same form, filled in otherwise, may be taken.
func votesAgain(refusal *access.Refusal) bool {
	return refusal.Kind == access.Invalid || refusal.Kind == access.RateLimited || refusal.Code == notVerified || refusal.Code == "verification_failed"
}

// isAbout reports whether a vote's page showed the card as it is now.
func isAbout(v gate.VoteRequest, c gate.Card) bool {
	return v.Digest == c.Approval.Call.Digest && v.Version == c.Approval.Version
}

// changesSince says what is different about the card since the vote's page.
func changesSince(v gate.VoteRequest, fresh gate.Card) []string {
	var lines []string
	if v.Digest == "" || v.Version == 0 {
		return nil // the form did not say what was shown
	}
	if fresh.Approval.Call.Digest != v.Digest {
		lines = append(lines, "The arguments are not the ones that you were shown.")
	}
	if n := fresh.Approval.Version; n != v.Version {
		lines = append(lines, "The card is at version "+strconv.Itoa(n)+"; you were shown version "+strconv.Itoa(v.Version)+".")
	}
	if over(fresh.Approval) {
		lines = append(lines, "Meanwhile: "+sentence(fresh.Approval, nameIn(fresh.Names)))
	}
	return lines
}
