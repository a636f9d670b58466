package web

import (
	"context"
	"net/http"
	"net/url"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// Outcomes takes what people say of a call after its approval has ended.
type Outcomes interface {
	Reconcile(ctx context.Context, s gate.Contribution, outcome approval.Execution, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
	ReviewBreakGlass(ctx context.Context, s gate.Contribution, justified bool, once *access.Idempotency[approval.Approval]) (approval.Approval, error)
}

// outcomeHandler takes what became of a call, and the review of a broken glass.
type outcomeHandler struct {
	site     *site
	outcomes Outcomes
}

func (h *outcomeHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("POST /approvals/{id}/reconciliation", h.site.contribute("reconciled", h.reconcile))
	mux.HandleFunc("POST /approvals/{id}/afterwards", h.site.contribute("reviewed", h.reviewBreakGlass))
}

func (h *outcomeHandler) reconcile(ctx context.Context, s gate.Contribution, form url.Values) error {
	_, err := h.outcomes.Reconcile(ctx, s, approval.Execution(form.Get("outcome")), nil)
	return err
}

func (h *outcomeHandler) reviewBreakGlass(ctx context.Context, s gate.Contribution, form url.Values) error {
	justified := form.Get("justified") == "yes"
	if !justified && form.Get("justified") != "no" {
		return invalid("incomplete_form", "Say whether it was justified.")
	}
	_, err := h.outcomes.ReviewBreakGlass(ctx, s, justified, nil)
	return err
}
