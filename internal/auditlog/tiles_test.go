package auditlog

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"holdpoint/engine/audit"
)

// hashOf is hash i of a tile: no two of all tiles are the same.
func hashOf(name tileName, i int) tlog.Hash {
	return tlog.Hash{byte(name.level), byte(name.n), byte(name.n >> 8), byte(i)}
}

// TestTileCache: whatever is read in whatever order, every answer is the tile's,
// and the full tiles that were used last are read no second time.
func TestTileCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 4
		c := newTileCache(most)
		size := map[tileName]int{} // how far each tile has grown
		down := errors.New("the store is down")
		reads, fail := 0, false
		tiles := c.wrap(func(level int, n int64, width int) ([]tlog.Hash, error) {
			if reads++; fail {
				return nil, down
			}
			hashes := make([]tlog.Hash, width)
			for i := range hashes {
				hashes[i] = hashOf(tileName{level, n}, i)
			}
			return hashes, nil
		})
		var used []tileName // the last one last
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				name := tileName{rapid.IntRange(0, 1).Draw(t, "level"), int64(rapid.IntRange(0, 3).Draw(t, "n"))}
				size[name] = max(size[name], rapid.SampledFrom([]int{1, 200, audit.TileWidth}).Draw(t, "size"))
				width := rapid.IntRange(1, size[name]).Draw(t, "width")
				fail = rapid.IntRange(0, 9).Draw(t, "fail") == 0
				before := reads
				got, err := tiles(name.level, name.n, width)
				kept := slices.Contains(used, name)
				if kept != (reads == before) {
					t.Fatalf("%v, of which %v are kept: it was read %d times", name, used, reads-before)
				}
				if !kept && fail {
					if !errors.Is(err, down) {
						t.Fatalf("got %v, want the store's error", err)
					}
					return
				}
				if err != nil || len(got) != width {
					t.Fatalf("got %d hashes, %v; want %d", len(got), err, width)
				}
				for i, h := range got {
					if h != hashOf(name, i) {
						t.Fatalf("hash %d of %v is another one", i, name)
					}
				}
				if kept || width == audit.TileWidth {
					used = append(slices.DeleteFunc(used, func(u tileName) bool { return u == name }), name)
					used = used[max(0, len(used)-most):]
				}
			},
			"forget": func(t *rapid.T) {
				if rapid.IntRange(0, 19).Draw(t, "really") == 0 {
					c.forget()
					used = nil
				}
			},
			"": func(t *rapid.T) {
				if c.order.Len() != len(used) || len(c.held) != len(used) {
					t.Fatalf("%d tiles are kept and %d are named, want %d", c.order.Len(), len(c.held), len(used))
				}
			},
		})
	})
}

// TestFewReadThePublicLog: more than a few at once wait, and not for ever.
func TestFewReadThePublicLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		few := make(chan struct{}, 2)
		end := make(chan struct{})
		slow := func() ([]byte, error) {
			<-end
			return []byte("read"), nil
		}
		for range 2 {
			go func() { _, _ = publicly(context.Background(), few, slow) }()
		}
		synctest.Wait()
		if _, err := publicly(t.Context(), few, slow); !errors.Is(err, logBusy) {
			t.Errorf("a third one got %v, want %v", err, logBusy)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := publicly(gone, few, slow); !errors.Is(err, context.Canceled) {
			t.Errorf("one who had gone got %v", err)
		}
		close(end)
		synctest.Wait()
		for range 5 {
			if got, err := publicly(t.Context(), few, slow); err != nil || string(got) != "read" {
				t.Errorf("afterwards: %q, %v", got, err)
			}
		}
	})
}
