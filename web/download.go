package web

import (
	"net/http"
	"time"

	"holdpoint/internal/fair"
)

// downloadWithin bounds how long a reader may take for a page of a file.
const downloadWithin = 60 * time.Second

// download is a file that is sent as it is written. It is begun with its first byte:
// until then it can still become a page that says why there is none.
type download struct {
	w           http.ResponseWriter
	media, name string
	control     *http.ResponseController
	begun       bool
}

// newDownload begins the answer to r, which is no page that is made any more.
func newDownload(w http.ResponseWriter, r *http.Request, media, name string) *download {
	fair.Done(r.Context())
	return &download{w: w, media: media, name: name, control: http.NewResponseController(w)}
}

func (d *download) Write(data []byte) (int, error) {
	if !d.begun {
		d.begun = true
		h := d.w.Header()
		h.Set("Content-Type", d.media)
		h.Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
		h.Set("Cache-Control", "no-store")
		_ = d.control.SetWriteDeadline(time.Now().Add(downloadWithin)) // where it cannot be set, the server's own holds
		d.w.WriteHeader(http.StatusOK)
	}
	return d.w.Write(data)
}

// Flush sends what there is and gives the reader time for the next page.
func (d *download) Flush() error {
	if !d.begun {
		return nil
	}
	if err := d.control.Flush(); err != nil {
		return err
	}
	_ = d.control.SetWriteDeadline(time.Now().Add(downloadWithin))
	return nil
}

// end is the handler's answer: an error of before the first byte. A file that was begun
// and cannot be finished ends in the middle, so that nobody takes it for the whole.
func (d *download) end(err error) error {
	if err != nil && d.begun {
		panic(http.ErrAbortHandler)
	}
	return err
}
