package audit

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Tiles returns a tile's first width hashes. What it returns need not be
// trusted: every proof is checked against the root.
type Tiles func(level int, n int64, width int) ([]tlog.Hash, error)

// reader makes the tiles of a tree readable for tlog, which checks each of them
// against the root.
func (t Tiles) reader(size int64, root tlog.Hash) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tileReader{t})
}

type tileReader struct{ tiles Tiles }

func (tileReader) Height() int { return TileHeight }

func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		hashes, err := r.tiles(t.L, t.N, t.W)
		if err != nil {
			return nil, err
		}
		if len(hashes) < t.W {
			return nil, fmt.Errorf("tile %d of level %d has %d hashes and not %d", t.N, t.L, len(hashes), t.W)
		}
		data[i] = Tile{Hashes: hashes[:t.W]}.Data()
	}
	return data, nil
}

func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ProveLeaf is the proof that the tree of this size and root has the leaf; it
// fails when the tiles are not those of that root.
func (t Tiles) ProveLeaf(size int64, root tlog.Hash, leaf int64) (tlog.RecordProof, error) {
	proof, err := tlog.ProveRecord(size, leaf, t.reader(size, root))
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d of %d: %w", leaf, size, err)
	}
	return proof, nil
}

// ProveTree is the proof that the tree of this size and root began as the tree of
// a former size.
func (t Tiles) ProveTree(size int64, root tlog.Hash, former int64) (tlog.TreeProof, error) {
	if former == 0 || former == size {
		return nil, nil // nothing has to be shown
	}
	proof, err := tlog.ProveTree(size, former, t.reader(size, root))
	if err != nil {
		return nil, fmt.Errorf("prove that %d leaves began as %d: %w", size, former, err)
	}
	return proof, nil
}

// CheckTree reports why the later checkpoint does not continue the former one;
// nil when the proof shows that it does.
func CheckTree(proof tlog.TreeProof, later, former Checkpoint) error {
	switch {
	case later.Origin != former.Origin:
		return fmt.Errorf("checkpoint %d is of the log %q, checkpoint %d of %q", later.Size, later.Origin, former.Size, former.Origin)
	case later.Size < former.Size:
		return fmt.Errorf("the log has %d events and had %d: its tail was cut, or an older copy restored", later.Size, former.Size)
	case later.Size == former.Size && later.Root != former.Root:
		return fmt.Errorf("there are two different logs of %d events: the log was rewritten or has forked", later.Size)
	case later.Size == former.Size || former.Size == 0:
		return nil
	}
	if err := tlog.CheckTree(proof, later.Size, later.Root, former.Size, former.Root); err != nil {
		return fmt.Errorf("the log of %d events does not continue the one of %d: it was rewritten or has forked: %w", later.Size, former.Size, err)
	}
	return nil
}
