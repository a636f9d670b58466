package audit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Resource is what a path of a tiled log names: a tile, or the bundle of the
// entries of a tile of level 0.
type Resource struct {
	Entries bool
	Level   int // 0 for a bundle
	N       int64
	// Width is 256, or how many hashes or entries of it there were.
	Width int
}

// maxLevel is the highest level that a tree of 2⁶³ leaves has.
const maxLevel = 63 / TileHeight

var errPath = errors.New("it is no path of a tile")

// ParsePath reads what comes after the log's prefix (C2SP tlog-tiles):
// "tile/0/x001/067" or "tile/entries/000.p/17". It accepts exactly what Path
// writes.
func ParsePath(path string) (Resource, error) {
	r := Resource{Width: TileWidth}
	rest, ok := strings.CutPrefix(path, "tile/")
	if !ok {
		return r, errPath
	}
	level, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return r, errPath
	}
	if r.Entries = level == "entries"; !r.Entries {
		n, err := strconv.Atoi(level)
		if err != nil || n < 0 || n > maxLevel {
			return r, errPath
		}
		r.Level = n
	}
	if name, width, partial := strings.Cut(rest, ".p/"); partial {
		n, err := strconv.Atoi(width)
		if err != nil || n < 1 || n >= TileWidth {
			return r, errPath
		}
		rest, r.Width = name, n
	}
	for part := range strings.SplitSeq(rest, "/") {
		digits := strings.TrimPrefix(part, "x")
		n, err := strconv.ParseUint(digits, 10, 16) // takes no sign
		if err != nil || len(digits) != 3 || r.N > (1<<62)/1000 {
			return r, errPath
		}
		r.N = r.N*1000 + int64(n)
	}
	if r.Path() != path {
		return r, errPath
	}
	return r, nil
}

// Path is the resource's path after the log's prefix.
func (r Resource) Path() string {
	n := fmt.Sprintf("%03d", r.N%1000)
	for rest := r.N / 1000; rest > 0; rest /= 1000 {
		n = fmt.Sprintf("x%03d/%s", rest%1000, n)
	}
	level := strconv.Itoa(r.Level)
	if r.Entries {
		level = "entries"
	}
	path := "tile/" + level + "/" + n
	if r.Width < TileWidth {
		path += ".p/" + strconv.Itoa(r.Width)
	}
	return path
}

// In reports whether a log of this size has the resource: its tile is full, or
// has at least that many hashes.
func (r Resource) In(size int64) bool {
	at := size >> (TileHeight * r.Level)
	return r.N >= 0 && r.N < at/TileWidth || r.N == at/TileWidth && int64(r.Width) <= at%TileWidth
}

// appendEntry adds an entry to a bundle.
func appendEntry(bundle, entry []byte) []byte {
	if len(entry) > 0xffff {
		panic("audit: an entry does not fit into a bundle")
	}
	return append(append(bundle, byte(len(entry)>>8), byte(len(entry))), entry...)
}

// ParseBundle splits a bundle into its entries.
func ParseBundle(bundle []byte) ([][]byte, error) {
	var entries [][]byte
	for len(bundle) > 0 {
		if len(bundle) < 2 {
			return nil, errors.New("read a bundle of entries: it ends within a length")
		}
		n := int(bundle[0])<<8 | int(bundle[1])
		if bundle = bundle[2:]; len(bundle) < n {
			return nil, errors.New("read a bundle of entries: it ends within an entry")
		}
		entries, bundle = append(entries, bundle[:n]), bundle[n:]
	}
	if len(entries) > TileWidth {
		return nil, errors.New("read a bundle of entries: it has more than a tile")
	}
	return entries, nil
}
