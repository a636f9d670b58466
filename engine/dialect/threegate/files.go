package threegate

import (
	"regexp"
	"slices"
	"strings"

	"holdpoint/engine/source"
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
	list := c.root.Get("inputs")
	if list == nil {
		return
	}
	if list.Kind != source.List {
		c.add("I1", list.Line, "inputs must be a list of entries with name and sha256, [] for none")
		return
	}
	seen := map[string]bool{}
	for _, item := range list.Items {
		c.shape("I1", item, "an input", "name", "sha256")
		var in Input
		if n := item.Get("name"); n != nil {
			name, ok := stringOf(n)
			switch {
			case !ok || !isSafeName(name):
				c.add("I2", n.Line, "an input's name must be a relative path of letters, digits, dots, hyphens and underscores, without a part that begins with a dot")
			case seen[name]:
				c.add("I4", n.Line, "the input %s is declared twice", show(name))
			default:
				seen[name] = true
				in.Name = name
			}
		}
		if n := item.Get("sha256"); n != nil {
			if text, ok := stringOf(n); ok && hexSHA256.MatchString(text) {
				in.SHA256 = text
			} else {
				c.add("I3", n.Line, "sha256 must be the file's SHA-256 as 64 lower-case hex digits, in quotes if they are all digits")
			}
		}
		if in.Name != "" {
			c.request.Inputs = append(c.request.Inputs, in)
		}
	}
}

// shape holds an entry of a list to exactly two keys.
func (c *checker) shape(rule string, item *source.Tree, what, first, second string) {
	if item.Kind != source.Mapping {
		c.add(rule, item.Line, "%s must be an entry with %s and %s", what, first, second)
		return
	}
	for _, key := range []string{first, second} {
		if item.Get(key) == nil {
			c.add(rule, item.Line, "%s needs the key %s", what, key)
		}
	}
	for _, k := range item.Keys {
		if k.Text != first && k.Text != second {
			c.add(rule, k.Line, "%s has the keys %s and %s only, not %s", what, first, second, show(k.Text))
		}
	}
}

// outputs applies O1 and O2.
func (c *checker) outputs() {
	list := c.root.Get("outputs_expected")
	if list == nil {
		return
	}
	if list.Kind != source.List || len(list.Items) == 0 {
		c.add("O1", list.Line, "outputs_expected must be a list of at least one entry with path and description")
		return
	}
	seen := map[string]bool{}
	for _, item := range list.Items {
		c.shape("O1", item, "an output", "path", "description")
		var out Output
		if n := item.Get("description"); n != nil {
			text, ok := stringOf(n)
			if !ok || blankText(text) {
				c.add("O1", n.Line, "an output's description must be a text that is not blank")
			}
			out.Description = text
		}
		n := item.Get("path")
		if n == nil {
			continue
		}
		text, ok := stringOf(n)
		name := strings.TrimPrefix(text, outRoot)
		switch {
		case !ok || !isSafeName(name):
			c.add("O2", n.Line, "an output's path must be relative or begin with /out/, of letters, digits, dots, hyphens and underscores, without a part that begins with a dot")
		case seen[name]:
			c.add("O2", n.Line, "the output %s is declared twice", show(outRoot+name))
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
