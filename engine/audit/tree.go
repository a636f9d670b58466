package audit

import (
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// TileHeight is the height of a tile, and TileWidth how many hashes it holds.
const (
	TileHeight = 8
	TileWidth  = 1 << TileHeight
)

// Tile is a part of the tree: Width hashes from 256·N on, of the complete
// subtrees of height 8·Level.
type Tile struct {
	Level int
	N     int64
	// Hashes has 1 to 256 of them; with less than 256 the tile goes on growing.
	Hashes []tlog.Hash
}

// Data is the tile as C2SP tlog-tiles has it: its hashes, one after the other.
func (t Tile) Data() []byte {
	data := make([]byte, 0, len(t.Hashes)*tlog.HashSize)
	for _, h := range t.Hashes {
		data = append(data, h[:]...)
	}
	return data
}

// Tree is a growing tree: its size, and of each level the hashes that are not in
// a full tile yet. It takes little memory, however many leaves there are. The
// zero Tree is empty.
type Tree struct {
	size int64
	edge [][]tlog.Hash
}

// Size is the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// OpenTree makes the tree of this size from the tiles that are not full, which
// tile returns by level and number.
func OpenTree(size int64, tile func(level int, n int64, width int) ([]tlog.Hash, error)) (*Tree, error) {
	t := &Tree{size: size}
	for level := 0; size>>(TileHeight*level) > 0; level++ {
		at := size >> (TileHeight * level)
		width := int(at % TileWidth)
		var hashes []tlog.Hash
		if width > 0 {
			var err error
			if hashes, err = tile(level, at/TileWidth, width); err != nil {
				return nil, err
			}
			if len(hashes) != width {
				return nil, fmt.Errorf("tile %d of level %d has %d hashes and not %d", at/TileWidth, level, len(hashes), width)
			}
		}
		t.edge = append(t.edge, append(make([]tlog.Hash, 0, TileWidth), hashes...))
	}
	return t, nil
}

// Append adds a leaf. full is called with every tile that it fills; it may be
// nil, and must not keep the hashes.
func (t *Tree) Append(leaf tlog.Hash, full func(Tile)) {
	h := leaf
	t.size++
	for level := 0; ; level++ {
		if level == len(t.edge) {
			t.edge = append(t.edge, make([]tlog.Hash, 0, TileWidth))
		}
		t.edge[level] = append(t.edge[level], h)
		if len(t.edge[level]) < TileWidth {
			return
		}
		if full != nil {
			full(Tile{Level: level, N: t.size>>(TileHeight*(level+1)) - 1, Hashes: t.edge[level]})
		}
		h = subtree(t.edge[level])
		t.edge[level] = t.edge[level][:0]
	}
}

// Partial returns the tiles that are not full, of all levels that have one. They
// share memory with the tree.
func (t *Tree) Partial() []Tile {
	var tiles []Tile
	for level, hashes := range t.edge {
		if len(hashes) > 0 {
			tiles = append(tiles, Tile{Level: level, N: t.size >> (TileHeight * level) / TileWidth, Hashes: hashes})
		}
	}
	return tiles
}

// Root is the root hash; that of the empty tree is SHA-256 of nothing.
func (t *Tree) Root() tlog.Hash {
	// From the right: each level's hashes are complete subtrees of the sizes that
	// the bits of their number say.
	var root tlog.Hash
	some := false
	for _, hashes := range t.edge {
		for end := len(hashes); end > 0; {
			n := 1 << bits.TrailingZeros(uint(end))
			h := subtree(hashes[end-n : end])
			if some {
				h = tlog.NodeHash(h, root)
			}
			root, some = h, true
			end -= n
		}
	}
	if !some {
		return emptyRoot
	}
	return root
}

// emptyRoot is the root of the tree without leaves: SHA-256 of nothing.
var emptyRoot = func() tlog.Hash {
	h, err := tlog.TreeHash(0, nil)
	if err != nil {
		panic(err) // it reads nothing
	}
	return h
}()

// subtree is the hash over a complete subtree, whose leaves are a power of two.
func subtree(hashes []tlog.Hash) tlog.Hash {
	level := append([]tlog.Hash(nil), hashes...)
	for len(level) > 1 {
		for i := 0; i < len(level)/2; i++ {
			level[i] = tlog.NodeHash(level[2*i], level[2*i+1])
		}
		level = level[:len(level)/2]
	}
	return level[0]
}

// ParseHashes splits a tile's data.
func ParseHashes(data []byte) ([]tlog.Hash, error) {
	if len(data)%tlog.HashSize != 0 || len(data) > TileWidth*tlog.HashSize {
		return nil, fmt.Errorf("a tile of %d bytes is none", len(data))
	}
	hashes := make([]tlog.Hash, len(data)/tlog.HashSize)
	for i := range hashes {
		copy(hashes[i][:], data[i*tlog.HashSize:])
	}
	return hashes, nil
}
