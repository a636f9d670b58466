package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// inboxParams are the parameters of a search of the inbox, in the order in which they
// are shown.
var inboxParams = []struct{ name, words string }{
	{"q", "Search"},
	{"tool", "Tool"},
	{"agent", "Agent"},
	{"env", "Environment"},
	{"risk", "Risk domain"},
	{"asked", "Waits for"},
	{"roles", "Asks"},
	{"due", "Time is up"},
	{"mine", "Taken on"},
	{"sort", "Order"},
	{"group", "Rows"},
}

// inboxChoices are the parameters that have only these values, beside "".
var inboxChoices = map[string][]views.Option{
	"due":   {{Value: "10m", Label: "within 10 minutes"}, {Value: "1h", Label: "within an hour"}, {Value: "24h", Label: "within a day"}},
	"mine":  {{Value: "1", Label: "by me"}},
	"sort":  {{Value: "", Label: "most urgent first"}, {Value: string(gate.Oldest), Label: "oldest first"}, {Value: string(gate.Newest), Label: "newest first"}},
	"group": {{Value: "", Label: "each call"}, {Value: "alike", Label: "groups of alike calls"}},
	"asked": kindOptions(),
}

func kindOptions() []views.Option {
	var options []views.Option
	for _, kind := range engine.Kinds() {
		options = append(options, views.Option{Value: string(kind), Label: kind.Traits().Noun})
	}
	return options
}

const (
	maxSearch      = 200 // characters
	maxSearchWords = 8
	maxFilter      = 1000 // bytes: names of tools, agents and roles are shorter
)

// inboxAsked is a search of the inbox as its address has it.
type inboxAsked struct {
	search   gate.InboxSearch
	form     map[string]string // without what is empty
	problems []string
}

// readInboxOf is readInbox for what comes after the question mark of an address.
func readInboxOf(raw string, p engine.Person) inboxAsked {
	query, err := url.ParseQuery(raw)
	asked := readInbox(query, p)
	if err != nil {
		asked.problem("A part of the search cannot be read.")
	}
	return asked
}

// readInbox reads a search. What cannot be understood is a problem, and not left out: a
// list that is longer than what was asked for would mislead.
func readInbox(query url.Values, p engine.Person) inboxAsked {
	asked := inboxAsked{form: map[string]string{}}
	for _, param := range inboxParams {
		if len(query[param.name]) > 1 {
			asked.problem("%s is there more than once.", param.words)
		}
		value := strings.TrimSpace(query.Get(param.name))
		if value == "" {
			continue
		}
		asked.form[param.name] = value
		choices := inboxChoices[param.name]
		switch {
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			delete(asked.form, param.name)
			asked.problem("%s has a character that cannot be read.", param.words)
		case len(value) > maxFilter || param.name == "q" && utf8.RuneCountInString(value) > maxSearch:
			asked.problem("%s is too long.", param.words)
		case choices != nil && !slices.ContainsFunc(choices, func(o views.Option) bool { return o.Value == value }):
			asked.problem("%s cannot be “%s”. It can be: %s.", param.words, value, values(choices))
		}
	}
	form := asked.form
	s := &asked.search
	if s.Words = strings.Fields(form["q"]); len(s.Words) > maxSearchWords {
		asked.problem("Search takes up to %d words.", maxSearchWords)
	}
	s.Tool, s.AgentID, s.Environment, s.Domain, s.Waits = form["tool"], form["agent"], form["env"], form["risk"], form["asked"]
	if form["roles"] != "" {
		s.Roles = strings.Split(form["roles"], ",")
	}
	s.DueWithin, _ = time.ParseDuration(form["due"]) // one of the choices
	if form["mine"] != "" {
		s.ClaimedBy = p.ID
	}
	s.Order, s.Alike = gate.InboxOrder(form["sort"]), form["group"] != ""
	s.After, s.Before = query.Get("after"), query.Get("before")
	if s.After != "" {
		s.Before = ""
	}
	return asked
}

func (a *inboxAsked) problem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
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
func (a inboxAsked) query(changes ...string) string {
	values := url.Values{}
	for name, value := range a.form {
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
func (a inboxAsked) address(changes ...string) string { return inboxURL(a.query(changes...)) }

func inboxURL(query string) string {
	if query == "" {
		return "/"
	}
	return "/?" + query
}

// view is the search as its page shows it.
func (a inboxAsked) view(counts map[string][]gate.Count, name func(string) string) views.InboxSearch {
	v := views.InboxSearch{Form: a.form, Query: a.query(), Problems: a.problems, Alike: a.form["group"] != "", Options: map[string][]views.Option{}}
	for param, options := range inboxChoices {
		v.Options[param] = options
	}
	for param, of := range map[string]string{"tool": "tool", "agent": "agent", "env": "environment", "risk": "domain"} {
		for _, c := range counts[of] {
			label := c.Value
			if param == "agent" {
				label = name(label)
			}
			v.Options[param] = append(v.Options[param], views.Option{Value: c.Value, Label: views.Visible(label) + " (" + views.Thousands(c.N) + ")"})
		}
	}
	if asked := counts["waits"]; len(asked) > 0 {
		v.Options["asked"] = nil
		for _, c := range asked {
			noun := cmp.Or(engine.Kind(c.Value).Traits().Noun, words(c.Value))
			v.Options["asked"] = append(v.Options["asked"], views.Option{Value: c.Value, Label: noun + " (" + views.Thousands(c.N) + ")"})
		}
	}
	for _, param := range inboxParams {
		value := a.form[param.name]
		if value == "" {
			continue
		}
		for _, o := range inboxChoices[param.name] {
			if o.Value == value {
				value = o.Label
			}
		}
		if param.name == "agent" {
			value = name(value)
		}
		v.Chips = append(v.Chips, views.Chip{Param: param.name, Name: param.words, Value: value, Without: a.address(param.name, "")})
	}
	v.Other = a.address("group", map[bool]string{true: "", false: "alike"}[v.Alike])
	return v
}
