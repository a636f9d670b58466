package source

import (
	"strconv"

	"holdpoint/engine/canon"
)

// The codes of Problem beside canon's, which mean in YAML what they mean in
// JSON. They are stable.
const (
	YAMLAnchor      = "yaml_anchor"
	YAMLAlias       = "yaml_alias"
	YAMLMerge       = "yaml_merge"
	YAMLTag         = "yaml_tag"
	YAMLDirective   = "yaml_directive"
	YAMLDocuments   = "yaml_documents"    // more than one
	YAMLKey         = "yaml_key"          // a key that is not text, or has a question mark
	YAMLNumber      = "yaml_number"       // a number that JSON writes otherwise, or not at all
	YAMLWord        = "yaml_word"         // a boolean to YAML 1.1, text to YAML 1.2
	TooManyProblems = "too_many_problems" // the rest is left out
)

// hints says what to do about canon's errors.
var hints = map[string]string{
	canon.DuplicateKey:   "remove one of them",
	canon.CaseVariantKey: "names that differ only by case are taken for mistakes",
	canon.NotExact:       "write it with fewer digits, or as a string",
	canon.ByteOrderMark:  "save the file as UTF-8 without a mark",
	canon.InvalidUTF8:    "save the file as UTF-8",
}

// Problem is one mistake in a file.
type Problem struct {
	File string `json:"file,omitempty"`
	// Line and Column are counted from 1, in characters; 0 is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path is the JSON pointer (RFC 6901) to the value.
	Path string `json:"path,omitempty"`
	// Code is stable and machine-readable: one of canon's, of the constants
	// here, or of the package that knows what the file is for.
	Code string `json:"code"`
	// Message says what is wrong, Hint what to do about it; Hint may be "".
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String is the problem as compilers write it: file:line:column: message (hint).
func (p Problem) String() string {
	text := Place(p.File, p.Line, p.Column) + p.Message
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Place is what compilers write before a message: "file:line:column: ". What is
// unknown, a file "" or a line 0, is left out.
func Place(file string, line, column int) string {
	place := ""
	if file != "" {
		place = file + ":"
	}
	if line > 0 {
		place += strconv.Itoa(line) + ":" + strconv.Itoa(column) + ":"
	}
	if place != "" {
		place += " "
	}
	return place
}
