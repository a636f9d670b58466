package threegate

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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

// str reports whether a value is a string: quoted, a block, or a plain scalar
// that YAML 1.2's core schema takes for nothing else.
func (n *node) str() (string, bool) {
	if n == nil || n.kind != scalarNode || n.style == bareStyle {
		return "", false
	}
	if n.style == plainStyle && (slices.Contains(coreWords, n.text) || coreNumber.MatchString(n.text)) {
		return "", false
	}
	return n.text, true
}

// plain is the text of a plain scalar.
func (n *node) plain() (string, bool) {
	return n.text, n.kind == scalarNode && n.style == plainStyle
}

func blankText(s string) bool { return strings.TrimSpace(s) == "" }

// checkFrontMatter applies F4 to F13.
func (c *checker) checkFrontMatter() {
	for _, key := range keys {
		approval := key == "approved_by" || key == "approved_utc"
		if c.complete && c.root.get(key) == nil && key != optionalKey && (!c.draft || !approval) {
			c.add("F4", 1, "the key %s is missing from the front matter", key)
		}
	}
	for _, k := range c.root.keys {
		if !slices.Contains(keys, k.text) && k.text != "<<" {
			c.add("F5", k.line, "the key %s is not one of the schema's", show(k.text))
		}
	}
	r := c.request
	c.oneOf("F6", "request_type", &r.RequestType, "tool_request")
	if n := c.root.get("schema_version"); n != nil {
		if text, plain := n.plain(); plain && text == "1" {
			r.SchemaVersion = 1
		} else {
			c.add("F7", n.line, "schema_version must be the integer 1, without quotes")
		}
	}
	if n := c.root.get("request_id"); n != nil {
		if text, ok := n.str(); ok && requestID.MatchString(text) {
			r.RequestID = text
		} else {
			c.add("F8", n.line, "request_id must be 1 to 128 letters, digits, dots, hyphens or underscores, begin with a letter or digit, and be no number")
		}
	}
	if n := c.root.get("created_utc"); n != nil {
		if at, ok := n.utc(); ok {
			r.CreatedUTC = at
		} else {
			c.add("F9", n.line, "created_utc must be a time in UTC of the form 2026-02-09T16:05:01Z")
		}
	}
	c.oneOf("F10", "requested_by", &r.RequestedBy, "human", "core_draft")
	if n := c.root.get("purpose"); n != nil {
		text, ok := n.str()
		if !ok || blankText(text) || strings.Contains(text, "\n") || utf8.RuneCountInString(text) > maxPurpose {
			c.add("F11", n.line, "purpose must be one line of text, not blank, of at most %d characters", maxPurpose)
		} else {
			r.Purpose = text
		}
	}
	c.oneOf("F12", "language", &r.Language, "python", "node", "ts", "go", "ruby")
	c.constraints()
}

func (c *checker) constraints() {
	n := c.root.get("constraints")
	if n == nil {
		return
	}
	if n.kind != listNode || len(n.items) == 0 {
		c.add("F13", n.line, "constraints must be a list of at least one text")
		return
	}
	for _, item := range n.items {
		text, ok := item.str()
		if !ok || blankText(text) {
			c.add("F13", item.line, "every constraint must be a text that is not blank; quote it if YAML takes it for something else")
			continue
		}
		c.request.Constraints = append(c.request.Constraints, text)
	}
}

// oneOf applies a rule that allows a key a few strings.
func (c *checker) oneOf(rule, key string, to *string, allowed ...string) {
	n := c.root.get(key)
	if n == nil {
		return
	}
	text, ok := n.str()
	if !ok || !slices.Contains(allowed, text) {
		c.add(rule, n.line, "%s must be exactly %s", key, orList(allowed))
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

// utc reads the one form of a time that a request may have.
func (n *node) utc() (time.Time, bool) {
	text, ok := n.str()
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(utcLayout, text)
	// Parse accepts fractions of a second that the layout does not have.
	return at, err == nil && at.Format(utcLayout) == text
}
