package static

import (
	"bytes"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the icons anew")

// icon is the logo as a picture: logo.svg, which is 32 wide. It fills the whole square
// where a phone cuts it to a shape of its own, and is smaller there by zoom.
type icon struct {
	name   string
	size   int
	filled bool
	zoom   float64
}

var icons = []icon{
	{"icon-192.png", 192, false, 1},
	{"icon-512.png", 512, false, 1},
	// What is in the middle 80 % is seen in every shape.
	{"icon-maskable-512.png", 512, true, .8},
	{"apple-touch-icon.png", 180, true, 1},
}

var (
	accent = color.NRGBA{0x3b, 0x4c, 0xca, 0xff}
	white  = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// at is the colour at a point of the logo.
func (c icon) at(x, y float64) color.NRGBA {
	if !c.filled {
		// The corners have a radius of 8.
		dx, dy := math.Max(math.Abs(x-16)-8, 0), math.Max(math.Abs(y-16)-8, 0)
		if math.Hypot(dx, dy) > 8 {
			return color.NRGBA{}
		}
	}
	x, y = 16+(x-16)/c.zoom, 16+(y-16)/c.zoom
	bar := func(at float64) bool { return math.Hypot(x-at, math.Max(math.Abs(y-16)-7.5, 0)) <= 1.6 }
	if bar(9) || bar(23) || math.Hypot(x-16, y-16) <= 3.4 {
		return white
	}
	return accent
}

// draw draws the icon, each pixel from 64 points.
func (c icon) draw() *image.NRGBA {
	const fine = 8
	picture := image.NewNRGBA(image.Rect(0, 0, c.size, c.size))
	for py := range c.size {
		for px := range c.size {
			var r, g, b, a, seen int
			for i := range fine * fine {
				at := func(pixel, part int) float64 {
					return (float64(pixel) + (float64(part)+.5)/fine) * 32 / float64(c.size)
				}
				p := c.at(at(px, i%fine), at(py, i/fine))
				if a += int(p.A); p.A > 0 {
					r, g, b, seen = r+int(p.R), g+int(p.G), b+int(p.B), seen+1
				}
			}
			if seen > 0 {
				part := func(sum, of int) uint8 { return uint8((sum + of/2) / of) } // #nosec G115 -- a mean of bytes
				picture.SetNRGBA(px, py, color.NRGBA{part(r, seen), part(g, seen), part(b, seen), part(a, fine*fine)})
			}
		}
	}
	return picture
}

// TestIcons: the icons are those that are drawn here ("go test ./web/static -run
// TestIcons -update" draws them).
func TestIcons(t *testing.T) {
	for _, c := range icons {
		want := c.draw()
		if *update {
			var b bytes.Buffer
			encoder := png.Encoder{CompressionLevel: png.BestCompression}
			if err := encoder.Encode(&b, want); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(c.name, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(c.name)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := png.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		got := image.NewNRGBA(want.Bounds())
		draw.Draw(got, got.Bounds(), decoded, image.Point{}, draw.Src)
		if decoded.Bounds() != want.Bounds() || !bytes.Equal(got.Pix, want.Pix) {
			t.Errorf("%s is not the logo", c.name)
		}
	}
}

// TestManifest: everything that the manifest names is there, and is what it says.
func TestManifest(t *testing.T) {
	server := httptest.NewServer(Handler())
	defer server.Close()
	get := func(path string) (kind string, body []byte) {
		t.Helper()
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
		}
		return resp.Header.Get("Content-Type"), b.Bytes()
	}
	kind, body := get(URL("manifest.webmanifest"))
	if kind != "application/manifest+json" {
		t.Errorf("the manifest comes as %q", kind)
	}
	var manifest struct {
		ID       string `json:"id"`
		StartURL string `json:"start_url"`
		Scope    string `json:"scope"`
		Display  string `json:"display"`
		Icons    []struct{ Src, Sizes, Type, Purpose string }
	}
	if err := json.Unmarshal(body, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.ID != "/" || manifest.StartURL != "/" || manifest.Scope != "/" || manifest.Display != "standalone" {
		t.Errorf("the manifest says %+v", manifest)
	}
	purposes := map[string]bool{}
	for _, i := range manifest.Icons {
		kind, body := get(i.Src)
		if purposes[i.Purpose] = true; kind != i.Type {
			t.Errorf("%s comes as %q, not %q", i.Src, kind, i.Type)
		}
		if i.Type != "image/png" {
			continue
		}
		picture, err := png.DecodeConfig(bytes.NewReader(body))
		side := strconv.Itoa(picture.Width)
		if err != nil || picture.Width != picture.Height || i.Sizes != side+"x"+side {
			t.Errorf("%s is %dx%d, %v", i.Src, picture.Width, picture.Height, err)
		}
	}
	if !purposes["any"] || !purposes["maskable"] {
		t.Errorf("icons for %v", purposes)
	}
}

// TestWorker: browsers ask for the service worker anew, and it may be for all of the
// console. It keeps no page: it says nothing of caches and answers no request.
func TestWorker(t *testing.T) {
	w := httptest.NewRecorder()
	Worker(w, httptest.NewRequest(http.MethodGet, "/sw.js", nil))
	h := w.Header()
	if w.Code != http.StatusOK || h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("Cache-Control") != "no-cache" || h.Get("ETag") == "" {
		t.Errorf("status %d, header %v", w.Code, h)
	}
	for _, word := range []string{"addEventListener(\"fetch\"", "caches.", "importScripts"} {
		if strings.Contains(w.Body.String(), word) {
			t.Errorf("the service worker has %s", word)
		}
	}
	again := httptest.NewRequest(http.MethodGet, "/sw.js", nil)
	again.Header.Set("If-None-Match", h.Get("ETag"))
	w = httptest.NewRecorder()
	if Worker(w, again); w.Code != http.StatusNotModified {
		t.Errorf("asked again: status %d", w.Code)
	}
	w = httptest.NewRecorder()
	if Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/static/sw.js", nil)); w.Code != http.StatusNotFound {
		t.Errorf("below /static/, where it could not be for the whole console: status %d", w.Code)
	}
}
