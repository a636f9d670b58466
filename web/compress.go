package web

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/a-h/templ"

	"holdpoint/internal/fair"
	"holdpoint/web/static"
)

// Compressing an answer makes its length tell how often text in it repeats other text:
// whoever can put text into a page, make a browser ask for it again and again, and see
// lengths on the network, guesses what else is on it (BREACH). So only lists are
// compressed, and static files:
//
//   - No page here has a secret against forged requests: those are refused by where they
//     come from (Guard). The session's cookie is in a header, which is not compressed.
//   - Pages with keys, codes or arguments are written by render, and not compressed; so is
//     an inbox whose rows tell what is at stake, which is made from arguments.
//   - A list is compressed only for a request that a browser says came from a page of
//     this origin, or from nobody's page. A link or script of another site, which could
//     ask a thousand times with a guess in ?q=, gets it as it is.
//   - What an agent puts into its own calls is beside those of others all the same: a
//     part of random length hides the few bytes that a guess would save.

// renderList writes a list as render does, compressed where that tells nobody anything.
func (s *site) renderList(w http.ResponseWriter, r *http.Request, page templ.Component) error {
	w.Header().Add("Vary", "Accept-Encoding, Sec-Fetch-Site")
	if !mayCompress(r) {
		return s.render(w, r, http.StatusOK, page)
	}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	zip.Comment = padding()
	err := page.Render(r.Context(), zip)
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNotRendered, err)
	}
	fair.Done(r.Context())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(b.Bytes()) // the reader is gone: there is nobody to tell
	return nil
}

// mayCompress reports whether the request takes gzip, and was not made by another site.
func mayCompress(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "same-origin" || site == "none") && static.TakesGzip(r)
}

// padding is text of a random length, up to 25 characters.
func padding() string {
	text := rand.Text()
	return text[:int(text[0])%len(text)]
}
