package web

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// Contributions is what people contribute to a waiting approval beside decisions.
// The console keeps no answer for repetitions: once is nil. Errors are as Inbox's are.
type Contributions interface {
	Comment(ctx context.Context, s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	// Ask asks the requesting side, and InformInPerson answers for it.
	Ask(ctx context.Context, s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	InformInPerson(ctx context.Context, s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	Claim(ctx context.Context, s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	Unclaim(ctx context.Context, s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	// PassOn claims it for a colleague, by id or e-mail address.
	PassOn(ctx context.Context, s gate.Contribution, to string, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	// WithdrawInPerson takes back a change of the rules.
	WithdrawInPerson(ctx context.Context, s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	Extend(ctx context.Context, s gate.Contribution, by time.Duration, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
}

// contributionHandler takes comments, questions, claims, more time and tickets.
type contributionHandler struct {
	site          *site
	contributions Contributions
	requirements  Requirements
}

func (h *contributionHandler) register(mux *http.ServeMux) {
	for path, form := range map[string]struct {
		flash string
		take  contribution
	}{
		"comments":    {"commented", plain(h.contributions.Comment)},
		"questions":   {"asked", plain(h.contributions.Ask)},
		"information": {"informed", plain(h.contributions.InformInPerson)},
		"claim":       {"claimed", plain(h.contributions.Claim)},
		"unclaim":     {"unclaimed", plain(h.contributions.Unclaim)},
		"withdraw":    {"withdrawn", plain(h.contributions.WithdrawInPerson)},
		"pass-on":     {"passed-on", h.passOn},
		"extension":   {"extended", h.extend},
		"ticket":      {"ticket", h.attachTicket},
	} {
		mux.HandleFunc("POST /approvals/{id}/"+path, h.site.contribute(form.flash, form.take))
	}
}

// contribution takes what a form on the card says.
type contribution func(context.Context, gate.Contribution, url.Values) error

// plain is a contribution that is nothing but its comment.
func plain(take func(context.Context, gate.Contribution, *access.Idempotency[approval.Approval]) (approval.Approval, error)) contribution {
	return func(ctx context.Context, s gate.Contribution, _ url.Values) error {
		_, err := take(ctx, s, nil)
		return err
	}
}

// contribute takes a contribution of the signed-in person, and leads back to the
// card.
func (s *site) contribute(flash string, take contribution) http.HandlerFunc {
	return s.takesForm(func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		c := contributionOf(r, p)
		if err := take(r.Context(), c, r.PostForm); err != nil {
			return keeping(err, c.Comment)
		}
		s.redirectWithFlash(w, r, flash, cardURL(c.ApprovalID))
		return nil
	})
}

// contributionOf is what a form on the card says, by the person of the session.
func contributionOf(r *http.Request, p engine.Person) gate.Contribution {
	return gate.Contribution{
		Person: p, ApprovalID: r.PathValue("id"), Comment: strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get("comment"), "\r\n", "\n")),
		RequestID: "web_" + rand.Text(), Channel: "console",
	}
}

// extensions are by how much somebody can lengthen an approval's time.
var extensions = []views.Option{{Value: "1h", Label: "1 hour"}, {Value: "4h", Label: "4 hours"}, {Value: "24h", Label: "1 day"}}

func (h *contributionHandler) extend(ctx context.Context, s gate.Contribution, form url.Values) error {
	if !slices.ContainsFunc(extensions, func(o views.Option) bool { return o.Value == form.Get("by") }) {
		return invalid("incomplete_form", "Choose how much more time it gets.")
	}
	by, err := time.ParseDuration(form.Get("by"))
	if err != nil {
		return invalid("incomplete_form", "Choose how much more time it gets.")
	}
	_, err = h.contributions.Extend(ctx, s, by, nil)
	return err
}

func (h *contributionHandler) passOn(ctx context.Context, s gate.Contribution, form url.Values) error {
	to := strings.TrimSpace(form.Get("to"))
	if to == "" || len(to) > 254 {
		return invalid("incomplete_form", "Choose the colleague whom you pass it on to.")
	}
	_, err := h.contributions.PassOn(ctx, s, to, nil)
	return err
}

func (h *contributionHandler) attachTicket(ctx context.Context, s gate.Contribution, form url.Values) error {
	ref, system := strings.TrimSpace(form.Get("ref")), strings.TrimSpace(form.Get("system"))
	if ref == "" || len(ref) > 500 || len(system) > 100 {
		return invalid("incomplete_form", "Name the ticket: its number, or its address.")
	}
	_, err := h.requirements.AttachTicketInPerson(ctx, s, system, ref, nil)
	return err
}

func (h *voteHandler) breakGlass(ctx context.Context, s gate.Contribution, form url.Values) error {
	s, alone, digest, version, err := readBreakGlass(s, form)
	if err == nil {
		_, err = h.votes.BreakGlass(ctx, s, alone, digest, version, nil)
	}
	return err
}

// readBreakGlass reads the form that breaks the glass.
func readBreakGlass(s gate.Contribution, form url.Values) (_ gate.Contribution, alone bool, digest string, version int, err error) {
	if digest, version, err = cardVersion(form); err != nil {
		return s, false, "", 0, err
	}
	alone, s.Signed = form.Get("how") == "alone", signatureOf(form)
	if !alone && form.Get("how") != "two" {
		return s, false, "", 0, invalid("incomplete_form", "Say whether a second person does the same, or you do it alone.")
	}
	return s, alone, digest, version, nil
}
