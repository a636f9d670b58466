package engine

import (
	"cmp"
	"slices"
	"strings"
)

// within reports whether a ticket that is good by given is good by t as well.
func (t *TicketTerms) within(given *TicketTerms) bool {
	switch {
	case t == nil:
		return true
	case given == nil:
		return false
	}
	return (t.System == "" || t.System == given.System) && subset(given.Projects, t.Projects) && subset(given.States, t.States) &&
		(t.MaxAge == 0 || given.MaxAge > 0 && given.MaxAge <= t.MaxAge)
}

// subset reports whether what is one of names is one of wanted as well; no
// names are all.
func subset(names, wanted []string) bool {
	return len(wanted) == 0 || len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !holds(wanted, name) })
}

// holds looks a name up as trackers do: case does not count.
func holds(names []string, name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(name, other) })
}

// narrowed is what a ticket has to be for both, and false if none can be.
func (t *TicketTerms) narrowed(other *TicketTerms) (*TicketTerms, bool) {
	if t == nil || other == nil {
		if t == nil {
			t = other
		}
		return t, true
	}
	n := *t
	n.System = cmp.Or(n.System, other.System)
	var projects, states bool
	n.Projects, projects = common(t.Projects, other.Projects)
	n.States, states = common(t.States, other.States)
	if other.MaxAge > 0 && (n.MaxAge == 0 || other.MaxAge < n.MaxAge) {
		n.MaxAge = other.MaxAge
	}
	return &n, projects && states && (other.System == "" || n.System == other.System)
}

// common are the names of both lists, where an empty one has all names.
func common(a, b []string) ([]string, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	both := slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !holds(b, name) })
	return both, len(both) > 0
}
