package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/form"
	"holdpoint/engine/source"
)

var ticketFields = []string{"system", "projects", "states", "max_age"}

// calendar reads the name of a calendar, and makes sure that there is one.
func (c *compiler) calendar(n source.Node) string {
	name := c.named(n, "approval.calendar")
	if known := c.options.Calendars; name != "" && known != nil && !known(name) {
		c.fail(n, "unknown_calendar", "there is no calendar "+quote(name), "calendars are in the settings, under routing.calendars")
	}
	return name
}

// list reports whether n is an array of at least one and not too many.
func (c *compiler) list(n source.Node, name, things string) bool {
	if n.Value.Kind() == canon.ArrayKind && n.Value.Len() > 0 && n.Value.Len() <= MaxList {
		return true
	}
	c.fail(n, "approval_list", name+" has to be an array of 1 to "+strconv.Itoa(MaxList)+" "+things, "")
	return false
}

func (c *compiler) reminders(n source.Node, a *Approval) []engine.Duration {
	if !c.list(n, "approval.reminders", "durations") {
		return nil
	}
	times := make([]engine.Duration, n.Value.Len())
	last := engine.Duration(0)
	for i := range times {
		m := n.Element(i)
		after := c.duration(m, "approval.reminders["+strconv.Itoa(i)+"]")
		times[i] = after
		switch {
		case after == 0:
		case a.ExpiresIn > 0 && after >= a.ExpiresIn:
			c.fail(m, "approval_times", "a reminder does not come before approval.expires_in", "nobody could act on it")
		case a.Within > 0 && after >= a.Within:
			c.fail(m, "approval_times", "a reminder does not come before approval.within", "nobody could act on it")
		case after <= last:
			c.fail(m, "approval_times", "reminders have to be in order of time", "")
		}
		last = max(last, after)
	}
	return times
}

// suggested reads e-mail addresses. Case does not make another one of them.
func (c *compiler) suggested(n source.Node) []string {
	if !c.list(n, "approval.suggest", "e-mail addresses") {
		return nil
	}
	seen := map[string]bool{}
	addresses := make([]string, 0, n.Value.Len())
	for i := range n.Value.Len() {
		m, name := n.Element(i), "approval.suggest["+strconv.Itoa(i)+"]"
		text, ok := c.text(m, name)
		if !ok {
			continue
		}
		key := strings.ToLower(text)
		switch {
		case !engine.IsAddress(text):
			c.fail(m, "approval_suggest", name+" "+quote(text)+" is not an e-mail address", `write it as "ada@example.com", without a name`)
		case seen[key]:
			c.fail(m, "approval_suggest", name+" "+quote(text)+" is there twice", "")
		}
		seen[key] = true
		addresses = append(addresses, text)
	}
	return addresses
}

// ticket reads what a ticket has to be.
func (c *compiler) ticket(n source.Node) *engine.TicketTerms {
	t := &engine.TicketTerms{}
	if !c.closed(n, "approval.ticket", ticketFields) {
		return t
	}
	if n.Value.Len() == 0 {
		c.fail(n, "empty", "approval.ticket must not be empty", "name a system, projects, states or a max_age, or remove it")
	}
	if m, ok := n.Get("system"); ok {
		t.System = c.named(m, "approval.ticket.system")
	}
	if m, ok := n.Get("projects"); ok {
		t.Projects = c.names(m, "approval.ticket.projects")
	}
	if m, ok := n.Get("states"); ok {
		t.States = c.names(m, "approval.ticket.states")
	}
	if m, ok := n.Get("max_age"); ok {
		t.MaxAge = c.duration(m, "approval.ticket.max_age")
	}
	return t
}

// names reads different names, none of them empty. As trackers have it, case
// does not make another one of them.
func (c *compiler) names(n source.Node, name string) []string {
	if !c.list(n, name, "names") {
		return nil
	}
	list := make([]string, 0, n.Value.Len())
	for i := range n.Value.Len() {
		m, at := n.Element(i), name+"["+strconv.Itoa(i)+"]"
		text := c.named(m, at)
		if text != "" && slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, text) }) {
			c.fail(m, "approval_list", fmt.Sprintf("%s %s is there twice", at, quote(text)), "")
		}
		list = append(list, text)
	}
	return list
}

// ask reads the schema of what the requesting side has to supply.
func (c *compiler) ask(n source.Node) json.RawMessage {
	if n.Value.Kind() != canon.ObjectKind {
		c.wrongKind(n, "approval.ask", "an object")
		return nil
	}
	f, err := form.Compile(n.Value)
	switch {
	case err != nil:
		c.fail(n, "approval_ask", "approval.ask is no schema that a form can be made of: "+err.Error(), "write the JSON Schema of an object: type, properties, required")
	case len(f.Fields(canon.Object())) == 0:
		c.fail(n, "approval_ask", "approval.ask asks for nothing", "name what has to be supplied in properties, and in required what must not be left out")
	default:
		return n.Value.Canonical()
	}
	return nil
}
