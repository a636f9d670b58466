package source

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// TreeKind is what a Tree is.
type TreeKind uint8

// The kinds. An Alias, which is refused, stands for a value that is not known.
const (
	Scalar TreeKind = iota
	List
	Mapping
	Alias
)

// Style is how a value is written.
type Style uint8

// The styles. Bare is a value of which nothing is written.
const (
	Bare Style = iota
	Plain
	SingleQuoted
	DoubleQuoted
	Block
	Flow
)

// Tree is a value as YAML writes it, before its scalars are given types.
type Tree struct {
	Kind  TreeKind
	Style Style
	Text  string // of a scalar
	Position
	// Start and End are the bytes of the text that hold the value.
	Start, End int
	// Items are the elements of a list, or the values of a mapping beside its Keys.
	Keys, Items []*Tree

	pairs int             // that were read of a mapping, duplicates among them
	known map[string]bool // the keys' texts
}

// Get is the value of a mapping's key, or nil.
func (t *Tree) Get(key string) *Tree {
	for i, k := range t.Keys {
		if k.Text == key {
			return t.Items[i]
		}
	}
	return nil
}

// TreeProblem is a mistake in YAML. Messages of the codes YAMLAnchor, YAMLAlias,
// YAMLTag, YAMLMerge and canon.DuplicateKey are left to the caller; Key is the key
// of the last two.
type TreeProblem struct {
	Problem
	Key string
}

// TreeOptions bound a tree: it is read from the lines From until To, counted from
// 0. MaxDepth is how many lists and mappings may be around a value, MaxKeys how
// many keys a mapping may have.
type TreeOptions struct{ From, To, MaxDepth, MaxKeys int }

// ReadTree reads the forms of YAML 1.2 that have one meaning: block and flow
// collections, plain, quoted, literal and folded scalars, comments. Anchors, tags
// and aliases, merge keys and duplicate keys are problems beside which it reads
// on; anything else that it does not take is a last problem, behind which the tree
// is not complete. Marks of documents and directives are up to the caller. The
// tree is nil when there is none.
func ReadTree(text string, o TreeOptions) (root *Tree, complete bool, problems []TreeProblem) {
	r := &treeReader{lines: splitLines(text), o: o, ln: o.From}
	if r.settle() {
		root = r.blockNode(-1, 0)
		if !r.broken && r.settle() {
			r.fail(r.here(), canon.Syntax, "this line does not belong to the mapping; every key must stand in the same column")
		}
	}
	return root, !r.broken, r.problems
}

// lines is a text and where its lines begin.
type lines struct {
	src    string
	starts []int
}

func splitLines(src string) lines {
	starts := []int{0}
	for i := range len(src) {
		if src[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return lines{src, starts}
}

// at is line i, from 0, without its line feed.
func (l *lines) at(i int) string {
	if i+1 < len(l.starts) {
		return l.src[l.starts[i] : l.starts[i+1]-1]
	}
	return l.src[l.starts[i]:]
}

// maxTreeProblems is more than whoever wrote the text would want to read.
const maxTreeProblems = 1 << 16

// treeReader reads a tree. The first structural error ends it.
type treeReader struct {
	lines
	o        TreeOptions
	problems []TreeProblem
	path     []string // the keys and indexes around the value
	ln       int      // the current line
	col      int      // the current byte of it
	broken   bool
	// counted is the last place whose column was counted, and the byte there.
	counted   Position
	countedAt int
}

// fail reports the structural error that ends the reading.
func (r *treeReader) fail(at Position, code, format string, args ...any) {
	if !r.broken {
		r.problems = append(r.problems, TreeProblem{Problem: Problem{Line: at.Line, Column: at.Column, Code: code, Message: fmt.Sprintf(format, args...)}})
	}
	r.broken = true
}

// refuse reports something else.
func (r *treeReader) refuse(at Position, code, key string) {
	if len(r.problems) > maxTreeProblems {
		r.fail(at, TooManyProblems, "there are more problems than these")
		return
	}
	r.problems = append(r.problems, TreeProblem{Problem: Problem{Line: at.Line, Column: at.Column, Code: code}, Key: key})
}

// placed gives the last problem the path of names.
func (r *treeReader) placed(names []string) {
	p := &r.problems[len(r.problems)-1]
	for _, name := range names {
		p.Path = Pointer(p.Path, name)
	}
}

// here is where the cursor is.
func (r *treeReader) here() Position {
	if r.ln >= len(r.starts) {
		return Position{r.ln + 1, 1}
	}
	if r.counted.Line != r.ln+1 || r.countedAt > r.offset() {
		r.counted, r.countedAt = Position{r.ln + 1, 1}, r.starts[r.ln]
	}
	r.counted.Column += utf8.RuneCountInString(r.src[r.countedAt:r.offset()])
	r.countedAt = r.offset()
	return r.counted
}

// begin is a node that begins at the cursor.
func (r *treeReader) begin(kind TreeKind, style Style) *Tree {
	return &Tree{Kind: kind, Style: style, Position: r.here(), Start: r.offset(), End: r.offset()}
}

func (r *treeReader) rest() string { return r.at(r.ln)[r.col:] }

func (r *treeReader) offset() int { return r.starts[r.ln] + r.col }

// settle moves to the next thing that is neither space nor comment.
func (r *treeReader) settle() bool {
	for ; r.ln < r.o.To; r.ln, r.col = r.ln+1, 0 {
		begin := r.col
		r.spaces()
		if r.ended() {
			continue
		}
		if tab := strings.IndexByte(r.at(r.ln)[:r.col], '\t'); begin == 0 && tab >= 0 {
			r.col = tab
			r.fail(r.here(), canon.Syntax, "lines are indented with spaces, not with tabs")
		}
		return true
	}
	return false
}

func (r *treeReader) spaces() {
	line := r.at(r.ln)
	for r.col < len(line) && isSpace(line[r.col]) {
		r.col++
	}
}

// ended reports whether nothing but a comment is left of the line.
func (r *treeReader) ended() bool {
	line := r.at(r.ln)
	return r.col >= len(line) || line[r.col] == '#' && (r.col == 0 || isSpace(line[r.col-1]))
}

// indicator reports whether s begins with c as an indicator of structure.
func indicator(s string, c byte) bool {
	return s != "" && s[0] == c && (len(s) == 1 || isSpace(s[1]))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func isBlank(line string) bool { return strings.Trim(line, " \t") == "" }

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// limit refuses a list or mapping that is too deep.
func (r *treeReader) limit(t *Tree, depth int) {
	if depth > r.o.MaxDepth && !r.broken {
		r.fail(t.Position, canon.TooDeep, "values are nested more than %d deep", r.o.MaxDepth)
		r.placed(r.path)
	}
}

// properties steps over tags and anchors, so that the rest can be judged too.
func (r *treeReader) properties() {
	for s := r.rest(); s != "" && (s[0] == '!' || s[0] == '&'); s = r.rest() {
		r.refuse(r.here(), map[byte]string{'!': YAMLTag, '&': YAMLAnchor}[s[0]], "")
		r.col += len(upTo(s, " \t,[]{}"))
		r.spaces()
	}
}

// codeOf is the code of a mistake at s: YAMLKey for an explicit key.
func codeOf(s string) string {
	if indicator(s, '?') {
		return YAMLKey
	}
	return canon.Syntax
}

// upTo is s until the first of the characters in stop, and at least one byte.
func upTo(s, stop string) string {
	if i := strings.IndexAny(s[1:], stop); i >= 0 {
		return s[:i+1]
	}
	return s
}

// blockNode reads the value at the cursor, which stands right of the column parent.
func (r *treeReader) blockNode(parent, depth int) *Tree {
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
func (r *treeReader) below(parent, depth int) *Tree {
	bare := r.begin(Scalar, Bare)
	r.ln, r.col = r.ln+1, 0
	if !r.settle() || r.col <= parent {
		return bare
	}
	return r.blockNode(parent, depth)
}

// inline reads a scalar or a flow collection that begins at the cursor, and
// makes sure that nothing follows it on its last line.
func (r *treeReader) inline(parent, depth int) *Tree {
	s := r.rest()
	var n *Tree
	switch {
	case s[0] == '|' || s[0] == '>':
		return r.blockScalar(parent)
	case indicator(s, '-'), indicator(s, '?'):
		r.fail(r.here(), codeOf(s), "%q cannot stand here; quote the value if it is text", s[0])
	default:
		n = r.flowNode(parent, depth, false)
	}
	if r.broken {
		return n
	}
	if r.ln < r.o.To {
		r.spaces()
		if !r.ended() {
			r.fail(r.here(), canon.Syntax, "something follows the value; quote a value that holds a colon and a space, and put one key on a line")
		}
		r.ln, r.col = r.ln+1, 0
	}
	return n
}

func (r *treeReader) blockList(col, depth int) *Tree {
	list := r.begin(List, Block)
	r.limit(list, depth)
	for !r.broken {
		r.col++
		r.spaces()
		r.path = append(r.path, strconv.Itoa(len(list.Items)))
		var item *Tree
		if r.ended() {
			item = r.below(col, depth+1)
		} else {
			item = r.blockNode(col, depth+1)
		}
		r.path = r.path[:len(r.path)-1]
		if item == nil || r.broken {
			break
		}
		list.Items, list.End = append(list.Items, item), item.End
		if !r.settle() || r.col < col {
			break
		}
		if r.col > col {
			r.fail(r.here(), canon.Syntax, "the line is indented further than the list that it should belong to")
			break
		}
		if !indicator(r.rest(), '-') {
			break
		}
	}
	return list
}

func (r *treeReader) blockMap(col, depth int) *Tree {
	m := r.begin(Mapping, Block)
	r.limit(m, depth)
	for !r.broken {
		r.properties()
		if !r.isKey() {
			r.fail(r.here(), codeOf(r.rest()), "want a key, a colon and a value; explicit keys and other forms are not allowed")
			break
		}
		key := r.key()
		r.path = append(r.path, key.Text)
		value := r.mapValue(col, depth)
		if value == nil {
			break
		}
		r.put(m, key, value)
		r.path = r.path[:len(r.path)-1]
		if r.broken || !r.settle() || r.col < col {
			break
		}
		if r.col > col {
			r.fail(r.here(), canon.Syntax, "the line is indented further than the key that it should belong to")
		}
	}
	return m
}

// put adds a pair to a mapping, and refuses merge keys and duplicates. The path is
// the value's.
func (r *treeReader) put(m, key, value *Tree) {
	m.pairs++
	switch {
	case m.pairs > r.o.MaxKeys:
		r.fail(key.Position, canon.TooManyMembers, "a mapping has more than %d keys", r.o.MaxKeys)
		r.placed(r.path[:len(r.path)-1])
		return
	case key.Text == "<<" && key.Style == Plain:
		r.refuse(key.Position, YAMLMerge, key.Text)
	case m.known[key.Text]:
		r.refuse(key.Position, canon.DuplicateKey, key.Text)
		r.placed(r.path)
		return
	}
	if m.known == nil {
		m.known = map[string]bool{}
	}
	m.known[key.Text] = true
	m.Keys, m.Items, m.End = append(m.Keys, key), append(m.Items, value), value.End
}

// mapValue reads what follows the colon of a key in column col.
func (r *treeReader) mapValue(col, depth int) *Tree {
	bare := r.begin(Scalar, Bare)
	r.spaces()
	r.properties()
	if !r.ended() {
		return r.inline(col, depth+1)
	}
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
