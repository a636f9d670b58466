package audit

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Prover proves leaves of one tree, many and best in order: it keeps the tiles
// that the next ones need as well, with the hashes above theirs. It is not safe
// for concurrent use.
type Prover struct {
	tiles Tiles
	size  int64
	root  tlog.Hash
	kept  map[tileID][][]tlog.Hash
}

type tileID struct {
	level int
	n     int64
}

// maxKept bounds the tiles that a Prover keeps: 16 KiB each.
const maxKept = 64

// NewProver returns a Prover of the tree of this size and root. What tiles returns
// need not be trusted.
func NewProver(size int64, root tlog.Hash, tiles Tiles) *Prover {
	return &Prover{tiles: tiles, size: size, root: root, kept: map[tileID][][]tlog.Hash{}}
}

// Leaf is the hash that the tiles have for a leaf. Only a proof shows that it is the
// tree's.
func (p *Prover) Leaf(leaf int64) (tlog.Hash, error) { return p.hash(0, leaf) }

// Prove is the proof that the tree has a leaf; it fails when the tiles are not
// those of the root.
func (p *Prover) Prove(leaf int64) (tlog.RecordProof, error) {
	proof, err := tlog.ProveRecord(p.size, leaf, tlog.HashReaderFunc(p.read))
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d of %d: %w", leaf, p.size, err)
	}
	h, err := p.Leaf(leaf)
	if err == nil {
		err = tlog.CheckRecord(proof, p.size, p.root, leaf, h)
	}
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d of %d: %w", leaf, p.size, err)
	}
	return proof, nil
}

// read reads hashes by the numbers that tlog gives them.
func (p *Prover) read(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		var err error
		if hashes[i], err = p.hash(tlog.SplitStoredHashIndex(index)); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// hash is the n-th hash of complete subtrees of a height.
func (p *Prover) hash(height int, n int64) (tlog.Hash, error) {
	level, above := height/TileHeight, height%TileHeight
	at := n << above // among those of the tile's level
	id := tileID{level, at / TileWidth}
	tile, known := p.kept[id]
	if !known {
		width := min(TileWidth, p.size>>(TileHeight*level)-id.n*TileWidth)
		if width < 1 {
			return tlog.Hash{}, fmt.Errorf("the tree of %d has no tile %d of level %d", p.size, id.n, level)
		}
		hashes, err := p.tiles(level, id.n, int(width))
		if err != nil {
			return tlog.Hash{}, err
		}
		if int64(len(hashes)) < width {
			return tlog.Hash{}, fmt.Errorf("tile %d of level %d has %d hashes and not %d", id.n, level, len(hashes), width)
		}
		tile = tileLevels(hashes[:width])
		if len(p.kept) >= maxKept {
			clear(p.kept)
		}
		p.kept[id] = tile
	}
	i := at % TileWidth >> above
	if i >= int64(len(tile[above])) {
		return tlog.Hash{}, fmt.Errorf("the tree of %d has no subtree %d of height %d", p.size, n, height)
	}
	return tile[above][i], nil
}

// tileLevels is a tile's hashes and, above them, those of the complete subtrees.
func tileLevels(hashes []tlog.Hash) [][]tlog.Hash {
	all := make([][]tlog.Hash, TileHeight)
	all[0] = hashes
	for h := 1; h < TileHeight; h++ {
		below := all[h-1]
		all[h] = make([]tlog.Hash, len(below)/2)
		for i := range all[h] {
			all[h][i] = tlog.NodeHash(below[2*i], below[2*i+1])
		}
	}
	return all
}
