package views

import (
	"slices"
	"strconv"
	"strings"
)

// Warning counts one kind of deceptive content.
type Warning struct {
	Mark  Mark
	Count int
	// Places names where it was found, in order of appearance, at most maxPlaces of
	// them; More counts the others.
	Places []string
	More   int
	last   string
}

var warningWords = map[Mark][2]string{
	Direction:   {"character that reverses or reorders text on the screen", "characters that reverse or reorder text on the screen"},
	Tag:         {"invisible tag character that spells hidden text", "invisible tag characters that spell hidden text"},
	Invisible:   {"invisible character", "invisible characters"},
	Escape:      {"terminal escape sequence", "terminal escape sequences"},
	Control:     {"control character", "control characters"},
	Lookalike:   {"letter or sign that passes for another one", "letters or signs that pass for other ones"},
	Punycode:    {"encoded (punycode) host name", "encoded (punycode) host names"},
	Blank:       {"unusual blank", "unusual blanks"},
	Run:         {"long run of whitespace, counted instead of shown", "long runs of whitespace, counted instead of shown"},
	Selector:    {"variation selector", "variation selectors"},
	Stack:       {"combining mark without a letter, or piled up", "combining marks without a letter, or piled up"},
	Unknown:     {"private, unassigned or broken character", "private, unassigned or broken characters"},
	Escaped:     {"more that deceives, beyond what is shown by name: the text there is written in escapes", "more that deceive, beyond what is shown by name: the text there is written in escapes"},
	RightToLeft: {"word in a right-to-left script: the order on the screen may not be the order in the text", "words in right-to-left scripts: the order on the screen may not be the order in the text"},
}

// Words says what the warning counts.
func (w Warning) Words() string {
	if w.Count == 1 {
		return warningWords[w.Mark][0]
	}
	return warningWords[w.Mark][1]
}

// maxPlaces is how many places a warning names; it counts the others.
const maxPlaces = 6

// Where names the places of the warning.
func (w Warning) Where() string {
	places := strings.Join(w.Places, ", ")
	if w.More > 0 {
		places += " and " + Plural(w.More, "more place", "more places")
	}
	return places
}

// Warnings is a tally of marks, in order of Mark.
type Warnings []Warning

// Add counts the marked spans found at a place.
func (ws *Warnings) Add(place string, spans []Span) {
	for _, s := range spans {
		if s.Mark == Plain {
			continue
		}
		i, found := slices.BinarySearchFunc(*ws, s.Mark, func(w Warning, m Mark) int { return int(w.Mark) - int(m) })
		if !found {
			*ws = slices.Insert(*ws, i, Warning{Mark: s.Mark})
		}
		w := &(*ws)[i]
		w.Count += s.Count
		if len(w.Places) > 0 && w.last == place {
			continue
		}
		w.last = place
		if len(w.Places) < maxPlaces {
			w.Places = append(w.Places, place)
		} else {
			w.More++
		}
	}
}

// Total is how many things the warnings count together.
func (ws Warnings) Total() int {
	n := 0
	for _, w := range ws {
		n += w.Count
	}
	return n
}

// Thousands writes a count with a comma between every three digits.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is the count and the word that goes with it.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}
