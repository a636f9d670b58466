package canon

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// fewNames is the number of members up to which names are compared pair by
// pair, which is faster than hashing them.
const fewNames = 24

// nameSet finds a name that repeats an earlier one of the same object, be it
// in another case, unless it is exact. Go's maps are seeded, so that a sender cannot choose names
// that collide, and the work stays linear in the size of the object.
type nameSet struct {
	exact  bool           // names that differ by case are different names
	exotic bool           // some name holds a character outside ASCII
	folded map[string]int // folded name to index, once there are many names
}

// add notes the next name, given the members before it. It returns the index
// of the member that has the same name but for case, or -1.
func (n *nameSet) add(before []Member, name string) int {
	if !n.exact && !IsASCII(name) {
		n.exotic = true
	}
	if len(before) < fewNames {
		for i := range before {
			other := before[i].Name
			// Two ASCII names can be equal only at equal length; outside ASCII
			// they need not be (U+212A, the Kelvin sign, folds to k).
			if (len(other) == len(name) || n.exotic) && n.same(other, name) {
				return i
			}
		}
		return -1
	}
	if n.folded == nil {
		n.folded = make(map[string]int, 4*fewNames)
		for i := range before {
			n.folded[n.key(before[i].Name)] = i
		}
	}
	key := n.key(name)
	if i, ok := n.folded[key]; ok {
		return i
	}
	n.folded[key] = len(before)
	return -1
}

func (n *nameSet) same(a, b string) bool {
	return a == b || !n.exact && strings.EqualFold(a, b)
}

func (n *nameSet) key(name string) string {
	if n.exact {
		return name
	}
	return fold(name)
}

// fold maps all names that strings.EqualFold holds equal to one text.
func fold(name string) string {
	plain := true
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			plain = false
			break
		}
	}
	if plain {
		return name
	}
	return strings.Map(foldRune, name)
}

// foldRune is the representative of the characters that differ from r only by
// case: the lower-case letter in ASCII, else the smallest of them.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	if 'A' <= least && least <= 'Z' {
		least += 'a' - 'A'
	}
	return least
}

// IsASCII reports whether a text has no character beyond ASCII.
func IsASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
