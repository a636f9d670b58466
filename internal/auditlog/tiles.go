package auditlog

import (
	"container/list"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/audit"
)

// keptTiles is how many full tiles a gate remembers: 2 MiB of hashes, with the
// inner tiles of any log and the newest of its lowest level among them.
const keptTiles = 256

// tileCache remembers full tiles, which never change. It is for proofs alone, each
// of which is checked against a root: a tile that is wrong makes a proof fail, and
// never a wrong proof. It is safe for concurrent use.
type tileCache struct {
	mu    sync.Mutex
	most  int
	order *list.List // of *keptTile, the one that was used last in front
	held  map[tileName]*list.Element
}

type tileName struct {
	level int
	n     int64
}

type keptTile struct {
	name   tileName
	hashes []tlog.Hash
}

func newTileCache(most int) *tileCache {
	c := &tileCache{most: most}
	c.forget()
	return c
}

// forget drops all tiles.
func (c *tileCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order, c.held = list.New(), map[tileName]*list.Element{}
}

func (c *tileCache) get(name tileName) ([]tlog.Hash, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.held[name]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*keptTile).hashes, true
}

func (c *tileCache) put(name tileName, hashes []tlog.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.held[name]; ok {
		return // another proof has read it meanwhile
	}
	c.held[name] = c.order.PushFront(&keptTile{name, hashes})
	for c.order.Len() > c.most {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.held, last.Value.(*keptTile).name)
	}
}

// wrap returns tiles that are read from c where it has them, and remembers the
// full ones that it has not.
func (c *tileCache) wrap(read audit.Tiles) audit.Tiles {
	return func(level int, n int64, width int) ([]tlog.Hash, error) {
		name := tileName{level, n}
		if hashes, ok := c.get(name); ok && width <= len(hashes) {
			return hashes[:width], nil
		}
		hashes, err := read(level, n, width)
		if err == nil && len(hashes) == audit.TileWidth {
			c.put(name, hashes)
		}
		return hashes, err
	}
}
