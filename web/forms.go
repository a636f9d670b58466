package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// maxForm bounds a form's body, in bytes.
const maxForm = 64 << 10

// maxCarried bounds the form of a sign-in, which may carry another form.
const maxCarried = 2 * maxEditForm

// readForm reads a form's body into r.PostForm, or refuses it.
func readForm(w http.ResponseWriter, r *http.Request) error { return readFormOf(w, r, maxForm) }

// writer is the field that names who was signed in when a form's page was opened, and
// so has written what the form says.
const writer = "writer"

// ofSomebodyElse reports whether a form is of a page that was another person's.
func ofSomebodyElse(posted url.Values, p engine.Person) bool {
	return posted.Get(writer) != "" && posted.Get(writer) != p.ID
}

// readFormBy is readFormOf for what p does. A form of a page that was opened while
// somebody else was signed in is refused: it is that person's decision, and not p's.
func readFormBy(w http.ResponseWriter, r *http.Request, p engine.Person, limit int64) error {
	if err := readFormOf(w, r, limit); err != nil {
		return err
	}
	if ofSomebodyElse(r.PostForm, p) {
		return &access.Refusal{Kind: access.Conflict, Code: "not_yours", Detail: "Somebody else was signed in when this page was opened. Nothing was done. Open it again."}
	}
	return nil
}

// readFormOf is readForm for forms of up to limit bytes.
func readFormOf(w http.ResponseWriter, r *http.Request, limit int64) error {
	parse := r.ParseForm
	switch kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); {
	case strings.TrimSpace(kind) == "multipart/form-data" && limit > maxForm: // a form with a file
		parse = func() error { return r.ParseMultipartForm(limit) } // none of it goes to a disk
	case strings.TrimSpace(kind) != "application/x-www-form-urlencoded":
		return &access.Refusal{Kind: access.UnsupportedType, Code: "unsupported_media_type", Detail: "This address takes a form."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	err := parse()
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return &access.Refusal{Kind: access.TooLarge, Code: "body_too_large", Detail: fmt.Sprintf("This form takes %s kB in all, and what was sent is more. Nothing was done. Go back in your browser, shorten it, and send it again.", views.Thousands(int(tooBig.Limit/1000)))}
	}
	if err != nil {
		return &access.Refusal{Kind: access.Malformed, Code: "bad_form", Detail: "The form could not be read."}
	}
	for name, values := range r.PostForm {
		for _, text := range append(slices.Clone(values), name) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return &access.Refusal{Kind: access.Invalid, Code: "unfit_text", Detail: "The form holds a character that cannot be kept, such as NUL. Take it out and send it again."}
			}
		}
	}
	return refuseRepeated(r.PostForm)
}

// lists are the fields that a form may have several times.
var lists = []string{"acknowledged", "form", "id", "line", "roles", "shown", "tell"}

// refuseRepeated refuses a form that has a field twice which is no list: whoever reads it first or
// last reads two decisions. Of a call's arguments the form itself says which are lists.
func refuseRepeated(posted url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(posted)) {
		if len(posted[name]) > 1 && !slices.Contains(lists, name) && !strings.Contains(name, argumentField) {
			return &access.Refusal{Kind: access.Invalid, Code: "field_twice", Detail: "The form has the field “" + views.Visible(name) + "” more than once, and it is no list. Nothing was done. Open the page again."}
		}
	}
	return nil
}
