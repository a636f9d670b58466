package safeai

import (
	"cmp"
	"slices"

	"holdpoint/engine/source"
)

// The codes of Problem. They are stable.
const (
	Syntax        = "syntax"         // not YAML or JSON, or YAML beyond what JSON can say
	UnknownKey    = "unknown_key"    // a key that contracts do not have
	DuplicateKey  = "duplicate_key"  // a key twice in one mapping, be it in another case
	DuplicateTool = "duplicate_tool" // two contracts for one tool
	MissingKey    = "missing_key"    // tool_contracts is not there
	WrongType     = "wrong_type"     // another type than the key has
	BadTool       = "bad_tool"       // a tool name that no call can have
	BadTag        = "bad_tag"        // a tag that no call can have
	BadField      = "bad_field"      // a field name that no answer can have
)

// Problem is one mistake in a contract file. Code is one of the constants above,
// and Path the place in the document, tool_contracts.send_email; of Syntax and
// DuplicateKey it is a JSON pointer (RFC 6901).
type Problem source.Problem

// String is the problem on one line, as compilers write it:
// file:line:column: message (path; code): hint.
func (p Problem) String() string {
	what := p.Code
	if p.Path != "" {
		what = p.Path + "; " + p.Code
	}
	text := source.Place(p.File, p.Line, p.Column) + p.Message + " (" + what + ")"
	if p.Hint != "" {
		text += ": " + p.Hint
	}
	return text
}

// maxProblems bounds what one file can make Load say.
const maxProblems = 100

// problems collects mistakes.
type problems struct {
	file string
	list []Problem
}

func (p *problems) add(at source.Position, path, code, message, hint string) {
	if len(p.list) < maxProblems {
		p.list = append(p.list, Problem{p.file, at.Line, at.Column, path, code, message, hint})
	}
}

// sorted is the mistakes in the order in which a reader meets them.
func (p *problems) sorted() []Problem {
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p.list
}
