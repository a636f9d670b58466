package audit

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// plain is x/mod's own tree, which stores every hash.
type plain struct{ hashes []tlog.Hash }

func (p *plain) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = p.hashes[at]
	}
	return out, nil
}

// grown is a Tree with all its tiles, as a log would keep them.
type grown struct {
	tree  Tree
	tiles map[string][]tlog.Hash
}

func (g *grown) keep(t Tile) {
	g.tiles[fmt.Sprint(t.Level, "/", t.N)] = slices.Clone(t.Hashes)
}

func (g *grown) read(level int, n int64, width int) ([]tlog.Hash, error) {
	hashes := g.tiles[fmt.Sprint(level, "/", n)]
	if len(hashes) < width {
		return nil, fmt.Errorf("no tile %d/%d of %d", level, n, width)
	}
	return hashes[:width], nil
}

func grow(t testing.TB, size int64, visit func(g *grown, p *plain)) {
	t.Helper()
	g, p := &grown{tiles: map[string][]tlog.Hash{}}, &plain{}
	for i := range size {
		data := fmt.Appendf(nil, "leaf %d", i)
		hashes, err := tlog.StoredHashes(i, data, p)
		if err != nil {
			t.Fatal(err)
		}
		p.hashes = append(p.hashes, hashes...)
		g.tree.Append(tlog.RecordHash(data), g.keep)
		for _, tile := range g.tree.Partial() {
			g.keep(tile)
		}
		visit(g, p)
	}
}

// TestTreeIsRFC6962: at every size the root is that of x/mod's tree, and so are
// the tree opened from its tiles and its proofs.
func TestTreeIsRFC6962(t *testing.T) {
	roots := []tlog.Hash{emptyRoot}
	grow(t, 1100, func(g *grown, p *plain) {
		size := g.tree.Size()
		want, err := tlog.TreeHash(size, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.tree.Root(); got != want {
			t.Fatalf("root of %d leaves = %v, want %v", size, got, want)
		}
		roots = append(roots, want)
		opened, err := OpenTree(size, g.read)
		if err != nil || opened.Root() != want {
			t.Fatalf("OpenTree(%d) = %v, %v", size, opened, err)
		}
		leaf := (size * 7) % size
		proof, err := Tiles(g.read).ProveLeaf(size, want, leaf)
		if err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckRecord(proof, size, want, leaf, tlog.RecordHash(fmt.Appendf(nil, "leaf %d", leaf))); err != nil {
			t.Fatal(err)
		}
		former := size * 3 / 5
		between, err := Tiles(g.read).ProveTree(size, want, former)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckTree(between, Checkpoint{Size: size, Root: want}, Checkpoint{Size: former, Root: roots[former]}); err != nil {
			t.Fatal(err)
		}
		if former > 1 {
			if err := CheckTree(between, Checkpoint{Size: size, Root: want}, Checkpoint{Size: former, Root: roots[former-1]}); err == nil {
				t.Fatalf("a forked tree of %d was taken for a beginning of %d", former, size)
			}
		}
	})
}

func TestTreeAcrossLevels(t *testing.T) {
	var tree Tree
	full := map[int]int64{}
	for i := range int64(TileWidth*TileWidth + 3) {
		tree.Append(tlog.RecordHash(fmt.Append(nil, i)), func(tile Tile) {
			if tile.N != full[tile.Level] || len(tile.Hashes) != TileWidth {
				t.Fatalf("full tile %d of level %d with %d hashes, want number %d", tile.N, tile.Level, len(tile.Hashes), full[tile.Level])
			}
			full[tile.Level]++
		})
	}
	if full[0] != TileWidth || full[1] != 1 || full[2] != 0 {
		t.Errorf("full tiles by level: %v", full)
	}
	partial := tree.Partial()
	if len(partial) != 2 || partial[0].Level != 0 || partial[0].N != TileWidth || partial[1].Level != 2 || partial[1].N != 0 {
		t.Errorf("partial tiles: %+v", partial)
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]Resource{
		"tile/0/000":             {Width: 256},
		"tile/0/x001/x234/067":   {N: 1234067, Width: 256},
		"tile/3/005.p/17":        {Level: 3, N: 5, Width: 17},
		"tile/entries/x001/000":  {Entries: true, N: 1000, Width: 256},
		"tile/entries/000.p/255": {Entries: true, Width: 255},
		"tile/7/x009/999.p/1":    {Level: 7, N: 9999, Width: 1},
	} {
		got, err := ParsePath(path)
		if err != nil || got != want {
			t.Errorf("ParsePath(%q) = %+v, %v", path, got, err)
		}
		if got.Path() != path {
			t.Errorf("Path of %+v = %q", got, got.Path())
		}
	}
	for _, path := range []string{
		"", "tile", "tile/0", "tile/0/", "tile/0/0", "tile/0/0000", "tile/00/000", "tile/-1/000", "tile/8/000", "tile/x/000", "tile/0/x000/000", "tile/0/001/000",
		"tile/0/x001", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/07", "tile/0/000.p/", "tile/0/000/", "tile/0//000", "tile/0/+01", "tile/0/../000", "tile/entries/000.p/1/2",
		"tile/0/x999/x999/x999/x999/x999/x999/x999/999", "tile/0/-01", "tile/0/x-01/000", "tile/0/x001/-01", "tile/entries/-01", "tile/entries/-99.p/1", "tile/0/000.p/-1",
		"tile/0/000.p/+1", "tile/0/1_0", "tile/0/ 01", "tile/0/0x1", "tile/-0/000", "tile/+0/000", "tile/0/٠٠١",
	} {
		if r, err := ParsePath(path); err == nil {
			t.Errorf("ParsePath(%q) = %+v, want an error", path, r)
		}
	}
}

// tilePath is the form of C2SP tlog-tiles.
var tilePath = regexp.MustCompile(`^tile/([0-7]|entries)/(x[0-9]{3}/)*[0-9]{3}(\.p/[1-9][0-9]{0,2})?$`)

func FuzzParsePath(f *testing.F) {
	for _, path := range []string{"tile/0/x001/x234/067.p/8", "tile/0/-01", "tile/entries/-01.p/1"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, err := ParsePath(path)
		if err != nil {
			return
		}
		if r.Path() != path || !tilePath.MatchString(path) {
			t.Errorf("%q reads as %+v, which is %q", path, r, r.Path())
		}
		if r.In(0) || r.N < 0 || r.Level < 0 || r.Width < 1 || r.Width > TileWidth {
			t.Errorf("%q reads as %+v, which no log has", path, r)
		}
	})
}
