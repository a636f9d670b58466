package aana

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"holdpoint/engine/canon"
)

// ValidationError is one way in which an event breaks section 1. Path is a
// JSONPath from the event, as in "$.evidence_refs[2].kind"; a member that
// AANA does not know is named only if its name is short and plain, and is
// "*" otherwise. Message is one sentence and never quotes a value.
type ValidationError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// maxErrors bounds the list of errors, which could else be longer than the event.
const maxErrors = 100

// checker reads values into an event and collects what is wrong with them.
type checker struct {
	errors []ValidationError
}

// place is where a value stands. Its path is written only for an error.
type place struct {
	parent *place // nil for the event itself
	name   string // of a member; empty for an element
	index  int    // of an element
}

func (p *place) path() string {
	switch {
	case p.parent == nil:
		return "$"
	case p.name != "":
		return p.parent.path() + "." + p.name
	}
	return p.parent.path() + "[" + strconv.Itoa(p.index) + "]"
}

func (c *checker) fail(at *place, message string) {
	switch {
	case len(c.errors) < maxErrors:
		c.errors = append(c.errors, ValidationError{Path: at.path(), Message: message})
	case len(c.errors) == maxErrors:
		c.errors = append(c.errors, ValidationError{Path: "$", Message: "There are more errors than these."})
	}
}

// unknown refuses a member of the object at parent that AANA does not
// have. Its name comes from outside, and could be a secret, a trick on a
// terminal, or a megabyte long.
func (c *checker) unknown(parent *place, name string) {
	if !isPlainName(name) {
		name = "*"
	}
	c.fail(&place{parent: parent, name: name}, "The contract does not know this field.")
}

func isPlainName(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isWordByte(c) && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 40 && !leaksSecret(name)
}

// require refuses an object that lacks one of fields.
func (c *checker) require(at *place, v canon.Value, fields []string) {
	for _, name := range fields {
		if _, ok := v.Get(name); !ok {
			c.fail(&place{parent: at, name: name}, "The field is required.")
		}
	}
}

func (c *checker) isObject(at *place, v canon.Value) bool {
	if v.Kind() != canon.ObjectKind {
		c.fail(at, "It has to be an object.")
		return false
	}
	return true
}

func (c *checker) text(at *place, v canon.Value, to *string) {
	if v.Kind() != canon.StringKind {
		c.fail(at, "It has to be a string.")
		return
	}
	*to = v.Str()
}

// filledText is for the strings that must not be empty.
func (c *checker) filledText(at *place, v canon.Value, to *string) {
	if c.text(at, v, to); v.Kind() == canon.StringKind && v.Str() == "" {
		c.fail(at, "It must not be empty.")
	}
}

// visibleText is for the strings that must not be blank.
func (c *checker) visibleText(at *place, v canon.Value, to *string) {
	if c.text(at, v, to); v.Kind() == canon.StringKind && isBlank(v.Str()) {
		c.fail(at, "It has to hold a visible character.")
	}
}

func (c *checker) texts(at *place, v canon.Value, to *[]string) {
	if v.Kind() != canon.ArrayKind {
		c.fail(at, "It has to be an array of strings.")
		return
	}
	*to = make([]string, v.Len())
	for i, element := range v.Elements() {
		c.text(&place{parent: at, index: i}, element, &(*to)[i])
	}
}

// oneOf is for the names of a closed list.
func oneOf[S ~string](c *checker, at *place, v canon.Value, allowed []S, to *S) {
	// An empty string in the list would be a mistake, so Str is enough to look at.
	if !slices.Contains(allowed, S(v.Str())) {
		c.fail(at, "It has to be one of "+list(allowed)+".")
		return
	}
	*to = S(v.Str())
}

// isBlank reports whether nothing of s shows: it has no letter, mark, digit,
// punctuation or symbol.
func isBlank(s string) bool {
	for _, r := range s {
		if unicode.IsGraphic(r) && !unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// list writes the names of a closed list.
func list[S ~string](names []S) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
