package stakes

import (
	"regexp"
	"slices"
	"strings"

	"holdpoint/engine/canon"
)

// telling are the names of arguments that say most of a call, in order.
var telling = strings.Fields(`amount total currency to recipient payee customer email user host database table sql query command
	script url path file subject title name id service version environment role action status`)

// maxNamed is how many arguments are named where no sentence is written.
const maxNamed = 4

// named names the tool and its most telling arguments.
func (w Writer) named(tool string, args canon.Value) *draft {
	s := &draft{detector: w.Detector}
	s.Parts = []Part{{Text: "Call "}, {Kind: Text, Text: short(strings.ToValidUTF8(tool, "\uFFFD"), maxName)}}
	var scalars []string
	for name, v := range args.All() {
		if k := v.Kind(); k == canon.StringKind || k == canon.NumberKind || k == canon.BoolKind {
			scalars = append(scalars, name)
		}
	}
	rank := func(name string) int {
		if i := slices.Index(telling, strings.ToLower(name)); i >= 0 {
			return i
		}
		return len(telling)
	}
	slices.SortStableFunc(scalars, func(a, b string) int { return rank(a) - rank(b) })
	var used [][]string
	for i, name := range scalars[:min(len(scalars), maxNamed)] {
		between := ", "
		if i == 0 {
			between = " with "
		}
		s.Parts = append(s.Parts, Part{Text: between}, Part{Kind: KindOfName(name), Text: short(name, maxName), Place: name}, Part{Text: " "})
		s.field(piece{place: []string{name}}, args)
		used = append(used, []string{name})
	}
	s.leave(args, used)
	return s
}

var plainName = regexp.MustCompile(`\A[A-Za-z][A-Za-z0-9_-]*\z`)

// KindOfName is how an argument's name is told: names are the agent's, too, and one of
// several words would pass for ours.
func KindOfName(name string) Kind {
	if plainName.MatchString(name) {
		return Words
	}
	return Text
}
