package setup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"holdpoint/engine/canon"
	"holdpoint/engine/source"
	"holdpoint/internal/admin"
)

// Prune says what becomes of what no file names, in the sections that files speak of.
type Prune struct {
	// Entries revokes agents and tools, switches endpoints off, ends agents' webhooks and
	// empties schedules.
	Entries bool
	// People disables people.
	People bool
}

// Options say how documents are compared with what is set up.
type Options struct {
	Prune Prune
	// AllowUnknownRoles takes roles of people that no rule asks for yet.
	AllowUnknownRoles bool
	// CheckEndpoint says what is wrong with an endpoint that is to be.
	CheckEndpoint func(admin.NewEndpoint) []error
}

// The actions of a Change.
const (
	Create = "create"
	Update = "change"
	Remove = "remove"
)

// Change is what becomes of one entry.
type Change struct {
	Kind   string  `json:"kind"` // person, tool, agent, endpoint, schedule or settings
	Name   string  `json:"name,omitempty"`
	Action string  `json:"action"`
	Fields []Field `json:"fields"`
	// Shows is how many secrets it makes, which are shown once.
	Shows int `json:"secrets_made,omitempty"`

	steps []step
}

// Field is what becomes of one field: JSON values, nil for none.
type Field struct {
	Name string `json:"field"`
	Old  any    `json:"old"`
	New  any    `json:"new"`
}

// Plan is what is to be done, in the order in which it can be.
type Plan struct {
	Changes []Change
	// StillRevoked are entries of the files that are revoked or disabled, and stay so because
	// no file says otherwise.
	StillRevoked []string
}

// Shows is how many secrets the plan makes, which are shown once.
func (p Plan) Shows() int {
	n := 0
	for _, c := range p.Changes {
		n += c.Shows
	}
	return n
}

// Confirm asks whether the plan is meant, which may take as long as a person takes, and
// compares anew. It returns the new plan, or an error where that is another one: nobody
// has seen it.
func (p Plan) Confirm(ask func() error, compare func() (Plan, error)) (Plan, error) {
	if err := ask(); err != nil {
		return Plan{}, err
	}
	again, err := compare()
	if err == nil && !bytes.Equal(jsonOf([]any{p.Changes, p.StillRevoked}), jsonOf([]any{again.Changes, again.StillRevoked})) {
		err = errors.New("what is set up has changed since this plan was made, and nothing was done: run it again, and look at the new plan")
	}
	return again, err
}

// comparison makes a plan.
type comparison struct {
	*Desired
	Options

	from     *Current
	problems []source.Problem
	plan     Plan
	last     []Change // what ends or disables something, after everything else

	people map[string]Person // who is there, and who is to be, by address
}

// Compare says what the files would change. With any problem there is no plan: nothing
// may be done while a part of the files is wrong.
func Compare(from *Current, w *Desired, o Options) (Plan, []source.Problem) {
	c := &comparison{Desired: w, Options: o, from: from, people: map[string]Person{}}
	for _, p := range append(slices.Clone(from.People), w.People...) {
		if p.Disabled == nil {
			p.Disabled = c.people[p.Email].Disabled
		}
		c.people[p.Email] = p
	}
	c.addresses()
	c.settings()
	c.tools()
	c.comparePeople()
	c.agents()
	c.endpoints()
	c.onCall()
	c.prune()
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b source.Problem) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return Plan{}, c.problems
	}
	c.plan.Changes = append(c.plan.Changes, c.last...)
	return c.plan, nil
}

func (c *comparison) wrong(section, name string, errs ...error) {
	for _, err := range errs {
		c.problems = append(c.problems, c.problem(section, name, err.Error()))
	}
}

// change adds a change to the plan.
func (c *comparison) change(section, name, action string, fields []Field, shows int, steps ...step) {
	c.plan.Changes = append(c.plan.Changes, Change{Kind: words[section], Name: name, Action: action, Fields: fields, Shows: shows, steps: steps})
}

// end adds what ends or disables an entry, to be done last.
func (c *comparison) end(section, name, action, field string, do step) {
	c.last = append(c.last, Change{Kind: words[section], Name: name, Action: action, Fields: []Field{{field, false, true}}, steps: []step{do}})
}

// switched is what becomes of a flag such as revoked: on and off are its steps. A flag
// that no file speaks of stays as it is.
func (c *comparison) switched(section, name, field string, now, want *bool, shows int, on, off step) {
	was := now != nil && *now
	switch {
	case want == nil && was:
		c.plan.StillRevoked = append(c.plan.StillRevoked, fmt.Sprintf("%s is %s, and stays so: “%s: false” would change it", entryName(section, name), field, field))
	case want == nil || *want == was:
	case *want:
		c.end(section, name, Update, field, on)
	default:
		c.change(section, name, Update, []Field{{field, true, false}}, shows, off)
	}
}

// fields are those in which two entries differ, without those named.
func fields(before, after any, without ...string) []Field {
	was, is := flat(before), flat(after)
	var list []Field
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if slices.Contains(without, name) {
			continue
		}
		if a, b := was[name], is[name]; !bytes.Equal(jsonOf(a), jsonOf(b)) {
			list = append(list, Field{name, a, b})
		}
	}
	return list
}

func jsonOf(v any) []byte {
	text, _ := json.Marshal(v) // came from JSON
	return text
}

// flat are the fields of an entry by their paths; lists of texts, and what schemas of
// arguments hold, are one value.
func flat(v any) map[string]any {
	var object map[string]any
	if v != nil {
		_ = json.Unmarshal(jsonOf(v), &object) // it was just encoded
	}
	all := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch t := v.(type) {
		case map[string]any:
			if path == "input_schema" || len(t) == 0 {
				all[path] = v
				return
			}
			for name, e := range t {
				walk(path+"."+name, e)
			}
		case []any:
			if !slices.ContainsFunc(t, func(e any) bool { _, more := e.(map[string]any); return more }) {
				all[path] = v
				return
			}
			for i, e := range t {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
		default:
			all[path] = v
		}
	}
	for name, e := range object {
		walk(name, e)
	}
	return all
}

// byName finds entries by name.
func byName[T any](list []T, name func(T) string) map[string]T {
	all := make(map[string]T, len(list))
	for _, e := range list {
		all[name(e)] = e
	}
	return all
}

// addresses refuses addresses of nothing that a file names.
func (c *comparison) addresses() {
	for section, given := range map[string]map[string]string{endpointsSection: c.Addresses.Endpoints, agentsSection: c.Addresses.Agents} {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if _, there := c.at[section+"/"+name]; !there {
				c.problems = append(c.problems, source.Problem{Code: unfit, Message: fmt.Sprintf("--addresses: %s: no file names it", entryName(section, name))})
			}
		}
	}
}

// address is the secret address of an entry that leads to a host: "" where it stays as
// it is. Where it is needed and not given, or leads elsewhere, that is a problem.
func (c *comparison) address(section, name, field, host string, given map[string]string, now string) string {
	text, there := given[name]
	switch u, err := url.Parse(text); {
	case there && (err != nil || u.Host != host):
		c.wrong(section, name, fmt.Errorf("%s: it is %q, and the address that --addresses has leads elsewhere", field, host))
	case !there && (now == "" || hostOf(now) != host):
		c.wrong(section, name, fmt.Errorf("%s: the address at %q is needed: it is secret, and given in the file of --addresses, as %s: {%s: URL}", field, host, section, scalar(canon.String(name))))
	case text == now:
		return ""
	}
	return text
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
