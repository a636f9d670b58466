package web

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
	"holdpoint/web/views"
)

// methodWords are by what somebody has proved who they are.
var methodWords = map[string]string{identity.Password: "password", identity.TOTP: "a code", identity.Passkey: "a passkey"}

// registerAccount adds the pages on which people prove who they are, and look
// after how they can.
func (c *Console) registerAccount(mux *http.ServeMux) {
	mux.HandleFunc("GET /login/verify", c.secondStepForm)
	mux.HandleFunc("POST /login/verify", c.finishSignIn)
	mux.HandleFunc("POST /login/assertion", c.secondStepAssertion)
	mux.HandleFunc("GET /account", c.site.signedIn(c.account))
	if c.cfg.Factors == nil {
		return
	}
	mux.HandleFunc("GET /verify", c.verifyForm)
	mux.HandleFunc("POST /verify", c.verify)
	mux.HandleFunc("POST /account/assertion", c.site.signedIn(c.assertion))
	mux.HandleFunc("POST /account/totp", c.changes(c.enrolTOTP))
	mux.HandleFunc("POST /account/totp/confirm", c.changes(c.confirmTOTP))
	mux.HandleFunc("POST /account/totp/remove", c.changes(c.removeTOTP))
	mux.HandleFunc("POST /account/passkeys/options", c.site.signedIn(c.passkeyOptions))
	mux.HandleFunc("POST /account/passkeys", c.changes(c.addPasskey))
	mux.HandleFunc("POST /account/passkeys/rename", c.changes(c.renamePasskey))
	mux.HandleFunc("POST /account/passkeys/remove", c.changes(c.removePasskey))
}

// changes is a handler that changes a person's factors. Where they have to prove
// who they are first, it sends them to do so.
func (c *Console) changes(h func(http.ResponseWriter, *http.Request, engine.Person) error) http.HandlerFunc {
	return c.site.signedIn(func(w http.ResponseWriter, r *http.Request, p engine.Person) {
		err := readForm(w, r)
		if err == nil {
			err = h(w, r, p)
		}
		var refusal *gate.Refusal
		if errors.As(err, &refusal) && refusal.Code == "verification_needed" {
			http.Redirect(w, r, "/verify?next=/account", http.StatusSeeOther)
			return
		}
		if err != nil {
			c.site.fail(w, r, p, err)
		}
	})
}

func (c *Console) account(w http.ResponseWriter, r *http.Request, p engine.Person) {
	c.showAccount(w, r, p, http.StatusOK, "")
}

func (c *Console) showAccount(w http.ResponseWriter, r *http.Request, p engine.Person, status int, failure string) {
	v := views.Account{
		Frame: c.site.frame(p, "Your account", "account"), Email: p.Email, Roles: p.Roles, At: p.VerifiedAt, Failure: failure,
		Verified: methodWords[p.VerifiedBy],
	}
	v.Notice = c.site.flash(w, r)
	if f := c.cfg.Factors; f != nil {
		methods, err := f.Methods(r.Context(), p)
		if err != nil {
			c.site.fail(w, r, p, err)
			return
		}
		keys, err := f.Passkeys(r.Context(), p)
		if err != nil {
			c.site.fail(w, r, p, err)
			return
		}
		v.Factors, v.TOTP, v.NoPasskeys, v.PasskeysAt = true, slices.Contains(methods, identity.TOTP), f.Origin() == "", passkeysElsewhere(c.cfg.Factors, r)
		for _, k := range keys {
			v.Passkeys = append(v.Passkeys, views.Passkey{
				ID: base64.RawURLEncoding.EncodeToString(k.ID), Name: k.Name, Synced: k.Synced, CreatedAt: k.CreatedAt, UsedAt: k.LastUsedAt,
			})
		}
	}
	c.site.render(w, r, status, views.AccountPage(v))
}

func (c *Console) enrolTOTP(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	e, err := c.cfg.Factors.EnrolTOTP(r.Context(), p)
	if err != nil {
		return err
	}
	c.site.render(w, r, http.StatusOK, views.EnrolmentPage(views.Enrolment{Frame: c.site.frame(p, "Authenticator app", "account"), Secret: e.Secret, QR: views.NewQR(e.QR)}))
	return nil
}

func (c *Console) confirmTOTP(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := c.cfg.Factors.ConfirmTOTP(r.Context(), p, r.PostForm.Get("code"))
	var refusal *gate.Refusal
	if errors.As(err, &refusal) && (refusal.Code == "verification_failed" || refusal.Status == http.StatusTooManyRequests) {
		// The app has the secret already; showing it again would show it to
		// whoever happens to have the session.
		v := views.Enrolment{Frame: c.site.frame(p, "Authenticator app", "account"), Failure: "That is not the code that the app shows now. Wait for the next one."}
		if refusal.Status == http.StatusTooManyRequests {
			v.Failure = refusal.Detail
			retryAfter(w, refusal)
		}
		c.site.render(w, r, refusal.Status, views.EnrolmentPage(v))
		return nil
	}
	if err != nil {
		return err
	}
	c.site.redirectWithFlash(w, r, "totp", "/account")
	return nil
}

func (c *Console) removeTOTP(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := confirmed(r.PostForm); err != nil {
		return err
	}
	if err := c.cfg.Factors.RemoveTOTP(r.Context(), p); err != nil {
		return err
	}
	c.site.redirectWithFlash(w, r, "totpgone", "/account")
	return nil
}

// confirmed refuses a form that removes something without saying so.
func confirmed(form url.Values) error {
	if form.Get("confirm") != "yes" {
		return invalid("confirmation_missing", "Nothing was removed: the confirmation is missing.")
	}
	return nil
}

func (c *Console) passkeyOptions(w http.ResponseWriter, r *http.Request, p engine.Person) {
	ceremony, err := c.cfg.Factors.BeginPasskey(r.Context(), p)
	c.site.renderJSON(w, r, ceremony, err)
}

func (c *Console) addPasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	form := r.PostForm
	err := c.cfg.Factors.FinishPasskey(r.Context(), p, form.Get("name"), form.Get("challenge"), []byte(form.Get("assertion")))
	var refusal *gate.Refusal
	if errors.As(err, &refusal) {
		failure := refusal.Detail
		if refusal.Code == "verification_failed" {
			failure = "The passkey could not be checked, so it was not added. Try again."
		}
		c.showAccount(w, r, p, refusal.Status, failure)
		return nil
	}
	if err != nil {
		return err
	}
	c.site.redirectWithFlash(w, r, "passkey", "/account")
	return nil
}

func (c *Console) renamePasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := c.cfg.Factors.RenamePasskey(r.Context(), p, credentialID(r.PostForm), r.PostForm.Get("name")); err != nil {
		return err
	}
	c.site.redirectWithFlash(w, r, "renamed", "/account")
	return nil
}

func (c *Console) removePasskey(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	if err := confirmed(r.PostForm); err != nil {
		return err
	}
	if err := c.cfg.Factors.RemovePasskey(r.Context(), p, credentialID(r.PostForm)); err != nil {
		return err
	}
	c.site.redirectWithFlash(w, r, "keygone", "/account")
	return nil
}

// credentialID is the passkey that a form names; what is none names none.
func credentialID(form url.Values) []byte {
	id, err := base64.RawURLEncoding.DecodeString(form.Get("id"))
	if err != nil {
		return nil
	}
	return id
}
