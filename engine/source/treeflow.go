package source

import (
	"strconv"
	"strings"

	"holdpoint/engine/canon"
)

// isKey reports whether a simple key begins at the cursor: a quoted or plain
// scalar on one line, then a colon that ends the line or precedes a space.
func (r *treeReader) isKey() bool {
	s := strings.TrimLeft(r.rest(), " \t")
	for s != "" && (s[0] == '!' || s[0] == '&') {
		s = strings.TrimLeft(s[len(upTo(s, " \t")):], " \t")
	}
	if s == "" {
		return false
	}
	var i int
	switch s[0] {
	case '"':
		for i = 1; i < len(s) && s[i] != '"'; i++ {
			if s[i] == '\\' {
				i++
			}
		}
		i++
	case '\'':
		for i = 1; i < len(s); i++ {
			if s[i] == '\'' {
				if i++; i >= len(s) || s[i] != '\'' {
					break
				}
			}
		}
	case '*':
		i = len(upTo(s, " \t"))
	default:
		if !plainStart(s, false) {
			return false
		}
		i = plainLength(s, false)
	}
	if i >= len(s) {
		return false
	}
	s = strings.TrimLeft(s[i:], " \t")
	return indicator(s, ':')
}

// key reads the key that isKey has found, and its colon.
func (r *treeReader) key() *Tree {
	r.properties()
	key := r.flowNode(-1, 0, true)
	r.spaces()
	r.col++
	return key
}

// flowNode reads a scalar, an alias or a flow collection at the cursor. Keys are
// scalars on one line.
func (r *treeReader) flowNode(parent, depth int, key bool) *Tree {
	r.properties()
	s := r.rest()
	if s == "" {
		r.fail(r.here(), canon.Syntax, "a value is missing")
		return nil
	}
	switch s[0] {
	case '[', '{':
		return r.flowCollection(parent, depth)
	case '"', '\'':
		return r.quoted(parent)
	case '*':
		n := r.begin(Alias, Bare)
		r.refuse(n.Position, YAMLAlias, "")
		r.col += len(upTo(s, " \t,[]{}"))
		n.End = r.offset()
		return n
	}
	return r.plain(parent, false, key)
}

// flowCollection reads [a, b] or {a: b}, over as many lines as it takes.
func (r *treeReader) flowCollection(parent, depth int) *Tree {
	n := r.begin(List, Flow)
	if r.limit(n, depth); r.broken {
		return n
	}
	closing := byte(']')
	if r.rest()[0] == '{' {
		n.Kind, closing = Mapping, '}'
	}
	r.col++
	for {
		if !r.settle() {
			r.fail(n.Position, canon.Syntax, "the %q that this value needs is missing", closing)
			return n
		}
		if r.rest()[0] == closing {
			break
		}
		var key *Tree
		if n.Kind == Mapping {
			if key = r.flowKey(parent, closing); key == nil {
				return n
			}
		}
		name := strconv.Itoa(len(n.Items))
		if key != nil {
			name = key.Text
		}
		r.path = append(r.path, name)
		value := r.flowValue(parent, depth, key)
		if r.broken {
			return n
		}
		if key != nil {
			r.put(n, key, value)
		} else {
			n.Items = append(n.Items, value)
		}
		r.path = r.path[:len(r.path)-1]
		if !r.settle() {
			continue
		}
		if c := r.rest()[0]; c == ',' {
			r.col++
		} else if c != closing {
			r.fail(r.here(), canon.Syntax, "want a comma or %q after a value", closing)
			return n
		}
	}
	r.col++
	n.End = r.offset()
	return n
}

// flowKey reads a key of a flow mapping and its colon.
func (r *treeReader) flowKey(parent int, closing byte) *Tree {
	r.properties()
	s := r.rest()
	if s == "" || s[0] == '[' || s[0] == '{' || indicator(s, '?') {
		r.fail(r.here(), codeOf(s), "want a key, a colon and a value")
		return nil
	}
	var key *Tree
	if s[0] == '"' || s[0] == '\'' || s[0] == '*' {
		key = r.flowNode(parent, 0, true)
	} else {
		key = r.plain(parent, true, true)
	}
	if r.broken {
		return nil
	}
	r.spaces()
	if s = r.rest(); s == "" || s[0] != ':' || key.Style == Plain && len(s) > 1 && !isSpace(s[1]) {
		r.fail(r.here(), canon.Syntax, "want a colon and a value after every key, then a comma or %q", closing)
		return nil
	}
	r.col++
	return key
}

// flowValue reads an element of a flow list, or the value of a flow mapping's key.
func (r *treeReader) flowValue(parent, depth int, key *Tree) *Tree {
	bare := r.begin(Scalar, Bare)
	if !r.settle() {
		r.fail(Position{r.ln, 1}, canon.Syntax, "a value is missing")
		return nil
	}
	s := r.rest()
	if s[0] == ',' || s[0] == '}' || s[0] == ']' {
		if key == nil {
			r.fail(r.here(), canon.Syntax, "a value is missing")
		}
		return bare
	}
	r.properties()
	if !r.ended() && strings.IndexByte("[{\"'*", r.rest()[0]) >= 0 {
		return r.flowNode(parent, depth+1, false)
	}
	if r.ended() {
		r.fail(r.here(), canon.Syntax, "a value is missing")
		return nil
	}
	return r.plain(parent, true, false)
}
