package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/registry"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
)

func (c *comparison) settings() {
	if c.Settings == nil {
		return
	}
	want := c.Settings.full()
	list := fields(c.from.Settings, want)
	if len(list) == 0 {
		return
	}
	c.wrong(settingsSection, "", want.registry().Check()...)
	c.change(settingsSection, "", Update, list, 0, want.put)
}

func (c *comparison) tools() {
	now := byName(c.from.Tools, func(t Tool) string { return t.Name })
	for _, t := range c.Tools {
		want := toolOf(t.registry())
		want.Revoked = t.Revoked
		was, there := now[t.Name]
		var list []Field
		if there {
			list = fields(was, want, "revoked")
		} else {
			list = fields(nil, want, "tool_name")
		}
		if len(list) > 0 || !there {
			errs := want.registry().Check()
			if registry.ConfusableName(t.Name) {
				errs = append(errs, errors.New("tool_name: it could be taken for another tool’s by how it is drawn"))
			}
			c.wrong(toolsSection, t.Name, errs...)
		}
		switch revoked := t.Revoked != nil && *t.Revoked; {
		case !there && revoked:
			c.change(toolsSection, t.Name, Create, list, 0, want.register, want.revoke)
			continue
		case !there:
			c.change(toolsSection, t.Name, Create, list, 0, want.register)
			continue
		case len(list) > 0:
			c.change(toolsSection, t.Name, Update, list, 0, want.register)
		}
		c.switched(toolsSection, t.Name, "revoked", was.Revoked, t.Revoked, 0, want.revoke, want.restore)
	}
}

// comparePeople comes after tools and before agents, whose owners they are.
func (c *comparison) comparePeople() {
	now := byName(c.from.People, func(p Person) string { return p.Email })
	list := slices.Clone(c.People)
	// An account is added after the one that it is the same as.
	slices.SortStableFunc(list, func(a, b Person) int { return cmp.Compare(min(len(a.SameAs), 1), min(len(b.SameAs), 1)) })
	for _, p := range list {
		p.Name, p.Roles = cmp.Or(strings.TrimSpace(p.Name), p.Email), sorted(p.Roles)
		same := c.sameAs(p)
		was, there := now[p.Email]
		switch {
		case !there:
			p.SameAs = same
			c.wrong(peopleSection, p.Email, c.fits(p, nil)...)
			steps, shows := []step{p.invite}, 1
			if p.Disabled != nil && *p.Disabled {
				steps, shows = append(steps, p.disable), 0
			}
			c.change(peopleSection, p.Email, Create, fields(nil, p, "email"), shows, steps...)
			continue
		case same != was.SameAs && p.SameAs != "":
			c.wrong(peopleSection, p.Email, errors.New("same_as: whose account it is was said when it was added, and stays so"))
		}
		p.SameAs = was.SameAs
		if list := fields(was, p, "disabled"); len(list) > 0 {
			c.wrong(peopleSection, p.Email, c.fits(p, was.Roles)...)
			c.change(peopleSection, p.Email, Update, list, 0, p.change(was))
		}
		c.switched(peopleSection, p.Email, "disabled", was.Disabled, p.Disabled, 1, p.disable, p.enable)
	}
}

// sameAs is the address of the account that stands for the person's human being: "" for
// their own.
func (c *comparison) sameAs(p Person) string {
	root := p
	for range len(c.people) {
		if root.SameAs == "" {
			break
		}
		next, there := c.people[root.SameAs]
		if !there {
			c.wrong(peopleSection, p.Email, fmt.Errorf("same_as: there is nobody with the address %q", root.SameAs))
			return ""
		}
		root = next
	}
	if root.SameAs != "" {
		c.wrong(peopleSection, p.Email, errors.New("same_as: the accounts are the same as each other in a circle"))
	}
	if root.Email == p.Email {
		return ""
	}
	return root.Email
}

// fits says what is wrong with an account; it may keep the roles that it has.
func (c *comparison) fits(p Person, has []string) []error {
	known := c.from.known
	if c.AllowUnknownRoles {
		known = nil
	}
	if known != nil {
		known = append(slices.Clone(known), has...)
	}
	var errs []error
	for _, err := range (admin.NewPerson{Email: p.Email, Name: p.Name, Roles: p.Roles}).Check(known) {
		field := "email: "
		if refused := (*access.Refusal)(nil); errors.As(err, &refused) {
			switch {
			case strings.Contains(refused.Code, "role"):
				field = "roles: "
			case refused.Code == "unfit_name":
				field = "name: "
			}
			err = errors.New(strings.TrimSuffix(refused.Detail, " Nothing was changed."))
		}
		errs = append(errs, errors.New(field+err.Error()))
	}
	return errs
}

func (c *comparison) agents() {
	now := byName(c.from.Agents, func(a Agent) string { return a.ID })
	for _, a := range c.Agents {
		want := (&Current{}).agentOf(a.registry(), admin.Endpoint{})
		want.Owner, want.Webhook, want.Revoked = a.Owner, a.Webhook, a.Revoked
		was, there := now[a.ID]
		if a.Webhook == nil && !c.Prune.Entries {
			want.Webhook = was.Webhook
		}
		tell, moved := c.webhook(was, want)
		var own, webhook []Field
		for _, f := range c.agentFields(was, want, there) {
			if strings.HasPrefix(f.Name, "webhook") {
				webhook = append(webhook, f)
			} else {
				own = append(own, f)
			}
		}
		if moved && len(webhook) == 0 {
			webhook = []Field{{"webhook.address", "secret", "another"}}
		}
		var steps []step
		shows := 0
		if len(own) > 0 || !there {
			c.wrong(agentsSection, a.ID, c.agentFits(want)...)
			steps = append(steps, want.register)
		}
		if len(webhook) > 0 && tell != nil {
			steps = append(steps, tell)
			if want.Webhook != nil {
				shows = 1
			}
		}
		if revoked := want.Revoked != nil && *want.Revoked; !there {
			if revoked {
				steps = append(steps, want.revoke)
			}
			c.change(agentsSection, a.ID, Create, append(own, webhook...), shows, steps...)
			continue
		}
		if len(steps) > 0 {
			c.change(agentsSection, a.ID, Update, append(own, webhook...), shows, steps...)
		}
		c.switched(agentsSection, a.ID, "revoked", was.Revoked, a.Revoked, 0, want.revoke, want.restore)
	}
}

func (c *comparison) agentFields(was, want Agent, there bool) []Field {
	if there {
		return fields(was, want, "revoked")
	}
	return fields(nil, want, "agent_id")
}

func (c *comparison) agentFits(a Agent) []error {
	errs := a.registry().Check()
	if _, there := c.people[a.Owner]; a.Owner != "" && !there {
		errs = append(errs, fmt.Errorf("owner: there is nobody with the address %q", a.Owner))
	}
	return errs
}

// webhook is what has the agent told at its address, nil where that stays as it is, and
// whether only its address is another one.
func (c *comparison) webhook(was, want Agent) (step, bool) {
	id := admin.AgentEndpoint(want.ID)
	switch {
	case want.Webhook == nil && was.Webhook == nil:
		return nil, false
	case want.Webhook == nil:
		return want.setWebhook(""), false
	}
	now := ""
	if was.Webhook != nil {
		now = c.from.targets[id].URL
	}
	address := c.address(agentsSection, want.ID, "webhook.host", want.Webhook.Host, c.Addresses.Agents, now)
	moved := address != ""
	if address == "" {
		address = now // another form, at the same address
	}
	if moved || len(fields(was.Webhook, want.Webhook)) > 0 {
		e := admin.NewEndpoint{
			Kind: notify.Webhook, Name: want.ID, Settings: notify.Settings{Format: want.Webhook.Format}, URL: address, Plain: want.Webhook.Plain,
		}
		for _, err := range c.checkEndpoint(e) {
			c.wrong(agentsSection, want.ID, fmt.Errorf("webhook.%w", err))
		}
	}
	return want.setWebhook(address), moved
}

func (c *comparison) endpoints() {
	now := byName(c.from.Endpoints, func(e Endpoint) string { return e.Name })
	for _, e := range c.Endpoints {
		e.Tells, e.Host = e.settings().Kinds, strings.TrimSpace(e.Host)
		was, there := now[e.Name]
		id := c.from.endpoints[e.Name]
		address := ""
		if e.Kind == notify.Webhook || e.Kind == notify.Slack {
			address = c.address(endpointsSection, e.Name, "host", e.Host, c.Addresses.Endpoints, c.from.targets[id].URL)
		} else if e.Host != "" || c.Addresses.Endpoints[e.Name] != "" {
			c.wrong(endpointsSection, e.Name, fmt.Errorf("host: an endpoint of kind %q has no address", e.Kind))
		}
		if e.Decide != "" && c.from.targets[id].Signing == "" {
			c.wrong(endpointsSection, e.Name, errors.New("decide: it takes the signing secret of the Slack app first: add the endpoint without it, then give both by holdpoint notify set"))
		}
		check := admin.NewEndpoint{Kind: e.Kind, Name: e.Name, Settings: e.settings(), URL: address, Plain: e.Plain, Ed25519: e.Ed25519}
		if !there {
			c.wrong(endpointsSection, e.Name, c.checkEndpoint(check)...)
			shows := 0
			if e.Kind == notify.Webhook {
				shows = 1
			}
			c.change(endpointsSection, e.Name, Create, fields(nil, e, "name"), shows, e.add(address))
			continue
		}
		if e.Kind != was.Kind || e.Ed25519 != was.Ed25519 {
			c.wrong(endpointsSection, e.Name, errors.New("kind: its kind, and how it signs, were said when it was added: add another one, by another name"))
			continue
		}
		if e.Plain != was.Plain && address == "" {
			c.wrong(endpointsSection, e.Name, errors.New("plain: it changes with the address only: give it in the file of --addresses"))
		}
		list := fields(was, e, "disabled")
		if address != "" && e.Host == was.Host {
			list = append(list, Field{"address", "secret", "another"})
		}
		if len(list) > 0 {
			c.wrong(endpointsSection, e.Name, c.checkEndpoint(check)...)
			c.change(endpointsSection, e.Name, Update, list, 0, e.change(id, address))
		}
		c.switched(endpointsSection, e.Name, "disabled", was.Disabled, e.Disabled, 0, e.turn(id, true), e.turn(id, false))
	}
}

func (c *comparison) checkEndpoint(e admin.NewEndpoint) []error {
	if c.CheckEndpoint == nil {
		return nil
	}
	return c.CheckEndpoint(e)
}

func (c *comparison) onCall() {
	now := byName(c.from.OnCall, func(s Schedule) string { return s.Name })
	for _, s := range c.OnCall {
		want := Schedule{Name: s.Name, Shifts: []Shift{}}
		for i, shift := range s.Shifts {
			c.shiftFits(s.Name, i, shift)
			shift = c.from.shift(shift)
			for j, p := range shift.People {
				shift.People[j] = address(p)
			}
			if shift.People = sorted(shift.People); shift.Until.After(c.from.now) {
				want.Shifts = append(want.Shifts, shift)
			}
		}
		slices.SortStableFunc(want.Shifts, func(a, b Shift) int { return begin(a).Compare(begin(b)) })
		for i := 1; i < len(want.Shifts); i++ {
			if begin(want.Shifts[i]).Before(want.Shifts[i-1].Until) {
				c.wrong(onCallSection, s.Name, fmt.Errorf("shifts: one that begins before %s begins while another goes on: name their people in one shift", want.Shifts[i-1].Until.Format(time.RFC3339)))
			}
		}
		was, there := now[s.Name]
		list := fields(was, want)
		if !there {
			list = fields(nil, want, "schedule")
		}
		if steps := want.from(was); len(steps) > 0 {
			action := Update
			if !there {
				action = Create
			}
			c.change(onCallSection, s.Name, action, list, 0, steps...)
		}
	}
}

func begin(s Shift) time.Time {
	if s.From == nil {
		return time.Time{}
	}
	return *s.From
}

func (c *comparison) shiftFits(schedule string, i int, s Shift) {
	field := fmt.Sprintf("shifts[%d]", i)
	wrong := func(part, text string) {
		c.wrong(onCallSection, schedule, fmt.Errorf("%s.%s: %s", field, part, text))
	}
	if len(s.People) == 0 {
		wrong("people", "name somebody; where nobody is on call, there is no shift")
	}
	for _, p := range s.People {
		if known, there := c.people[address(p)]; !there || known.Disabled != nil && *known.Disabled {
			wrong("people", fmt.Sprintf("there is no active account with the address %q", p))
		}
	}
	if !s.Until.After(c.from.now) {
		if s.From != nil && !s.Until.After(*s.From) {
			wrong("until", "it has to come after from")
		}
		return // is over
	}
	q := admin.OnCallRequest{Schedule: schedule, Emails: s.People, From: begin(s), Until: s.Until}
	var refused *access.Refusal
	if err := q.Check(c.from.now); errors.As(err, &refused) {
		wrong("until", refused.Detail)
	}
}

// from are the steps that make a schedule what it is to be: those of the first shift that
// differs and of all after it, since each replaces what comes after its beginning.
func (s Schedule) from(was Schedule) []step {
	same := func(a, b Shift) bool {
		return slices.Equal(a.People, b.People) && sameTime(a.From, b.From) && a.Until.Equal(b.Until)
	}
	i := 0
	for i < len(s.Shifts) && i < len(was.Shifts) && same(s.Shifts[i], was.Shifts[i]) {
		i++
	}
	var steps []step
	var off *time.Time
	if i < len(was.Shifts) && (i == len(s.Shifts) || begin(was.Shifts[i]).Before(begin(s.Shifts[i]))) {
		nobody := Shift{From: was.Shifts[i].From}
		if i > 0 {
			nobody.From = &was.Shifts[i-1].Until
		}
		if i == len(s.Shifts) {
			return append(steps, s.put(nobody, nil))
		}
		// With the shift, and not before it: that may wait for its approval.
		from := begin(nobody)
		off = &from
	}
	for ; i < len(s.Shifts); i++ {
		steps = append(steps, s.put(s.Shifts[i], off))
		off = nil
	}
	return steps
}

// prune ends what no file names, in the sections that files speak of: in the order in
// which nothing that is left leads to what has ended.
func (c *comparison) prune() {
	left := func(section, name string) bool {
		_, named := c.at[section+"/"+name]
		return c.has[section] && !named
	}
	if c.Prune.Entries {
		for _, s := range c.from.OnCall {
			if empty := (Schedule{Name: s.Name, Shifts: []Shift{}}); left(onCallSection, s.Name) {
				c.last = append(c.last, Change{Kind: words[onCallSection], Name: s.Name, Action: Remove, Fields: fields(s, empty), steps: empty.from(s)})
			}
		}
		for _, e := range c.from.Endpoints {
			if left(endpointsSection, e.Name) && !*e.Disabled {
				c.end(endpointsSection, e.Name, Remove, "disabled", e.turn(c.from.endpoints[e.Name], true))
			}
		}
		for _, a := range c.from.Agents {
			if left(agentsSection, a.ID) && !*a.Revoked {
				c.end(agentsSection, a.ID, Remove, "revoked", a.revoke)
			}
		}
		for _, t := range c.from.Tools {
			if left(toolsSection, t.Name) && !*t.Revoked {
				c.end(toolsSection, t.Name, Remove, "revoked", t.revoke)
			}
		}
	}
	if c.Prune.People {
		for _, p := range c.from.People {
			if left(peopleSection, p.Email) && !*p.Disabled {
				c.end(peopleSection, p.Email, Remove, "disabled", p.disable)
			}
		}
	}
}
