package channel

import (
	"cmp"
	"slices"
	"time"

	"holdpoint/engine"
)

// maxItems is how many of a digest's notifications are told one by one.
const maxItems = 50

// Digest gathers notifications into one: the most urgent first, repetitions (by id) and
// digests dissolved. It is at the time of the latest of them. Link is for the
// caller to set. The same notifications in another order make the same digest.
func Digest(id string, notifications []Notification) Notification {
	d := Notification{ID: id, Kind: engine.NotifyDigest}
	seen := map[string]bool{}
	var gather func([]Notification)
	gather = func(list []Notification) {
		for _, n := range list {
			switch {
			case n.Kind == engine.NotifyDigest:
				gather(n.Items)
			case !seen[n.ID]:
				seen[n.ID] = true
				d.Items = append(d.Items, n)
			}
		}
	}
	gather(notifications)
	slices.SortStableFunc(d.Items, byUrgency)
	tools := map[string]bool{}
	var next time.Time
	for _, n := range d.Items {
		if n.At.After(d.At) {
			d.At = n.At
		}
		if n.Tool != "" && n.About == "" {
			tools[n.Tool] = true
		}
		if n.Kind.Traits().Waits && !n.Deadline.IsZero() && (next.IsZero() || n.Deadline.Before(next)) {
			next = n.Deadline
		}
	}
	d.Message = count(len(d.Items), "notice")
	if len(tools) > 0 {
		d.Message += " about " + count(len(tools), "tool")
	}
	if !next.IsZero() {
		d.Message += ", the next deadline is " + clock(next)
	}
	d.Message += "."
	return d
}

// byUrgency compares by rank, then by deadline (none is last), then by time.
func byUrgency(a, b Notification) int {
	if c := cmp.Compare(a.Kind.Traits().Rank, b.Kind.Traits().Rank); c != 0 {
		return c
	}
	if a.Deadline.IsZero() != b.Deadline.IsZero() {
		if a.Deadline.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Deadline.Compare(b.Deadline), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
}

// group is what one agent does with one tool, or what is proposed of the rules.
type group struct {
	Tool, Agent, About string
	Items              []Notification
}

// name is the group's heading, made visible.
func (g group) name() string {
	tool, agent := visible(g.Tool, maxName), visible(g.Agent, maxName)
	switch {
	case g.About != "":
		return visible(withArticle(g.About), maxName)
	case tool == "" && agent == "":
		return "Others"
	case tool == "":
		return "By " + agent
	case agent == "":
		return tool
	}
	return tool + " by " + agent
}

// grouped is the most urgent of a digest's items by tool and agent, and how many
// others there are. Groups and what is in them are in order of urgency.
func grouped(items []Notification) (groups []group, more int) {
	items = slices.Clone(items)
	slices.SortStableFunc(items, byUrgency)
	if len(items) > maxItems {
		items, more = items[:maxItems], len(items)-maxItems
	}
	for _, n := range items {
		i := slices.IndexFunc(groups, func(g group) bool { return g.Tool == n.Tool && g.Agent == n.Agent })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{Tool: n.Tool, Agent: n.Agent, About: n.About})
		}
		groups[i].Items = append(groups[i].Items, n)
	}
	return groups, more
}

// andMore is the line that ends a digest that was cut.
func andMore(more int) string { return "and " + thousands(more) + " more" }
