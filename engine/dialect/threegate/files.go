package threegate

import (
	"regexp"
	"slices"
	"strings"
)

const (
	inRoot  = "/in/"
	outRoot = "/out/"
)

var (
	safeName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	hexSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// maxName bounds a file's name, in bytes.
const maxName = 255

func isSafeName(s string) bool { return len(s) <= maxName && safeName.MatchString(s) }

// inputs applies I1 to I4.
func (c *checker) inputs() {
	list := c.root.get("inputs")
	if list == nil {
		return
	}
	if list.kind != listNode {
		c.add("I1", list.line, "inputs must be a list of entries with name and sha256, [] for none")
		return
	}
	seen := map[string]bool{}
	for _, item := range list.items {
		c.shape("I1", item, "an input", "name", "sha256")
		var in Input
		if n := item.get("name"); n != nil {
			name, ok := n.str()
			switch {
			case !ok || !isSafeName(name):
				c.add("I2", n.line, "an input's name must be a relative path of letters, digits, dots, hyphens and underscores, without a part that begins with a dot")
			case seen[name]:
				c.add("I4", n.line, "the input %s is declared twice", show(name))
			default:
				seen[name] = true
				in.Name = name
			}
		}
		if n := item.get("sha256"); n != nil {
			if text, ok := n.str(); ok && hexSHA256.MatchString(text) {
				in.SHA256 = text
			} else {
				c.add("I3", n.line, "sha256 must be the file's SHA-256 as 64 lower-case hex digits, in quotes if they are all digits")
			}
		}
		if in.Name != "" {
			c.request.Inputs = append(c.request.Inputs, in)
		}
	}
}

// shape holds an entry of a list to exactly two keys.
func (c *checker) shape(rule string, item *node, what, first, second string) {
	if item.kind != mapNode {
		c.add(rule, item.line, "%s must be an entry with %s and %s", what, first, second)
		return
	}
	for _, key := range []string{first, second} {
		if item.get(key) == nil {
			c.add(rule, item.line, "%s needs the key %s", what, key)
		}
	}
	for _, k := range item.keys {
		if k.text != first && k.text != second {
			c.add(rule, k.line, "%s has the keys %s and %s only, not %s", what, first, second, show(k.text))
		}
	}
}

// outputs applies O1 and O2.
func (c *checker) outputs() {
	list := c.root.get("outputs_expected")
	if list == nil {
		return
	}
	if list.kind != listNode || len(list.items) == 0 {
		c.add("O1", list.line, "outputs_expected must be a list of at least one entry with path and description")
		return
	}
	seen := map[string]bool{}
	for _, item := range list.items {
		c.shape("O1", item, "an output", "path", "description")
		var out Output
		if n := item.get("description"); n != nil {
			text, ok := n.str()
			if !ok || blankText(text) {
				c.add("O1", n.line, "an output's description must be a text that is not blank")
			}
			out.Description = text
		}
		n := item.get("path")
		if n == nil {
			continue
		}
		text, ok := n.str()
		name := strings.TrimPrefix(text, outRoot)
		switch {
		case !ok || !isSafeName(name):
			c.add("O2", n.line, "an output's path must be relative or begin with /out/, of letters, digits, dots, hyphens and underscores, without a part that begins with a dot")
		case seen[name]:
			c.add("O2", n.line, "the output %s is declared twice", show(outRoot+name))
		default:
			seen[name] = true
			out.Path = outRoot + name
			c.request.OutputsExpected = append(c.request.OutputsExpected, out)
		}
	}
}

// input is the declared input at an absolute path.
func (r *Request) input(path string) (Input, bool) {
	for _, in := range r.Inputs {
		if inRoot+in.Name == path {
			return in, true
		}
	}
	return Input{}, false
}

func (r *Request) hasOutput(path string) bool {
	return slices.ContainsFunc(r.OutputsExpected, func(out Output) bool { return out.Path == path })
}
