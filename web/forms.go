package web

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"holdpoint/internal/access"
)

// maxForm bounds a form's body, in bytes.
const maxForm = 64 << 10

// maxCarried bounds the form of a sign-in, which may carry another form.
const maxCarried = 2 * maxEditForm

// readForm reads a form's body into r.PostForm, or refuses it.
func readForm(w http.ResponseWriter, r *http.Request) error { return readFormOf(w, r, maxForm) }

// readFormOf is readForm for forms of up to limit bytes.
func readFormOf(w http.ResponseWriter, r *http.Request, limit int64) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/x-www-form-urlencoded" {
		return &access.Refusal{Kind: access.UnsupportedType, Code: "unsupported_media_type", Detail: "This address takes a form."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := r.ParseForm()
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return &access.Refusal{Kind: access.TooLarge, Code: "body_too_large", Detail: "That is more than this form takes."}
	}
	if err != nil {
		return &access.Refusal{Kind: access.Malformed, Code: "bad_form", Detail: "The form could not be read."}
	}
	for name, values := range r.PostForm {
		for _, text := range append(values, name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return &access.Refusal{Kind: access.Invalid, Code: "unfit_text", Detail: "The form holds a character that cannot be kept, such as NUL. Take it out and send it again."}
			}
		}
	}
	return nil
}
