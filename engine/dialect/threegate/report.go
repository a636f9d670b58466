package threegate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine/source"
)

// Violation is one breach of one rule.
type Violation struct {
	// Rule is the rule's code in the specification: "D1" … "K5", or "A0".
	Rule string `json:"rule"`
	// Line is counted from 1 as editors do; 0 is the document as a whole.
	Line int `json:"line"`
	// Message says in one sentence what is wrong and what would be right. It never
	// quotes what looks like a secret.
	Message string `json:"message"`
}

// Report is everything that there is to say of a document.
type Report struct {
	Valid bool `json:"valid"`
	// Violations is in order of lines and holds nothing twice.
	Violations []Violation `json:"violations"`
	// Warnings do not make a document invalid. Their rule is the nearest one.
	Warnings []Violation `json:"warnings"`
	// Request is what could be read, never nil. It is to be trusted only if Valid.
	Request *Request `json:"-"`
}

// Judge judges a promoted document, with its approval filled in, at the time now.
func Judge(document []byte, now time.Time) Report { return judge(document, now, false) }

// JudgeDraft judges a draft: every rule but A1 to A3 holds, and approved_by and
// approved_utc must be absent or empty (A0).
func JudgeDraft(document []byte, now time.Time) Report { return judge(document, now, true) }

// checker collects what is wrong with one document.
type checker struct {
	lines
	now        time.Time
	draft      bool
	root       *source.Tree // the front matter; nil when it cannot be read
	complete   bool         // all of the front matter could be read
	sections   [4]section
	request    *Request
	violations []Violation
	warnings   []Violation
}

func judge(document []byte, now time.Time, draft bool) Report {
	c := examine(document, now, draft)
	byLine := func(a, b Violation) int { return cmp.Compare(a.Line, b.Line) }
	slices.SortStableFunc(c.violations, byLine)
	slices.SortStableFunc(c.warnings, byLine)
	return Report{
		Valid: len(c.violations) == 0, Violations: unique(c.violations), Warnings: unique(c.warnings), Request: c.request,
	}
}

func examine(document []byte, now time.Time, draft bool) *checker {
	c := &checker{now: now, draft: draft, request: &Request{}}
	if len(document) > MaxBytes {
		// What is too long is not read at all: its size bounds the work.
		c.decode(nil)
		c.add("D1", 0, "the document has %d bytes; %d are allowed", len(document), MaxBytes)
		return c
	}
	c.lines = cut(c.decode(document))
	from, to, body, found := c.frontMatter()
	if found {
		c.root, c.complete = read(&c.lines, from, to, c.add)
	}
	if c.root != nil {
		c.hiddenInScalars(c.root)
		c.checkFrontMatter()
		c.approval()
		c.limits()
		c.network()
		c.inputs()
		c.outputs()
	}
	c.body(body)
	c.forbidden(body)
	return c
}

func (c *checker) add(rule string, line int, format string, args ...any) {
	c.violations = append(c.violations, Violation{Rule: rule, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) warn(rule string, line int, format string, args ...any) {
	c.warnings = append(c.warnings, Violation{Rule: rule, Line: line, Message: fmt.Sprintf(format, args...)})
}

// unique drops repetitions from a list that is in order of lines.
func unique(list []Violation) []Violation {
	out := make([]Violation, 0, len(list))
	seen := map[Violation]bool{}
	for _, v := range list {
		key := v
		if strings.HasPrefix(v.Rule, "X") {
			key.Message = ""
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, v)
		}
	}
	return out
}

// shown bounds what a message quotes.
const shown = 60

// show quotes a text for a message, cut to a length that can be read, and not
// at all when a secret may be in it.
func show(s string) string {
	if holdsSecret(s) {
		return "(not shown)"
	}
	if len(s) > shown {
		cut := shown
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.QuoteToGraphic(s)
}

// hiddenInScalars applies D4 to what escapes of quoted scalars write.
func (c *checker) hiddenInScalars(n *source.Tree) {
	if n.Style == source.DoubleQuoted && strings.ContainsFunc(n.Text, hiddenButLF) {
		c.add("D4", n.Line, "an escape in this value writes a control, format or invisible character; write visible text only")
	}
	for _, k := range n.Keys {
		c.hiddenInScalars(k)
	}
	for _, item := range n.Items {
		c.hiddenInScalars(item)
	}
}

// String is the violation as a command prints it: "line: rule message".
func (v Violation) String() string { return fmt.Sprintf("%d: %s %s", v.Line, v.Rule, v.Message) }
