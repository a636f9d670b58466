package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine/canon"
)

// The bounds of what one decision may cost. A step is what an instruction of a
// regular expression does to a byte: some ten nanoseconds.
const (
	// maxText is the length of the longest text that a regular expression
	// searches, in bytes.
	maxText = 64 << 10
	// maxMatch is the number of steps of one regular expression: one of 32
	// instructions may search maxText, one of a thousand 2 KiB.
	maxMatch = 2 << 20
	// maxEffort is the number of steps of a whole decision.
	maxEffort = 32 << 20
	// bytesPerStep is how many bytes a search for a word, or a comparison, gets
	// through in a step.
	bytesPerStep = 16
)

// search is one call while it is held against rules. What rules search is
// prepared when the first of them asks for it.
type search struct {
	request *Request
	effort  int // steps that are left
	words   haystack
	text    haystack
}

// haystack is the searched values in one text.
type haystack struct {
	ready  bool
	values int
	text   string
}

// spend takes steps off the effort, and reports whether there were as many.
func (s *search) spend(steps int) bool {
	if steps > s.effort {
		s.effort = 0
		return false
	}
	s.effort -= steps
	return true
}

// lowered is the values in lower case, with a NUL between them, which canon
// lets into no word: a word is found in one value, never over two.
func (s *search) lowered() *haystack {
	if !s.words.ready {
		w := leafWriter{separator: 0, lower: true}
		s.words = w.write(s.request)
	}
	return &s.words
}

// joined is the values with a space between them, for regular expressions.
func (s *search) joined() string {
	if !s.text.ready {
		w := leafWriter{separator: ' '}
		s.text = w.write(s.request)
		if s.request.NUL != "" {
			s.text.text = strings.ReplaceAll(s.text.text, s.request.NUL, "\x00")
		}
	}
	return s.text.text
}

// leafWriter writes the searched values one behind the other.
type leafWriter struct {
	buf       []byte
	separator byte
	lower     bool
	values    int
}

// write takes the user's input unless it is empty, then every leaf of the
// arguments.
func (w *leafWriter) write(r *Request) haystack {
	w.buf = make([]byte, 0, 1024)
	if r.UserInput != "" {
		w.value(r.UserInput)
	}
	w.leaves(r.Args)
	return haystack{ready: true, values: w.values, text: string(w.buf)}
}

// begin puts the separator before every value but the first.
func (w *leafWriter) begin() {
	if w.values++; w.values > 1 {
		w.buf = append(w.buf, w.separator)
	}
}

func (w *leafWriter) value(s string) {
	w.begin()
	if w.lower && !canon.IsASCII(s) {
		s = lower(s)
	}
	from := len(w.buf)
	w.buf = append(w.buf, s...)
	if w.lower {
		for i, c := range w.buf[from:] {
			if 'A' <= c && c <= 'Z' {
				w.buf[from+i] = c + 'a' - 'A'
			}
		}
	}
}

// leaves appends every leaf of v, depth first, as JavaScript prints it. A null
// is none. RFC 8785 writes numbers and booleans as JavaScript does, in lower case.
func (w *leafWriter) leaves(v canon.Value) {
	switch v.Kind() {
	case canon.StringKind:
		w.value(v.Str())
	case canon.NumberKind, canon.BoolKind:
		w.begin()
		w.buf = v.AppendCanonical(w.buf)
	case canon.ArrayKind:
		for _, e := range v.Elements() {
			w.leaves(e)
		}
	case canon.ObjectKind:
		if hasIndexKey(v) {
			for _, m := range ordered(v) {
				w.leaves(m.Value)
			}
			return
		}
		for _, m := range v.All() {
			w.leaves(m)
		}
	case canon.NullKind:
	}
}

// maxIndex is the largest key that JavaScript takes for an array index.
const maxIndex = 1<<32 - 2

// indexKey is the number that a name is the canonical text of, if JavaScript
// would sort the member by it.
func indexKey(name string) (uint64, bool) {
	if name == "" || name[0] < '0' || name[0] > '9' || len(name) > 10 || name[0] == '0' && len(name) > 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && n <= maxIndex
}

func hasIndexKey(v canon.Value) bool {
	for name := range v.All() {
		if _, ok := indexKey(name); ok {
			return true
		}
	}
	return false
}

// ordered is an object's members in JavaScript's order: those whose names are
// indices by number, then the others as they came.
func ordered(v canon.Value) []canon.Member {
	members := v.Members()
	slices.SortStableFunc(members, func(a, b canon.Member) int {
		x, xIndex := indexKey(a.Name)
		y, yIndex := indexKey(b.Name)
		switch {
		case xIndex && yIndex:
			return cmp.Compare(x, y)
		case xIndex:
			return -1
		case yIndex:
			return 1
		}
		return 0
	})
	return members
}

// finds reports whether any value holds the word.
func (s *search) finds(word string) truth {
	h := s.lowered()
	if word == "" {
		return truthOf(h.values > 0)
	}
	if !s.spend(1 + len(h.text)/bytesPerStep) {
		return unknown
	}
	return truthOf(strings.Contains(h.text, word))
}

func (w *conditions) findsAny(s *search) truth {
	if len(w.containsAny) == 0 {
		return yes
	}
	for _, word := range w.containsAny {
		if t := s.finds(word); t != no {
			return t
		}
	}
	return no
}

func (w *conditions) findsNone(s *search) truth {
	for _, word := range w.notContains {
		switch s.finds(word) {
		case yes:
			return no
		case unknown:
			return unknown
		case no:
		}
	}
	return yes
}

func (w *conditions) findsPattern(s *search) truth {
	if w.pattern == nil {
		return yes
	}
	text := s.joined()
	steps := w.pattern.Size() * (len(text) + 1)
	if len(text) > maxText || steps > maxMatch || !s.spend(steps) {
		return unknown
	}
	return truthOf(w.pattern.Match(text))
}

// holds reports whether the argument is what the rule wants. Only a member of
// the arguments themselves has the key, never something further down.
func (a *argument) holds(s *search) truth {
	if !s.spend(1 + s.request.Args.Len()/bytesPerStep) {
		return unknown
	}
	value, present := s.request.Args.Get(a.key)
	if len(a.tests) == 0 {
		if !present {
			return no
		}
		return s.equal(a.value, value)
	}
	for i := range a.tests {
		if !a.tests[i].holds(value, present) {
			return no
		}
	}
	return yes
}

func (t *comparison) holds(value canon.Value, present bool) bool {
	switch t.op {
	case "eq":
		return present && identical(value, t.operand)
	case "neq":
		return !present || !identical(value, t.operand)
	}
	if value.Kind() != canon.NumberKind { // a missing one is null
		return false
	}
	got, want := value.Float(), t.operand.Float()
	switch t.op {
	case "gt":
		return got > want
	case "gte":
		return got >= want
	case "lt":
		return got < want
	case "lte":
		return got <= want
	}
	return false
}

// identical is JavaScript's ===: two arrays or objects are never the same one.
func identical(a, b canon.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case canon.NullKind:
		return true
	case canon.BoolKind:
		return a.Bool() == b.Bool()
	case canon.NumberKind:
		return a.Float() == b.Float()
	case canon.StringKind:
		return a.Str() == b.Str()
	default:
		return false
	}
}

// equal compares two values with all that they hold. The order of an object's
// members does not count.
func (s *search) equal(a, b canon.Value) truth {
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return no
	}
	switch a.Kind() {
	case canon.ArrayKind:
		for i, e := range a.Elements() {
			if t := s.equal(e, b.At(i)); t != yes {
				return t
			}
		}
		return yes
	case canon.ObjectKind:
		for name, m := range a.All() {
			if !s.spend(1 + b.Len()/bytesPerStep) {
				return unknown
			}
			other, present := b.Get(name)
			if !present {
				return no
			}
			if t := s.equal(m, other); t != yes {
				return t
			}
		}
		return yes
	default:
		return truthOf(identical(a, b))
	}
}
