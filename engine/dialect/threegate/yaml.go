package threegate

import "strings"

// maxNesting bounds lists and mappings inside each other. A request needs three.
const maxNesting = 16

// maxKeys bounds one mapping. The front matter knows sixteen keys.
const maxKeys = 128

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	listNode
	mapNode
	aliasNode // refused by F3; it stands for a value that is not known
)

type nodeStyle uint8

const (
	bareStyle nodeStyle = iota // nothing is written where a value could be
	plainStyle
	singleStyle
	doubleStyle
	blockStyle
	flowStyle
)

// node is one value of the front matter.
type node struct {
	kind  nodeKind
	style nodeStyle
	text  string // of a scalar
	line  int    // counted from 1
	// start and end are the bytes of the document that hold the value.
	start, end int
	keys       []*node // of a mapping, beside items
	items      []*node // elements of a list, values of a mapping
}

// get is the value of a mapping's key, or nil.
func (n *node) get(key string) *node {
	for i, k := range n.keys {
		if k.text == key {
			return n.items[i]
		}
	}
	return nil
}

// reader reads the strict part of YAML 1.2 that package threegate names in
// its documentation. The first structural error ends it.
type reader struct {
	*lines
	add    func(rule string, line int, format string, args ...any)
	ln     int // the current line
	col    int // the current byte of it
	last   int // the line that ends the front matter
	broken bool
}

// read reads the lines from until to as one mapping. It returns nil when there
// is none, and complete only when everything could be read.
func read(l *lines, from, to int, add func(string, int, string, ...any)) (root *node, complete bool) {
	r := &reader{lines: l, add: add, ln: from, last: to}
	for i := from; i < to; i++ {
		line := l.at(i)
		switch {
		case strings.HasPrefix(line, "%"):
			r.fail(i, "directives are not allowed; the front matter is one plain YAML mapping")
		case isMarker(line, "---"), isMarker(line, "..."):
			r.fail(i, "the front matter must be one document, without a mark that begins or ends another")
		}
	}
	if r.broken {
		return nil, false
	}
	if !r.settle() {
		r.fail(from-1, "the front matter is empty; it must be one mapping of keys to values")
		return nil, false
	}
	root = r.blockNode(-1, 0)
	if !r.broken && r.settle() {
		r.fail(r.ln, "this line does not belong to the mapping; every key must stand in the same column")
	}
	if root != nil && root.kind != mapNode {
		if !r.broken {
			r.fail(root.line-1, "the front matter must be one mapping of keys to values")
		}
		return nil, false
	}
	return root, !r.broken
}

func isMarker(line, mark string) bool {
	rest, found := strings.CutPrefix(line, mark)
	return found && (rest == "" || rest[0] == ' ')
}

// fail reports the structural error that ends the reading.
func (r *reader) fail(ln int, format string, args ...any) {
	if !r.broken {
		r.add("F2", ln+1, format, args...)
	}
	r.broken = true
}

func (r *reader) rest() string { return r.at(r.ln)[r.col:] }

func (r *reader) offset() int { return r.starts[r.ln] + r.col }

// settle moves to the next thing that is neither space nor comment.
func (r *reader) settle() bool {
	for ; r.ln < r.last; r.ln, r.col = r.ln+1, 0 {
		r.spaces()
		if !r.ended() {
			return true
		}
	}
	return false
}

func (r *reader) spaces() {
	line := r.at(r.ln)
	for r.col < len(line) && line[r.col] == ' ' {
		r.col++
	}
}

// ended reports whether nothing but a comment is left of the line.
func (r *reader) ended() bool {
	line := r.at(r.ln)
	return r.col >= len(line) || line[r.col] == '#' && (r.col == 0 || line[r.col-1] == ' ')
}

// indicator reports whether s begins with c as an indicator of structure.
func indicator(s string, c byte) bool {
	return s != "" && s[0] == c && (len(s) == 1 || s[1] == ' ')
}

// properties steps over tags and anchors, which F3 refuses, so that the rest
// can be judged too.
func (r *reader) properties() {
	for s := r.rest(); s != "" && (s[0] == '!' || s[0] == '&'); s = r.rest() {
		r.refuse(s[0])
		r.col += len(upTo(s, " ,[]{}"))
		r.spaces()
	}
}

func (r *reader) refuse(c byte) {
	name := map[byte]string{'!': "tags", '&': "anchors", '*': "aliases"}[c]
	r.add("F3", r.ln+1, "%s are not allowed; write the plain value, quoted if it begins with %q", name, c)
}

// upTo is s until the first of the characters in stop, and at least one byte.
func upTo(s, stop string) string {
	if i := strings.IndexAny(s[1:], stop); i >= 0 {
		return s[:i+1]
	}
	return s
}

// blockNode reads the value at the cursor, which stands right of the column parent.
func (r *reader) blockNode(parent, depth int) *node {
	if depth > maxNesting {
		r.fail(r.ln, "values are nested more than %d deep", maxNesting)
		return nil
	}
	col := r.col
	if r.isKey() {
		return r.blockMap(col, depth)
	}
	r.properties()
	if r.ended() {
		return r.below(parent, depth)
	}
	s := r.rest()
	if indicator(s, '-') {
		return r.blockList(r.col, depth)
	}
	return r.inline(parent, depth)
}

// below reads a value that begins on a later line, right of the column parent.
// There may be none.
func (r *reader) below(parent, depth int) *node {
	bare := &node{style: bareStyle, line: r.ln + 1, start: r.offset(), end: r.offset()}
	r.ln, r.col = r.ln+1, 0
	if !r.settle() || r.col <= parent {
		return bare
	}
	return r.blockNode(parent, depth)
}

// inline reads a scalar or a flow collection that begins at the cursor, and
// makes sure that nothing follows it on its last line.
func (r *reader) inline(parent, depth int) *node {
	s := r.rest()
	var n *node
	switch {
	case s[0] == '|' || s[0] == '>':
		return r.blockScalar(parent)
	case indicator(s, '-'), indicator(s, '?'):
		r.fail(r.ln, "%q cannot stand here; quote the value if it is text", s[0])
	default:
		n = r.flowNode(parent, depth, false)
	}
	if r.broken {
		return n
	}
	if r.ln < r.last {
		r.spaces()
		if !r.ended() {
			r.fail(r.ln, "something follows the value; quote a value that holds a colon and a space, and put one key on a line")
		}
		r.ln, r.col = r.ln+1, 0
	}
	return n
}

func (r *reader) blockList(col, depth int) *node {
	list := &node{kind: listNode, style: blockStyle, line: r.ln + 1, start: r.offset()}
	for !r.broken {
		r.col++
		r.spaces()
		var item *node
		if r.ended() {
			item = r.below(col, depth+1)
		} else {
			item = r.blockNode(col, depth+1)
		}
		if item == nil || r.broken {
			break
		}
		list.items, list.end = append(list.items, item), item.end
		if !r.settle() || r.col < col {
			break
		}
		if r.col > col {
			r.fail(r.ln, "the line is indented further than the list that it should belong to")
			break
		}
		if !indicator(r.rest(), '-') {
			break
		}
	}
	return list
}

func (r *reader) blockMap(col, depth int) *node {
	m := &node{kind: mapNode, style: blockStyle, line: r.ln + 1, start: r.offset()}
	for !r.broken {
		r.properties()
		if !r.isKey() {
			r.fail(r.ln, "want a key, a colon and a value; explicit keys and other forms are not allowed")
			break
		}
		key := r.key()
		value := r.mapValue(col, depth)
		if value == nil {
			break
		}
		r.put(m, key, value)
		if r.broken || !r.settle() || r.col < col {
			break
		}
		if r.col > col {
			r.fail(r.ln, "the line is indented further than the key that it should belong to")
		}
	}
	return m
}

// put adds a pair to a mapping, and refuses merge keys and duplicates.
func (r *reader) put(m, key, value *node) {
	if len(m.keys) >= maxKeys {
		r.fail(key.line-1, "a mapping has more than %d keys", maxKeys)
		return
	}
	if key.text == "<<" && key.style == plainStyle {
		r.add("F2", key.line, "merge keys are not allowed; write every key out")
	} else if m.get(key.text) != nil {
		r.add("F2", key.line, "the key %s is here twice; every key may appear once", show(key.text))
		return
	}
	m.keys, m.items, m.end = append(m.keys, key), append(m.items, value), value.end
}

// mapValue reads what follows the colon of a key in column col.
func (r *reader) mapValue(col, depth int) *node {
	colon := r.offset()
	r.spaces()
	r.properties()
	if !r.ended() {
		return r.inline(col, depth+1)
	}
	bare := &node{style: bareStyle, line: r.ln + 1, start: colon, end: colon}
	r.ln, r.col = r.ln+1, 0
	switch {
	case !r.settle() || r.col < col:
		return bare
	case r.col > col:
		return r.blockNode(col, depth+1)
	case indicator(r.rest(), '-'):
		return r.blockList(col, depth+1)
	}
	return bare
}
