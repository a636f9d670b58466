package web

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/web/views"
)

// Push has people's browsers notified; admin.Push is one. A person's browsers are
// theirs alone. Errors are as Inbox's are.
type Push interface {
	// PublicKey is what browsers subscribe to; "" where nobody can be notified.
	PublicKey(ctx context.Context) (string, error)
	Of(ctx context.Context, p engine.Person) ([]admin.Browser, error)
	Add(ctx context.Context, by access.Initiator, b admin.NewBrowser) (id string, err error)
	SetDetails(ctx context.Context, by access.Initiator, id string, details bool) error
	Remove(ctx context.Context, by access.Initiator, id string) error
	Test(ctx context.Context, by access.Initiator, id string) error
}

// pushCookie names the subscription of the browser that has it, so that whoever signs
// out there is not notified there any more.
const pushCookie = "holdpoint_push"

const pushCookieLasts = 400 * 24 * 3600 // seconds: as long as browsers keep one

func (h *accountHandler) registerPush(mux *http.ServeMux) {
	if h.push == nil {
		return
	}
	mux.HandleFunc("POST /account/push", h.changes(h.addBrowser))
	mux.HandleFunc("POST /account/push/details", h.changes(h.setDetails))
	mux.HandleFunc("POST /account/push/test", h.changes(h.testBrowser))
	mux.HandleFunc("POST /account/push/remove", h.changes(h.removeBrowser))
}

// fresh asks for a proof of who somebody is before calls are told where no session is
// looked at.
func (h *accountHandler) fresh(ctx context.Context, p engine.Person) error {
	if h.factors == nil {
		return nil
	}
	return h.factors.Fresh(ctx, p)
}

func (h *accountHandler) addBrowser(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := h.fresh(r.Context(), p); err != nil {
		return err
	}
	f := r.PostForm
	id, err := h.push.Add(r.Context(), by(p), admin.NewBrowser{
		Name: f.Get("name"), Endpoint: f.Get("endpoint"), P256DH: f.Get("p256dh"), Auth: f.Get("auth"), Details: f.Get("details") == "yes",
	})
	if detail, ok := refused(err); ok {
		return h.render(w, r, p, http.StatusUnprocessableEntity, failures{push: detail})
	}
	if err == nil {
		h.site.setPushCookie(w, id, pushCookieLasts)
	}
	return h.site.redirectOrFail(w, r, err, "push", "/account#push-h")
}

func (h *accountHandler) setDetails(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	details, what := r.PostForm.Get("details") == "yes", "pushplain"
	if details {
		what = "pushdetails"
		if err := h.fresh(r.Context(), p); err != nil {
			return err
		}
	}
	err := h.push.SetDetails(r.Context(), by(p), r.PostForm.Get("id"), details)
	return h.site.redirectOrFail(w, r, err, what, "/account#push-h")
}

func (h *accountHandler) testBrowser(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.push.Test(r.Context(), by(p), r.PostForm.Get("id"))
	return h.site.redirectOrFail(w, r, err, "pushtest", "/account#push-h")
}

func (h *accountHandler) removeBrowser(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	id := r.PostForm.Get("id")
	err := h.push.Remove(r.Context(), by(p), id)
	if err == nil && pushedTo(r) == id {
		h.site.setPushCookie(w, "", -1)
	}
	return h.site.redirectOrFail(w, r, err, "pushgone", "/account#push-h")
}

// browsers is what the account's page says of the person's browsers.
func (h *accountHandler) browsers(r *http.Request, p engine.Person) (v views.Browsers, err error) {
	if v.Key, err = h.push.PublicKey(r.Context()); err != nil {
		return v, err
	}
	list, err := h.push.Of(r.Context(), p)
	if err != nil {
		return v, err
	}
	v.There, v.Suggested = true, browserName(r.UserAgent())
	for _, b := range list {
		here := b.ID == pushedTo(r)
		v.Here = v.Here || here
		v.List = append(v.List, views.Browser{ID: b.ID, Name: b.Name, Details: b.Details, Here: here, CreatedAt: b.CreatedAt, UsedAt: b.LastUsedAt})
	}
	return v, nil
}

func (s *site) setPushCookie(w http.ResponseWriter, id string, lasts int) {
	http.SetCookie(w, &http.Cookie{Name: pushCookie, Value: id, Path: "/", MaxAge: lasts, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode})
}

func pushedTo(r *http.Request) string {
	c, err := r.Cookie(pushCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// endPush ends the notifications of the browser in which somebody signs out.
func (s *site) endPush(w http.ResponseWriter, r *http.Request, p engine.Person) {
	id := pushedTo(r)
	if id == "" {
		return
	}
	s.setPushCookie(w, "", -1)
	if s.push == nil || p.ID == "" {
		return
	}
	if err := s.push.Remove(r.Context(), by(p), id); err != nil {
		if _, gone := refused(err); !gone {
			s.logger.ErrorContext(r.Context(), "a browser's notifications not ended", "person", p.ID, "error", err)
		}
	}
}

// browserName is what a browser is called until its person calls it otherwise, by what
// it says of itself.
func browserName(agent string) string {
	first := func(list ...[2]string) string {
		for _, of := range list {
			if strings.Contains(agent, of[0]) {
				return of[1]
			}
		}
		return ""
	}
	browser := first([2]string{"Edg", "Edge"}, [2]string{"OPR/", "Opera"}, [2]string{"Firefox/", "Firefox"}, [2]string{"FxiOS/", "Firefox"},
		[2]string{"SamsungBrowser/", "Samsung Internet"}, [2]string{"Chrome/", "Chrome"}, [2]string{"CriOS/", "Chrome"}, [2]string{"Safari/", "Safari"})
	browser = cmp.Or(browser, "Browser")
	system := first([2]string{"Android", "Android"}, [2]string{"iPhone", "iPhone"}, [2]string{"iPad", "iPad"}, [2]string{"Windows", "Windows"},
		[2]string{"Mac OS X", "Mac"}, [2]string{"CrOS", "ChromeOS"}, [2]string{"Linux", "Linux"})
	if system == "" {
		return browser
	}
	return browser + " on " + system
}
