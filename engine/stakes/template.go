package stakes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// Danger says how dangerous a call is, as whoever wrote the template sees it. Nothing
// is decided by it.
type Danger uint8

// The dangers. The zero Danger says nothing.
const (
	Unsaid Danger = iota
	Low
	Medium
	High
)

var dangerNames = [...]string{"", "low", "medium", "high"}

// String is the danger's name in templates, "" for Unsaid.
func (d Danger) String() string { return dangerNames[d] }

// Bounds of a template.
const (
	maxTemplate = 300 // bytes
	maxFields   = 12
	maxDepth    = 8 // names of a place
)

// template is a parsed template.
type template struct {
	danger Danger
	parts  []piece
}

// piece is a text, or a field with its place.
type piece struct {
	text     string
	place    []string
	target   bool
	format   string
	currency []string
}

var formats = []string{"money", "minor", "count", "list", "account", "host", "line", "path", "patch"}

// Check says what is wrong with a template, or nil.
func Check(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (template, error) {
	t := template{}
	switch {
	case strings.TrimSpace(text) == "":
		return t, errors.New("it is empty")
	case len(text) > maxTemplate:
		return t, fmt.Errorf("it has %d bytes; at most %d are kept", len(text), maxTemplate)
	case !utf8.ValidString(text) || strings.TrimSpace(text) != text || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return t, errors.New("it holds blanks at an end, line breaks or invisible characters")
	}
	if name, rest, found := strings.Cut(strings.TrimPrefix(text, "["), "] "); found && text[0] == '[' {
		i := slices.Index(dangerNames[1:], name)
		if i < 0 {
			return t, fmt.Errorf("[%s] is no danger: want [low], [medium] or [high]", name)
		}
		t.danger, text = Danger(i+1), rest // #nosec G115 -- one of three
	}
	fields := 0
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			t.add(text)
			break
		}
		t.add(text[:i])
		if text = text[i:]; strings.HasPrefix(text, "{{") || strings.HasPrefix(text, "}}") {
			t.add(text[:1])
			text = text[2:]
			continue
		}
		end := strings.IndexByte(text, '}')
		if end <= 0 {
			return t, errors.New("a brace is not closed, or not opened; {{ and }} stand for braces")
		}
		p, err := field(text[1:end])
		if err != nil {
			return t, err
		}
		t.parts = append(t.parts, p)
		if fields++; fields > maxFields {
			return t, fmt.Errorf("it has more than %d fields", maxFields)
		}
		text = text[end+1:]
	}
	if fields == 0 {
		return t, errors.New("it names no argument, as {amount} does: it would say the same of every call")
	}
	return t, nil
}

// add adds a text to the one before it.
func (t *template) add(text string) {
	if n := len(t.parts); n > 0 && t.parts[n-1].place == nil {
		t.parts[n-1].text += text
	} else if text != "" {
		t.parts = append(t.parts, piece{text: text})
	}
}

// field reads what is between two braces.
func field(text string) (piece, error) {
	p, wrong := piece{}, fmt.Errorf("{%s} is no field: want a place such as {payee.name}, and perhaps a format, as in {amount|money:currency}", text)
	name, format, formatted := strings.Cut(text, "|")
	name, p.target = strings.CutPrefix(name, "*")
	if p.place = placeOf(name); p.place == nil {
		return p, wrong
	}
	if !formatted {
		return p, nil
	}
	format, currency, more := strings.Cut(format, ":")
	if p.format = format; !slices.Contains(formats, format) {
		return p, fmt.Errorf("{%s}: %q is no format: want one of %s", text, format, strings.Join(formats, ", "))
	}
	money := format == "money" || format == "minor"
	if p.currency = placeOf(currency); more != (p.currency != nil) || more && !money || format == "minor" && !more {
		return p, wrong
	}
	return p, nil
}

// placeOf is the names of a place; nil when it is none.
func placeOf(text string) []string {
	names := strings.Split(text, ".")
	if len(names) > maxDepth || slices.ContainsFunc(names, func(n string) bool { return n == "" || strings.TrimSpace(n) != n || strings.ContainsAny(n, "{|:*") }) {
		return nil
	}
	return names
}

// placeName is a place as text; the elements of an array are all at one.
func placeName(args canon.Value, place []string) string {
	text := ""
	for i, name := range place {
		if v, _ := at(args, place[:i]); v.Kind() == canon.ArrayKind {
			text += "[]"
			continue
		}
		if text != "" {
			text += "."
		}
		text += name
	}
	return text
}

// at is what is at a place.
func at(v canon.Value, place []string) (canon.Value, bool) {
	for _, name := range place {
		if v.Kind() == canon.ArrayKind {
			i := 0
			for _, c := range name {
				if i = i*10 + int(c-'0'); c < '0' || c > '9' || i >= v.Len() {
					return v, false
				}
			}
			v = v.At(i)
			continue
		}
		next, there := v.Get(name)
		if v.Kind() != canon.ObjectKind || !there {
			return v, false
		}
		v = next
	}
	return v, true
}
