package web

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// registerActions adds what people do on a card beside voting.
func (c *Console) registerActions(mux *http.ServeMux) {
	mux.HandleFunc("GET /approvals/{id}/answer", c.site.signedIn(c.supplyForm))
	mux.HandleFunc("POST /approvals/{id}/answer", c.site.signedIn(c.supply))
	for path, act := range map[string]action{
		"comments": {"commented", func(ctx context.Context, s gate.Said, _ url.Values) error {
			_, err := c.cfg.Desk.Comment(ctx, s, nil)
			return err
		}},
		"questions": {"asked", func(ctx context.Context, s gate.Said, _ url.Values) error {
			_, err := c.cfg.Desk.Ask(ctx, s, nil)
			return err
		}},
		"information": {"informed", func(ctx context.Context, s gate.Said, _ url.Values) error {
			_, err := c.cfg.Desk.InformInPerson(ctx, s, nil)
			return err
		}},
		"claim": {"claimed", func(ctx context.Context, s gate.Said, _ url.Values) error {
			_, err := c.cfg.Desk.Claim(ctx, s, nil)
			return err
		}},
		"unclaim": {"unclaimed", func(ctx context.Context, s gate.Said, _ url.Values) error {
			_, err := c.cfg.Desk.Unclaim(ctx, s, nil)
			return err
		}},
		"extension":      {"extended", c.extend},
		"ticket":         {"ticket", c.attachTicket},
		"break-glass":    {"broken", c.breakGlass},
		"reconciliation": {"reconciled", c.reconcile},
		"afterwards":     {"reviewed", c.reviewAfterwards},
	} {
		mux.HandleFunc("POST /approvals/{id}/"+path, c.site.signedIn(c.acting(act)))
	}
	mux.HandleFunc("POST /approvals/{id}/step-up", c.site.signedIn(c.stepUp))
	mux.HandleFunc("GET /approvals/{id}/edit", c.site.signedIn(c.editForm))
	mux.HandleFunc("POST /approvals/{id}/edit", c.site.signedIn(c.edit))
	mux.HandleFunc("GET /sessions/{agent}/{session}", c.site.signedIn(c.session))
	mux.HandleFunc("POST /sessions/{agent}/{session}/votes", c.site.signedIn(c.voteTogether))
}

// action is something that a form on the card does: what it says when it is done,
// and how it is done.
type action struct {
	done string
	do   func(context.Context, gate.Said, url.Values) error
}

// acting is the handler of an action: it leads back to the card.
func (c *Console) acting(a action) handler {
	return func(w http.ResponseWriter, r *http.Request, p engine.Person) {
		if err := readForm(w, r); err != nil {
			c.site.fail(w, r, p, err)
			return
		}
		s := said(r, p)
		if err := a.do(r.Context(), s, r.PostForm); err != nil {
			c.site.failKeeping(w, r, p, err, s.Comment)
			return
		}
		c.site.redirectWithFlash(w, r, a.done, cardURL(s.ApprovalID))
	}
}

// said is what a form on the card says, by the person of the session.
func said(r *http.Request, p engine.Person) gate.Said {
	return gate.Said{
		Person: p, ApprovalID: r.PathValue("id"), Comment: strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get("comment"), "\r\n", "\n")),
		RequestID: "web_" + rand.Text(), Channel: "console",
	}
}

// extensions are by how much somebody can lengthen an approval's time.
var extensions = []views.Option{{Value: "1h", Label: "1 hour"}, {Value: "4h", Label: "4 hours"}, {Value: "24h", Label: "1 day"}}

func (c *Console) extend(ctx context.Context, s gate.Said, form url.Values) error {
	if !slices.ContainsFunc(extensions, func(o views.Option) bool { return o.Value == form.Get("by") }) {
		return invalid("incomplete_form", "Choose how much more time it gets.")
	}
	by, err := time.ParseDuration(form.Get("by"))
	if err != nil {
		return invalid("incomplete_form", "Choose how much more time it gets.")
	}
	_, err = c.cfg.Desk.Extend(ctx, s, by, nil)
	return err
}

func (c *Console) attachTicket(ctx context.Context, s gate.Said, form url.Values) error {
	ref, system := strings.TrimSpace(form.Get("ref")), strings.TrimSpace(form.Get("system"))
	if ref == "" || len(ref) > 500 || len(system) > 100 {
		return invalid("incomplete_form", "Name the ticket: its number, or its address.")
	}
	_, err := c.cfg.Desk.AttachTicketInPerson(ctx, s, system, ref, nil)
	return err
}

// pageOf is the digest and the version of the card that a form was on.
func pageOf(form url.Values) (digest string, version int, err error) {
	digest = form.Get("digest")
	if version, err = strconv.Atoi(form.Get("version")); err != nil || digest == "" {
		return "", 0, invalid("incomplete_form", "The form did not say which version of the card it was about. Open the card again.")
	}
	return digest, version, nil
}

func (c *Console) breakGlass(ctx context.Context, s gate.Said, form url.Values) error {
	digest, version, err := pageOf(form)
	if err != nil {
		return err
	}
	alone := form.Get("how") == "alone"
	if !alone && form.Get("how") != "two" {
		return invalid("incomplete_form", "Say whether a second person does the same, or you do it alone.")
	}
	_, err = c.cfg.Desk.BreakGlass(ctx, s, alone, digest, version, nil)
	return err
}

func (c *Console) reconcile(ctx context.Context, s gate.Said, form url.Values) error {
	_, err := c.cfg.Desk.Reconcile(ctx, s, approval.Execution(form.Get("outcome")), nil)
	return err
}

func (c *Console) reviewAfterwards(ctx context.Context, s gate.Said, form url.Values) error {
	justified := form.Get("justified") == "yes"
	if !justified && form.Get("justified") != "no" {
		return invalid("incomplete_form", "Say whether it was justified.")
	}
	_, err := c.cfg.Desk.ReviewAfterwards(ctx, s, justified, nil)
	return err
}

// boundTo is what a proof for an approval is bound to: this very call.
func boundTo(id, digest string) string { return id + "/" + digest }

// stepUpForm fills in how the person can prove who they are.
func (c *Console) stepUpForm(r *http.Request, p engine.Person, f *views.StepUp) error {
	if c.cfg.Prover == nil {
		return nil
	}
	methods, err := c.cfg.Prover.Methods(r.Context(), p)
	f.Code, f.Passkey = slices.Contains(methods, "totp"), slices.Contains(methods, "passkey")
	return err
}

// stepUp takes the accountable person's proof for this very call, or their no.
func (c *Console) stepUp(w http.ResponseWriter, r *http.Request, p engine.Person) {
	if err := readForm(w, r); err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	s, form := said(r, p), r.PostForm
	s.Comment = ""
	digest, version, err := pageOf(form)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	done, method, yes := "declined", "", form.Get("want") == "yes"
	switch {
	case yes:
		if c.cfg.Prover == nil {
			c.site.fail(w, r, p, &gate.Refusal{Status: http.StatusForbidden, Code: "no_second_factor", Detail: "Nobody can prove here who they are."})
			return
		}
		if err = c.cfg.Desk.MayStepUp(r.Context(), s, digest, version); err != nil {
			c.site.fail(w, r, p, err)
			return
		}
		method, err = c.cfg.Prover.Verify(r.Context(), p, identity.ForApproval, boundTo(s.ApprovalID, digest), proofOf(form))
		var refusal *gate.Refusal
		if errors.As(err, &refusal) {
			retryAfter(w, refusal)
			c.showApproval(w, r, p, gate.Page, refusal.Status, refusal.Detail)
			return
		}
		done = "proved"
	case form.Get("want") != "no":
		err = invalid("incomplete_form", "The form said neither yes nor no.")
	}
	if err == nil {
		_, err = c.cfg.Desk.StepUp(r.Context(), s, method, yes, digest, version, nil)
	}
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	c.site.redirectWithFlash(w, r, done, cardURL(s.ApprovalID))
}
