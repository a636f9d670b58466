package tests

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// logClient is a verifier of a tiled log that knows nothing of this project: the
// checksum database's own code, the specification's paths, and the log's key. It
// remembers the last tree that it has verified.
type logClient struct {
	prefix   string // of the log's addresses, with a slash at its end
	verifier note.Verifier
	known    tlog.Tree
	entries  [][]byte // of the known tree
}

func (c *logClient) fetch(path string) ([]byte, error) {
	res, err := http.Get(c.prefix + path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, res.StatusCode, body)
	}
	return body, err
}

// checkpoint is the tree that the log says it has now, with its signature checked.
func (c *logClient) checkpoint() (tree tlog.Tree, err error) {
	signed, err := c.fetch("checkpoint")
	if err != nil {
		return tree, err
	}
	n, err := note.Open(signed, note.VerifierList(c.verifier))
	if err != nil {
		return tree, err
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 || lines[0] != c.verifier.Name() {
		return tree, fmt.Errorf("no checkpoint of %s: %q", c.verifier.Name(), n.Text)
	}
	if tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return tree, err
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return tree, fmt.Errorf("%q is no root: %w", lines[2], err)
	}
	tree.Hash = tlog.Hash(root)
	return tree, nil
}

// tilePath is the path by C2SP tlog-tiles, which has no height in it and another
// word for what the checksum database calls data.
func tilePath(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), "tile/8/")
	if rest, ok := strings.CutPrefix(path, "data/"); ok {
		path = "entries/" + rest
	}
	return "tile/" + path
}

// Height, ReadTiles and SaveTiles are tlog's TileReader.
func (c *logClient) Height() int { return 8 }

func (c *logClient) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		var err error
		if data[i], err = c.fetch(tilePath(t)); err != nil {
			return nil, err
		}
		if len(data[i]) != t.W*tlog.HashSize {
			return nil, fmt.Errorf("%s has %d bytes", tilePath(t), len(data[i]))
		}
	}
	return data, nil
}

func (c *logClient) SaveTiles([]tlog.Tile, [][]byte) {}

// misfits are the leaves whose entries are not what was logged.
type misfits []int64

func (m misfits) Error() string {
	return fmt.Sprintf("the entries %v are not what was logged", []int64(m))
}

// bundle splits the entries of a tile's width.
func (c *logClient) bundle(n int64, width int) ([][]byte, error) {
	path := tilePath(tlog.Tile{H: 8, L: -1, N: n, W: width})
	data, err := c.fetch(path)
	if err != nil {
		return nil, err
	}
	var entries [][]byte
	for len(data) > 0 {
		end := 2
		if len(data) >= 2 {
			end += int(data[0])<<8 + int(data[1])
		}
		if len(data) < end {
			return nil, fmt.Errorf("%s ends within an entry", path)
		}
		entries, data = append(entries, data[2:end]), data[end:]
	}
	if len(entries) != width {
		return nil, fmt.Errorf("%s has %d entries", path, len(entries))
	}
	return entries, nil
}

// follow verifies the log as it is now: the signature, that it continues what was
// known, every tile up to the root, and every entry. Only then is it known.
func (c *logClient) follow() error {
	tree, err := c.checkpoint()
	if err != nil {
		return err
	}
	if tree.N < c.known.N || tree.N == c.known.N && tree.Hash != c.known.Hash {
		return fmt.Errorf("the log had %d events, root %s; now it has %d, root %s", c.known.N, c.known.Hash, tree.N, tree.Hash)
	}
	reader := tlog.TileHashReader(tree, c)
	if c.known.N > 0 && tree.N > c.known.N {
		proof, err := tlog.ProveTree(tree.N, c.known.N, reader)
		if err != nil {
			return err
		}
		if err := tlog.CheckTree(proof, tree.N, tree.Hash, c.known.N, c.known.Hash); err != nil {
			return fmt.Errorf("it does not continue the log of %d: %w", c.known.N, err)
		}
	}
	var all [][]byte
	var wrong misfits
	for n := int64(0); n*256 < tree.N; n++ {
		width := int(min(256, tree.N-n*256))
		entries, err := c.bundle(n, width)
		if err != nil {
			return err
		}
		indexes := make([]int64, width)
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(0, n*256+int64(i))
		}
		hashes, err := reader.ReadHashes(indexes)
		if err != nil {
			return err
		}
		for i, entry := range entries {
			if tlog.RecordHash(entry) != hashes[i] {
				wrong = append(wrong, n*256+int64(i))
			}
		}
		all = append(all, entries...)
	}
	if wrong != nil {
		return wrong
	}
	for _, leaf := range []int64{0, tree.N / 2, tree.N - 1} {
		proof, err := tlog.ProveRecord(tree.N, leaf, reader)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, leaf, tlog.RecordHash(all[leaf])); err != nil {
			return err
		}
	}
	c.known, c.entries = tree, all
	return nil
}

// forged is a log that whoever has the key makes of entries that they choose.
type forged struct {
	signer  note.Signer
	entries [][]byte
	hashes  []tlog.Hash
}

func forge(signer note.Signer, entries [][]byte) (*forged, error) {
	f := &forged{signer: signer, entries: entries}
	for i, entry := range entries {
		hashes, err := tlog.StoredHashes(int64(i), entry, f)
		if err != nil {
			return nil, err
		}
		f.hashes = append(f.hashes, hashes...)
	}
	return f, nil
}

// ReadHashes is tlog's HashReader.
func (f *forged) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		list[i] = f.hashes[at]
	}
	return list, nil
}

// checkpoint is signed like a true one.
func (f *forged) checkpoint() ([]byte, error) {
	root, err := tlog.TreeHash(int64(len(f.entries)), f)
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", f.signer.Name(), len(f.entries), root)}, f.signer)
}

// serve answers for a path after the log's prefix.
func (f *forged) serve(path string) ([]byte, error) {
	if path == "checkpoint" {
		return f.checkpoint()
	}
	path = "tile/8/" + strings.TrimPrefix(strings.Replace(path, "tile/entries/", "tile/data/", 1), "tile/")
	t, err := tlog.ParseTilePath(path)
	if err != nil {
		return nil, err
	}
	if t.L >= 0 {
		return tlog.ReadTileData(t, f)
	}
	var data []byte
	for _, entry := range slices.Clone(f.entries[t.N*256:])[:t.W] {
		data = append(append(data, byte(len(entry)>>8), byte(len(entry))), entry...)
	}
	return data, nil
}
