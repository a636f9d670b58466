package web

import (
	"context"
	"net/http"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/web/views"
)

// Slack links people's accounts in Slack; admin.Slack is one. Errors are as Inbox's are.
type Slack interface {
	// There reports whether anything can be decided in Slack.
	There(ctx context.Context) (bool, error)
	// Of is the person's account; nil for none.
	Of(ctx context.Context, p engine.Person) (*admin.LinkedAccount, error)
	// NewCode makes a code that links an account once, and that is not shown again.
	NewCode(ctx context.Context, by access.Initiator) (string, error)
	Unlink(ctx context.Context, by access.Initiator) error
}

func (h *accountHandler) registerSlack(mux *http.ServeMux) {
	if h.slack == nil {
		return
	}
	mux.HandleFunc("POST /account/slack/code", h.changes(h.slackCode))
	mux.HandleFunc("POST /account/slack/unlink", h.changes(h.unlinkSlack))
}

// slackCode shows a code, this once: it is in no address and no cookie. Who links an
// account decides where no session is looked at, so they prove first who they are.
func (h *accountHandler) slackCode(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := h.fresh(r.Context(), p); err != nil {
		return err
	}
	code, err := h.slack.NewCode(r.Context(), by(p))
	if detail, ok := refused(err); ok {
		return h.render(w, r, p, http.StatusConflict, failures{slack: detail})
	}
	if err != nil {
		return err
	}
	return h.render(w, r, p, http.StatusOK, failures{slackCode: code})
}

func (h *accountHandler) unlinkSlack(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.slack.Unlink(r.Context(), by(p))
	return h.site.redirectOrFail(w, r, err, "slackgone", "/account#slack-h")
}

// inSlack is what the account's page says of the person's account in Slack.
func (h *accountHandler) inSlack(r *http.Request, p engine.Person, f failures) (v views.InSlack, err error) {
	if h.slack == nil {
		return v, nil
	}
	there, err := h.slack.There(r.Context())
	if err != nil {
		return v, err
	}
	link, err := h.slack.Of(r.Context(), p)
	if err != nil {
		return v, err
	}
	v = views.InSlack{There: there || link != nil, On: there, Code: f.slackCode, Failure: f.slack}
	if link != nil {
		v.User, v.Team, v.LinkedAt = link.User, link.Team, link.LinkedAt
	}
	return v, nil
}
