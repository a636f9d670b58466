// Package download sends files over HTTP as they are written, page by page. An answer begins
// with the file's first byte: until then it can still be an error. It reads nothing and names
// no file.
package download

import (
	"net/http"
	"time"
)

// pageWithin bounds how long a reader may take for a page of a file.
const pageWithin = 60 * time.Second

// File is a file that is sent as it is written.
type File struct {
	w           http.ResponseWriter
	control     *http.ResponseController
	media, name string
	begun       bool
}

// New returns a file of this media type, under the name by which a browser saves it.
func New(w http.ResponseWriter, media, name string) *File {
	return &File{w: w, control: http.NewResponseController(w), media: media, name: name}
}

// Write sends data, and the headers before the first.
func (f *File) Write(data []byte) (int, error) {
	if !f.begun {
		f.begun = true
		h := f.w.Header()
		h.Set("Content-Type", f.media)
		h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
		h.Set("Cache-Control", "no-store")
		_ = f.control.SetWriteDeadline(time.Now().Add(pageWithin)) // where it cannot be set, the server's own holds
		f.w.WriteHeader(http.StatusOK)
	}
	return f.w.Write(data)
}

// Flush sends what there is and gives the reader time for the next page.
func (f *File) Flush() error {
	if !f.begun {
		return nil
	}
	if err := f.control.Flush(); err != nil {
		return err
	}
	_ = f.control.SetWriteDeadline(time.Now().Add(pageWithin))
	return nil
}

// End returns err if no byte of the file has been sent. A file that has begun and cannot be
// finished ends in the middle (http.ErrAbortHandler), so that nobody takes it for the whole.
func (f *File) End(err error) error {
	if err != nil && f.begun {
		panic(http.ErrAbortHandler)
	}
	return err
}
