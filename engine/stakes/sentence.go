package stakes

import (
	"slices"
	"strings"
	"unicode/utf8"

	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
)

// Origin says where a sentence's template comes from.
type Origin uint8

// The origins.
const (
	// None: nobody has written a sentence for this tool. Tool and arguments are named.
	None Origin = iota
	// BuiltIn: a template of this package fits tool and arguments.
	BuiltIn
	// Registered: the template was given.
	Registered
)

// Kind is what a Part of a sentence is.
type Kind uint8

// The kinds of parts.
const (
	Words Kind = iota // the template's own
	Text              // a text of the arguments
	Exact             // a number, an amount or a count; its text cannot be taken for words
	Note              // what is wrong with an argument, or left out of it
)

// Part is a piece of a sentence.
type Part struct {
	Kind Kind
	Text string
	// Place is where in the arguments it comes from, "" for Words.
	Place string
	// Target says that the call is about it.
	Target bool
}

// Target is a text that a call is about: a payee, an account, a host.
type Target struct {
	Place string // such as payee.name, or to[] for each element of an array
	Value string // all of it
}

// Sentence says what a call will do.
type Sentence struct {
	Parts  []Part
	Danger Danger
	Origin Origin
	// Amount is the first amount of money in it, "" for none. InUnits says that it is in the
	// smallest unit of a currency of which it is not known how many make one.
	Amount  string
	InUnits bool
	// Targets are whom or what the call is about: texts only.
	Targets []Target
	// Unsaid names arguments that are not in the sentence, the first of them, and
	// MoreUnsaid counts the others. Rest tells those that are named.
	Unsaid     []string
	MoreUnsaid int
	Rest       []Part
}

// String is the sentence as plain text. Texts are in quotation marks, so that none
// passes for the words around it, and notes in brackets.
func (s Sentence) String() string {
	var b strings.Builder
	for _, p := range s.Parts {
		switch p.Kind {
		case Text:
			b.WriteString("“" + p.Text + "”")
		case Note:
			b.WriteString("[" + p.Text + "]")
		case Words, Exact:
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Writer writes sentences.
type Writer struct {
	// Detector finds secrets, so that they are left out; nil where only the names of
	// arguments tell of some.
	Detector *redact.Detector
}

// Write says what a call of the tool with these arguments will do, by the template;
// "" for none. A template that cannot be read is as good as none, and the sentence
// says so.
func (w Writer) Write(tool string, args canon.Value, text string) Sentence {
	if text == "" {
		if f, ok := matchTemplate(tool, args); ok {
			if s, ok := w.builtIn(f, args); ok {
				return s
			}
		}
		return w.named(tool, args).Sentence
	}
	t, err := parse(text)
	if err != nil {
		s := w.named(tool, args)
		s.note("", " ", "the sentence that is registered for this tool cannot be read")
		return s.Sentence
	}
	return w.fill(t, args, Registered).Sentence
}

// draft is a sentence that is being written.
type draft struct {
	Sentence
	detector *redact.Detector
}

// fill fills the template.
func (w Writer) fill(t template, args canon.Value, origin Origin) *draft {
	s := &draft{Sentence: Sentence{Danger: t.danger, Origin: origin}, detector: w.Detector}
	var used [][]string
	for _, p := range t.parts {
		if p.place == nil {
			s.Parts = append(s.Parts, Part{Text: p.text})
			continue
		}
		used = append(used, p.place)
		if p.currency != nil {
			used = append(used, p.currency)
		}
		s.field(p, args)
	}
	s.leave(args, used)
	return s
}

// note adds a note behind a blank, or another separator.
func (s *draft) note(place, before, text string) {
	if before != "" {
		s.Parts = append(s.Parts, Part{Text: before})
	}
	s.Parts = append(s.Parts, Part{Kind: Note, Text: text, Place: place})
}

// Bounds of what a sentence leaves out and counts.
const (
	maxUnsaid = 6
	maxWalked = 500
)

// leave lists the arguments that are in none of the used places.
func (s *draft) leave(args canon.Value, used [][]string) {
	walked := 0
	var walk func(v canon.Value, place []string)
	walk = func(v canon.Value, place []string) {
		if walked++; walked > maxWalked || slices.ContainsFunc(used, func(u []string) bool { return slices.Equal(u, place) }) {
			return
		}
		inside := slices.ContainsFunc(used, func(u []string) bool { return len(u) > len(place) && slices.Equal(u[:len(place)], place) })
		if v.Kind() != canon.ObjectKind || !inside {
			if len(s.Unsaid) < maxUnsaid {
				rest := draft{detector: s.detector}
				if len(s.Rest) > 0 {
					rest.Parts = append(rest.Parts, Part{Text: ", "})
				}
				rest.argument(place, v, args)
				s.Unsaid, s.Rest = append(s.Unsaid, short(strings.Join(place, "."), maxName)), append(s.Rest, rest.Parts...)
			} else {
				s.MoreUnsaid++
			}
			return
		}
		for name, each := range v.All() {
			walk(each, append(slices.Clip(place), name))
		}
	}
	for name, each := range args.All() {
		walk(each, []string{name})
	}
	if walked > maxWalked {
		s.MoreUnsaid += walked - maxWalked
	}
}

// short is the text, or so many of its first characters and a sign that there are more.
func short(text string, limit int) string {
	head, more := cut(text, limit)
	if more > 0 {
		head += "…"
	}
	return head
}

// cut is the text's first characters, and how many more there are.
func cut(text string, limit int) (head string, more int) {
	if len(text) <= limit {
		return text, 0
	}
	n := 0
	for i := range text {
		if n == limit {
			return text[:i], utf8.RuneCountInString(text[i:])
		}
		n++
	}
	return text, 0
}
