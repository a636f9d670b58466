package web

import (
	"net/http"

	"holdpoint/internal/download"
	"holdpoint/internal/fair"
)

// newDownload answers r with a file. It gives up the turn of r, which is for pages that are made.
func newDownload(w http.ResponseWriter, r *http.Request, media, name string) *download.File {
	fair.Done(r.Context())
	return download.New(w, media, name)
}
