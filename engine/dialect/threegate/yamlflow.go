package threegate

import "strings"

// isKey reports whether a simple key begins at the cursor: a quoted or plain
// scalar on one line, then a colon that ends the line or precedes a space.
func (r *reader) isKey() bool {
	s := strings.TrimLeft(r.rest(), " ")
	for s != "" && (s[0] == '!' || s[0] == '&') {
		s = strings.TrimLeft(s[len(upTo(s, " ")):], " ")
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
		i = len(upTo(s, " "))
	default:
		if !plainStart(s, false) {
			return false
		}
		i = plainLength(s, false)
	}
	if i >= len(s) {
		return false
	}
	s = strings.TrimLeft(s[i:], " ")
	return indicator(s, ':')
}

// key reads the key that isKey has found, and its colon.
func (r *reader) key() *node {
	r.properties()
	key := r.flowNode(-1, 0, true)
	r.spaces()
	r.col++
	return key
}

// flowNode reads a scalar, an alias or a flow collection at the cursor. Keys are
// scalars on one line.
func (r *reader) flowNode(parent, depth int, key bool) *node {
	r.properties()
	s := r.rest()
	if s == "" {
		r.fail(r.ln, "a value is missing")
		return nil
	}
	switch s[0] {
	case '[', '{':
		return r.flowCollection(parent, depth)
	case '"', '\'':
		return r.quoted(parent)
	case '*':
		r.refuse('*')
		n := &node{kind: aliasNode, line: r.ln + 1, start: r.offset()}
		r.col += len(upTo(s, " ,[]{}"))
		n.end = r.offset()
		return n
	}
	return r.plain(parent, false, key)
}

// flowCollection reads [a, b] or {a: b}, over as many lines as it takes.
func (r *reader) flowCollection(parent, depth int) *node {
	if depth > maxNesting {
		r.fail(r.ln, "values are nested more than %d deep", maxNesting)
		return nil
	}
	n := &node{kind: listNode, style: flowStyle, line: r.ln + 1, start: r.offset()}
	closing := byte(']')
	if r.rest()[0] == '{' {
		n.kind, closing = mapNode, '}'
	}
	r.col++
	for {
		if !r.settle() {
			r.fail(n.line-1, "the %q that this value needs is missing", closing)
			return n
		}
		if r.rest()[0] == closing {
			break
		}
		var key *node
		if n.kind == mapNode {
			if key = r.flowKey(parent, closing); key == nil {
				return n
			}
		}
		value := r.flowValue(parent, depth, key)
		if r.broken {
			return n
		}
		if key != nil {
			r.put(n, key, value)
		} else {
			n.items = append(n.items, value)
		}
		if !r.settle() {
			continue
		}
		if c := r.rest()[0]; c == ',' {
			r.col++
		} else if c != closing {
			r.fail(r.ln, "want a comma or %q after a value", closing)
			return n
		}
	}
	r.col++
	n.end = r.offset()
	return n
}

// flowKey reads a key of a flow mapping and its colon.
func (r *reader) flowKey(parent int, closing byte) *node {
	r.properties()
	s := r.rest()
	if s == "" || s[0] == '[' || s[0] == '{' || indicator(s, '?') {
		r.fail(r.ln, "want a key, a colon and a value")
		return nil
	}
	var key *node
	if s[0] == '"' || s[0] == '\'' || s[0] == '*' {
		key = r.flowNode(parent, 0, true)
	} else {
		key = r.plain(parent, true, true)
	}
	if r.broken {
		return nil
	}
	r.spaces()
	if s = r.rest(); s == "" || s[0] != ':' || key.style == plainStyle && len(s) > 1 && s[1] != ' ' {
		r.fail(r.ln, "want a colon and a value after every key, then a comma or %q", closing)
		return nil
	}
	r.col++
	return key
}

// flowValue reads an element of a flow list, or the value of a flow mapping's key.
func (r *reader) flowValue(parent, depth int, key *node) *node {
	after := r.offset()
	if !r.settle() {
		r.fail(r.ln-1, "a value is missing")
		return nil
	}
	s := r.rest()
	if s[0] == ',' || s[0] == '}' || s[0] == ']' {
		if key == nil {
			r.fail(r.ln, "a value is missing")
		}
		return &node{style: bareStyle, line: r.number(after), start: after, end: after}
	}
	r.properties()
	if !r.ended() && strings.IndexByte("[{\"'*", r.rest()[0]) >= 0 {
		return r.flowNode(parent, depth+1, false)
	}
	if r.ended() {
		r.fail(r.ln, "a value is missing")
		return nil
	}
	return r.plain(parent, true, false)
}
