package web

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"holdpoint/web/views"
)

// searchParam is a parameter of a search, with its name for people.
type searchParam struct{ name, words string }

const (
	maxSearch      = 200 // characters
	maxSearchWords = 8
	maxFilter      = 1000 // bytes: names of tools, agents and roles are shorter
)

// searchForm is a search of a list as its address has it: each list has its parameters,
// in the order in which they are shown, and some of them only have certain values, beside "".
type searchForm struct {
	path     string
	params   []searchParam
	choices  map[string][]views.Option
	form     map[string]string // without what is empty
	problems []string
}

// readSearch reads a search. What cannot be understood is a problem, and not left out: a
// list that is longer than what was asked for would mislead.
func readSearch(path string, params []searchParam, choices map[string][]views.Option, query url.Values) searchForm {
	f := searchForm{path: path, params: params, choices: choices, form: map[string]string{}}
	for _, param := range params {
		if len(query[param.name]) > 1 {
			f.problem("%s is there more than once.", param.words)
		}
		value := strings.TrimSpace(query.Get(param.name))
		if value == "" {
			continue
		}
		f.form[param.name] = value
		options := choices[param.name]
		switch {
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			delete(f.form, param.name)
			f.problem("%s has a character that cannot be read.", param.words)
		case len(value) > maxFilter || param.name == "q" && utf8.RuneCountInString(value) > maxSearch:
			f.problem("%s is too long.", param.words)
		case options != nil && !slices.ContainsFunc(options, func(o views.Option) bool { return o.Value == value }):
			f.problem("%s cannot be “%s”. It can be: %s.", param.words, value, values(options))
		}
	}
	return f
}

func (f *searchForm) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// words are those of the search box.
func (f *searchForm) words() []string {
	words := strings.Fields(f.form["q"])
	if len(words) > maxSearchWords {
		f.problem("Search takes up to %d words.", maxSearchWords)
	}
	return words
}

func values(options []views.Option) string {
	var list []string
	for _, o := range options {
		if o.Value != "" {
			list = append(list, o.Value)
		}
	}
	return strings.Join(list, ", ")
}

// query is the search as part of an address, with some parameters changed: name, value.
func (f searchForm) query(changes ...string) string {
	values := url.Values{}
	for name, value := range f.form {
		values.Set(name, value)
	}
	for i := 0; i+1 < len(changes); i += 2 {
		values.Set(changes[i], changes[i+1])
	}
	for name := range values {
		if values.Get(name) == "" {
			values.Del(name)
		}
	}
	return values.Encode()
}

// address is where the search is, with some parameters changed.
func (f searchForm) address(changes ...string) string { return addressOf(f.path, f.query(changes...)) }

func addressOf(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// chips are the parameters in force, each with the search without it. label is a value in
// words, where it is no choice.
func (f searchForm) chips(label func(param, value string) string) []views.Chip {
	var chips []views.Chip
	for _, param := range f.params {
		value := f.form[param.name]
		if value == "" {
			continue
		}
		words := label(param.name, value)
		for _, o := range f.choices[param.name] {
			if o.Value == value {
				words = o.Label
			}
		}
		chips = append(chips, views.Chip{Param: param.name, Name: param.words, Value: words, Without: f.address(param.name, "")})
	}
	return chips
}
