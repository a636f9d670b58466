package canon

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The codes of SyntaxError. They are stable.
const (
	DuplicateKey   = "duplicate_key"    // one object has two members of one name
	CaseVariantKey = "case_variant_key" // …or of names that differ only by case
	InvalidUTF8    = "invalid_utf8"     // the document is not UTF-8
	LoneSurrogate  = "lone_surrogate"   // half of a surrogate pair, escaped or as bytes
	NULCharacter   = "nul_character"    // U+0000, escaped or as a byte
	NotExact       = "number_not_exact" // a number that float64 changes, or -0
	TooDeep        = "too_deep"         // more than MaxDepth containers inside each other
	TooLarge       = "too_large"        // more than MaxBytes bytes
	TooManyMembers = "too_many_members" // an object of more than MaxMembers members
	TooManyValues  = "too_many_values"  // a document of more than MaxValues values
	TrailingData   = "trailing_data"    // something follows the document
	ByteOrderMark  = "byte_order_mark"  // the document begins with one
	Syntax         = "syntax"           // anything else that is not JSON
)

// SyntaxError says why a document was refused. Neither Path nor Message holds
// any value of the document, only names of members.
type SyntaxError struct {
	// Offset is the byte of the document, counted from 0, at which it was refused.
	Offset int
	// Path is the JSON pointer (RFC 6901) to the value being read, as far as it
	// is known; "" is the whole document. Long names are cut to maxPathName bytes.
	Path string
	// Code is one of the constants above.
	Code string
	// Message is one clause for a person.
	Message string
}

// Error is the message with its place.
func (e *SyntaxError) Error() string {
	at := cmp.Or(e.Path, "the document")
	return fmt.Sprintf("%s (%s, byte %d, in %s)", e.Message, e.Code, e.Offset, at)
}

// maxPathName bounds what one member's name adds to an error.
const maxPathName = 64

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// under puts the name of the member or the index of the element that was being
// read in front of the error's path.
func (e *SyntaxError) under(name string) *SyntaxError {
	if len(name) > maxPathName {
		cut := maxPathName
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "…"
	}
	e.Path = "/" + pointerEscapes.Replace(name) + e.Path
	return e
}
