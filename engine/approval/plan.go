// Package approval is the state machine of an approval, as pure functions over
// values: a Plan says what must happen and by when, Facts say what people and
// systems contributed, and Advance says where that leaves the approval. It
// never reads a clock, a database or a random source, and a Fact is never
// changed once it exists.
//
//	             ┌─ every requirement satisfied ──► approved ─ redeemed once
//	             │  (or two break the glass)
//	pending ─────┼─ enough eligible people deny ──► denied
//	 (stage by   ├─ a deadline passes ────────────► expired
//	  stage)     └─ the requesting side cancels ──► cancelled
//	   ▲   │
//	   └───┘ the arguments are edited, or the rules ask for more: a new edition,
//	         in which what was said of the former counts no more
//
// Facts are ordered by the database under a lock on the approval, and the
// first decisive one wins: what comes after it is refused, not ignored.
//
// # What counts
//
// Admit has one rule for each kind of fact. Advance reads all facts again by the
// same rules, with the standing that people have by now, so that a vote of
// somebody who has been disabled or has lost the role is void.
//
//	waits for │ satisfied by                                       │ ended by
//	──────────┼────────────────────────────────────────────────────┼─────────────────
//	answer    │ the requesting side's service; people of the role, │ its no; noes
//	          │ where no values are asked for                      │
//	step_up   │ an accountable person's fresh passkey or code      │ that person's no
//	ticket    │ a connector's look at the ticket that is attached  │
//	review    │ people of the role, or their standing grants       │ noes
//	human     │ people of the role, each with a fresh proof        │ noes
//
// A voice is a human being, not an account, and speaks once in the approval, in
// one place. Who stands in for others speaks with all their voices at once, by
// the roles of the last of them. Nobody of the requesting side has a voice.
// Votes are matched to places, so that who comes first makes no difference; of
// any_of groups one has to be full. A vote that could fill no further place is
// refused. Roles to which a requirement escalates count from that moment on.
//
// A no counts in every requirement in which the person has a say, and takes
// their yes back. If that yes carried a turn which is over, the no denies. Only
// those who spoke with a no can turn it into a yes, once.
//
// Two people with the break-glass role, or one who takes it upon them alone and
// owes a review of it, approve what waits for a ticket or for people.
//
// The time of a requirement runs from its turn, by its calendar, and not while a
// question is open, for as long as pause_for allows in all. An extension adds to
// it and to the overall deadline. A fact at the deadline comes too late.
package approval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/calendar"
)

// Plan is what must happen before the call may run. It is made when the approval
// opens, and anew with every edition.
type Plan struct {
	// OpenedAt is the database's time at which the approval was stored.
	OpenedAt time.Time
	// ExpiresAt is the overall deadline, before extensions and pauses.
	ExpiresAt time.Time
	// Requirements are discharged in this order, which is that of their kinds;
	// people's decisions of one kind are discharged together, in any order.
	Requirements []engine.Requirement
	// Excluded holds the identities of the requesting side: nobody among them
	// may vote (separation of duties).
	Excluded []string
	// Edition counts the calls that the approval has been about, from 1: changed
	// arguments or stricter rules make a new one, and what was said of the former
	// counts no more. BeganAt is when it began; zero means OpenedAt.
	Edition int
	BeganAt time.Time
	Terms
}

// Terms are a plan's terms beside its requirements.
type Terms struct {
	// Accountable holds the identities of those who answer for the call: one of
	// them proves who they are where that is required.
	Accountable []string `json:"accountable,omitempty"`
	// Calendars are those that requirements name.
	Calendars map[string]calendar.Calendar `json:"calendars,omitempty"`
	// PauseFor is for how long in all open questions may stop the clock.
	PauseFor engine.Duration `json:"pause_for,omitempty"`
	// Extenders are the roles whose people may give it more time.
	Extenders []string `json:"extenders,omitempty"`
	// ByClaim are those of Excluded who are excluded because the agent says so, and
	// for no other reason; IfTooFew is the role whose people may decide as well when
	// too few are left by that.
	ByClaim  []string `json:"excluded_by_claim,omitempty"`
	IfTooFew string   `json:"if_too_few,omitempty"`
	// AcceptedAs is set for a call that was accepted when it was proposed and whose
	// caller wanted a token: it asks for nobody, and it is approved at once. It is
	// the authorization state that the caller may claim at most.
	AcceptedAs string `json:"accepted_as,omitempty"`
	// Stakes is the template of the sentence that tells people what the call will do; nil where
	// nobody has registered one. The plan keeps it so that a later registration changes no
	// card, and so that the log has it.
	Stakes *Stakes `json:"stakes,omitempty"`
}

// Stakes is a template of package stakes, as it was when the edition began.
type Stakes struct {
	Template string `json:"template"`
	// From says whose it is: "policy rule pay", "the tool's registration".
	From string `json:"from"`
}

// began is when the edition's first turn came.
func (p Plan) began() time.Time {
	if p.BeganAt.IsZero() {
		return p.OpenedAt
	}
	return p.BeganAt
}

// Rule says how the approval of the calls that it matches is made up. Empty
// match fields match everything; the first matching rule wins.
type Rule struct {
	// Tool is a tool name, or a prefix when it ends in "*"; case does not count.
	Tool        string `json:"tool,omitempty" yaml:"tool"`
	RiskDomain  string `json:"risk_domain,omitempty" yaml:"risk_domain"`
	Category    string `json:"category,omitempty" yaml:"category"`
	Environment string `json:"environment,omitempty" yaml:"environment"`

	// Role is who may decide. Needed is how many distinct people must agree.
	Role   string `json:"role" yaml:"role"`
	Needed int    `json:"needed" yaml:"needed"`
	// Signed says that only votes count which the voter's own passkey has signed.
	Signed bool `json:"signed,omitempty" yaml:"signed"`
	// Deny is how many must say no to deny; 0 means that the first no does.
	Deny int `json:"deny,omitempty" yaml:"deny"`
	// Within is each requirement's own deadline, from its turn on; 0 means only
	// the overall one counts. ExpiresIn is the overall deadline.
	Within    engine.Duration `json:"within,omitempty" yaml:"within"`
	ExpiresIn engine.Duration `json:"expires_in" yaml:"expires_in"`
	// Calendar names the business hours in which those times count; "" means that
	// all hours do.
	Calendar string `json:"calendar,omitempty" yaml:"calendar"`
	// Reminders, Escalation and Suggested are those of requirements that have none.
	Reminders  []engine.Duration   `json:"reminders,omitempty" yaml:"reminders"`
	Escalation []engine.Escalation `json:"escalation,omitempty" yaml:"escalation"`
	Suggested  []string            `json:"suggested,omitempty" yaml:"suggested"`
	// PauseFor is for how long in all open questions may stop the clock; 0 means
	// that it goes on.
	PauseFor engine.Duration `json:"pause_for,omitempty" yaml:"pause_for"`
	// Extenders are the roles whose people may give it more time; nobody may
	// where there is none.
	Extenders []string `json:"extenders,omitempty" yaml:"extenders"`
	// IfTooFew is the role whose people may decide as well when the people whom an
	// agent names as its side leave too few; "" is the default rule's.
	IfTooFew string `json:"if_too_few,omitempty" yaml:"if_too_few"`
}

// Routing is an ordered list of rules and the rule for everything else.
type Routing struct {
	Rules   []Rule `json:"rules" yaml:"rules"`
	Default Rule   `json:"default" yaml:"default"`
	// Calendars are the business hours that rules name.
	Calendars map[string]calendar.Calendar `json:"calendars,omitempty" yaml:"calendars"`
}

// Knows reports whether there is a calendar of this name.
func (r Routing) Knows(calendar string) bool {
	_, known := r.Calendars[calendar]
	return known
}

// Bounds of what a rule may ask for.
const (
	MaxNeeded    = 20
	MaxExpiresIn = 90 * 24 * time.Hour
)

// Check returns every mistake in the routing, each naming its rule and field.
func (r Routing) Check() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.Calendars)) {
		if strings.TrimSpace(name) == "" {
			errs = append(errs, fmt.Errorf("calendars: a calendar has a name, by which rules ask for it"))
		}
		for _, err := range r.Calendars[name].Check() {
			errs = append(errs, fmt.Errorf("calendars.%s.%w", name, err))
		}
	}
	for i, rule := range append(slices.Clone(r.Rules), r.Default) {
		if _, known := r.Calendars[rule.Calendar]; rule.Calendar != "" && !known {
			where := "default"
			if i < len(r.Rules) {
				where = fmt.Sprintf("rules[%d]", i)
			}
			errs = append(errs, fmt.Errorf("%s.calendar: there is no calendar %q in routing.calendars", where, rule.Calendar))
		}
	}
	for i, rule := range r.Rules {
		errs = append(errs, rule.check(fmt.Sprintf("rules[%d]", i))...)
	}
	d := r.Default
	if d.Tool+d.RiskDomain+d.Category+d.Environment != "" {
		errs = append(errs, fmt.Errorf("default: it applies to every other call and cannot match on anything"))
	}
	return append(errs, d.check("default")...)
}

func (r Rule) check(where string) []error {
	var errs []error
	if strings.TrimSpace(r.Role) == "" {
		errs = append(errs, fmt.Errorf("%s.role: name the role whose people decide", where))
	}
	if r.Needed < 1 || r.Needed > MaxNeeded {
		errs = append(errs, fmt.Errorf("%s.needed: want 1 to %d people, got %d", where, MaxNeeded, r.Needed))
	}
	if d := time.Duration(r.ExpiresIn); d <= 0 || d > MaxExpiresIn {
		errs = append(errs, fmt.Errorf("%s.expires_in: want more than 0s and at most %s, got %s", where, MaxExpiresIn, d))
	}
	if d := time.Duration(r.Within); d < 0 || d > time.Duration(r.ExpiresIn) {
		errs = append(errs, fmt.Errorf("%s.within: want 0s to expires_in (%s), got %s", where, time.Duration(r.ExpiresIn), d))
	}
	if r.Deny < 0 || r.Deny > MaxNeeded {
		errs = append(errs, fmt.Errorf("%s.deny: want 0 to %d people, got %d", where, MaxNeeded, r.Deny))
	}
	if d := time.Duration(r.PauseFor); d < 0 || d > MaxExpiresIn {
		errs = append(errs, fmt.Errorf("%s.pause_for: want 0s to %s, got %s", where, MaxExpiresIn, d))
	}
	last := engine.Duration(0)
	for i, after := range r.Reminders {
		if after <= last {
			errs = append(errs, fmt.Errorf("%s.reminders[%d]: want more than the one before, and more than 0s, got %s", where, i, time.Duration(after)))
		} else if after >= r.ExpiresIn || r.Within > 0 && after >= r.Within {
			errs = append(errs, fmt.Errorf("%s.reminders[%d]: want less than within and expires_in, got %s", where, i, time.Duration(after)))
		}
		last = after
	}
	last = 0
	for i, e := range r.Escalation {
		if e.After <= last || strings.TrimSpace(e.Role) == "" {
			errs = append(errs, fmt.Errorf("%s.escalation[%d]: name a role, and a time after the one before", where, i))
		} else if e.After > r.ExpiresIn {
			errs = append(errs, fmt.Errorf("%s.escalation[%d]: want at most expires_in (%s), got %s", where, i, time.Duration(r.ExpiresIn), time.Duration(e.After)))
		}
		last = e.After
	}
	return append(errs, r.checkBounds(where)...)
}

// maxList bounds the lists of a rule.
const maxList = 20

func (r Rule) checkBounds(where string) []error {
	var errs []error
	for _, list := range []struct {
		name string
		n    int
	}{{"reminders", len(r.Reminders)}, {"escalation", len(r.Escalation)}, {"suggested", len(r.Suggested)}, {"extenders", len(r.Extenders)}} {
		if list.n > maxList {
			errs = append(errs, fmt.Errorf("%s.%s: at most %d, got %d", where, list.name, maxList, list.n))
		}
	}
	for i, address := range r.Suggested {
		if !engine.IsAddress(address) {
			errs = append(errs, fmt.Errorf("%s.suggested[%d]: want an e-mail address, got %q", where, i, address))
		}
	}
	if r.IfTooFew != "" && strings.TrimSpace(r.IfTooFew) == "" {
		errs = append(errs, fmt.Errorf("%s.if_too_few: name a role", where))
	}
	for i, role := range r.Extenders {
		if strings.TrimSpace(role) == "" {
			errs = append(errs, fmt.Errorf("%s.extenders[%d]: name a role", where, i))
		}
	}
	return errs
}

func (r Rule) matches(call engine.Call) bool {
	// Case and surrounding blanks make no other tool of it.
	name, pattern := plainName(call.Tool), plainName(r.Tool)
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
	} else if pattern != "" && pattern != name {
		return false
	}
	return (r.RiskDomain == "" || r.RiskDomain == call.RiskDomain) &&
		(r.Category == "" || r.Category == call.Category) &&
		(r.Environment == "" || r.Environment == call.Environment)
}

func plainName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// For returns the rule that applies to a call.
func (r Routing) For(call engine.Call) Rule {
	for _, rule := range r.Rules {
		if rule.matches(call) {
			return rule
		}
	}
	return r.Default
}

// Apply completes a decision's requirements by the rule: a requirement for
// people without a role gets the rule's, a review or human requirement asks for
// at least the rule's number of people, of whichever group, and what a
// requirement says nothing of is as the rule says. Where the rule asks for several people or
// signed votes, a single confirmation is not enough either: such a requirement becomes a review. The
// result is ordered by kind and shares nothing with its argument.
func (r Rule) Apply(requirements []engine.Requirement) []engine.Requirement {
	out := slices.Clone(requirements)
	for i := range out {
		req := &out[i]
		if req.Kind.Confirms() && (r.Needed > 1 || r.Signed) && len(req.Form) == 0 {
			req.Kind = engine.Review
		}
		people, votes := req.Kind.PeopleDecide(), req.Kind.Traits().VotesCount
		if req.Role == "" && len(req.AnyOf) == 0 && votes {
			req.Role = r.Role
		}
		req.Needed = max(req.Needed, 1)
		if people && len(req.AnyOf) == 0 {
			req.Needed = max(req.Needed, r.Needed)
		} else if people {
			req.AnyOf = slices.Clone(req.AnyOf)
			for g := range req.AnyOf {
				req.AnyOf[g].Needed = max(req.AnyOf[g].Needed, r.Needed)
			}
		}
		req.Within = cmp.Or(req.Within, r.Within)
		req.Calendar = cmp.Or(req.Calendar, r.Calendar)
		if len(req.Reminders) == 0 {
			req.Reminders = slices.Clone(r.Reminders)
		}
		if votes && req.Deny == 0 {
			req.Deny = r.Deny
		}
		if !people {
			continue
		}
		req.Signed = req.Signed || r.Signed
		if len(req.Escalation) == 0 {
			req.Escalation = slices.Clone(r.Escalation)
		}
		if len(req.Suggested) == 0 {
			req.Suggested = slices.Clone(r.Suggested)
		}
	}
	slices.SortStableFunc(out, func(a, b engine.Requirement) int { return a.Kind.Order() - b.Kind.Order() })
	return out
}

// Expiry is the overall deadline of what opens at a moment: by the rule's
// calendar, if it names one.
func (r Routing) Expiry(rule Rule, opened time.Time) time.Time {
	var c clock = everyHour{}
	if rule.Calendar != "" {
		c = compiled(r.Calendars, rule.Calendar)
	}
	return c.Add(opened, time.Duration(rule.ExpiresIn))
}

// Terms are those of a plan by the rule, for the calendars that its requirements
// name.
func (r Routing) Terms(rule Rule, requirements []engine.Requirement, accountable, byClaim []string) Terms {
	t := Terms{Accountable: accountable, PauseFor: rule.PauseFor, Extenders: rule.Extenders, ByClaim: byClaim}
	if len(byClaim) > 0 {
		t.IfTooFew = cmp.Or(rule.IfTooFew, r.Default.IfTooFew)
	}
	for _, req := range requirements {
		if c, known := r.Calendars[req.Calendar]; known {
			if t.Calendars == nil {
				t.Calendars = map[string]calendar.Calendar{}
			}
			t.Calendars[req.Calendar] = c
		}
	}
	return t
}

// Enough reports whether as many human beings as needed have the role.
func Enough(people []engine.Person, role string, needed int) error {
	if strings.HasPrefix(role, engine.OnCallPrefix) {
		return nil // that changes with every shift
	}
	identities := map[string]bool{}
	for _, p := range people {
		if !p.Disabled && p.Has(role) {
			identities[p.Identity] = true
		}
	}
	if len(identities) < needed {
		return fmt.Errorf("people with the role %q: %d, needed: %d", role, len(identities), needed)
	}
	return nil
}
