// Package static holds the console's style sheet, script and images, and
// serves them. Every file's URL carries the hash of its content, so that a
// browser may keep it for as long as it likes. It never serves anything that
// is not embedded in the binary.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed console.css print.css console.js export.js fields.js flow.js passkeys.js push.js sw.js verify.js logo.svg manifest.webmanifest *.png
var files embed.FS

type file struct {
	content []byte
	packed  []byte // the same, compressed; nil where that gains nothing
	kind    string
	hash    string
}

var kinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
	".png": "image/png",

	".webmanifest": "application/manifest+json",
}

// worker is the service worker. It is served at the root, so that it is for all of the
// console, and nowhere else.
const worker = "sw.js"

// The style sheet is one to browsers: what is for paper ends it.
const (
	style = "console.css"
	paper = "print.css"
)

// all is made from what the binary embeds when the first page needs it, so that a command
// that has none starts at once; it cannot fail at run time.
var all = sync.OnceValue(load)

func load() map[string]file {
	loaded := map[string]file{}
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if e.Name() == paper {
			continue
		}
		content, err := files.ReadFile(e.Name())
		if err == nil && e.Name() == style {
			var end []byte
			end, err = files.ReadFile(paper)
			content = slices.Concat(content, end)
		}
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		f := file{content, nil, kinds[path.Ext(e.Name())], base64.RawURLEncoding.EncodeToString(sum[:12])}
		if f.kind != "image/png" {
			f.packed = pack(content)
		}
		loaded[e.Name()] = f
	}
	return loaded
}

func pack(content []byte) []byte {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	_, err := zip.Write(content)
	if err = errors.Join(err, zip.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// TakesGzip reports whether a request accepts gzip, as browsers write it. One that gives
// it a weight is answered as it is.
func TakesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}
	return false
}

// URL is where a page finds the named file: "/static/console.css?v=…".
func URL(name string) string { return "/static/" + name + "?v=" + all()[name].hash }

// Stylesheet is the console's style sheet.
func Stylesheet() []byte { return all()[style].content }

// Handler serves the files under /static/. What is asked for by its hash may be
// kept for a year; anything else is asked for again, with an ETag.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/static/")
		f, ok := all()[name]
		if !ok || name == worker {
			http.Error(w, "There is no such file.", http.StatusNotFound)
			return
		}
		f.serve(w, r)
	})
}

// Worker serves the console's service worker. Browsers ask for it again each time.
func Worker(w http.ResponseWriter, r *http.Request) { all()[worker].serve(w, r) }

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", `"`+f.hash+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+f.hash+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Vary", "Accept-Encoding")
	body := f.content
	if f.packed != nil && TakesGzip(r) {
		// It is the same for everybody: its length tells nothing.
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the reader is gone: there is nobody to tell
	}
}
