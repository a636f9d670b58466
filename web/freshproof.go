package web

import (
	"errors"
	"net/http"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// freshProof asks administrators, before a change, who they are, unless they have
// proved it lately.
type freshProof struct {
	site    *site
	factors *identity.Factors
}

// changes is a handler of administrators that changes what takes a fresh proof. Whose
// session has ended meanwhile signs in again.
func (h freshProof) changes(change handler) http.HandlerFunc {
	return h.site.forAdministrators(func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		err := change(w, r, p)
		if errors.Is(err, ErrNoSession) {
			http.Redirect(w, r, signInURL(parent(r)), http.StatusSeeOther)
			return nil
		}
		return err
	})
}

// proof asks who somebody is whose last proof is too long ago; nil for whoever need not
// prove it.
func (h freshProof) proof(r *http.Request, p engine.Person) (*views.VerifyForm, error) {
	err := h.factors.Fresh(r.Context(), p)
	if refusal := (*access.Refusal)(nil); !errors.As(err, &refusal) {
		return nil, err
	}
	methods, err := h.factors.Methods(r.Context(), p)
	if err != nil {
		return nil, err
	}
	f := verifyForm(h.factors, r, methods, identity.ForSession)
	return &f, nil
}

// prove lets through whoever has proved lately who they are, or does with this form.
func (h freshProof) prove(r *http.Request, p engine.Person) error {
	err, proof := h.factors.Fresh(r.Context(), p), proofOf(r.PostForm)
	if refusal := (*access.Refusal)(nil); !errors.As(err, &refusal) || proof.Code+proof.Password == "" && !proof.Given() {
		return err
	}
	method, err := h.factors.Verify(r.Context(), p, identity.ForSession, "", proof)
	if err != nil {
		return err
	}
	return h.site.sessions.verified(r, p, method)
}
