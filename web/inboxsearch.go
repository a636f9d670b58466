package web

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// inboxParams are the parameters of a search of the inbox, in the order in which they
// are shown.
var inboxParams = []searchParam{
	{"q", "Search"},
	{"tool", "Tool"},
	{"agent", "Agent"},
	{"env", "Environment"},
	{"risk", "Risk domain"},
	{"asked", "Waits for"},
	{"roles", "Asks"},
	{"due", "Deadline"},
	{"mine", "Claimed"},
	{"snoozed", "Snoozed"},
	{"sort", "Order"},
	{"group", "Rows"},
}

// inboxChoices are the parameters that have only these values, beside "".
var inboxChoices = map[string][]views.Option{
	"due":     {{Value: "10m", Label: "within 10 minutes"}, {Value: "1h", Label: "within an hour"}, {Value: "24h", Label: "within a day"}},
	"mine":    {{Value: "1", Label: "by me"}},
	"snoozed": {{Value: "1", Label: "by me"}},
	"sort":    {{Value: "", Label: "earliest deadline first"}, {Value: string(gate.Oldest), Label: "oldest first"}, {Value: string(gate.Newest), Label: "newest first"}},
	"group":   {{Value: "", Label: "each call"}, {Value: "alike", Label: "groups of alike calls"}},
	"asked":   kindOptions(),
}

func kindOptions() []views.Option {
	var options []views.Option
	for _, kind := range engine.Kinds() {
		options = append(options, views.Option{Value: string(kind), Label: kind.Traits().Noun})
	}
	return options
}

// inboxAsked is a search of the inbox as its address has it.
type inboxAsked struct {
	searchForm
	search gate.InboxSearch
	reader string // whose inbox it is
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

// readInbox reads a search of the person's inbox.
func readInbox(query url.Values, p engine.Person) inboxAsked {
	asked := inboxAsked{searchForm: readSearch("/", inboxParams, inboxChoices, query), reader: p.ID}
	form := asked.form
	s := &asked.search
	s.Words = asked.words()
	s.Tool, s.AgentID, s.Environment, s.Domain, s.Waits = form["tool"], form["agent"], form["env"], form["risk"], form["asked"]
	if form["roles"] != "" {
		s.Roles = strings.Split(form["roles"], ",")
	}
	s.DueWithin, _ = time.ParseDuration(form["due"]) // one of the choices
	if form["mine"] != "" {
		s.ClaimedBy = p.ID
	}
	s.Snoozed = form["snoozed"] != ""
	s.Order, s.Alike = gate.InboxOrder(form["sort"]), form["group"] != ""
	s.After, s.Before = query.Get("after"), query.Get("before")
	if s.After != "" {
		s.Before = ""
	}
	return asked
}

func inboxURL(query string) string { return addressOf("/", query) }

// view is the search as its page shows it.
func (a inboxAsked) view(counts map[string][]gate.Count, name func(string) string) views.InboxSearch {
	v := views.InboxSearch{Form: a.form, Query: a.query(), Problems: a.problems, Alike: a.form["group"] != "", Options: map[string][]views.Option{}}
	for param, options := range inboxChoices {
		v.Options[param] = options
	}
	for param, of := range map[string]string{"tool": "tool", "agent": "agent", "env": "environment", "risk": "domain"} {
		for _, c := range counts[of] {
			label := c.Value
			switch param {
			case "agent":
				label = name(label)
			case "tool":
				label = calledTool(label)
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
	v.Chips = a.chips(func(param, value string) string {
		switch param {
		case "agent":
			return name(value)
		case "tool":
			return calledTool(value)
		}
		return value
	})
	v.Other = a.address("group", map[bool]string{true: "", false: "alike"}[v.Alike])
	return v
}
