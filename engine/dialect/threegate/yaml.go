package threegate

import (
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
)

// maxNesting bounds lists and mappings inside each other. A request needs three.
const maxNesting = 16

// maxKeys bounds one mapping. The front matter knows seventeen keys.
const maxKeys = 128

// F3 names what it forbids, and the characters that begin it.
var properties = map[string][2]string{source.YAMLTag: {"tags", "!"}, source.YAMLAnchor: {"anchors", "&"}, source.YAMLAlias: {"aliases", "*"}}

// read reads the lines from until to as one mapping (F2, F3). It returns nil when
// there is none, and complete only when everything could be read.
func read(l *lines, from, to int, add func(string, int, string, ...any)) (root *source.Tree, complete bool) {
	for i := from; i < to; i++ {
		line := l.at(i)
		switch {
		case strings.HasPrefix(line, "%"):
			add("F2", i+1, "directives are not allowed; the front matter is one plain YAML mapping")
			return nil, false
		case isMarker(line, "---"), isMarker(line, "..."):
			add("F2", i+1, "the front matter must be one document, without a mark that begins or ends another")
			return nil, false
		}
	}
	tree, complete, problems := source.ReadTree(l.src, source.TreeOptions{From: from, To: to, MaxDepth: maxNesting, MaxKeys: maxKeys})
	for _, p := range problems {
		if what, forbidden := properties[p.Code]; forbidden {
			add("F3", p.Line, "%s are not allowed; write the plain value, quoted if it begins with %q", what[0], what[1][0])
			continue
		}
		switch p.Code {
		case source.YAMLMerge:
			add("F2", p.Line, "merge keys are not allowed; write every key out")
		case canon.DuplicateKey:
			add("F2", p.Line, "the key %s is here twice; every key may appear once", show(p.Key))
		default:
			add("F2", p.Line, "%s", p.Message)
		}
	}
	switch {
	case tree == nil && complete:
		add("F2", from, "the front matter is empty; it must be one mapping of keys to values")
		return nil, false
	case tree == nil:
		return nil, false
	case tree.Kind != source.Mapping:
		if complete {
			add("F2", tree.Line, "the front matter must be one mapping of keys to values")
		}
		return nil, false
	}
	return tree, complete
}

func isMarker(line, mark string) bool {
	rest, found := strings.CutPrefix(line, mark)
	return found && (rest == "" || rest[0] == ' ')
}
