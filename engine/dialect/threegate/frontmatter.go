package threegate

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine/source"
)

// keys are the keys of the front matter, all required but optionalKey. A draft
// may also leave the two of approval out.
var keys = []string{
	"request_type", "schema_version", "request_id", "created_utc", "requested_by", "approved_by", "approved_utc", "purpose",
	"language", "network", optionalKey, "cpu_limit", "memory_limit_mb", "time_limit_sec", "inputs", "outputs_expected", "constraints",
}

const optionalKey = "network_allowlist"

var (
	requestID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	coreNumber = regexp.MustCompile(`^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN)$`)
	coreWords  = []string{"", "null", "Null", "NULL", "~", "true", "True", "TRUE", "false", "False", "FALSE"}
)

// maxPurpose bounds the purpose, in characters (F11).
const maxPurpose = 500

// stringOf reports whether a value is a string: quoted, a block, or a plain scalar
// that YAML 1.2's core schema takes for nothing else.
func stringOf(n *source.Tree) (string, bool) {
	if n == nil || n.Kind != source.Scalar || n.Style == source.Bare {
		return "", false
	}
	if n.Style == source.Plain && (slices.Contains(coreWords, n.Text) || coreNumber.MatchString(n.Text)) {
		return "", false
	}
	return n.Text, true
}

// plainText is the text of a plain scalar.
func plainText(n *source.Tree) (string, bool) {
	return n.Text, n.Kind == source.Scalar && n.Style == source.Plain
}

func blankText(s string) bool { return strings.TrimSpace(s) == "" }

// checkFrontMatter applies F4 to F13.
func (c *checker) checkFrontMatter() {
	for _, key := range keys {
		approval := key == "approved_by" || key == "approved_utc"
		if c.complete && c.root.Get(key) == nil && key != optionalKey && (!c.draft || !approval) {
			c.add("F4", 1, "the key %s is missing from the front matter", key)
		}
	}
	for _, k := range c.root.Keys {
		if !slices.Contains(keys, k.Text) && k.Text != "<<" {
			c.add("F5", k.Line, "the key %s is not one of the schema's", show(k.Text))
		}
	}
	r := c.request
	c.oneOf("F6", "request_type", &r.RequestType, "tool_request")
	if n := c.root.Get("schema_version"); n != nil {
		if text, plain := plainText(n); !plain || text != "1" {
			c.add("F7", n.Line, "schema_version must be the integer 1, without quotes")
		}
	}
	if n := c.root.Get("request_id"); n != nil {
		if text, ok := stringOf(n); ok && requestID.MatchString(text) {
			r.RequestID = text
		} else {
			c.add("F8", n.Line, "request_id must be 1 to 128 letters, digits, dots, hyphens or underscores, begin with a letter or digit, and be no number")
		}
	}
	if n := c.root.Get("created_utc"); n != nil {
		if at, ok := timeOf(n); ok {
			r.CreatedUTC = at
		} else {
			c.add("F9", n.Line, "created_utc must be a time in UTC of the form 2026-02-09T16:05:01Z")
		}
	}
	c.oneOf("F10", "requested_by", &r.RequestedBy, "human", "core_draft")
	if n := c.root.Get("purpose"); n != nil {
		text, ok := stringOf(n)
		if !ok || blankText(text) || strings.Contains(text, "\n") || utf8.RuneCountInString(text) > maxPurpose {
			c.add("F11", n.Line, "purpose must be one line of text, not blank, of at most %d characters", maxPurpose)
		} else {
			r.Purpose = text
		}
	}
	c.oneOf("F12", "language", &r.Language, "python", "node", "ts", "go", "ruby")
	c.constraints()
}

func (c *checker) constraints() {
	n := c.root.Get("constraints")
	if n == nil {
		return
	}
	if n.Kind != source.List || len(n.Items) == 0 {
		c.add("F13", n.Line, "constraints must be a list of at least one text")
		return
	}
	for _, item := range n.Items {
		text, ok := stringOf(item)
		if !ok || blankText(text) {
			c.add("F13", item.Line, "every constraint must be a text that is not blank; quote it if YAML takes it for something else")
			continue
		}
		c.request.Constraints = append(c.request.Constraints, text)
	}
}

// oneOf applies a rule that allows a key a few strings.
func (c *checker) oneOf(rule, key string, to *string, allowed ...string) {
	n := c.root.Get(key)
	if n == nil {
		return
	}
	text, ok := stringOf(n)
	if !ok || !slices.Contains(allowed, text) {
		c.add(rule, n.Line, "%s must be exactly %s", key, orList(allowed))
		return
	}
	*to = text
}

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

const utcLayout = "2006-01-02T15:04:05Z"

// timeOf reads the one form of a time that a request may have.
func timeOf(n *source.Tree) (time.Time, bool) {
	text, ok := stringOf(n)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(utcLayout, text)
	// Parse accepts fractions of a second that the layout does not have.
	return at, err == nil && at.Format(utcLayout) == text
}
