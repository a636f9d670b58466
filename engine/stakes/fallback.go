package stakes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/engine/canon"
)

// telling are the names of arguments that say most of a call, in order.
var telling = strings.Fields(`amount total currency to recipient payee customer email user host database table sql query command
	script url path file_path file repository repo branch subject title name id service version environment role action status`)

// Bounds of what is named where no sentence is written.
const (
	maxNamed = 4
	maxWhole = 80 // characters of a text that is shown; of others their length is
)

// named names the tool and its most telling arguments. A text that is long or has several
// lines is not cut: where nobody knows what counts in it, its beginning might be what
// counts least. Its length stands for it, as for lists and objects.
func (w Writer) named(tool string, args canon.Value) *draft {
	s := &draft{detector: w.Detector}
	s.Parts = []Part{{Text: "Run "}, {Kind: Text, Text: short(strings.ToValidUTF8(tool, "\uFFFD"), maxName)}}
	var names []string
	for name, v := range args.All() {
		if !v.IsNull() {
			names = append(names, name)
		}
	}
	rank := func(name string) int {
		n := len(telling)
		if i := slices.Index(telling, strings.ToLower(name)); i >= 0 {
			n = i
		}
		if v, _ := args.Get(name); !whole(v) {
			n += 2 * len(telling) // what has only a length says less
		}
		return n
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	var used [][]string
	for i, name := range names[:min(len(names), maxNamed)] {
		between := ", "
		if i == 0 {
			between = ": "
		}
		v, _ := args.Get(name)
		s.Parts = append(s.Parts, Part{Text: between})
		s.argument([]string{name}, v, args)
		used = append(used, []string{name})
	}
	s.leave(args, used)
	return s
}

// argument tells an argument by its name and its value, or how much of it there is.
func (s *draft) argument(place []string, v, args canon.Value) {
	name := strings.Join(place, ".")
	blank := v.IsNull() || v.Kind() == canon.StringKind && strings.TrimSpace(v.Str()) == ""
	if NamesSecret(place[len(place)-1]) || blank && kindOfName(name) == Words {
		s.field(piece{place: place}, args) // a note, which names it
		return
	}
	s.Parts = append(s.Parts, Part{Kind: kindOfName(name), Text: short(name, maxName), Place: name}, Part{Text: " "})
	if whole(v) && !blank {
		s.field(piece{place: place}, args)
		return
	}
	var size string
	switch lines := strings.Count(strings.TrimRight(v.Str(), "\r\n"), "\n") + 1; {
	case v.IsNull():
		size = "null"
	case blank:
		size = "empty"
	case v.Kind() == canon.ArrayKind:
		size = "list of " + grouped(strconv.Itoa(v.Len()))
	case v.Kind() == canon.ObjectKind:
		size = "object with " + counted(v.Len(), "member", "members")
	case lines > 1:
		size = "text of " + counted(lines, "line", "lines")
	default:
		size = "text of " + counted(utf8.RuneCountInString(v.Str()), "character", "characters")
	}
	s.Parts = append(s.Parts, Part{Text: "("}, Part{Kind: Exact, Text: size, Place: name}, Part{Text: ")"})
}

// whole reports whether a value is told as it is.
func whole(v canon.Value) bool {
	switch v.Kind() {
	case canon.StringKind:
		return !strings.ContainsAny(strings.TrimRight(v.Str(), "\r\n"), "\r\n") && utf8.RuneCountInString(v.Str()) <= maxWhole
	case canon.ArrayKind, canon.ObjectKind:
		return false
	default:
		return true
	}
}

var plainName = regexp.MustCompile(`\A[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*\z`)

// kindOfName says how an argument's name is shown. Names are the agent's, too: one of several
// words would pass for words of ours.
func kindOfName(name string) Kind {
	if plainName.MatchString(name) {
		return Words
	}
	return Text
}
