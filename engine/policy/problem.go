package policy

import (
	"cmp"
	"slices"
	"strconv"

	"holdpoint/engine/source"
)

// Problem is one thing that is wrong with a bundle, or, as a Warning, one that
// may be. Nothing in it is longer than a person would want to read: what it
// quotes of the bundle is cut.
type Problem struct {
	// File is Options.File.
	File string `json:"file,omitempty"`
	// Line and Column are counted from 1, in characters; 0 is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Rule is the id of the rule, or "rules[3]" if it has none, or "".
	Rule string `json:"rule,omitempty"`
	// Path is the JSON pointer (RFC 6901) to the value.
	Path string `json:"path"`
	// Code is stable and machine-readable.
	Code string `json:"code"`
	// Message says what is wrong, Hint what to do about it; Hint may be "".
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Warning is set for what does not keep the bundle from being loaded.
	Warning bool `json:"warning,omitempty"`
}

// String is the problem as compilers write it:
//
//	policy.yaml:12:7: rule "pay": message (hint)
//
// Parts that are unknown are left out.
func (p Problem) String() string {
	text := source.Place(p.File, p.Line, p.Column)
	if p.Warning {
		text += "warning: "
	}
	if p.Rule != "" {
		text += "rule " + strconv.Quote(p.Rule) + ": "
	}
	text += p.Message
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// HasErrors reports whether problems keep a bundle from being loaded: whether
// any of them is more than a warning.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// maxProblems bounds the list of problems, which could else be longer than the
// bundle. One more says that there are more.
const maxProblems = 1000

// reporter collects problems. It never stops anybody from looking further.
type reporter struct {
	file     string
	rule     string // what problems name as the rule that is being read
	problems []Problem
	errors   int
	dropped  bool
}

func (r *reporter) add(p Problem) {
	if !p.Warning {
		r.errors++
	}
	if len(r.problems) >= maxProblems {
		r.dropped = true
		return
	}
	p.File = r.file
	r.problems = append(r.problems, p)
}

// report takes over a problem that was found at a place of the file.
func (r *reporter) report(p source.Problem, warning bool) {
	r.add(Problem{
		Line: p.Line, Column: p.Column, Rule: r.rule, Path: p.Path,
		Code: p.Code, Message: p.Message, Hint: p.Hint, Warning: warning,
	})
}

// list is the problems in the order of the file.
func (r *reporter) list() []Problem {
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.dropped {
		r.problems = append(r.problems, Problem{
			File: r.file, Code: source.TooManyProblems, Message: "there are more problems than these", Warning: r.errors == 0,
		})
	}
	return r.problems
}

// quote shows a text of the bundle in a message.
func quote(s string) string { return source.Quote(s) }
