package audit

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// TestProverProvesTheSame: its proofs are those that read every tile anew.
func TestProverProvesTheSame(t *testing.T) {
	for _, size := range []int64{1, 2, 3, 255, 256, 257, 700} {
		var last *grown
		grow(t, size, func(g *grown, _ *plain) { last = g })
		p := NewProver(size, last.tree.Root(), last.read)
		for leaf := range size {
			got, err := p.Prove(leaf)
			if err != nil {
				t.Fatal(err)
			}
			if leaf%13 != 0 && leaf < size-3 {
				continue
			}
			want, err := Tiles(last.read).ProveLeaf(size, last.tree.Root(), leaf)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("leaf %d of %d: got %v, want %v, %v", leaf, size, got, want, err)
			}
		}
		if _, err := p.Prove(size); err == nil {
			t.Errorf("a leaf of %d that there is not", size)
		}
	}
}

// TestProverChecksTiles: tiles that are not the tree's prove nothing.
func TestProverChecksTiles(t *testing.T) {
	const size = 600
	var g *grown
	grow(t, size, func(last *grown, _ *plain) { g = last })
	gone := errors.New("gone")
	for _, id := range []tileID{{0, 1}, {0, 2}, {1, 0}} {
		for what, lie := range map[string]func(level int, h []tlog.Hash) ([]tlog.Hash, error){
			"changed": func(level int, h []tlog.Hash) ([]tlog.Hash, error) {
				h = slices.Clone(h)
				h[1-level][3]++
				return h, nil
			},
			"short": func(_ int, h []tlog.Hash) ([]tlog.Hash, error) { return h[:1], nil },
			"gone":  func(int, []tlog.Hash) ([]tlog.Hash, error) { return nil, gone },
		} {
			p := NewProver(size, g.tree.Root(), func(level int, n int64, width int) ([]tlog.Hash, error) {
				h, err := g.read(level, n, width)
				if level == id.level && n == id.n {
					return lie(level, h)
				}
				return h, err
			})
			if _, err := p.Prove(300); err == nil || what == "gone" && !errors.Is(err, gone) {
				t.Errorf("tile %v %s: %v", id, what, err)
			}
		}
	}
}
