package web

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/httpstatus"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// methodWords are by what somebody has proved who they are.
var methodWords = map[string]string{identity.Password: "password", identity.TOTP: "a code", identity.Passkey: "a passkey", identity.Provider: "single sign-on"}

// accountHandler serves the page on which people look after how they can prove
// who they are.
type accountHandler struct {
	site    *site
	factors *identity.Factors // nil when nobody can have any
	push    Push              // nil when nobody can be notified in a browser
	slack   Slack             // nil when nobody can decide in Slack
}

func (h *accountHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /account", h.site.signedIn(h.show))
	h.registerPush(mux)
	h.registerSlack(mux)
	if h.factors == nil {
		return
	}
	mux.HandleFunc("POST /account/password", h.site.takesForm(h.changePassword))
	mux.HandleFunc("POST /account/totp", h.changes(h.enrolTOTP))
	mux.HandleFunc("POST /account/totp/confirm", h.changes(h.confirmTOTP))
	mux.HandleFunc("POST /account/totp/remove", h.changes(h.removeTOTP))
	mux.HandleFunc("POST /account/passkeys/options", h.site.signedIn(h.passkeyOptions))
	mux.HandleFunc("POST /account/passkeys/sign", h.site.signedIn(h.signPasskey))
	mux.HandleFunc("POST /account/passkeys", h.changes(h.addPasskey))
	mux.HandleFunc("POST /account/passkeys/rename", h.changes(h.renamePasskey))
	mux.HandleFunc("POST /account/passkeys/remove/options", h.site.signedIn(h.removalOptions))
	mux.HandleFunc("POST /account/passkeys/remove", h.changes(h.removePasskey))
}

// changes is a handler that changes a person's factors. Where they have to prove
// who they are first, it sends them to do so.
func (h *accountHandler) changes(change handler) http.HandlerFunc {
	return h.site.takesForm(func(w http.ResponseWriter, r *http.Request, p engine.Person) error {
		err := change(w, r, p)
		var refusal *access.Refusal
		if errors.As(err, &refusal) && refusal.Code == "verification_needed" {
			http.Redirect(w, r, "/verify?next=/account", http.StatusSeeOther)
			return nil
		}
		return err
	})
}

func (h *accountHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	return h.render(w, r, p, http.StatusOK, failures{})
}

// failures are what to say about the last attempt to change something, or ""; slackCode
// is a code that was made by it.
type failures struct{ passkey, push, password, slack, slackCode string }

func (h *accountHandler) render(w http.ResponseWriter, r *http.Request, p engine.Person, status int, failed failures) error {
	v := views.Account{
		Frame: h.site.frame(p, "Your account", "account"), Email: p.Email, Roles: p.Roles, At: p.VerifiedAt, Failure: failed.passkey,
		Verified: methodWords[p.VerifiedBy], Needed: h.site.lacksFactor(p),
	}
	v.Notice = h.site.flash(w, r)
	if f := h.factors; f != nil {
		methods, err := f.Methods(r.Context(), p)
		if err != nil {
			return err
		}
		keys, err := f.Passkeys(r.Context(), p)
		if err != nil {
			return err
		}
		v.Factors, v.TOTP, v.NoPasskeys, v.PasskeysAt = true, slices.Contains(methods, identity.TOTP), f.Origin() == "", passkeysElsewhere(h.factors, r)
		for _, k := range keys {
			v.Passkeys = append(v.Passkeys, views.Passkey{
				ID: base64.RawURLEncoding.EncodeToString(k.ID), Name: k.Name, Synced: k.Synced, CreatedAt: k.CreatedAt, UsedAt: k.LastUsedAt,
			})
		}
		v.Password, v.PasswordFailure = f.MayChangePasswords() && p.Provider == "", failed.password
	}
	if h.push != nil {
		var err error
		if v.Browsers, err = h.browsers(r, p); err != nil {
			return err
		}
		v.Browsers.Failure = failed.push
	}
	var err error
	if v.Slack, err = h.inSlack(r, p, failed); err != nil {
		return err
	}
	return h.site.render(w, r, status, views.AccountPage(v))
}

// changePassword sets the person's own password. All sessions end by that; this browser
// gets another one, which has proved no more than the password.
func (h *accountHandler) changePassword(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	f := r.PostForm
	var refusal *access.Refusal
	if f.Get("password") != f.Get("again") {
		refusal = &access.Refusal{Kind: access.Invalid, Code: "unfit_password", Detail: "The two passwords are not the same."}
	} else {
		changed, err := h.factors.ChangePassword(r.Context(), p, f.Get("former"), f.Get("password"))
		if err != nil && !errors.As(err, &refusal) {
			return err
		}
		p = changed
	}
	if refusal != nil {
		detail := refusal.Detail
		if refusal.Code == "verification_failed" {
			detail = "That is not your present password. Nothing was changed."
		}
		retryAfter(w, refusal)
		return h.render(w, r, p, httpstatus.Of(refusal.Kind), failures{password: detail})
	}
	session, err := h.site.sessions.Get(r, h.site.sessions.name())
	if err != nil {
		return err
	}
	session.Values[personKey{}] = p
	if err := session.Save(r, w); errors.Is(err, ErrNoSession) { // reset or disabled since
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return nil
	} else if err != nil {
		return err
	}
	h.site.redirectWithFlash(w, r, "password", "/account")
	return nil
}

func (h *accountHandler) enrolTOTP(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e, err := h.factors.EnrolTOTP(r.Context(), p)
	if err != nil {
		return err
	}
	return h.site.render(w, r, http.StatusOK, views.EnrolmentPage(views.Enrolment{Frame: h.site.frame(p, "Set up an authenticator app", "account"), Secret: e.Secret, QR: views.NewQR(e.QR)}))
}

func (h *accountHandler) confirmTOTP(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.factors.ConfirmTOTP(r.Context(), p, r.PostForm.Get("code"))
	var refusal *access.Refusal
	if errors.As(err, &refusal) && (refusal.Code == "verification_failed" || refusal.Kind == access.RateLimited) {
		// The app has the secret already; showing it again would show it to
		// whoever happens to have the session.
		v := views.Enrolment{Frame: h.site.frame(p, "Set up an authenticator app", "account"), Failure: "That is not the code that the app shows now. Wait for the next one."}
		if refusal.Kind == access.RateLimited {
			v.Failure = refusal.Detail
			retryAfter(w, refusal)
		}
		return h.site.render(w, r, httpstatus.Of(refusal.Kind), views.EnrolmentPage(v))
	}
	return h.site.redirectOrFail(w, r, err, "totp", "/account")
}

func (h *accountHandler) removeTOTP(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := confirmed(r.PostForm); err != nil {
		return err
	}
	err := h.factors.RemoveTOTP(r.Context(), p)
	return h.site.redirectOrFail(w, r, err, "totpgone", "/account")
}

// confirmed refuses a form that removes something without saying so.
func confirmed(form url.Values) error {
	if form.Get("confirm") != "yes" {
		return invalid("confirmation_missing", "Nothing was removed: the confirmation is missing.")
	}
	return nil
}

func (h *accountHandler) passkeyOptions(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	ceremony, err := h.factors.BeginPasskey(r.Context(), p)
	h.site.renderJSON(w, r, ceremony, err)
	return nil
}

// signPasskey gives a browser that has made a passkey what it needs to have another
// one sign it.
func (h *accountHandler) signPasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	var ceremony identity.Ceremony
	err := readForm(w, r)
	if err == nil {
		ceremony, err = h.factors.SignPasskey(r.Context(), p, r.PostForm.Get("challenge"), []byte(r.PostForm.Get("assertion")))
	}
	h.site.renderJSON(w, r, ceremony, err)
	return nil
}

// removalOptions gives a browser what it needs to have a passkey sign that one is
// removed.
func (h *accountHandler) removalOptions(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	var ceremony identity.Ceremony
	err := readForm(w, r)
	if err == nil {
		ceremony, err = h.factors.BeginRemoval(r.Context(), p, credentialID(r.PostForm))
	}
	h.site.renderJSON(w, r, ceremony, err)
	return nil
}

func (h *accountHandler) addPasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form := r.PostForm
	err := h.factors.FinishPasskey(r.Context(), p, form.Get("name"), form.Get("challenge"), []byte(form.Get("assertion")))
	var refusal *access.Refusal
	if errors.As(err, &refusal) {
		failure := refusal.Detail
		if refusal.Code == "verification_failed" {
			failure = "The passkey could not be checked, so it was not added. Try again."
		}
		return h.render(w, r, p, httpstatus.Of(refusal.Kind), failures{passkey: failure})
	}
	return h.site.redirectOrFail(w, r, err, "passkey", "/account")
}

func (h *accountHandler) renamePasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.factors.RenamePasskey(r.Context(), p, credentialID(r.PostForm), r.PostForm.Get("name"))
	return h.site.redirectOrFail(w, r, err, "renamed", "/account")
}

func (h *accountHandler) removePasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := confirmed(r.PostForm); err != nil {
		return err
	}
	err := h.factors.RemovePasskey(r.Context(), p, credentialID(r.PostForm), proofOf(r.PostForm))
	if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && refusal.Kind == access.Forbidden && refusal.Code != "verification_needed" {
		return h.render(w, r, p, httpstatus.Of(refusal.Kind), failures{passkey: refusal.Detail})
	}
	return h.site.redirectOrFail(w, r, err, "keygone", "/account")
}

// credentialID is the passkey that a form names; what is none names none.
func credentialID(form url.Values) []byte {
	id, err := base64.RawURLEncoding.DecodeString(form.Get("id"))
	if err != nil {
		return nil
	}
	return id
}
