package web

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/web/views"
)

// Log is what the console reads of the audit log; *auditlog.Log is one. Errors are as
// Inbox's are.
type Log interface {
	LogSearch
	Checkpoints
}

// LogSearch finds events in the log.
type LogSearch interface {
	Events
	// Search lists up to limit events; it may end before, and says where.
	Search(ctx context.Context, f auditlog.EventFilter, limit int) (auditlog.SearchResult, error)
	// EventAt reads what is at a place; a record that is gone has an empty ID.
	EventAt(ctx context.Context, seq int64) (audit.Record, error)
	Everybody(ctx context.Context) ([]engine.Person, error)
}

// auditPage is how many events a page lists.
const auditPage = 50

// auditHandler serves the page on which the log is searched.
type auditHandler struct {
	site     *site
	log      LogSearch
	registry Registry
}

func (h *auditHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /audit", h.site.forAuditors(h.search))
}

// filterNames are the parameters of a search, in the order of the form.
var filterNames = []string{"since", "until", "agent", "tool", "person", "outcome", "type", "approval"}

// search searches the log.
func (h *auditHandler) search(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	known, err := h.filters(r.Context())
	if err != nil {
		return err
	}
	query, v := r.URL.Query(), views.Audit{Frame: h.site.frame(p, "Audit log", "audit"), Known: known.lists()}
	if asked := strings.TrimSpace(query.Get("q")); asked != "" {
		to, err := h.lookUp(r.Context(), asked, query, known)
		if err != nil {
			return err
		}
		if to != "" {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return nil
		}
		v.Asked, v.NotFound = asked, true
	}
	// One address for one search: what a form leaves empty is left out.
	if short := shortened(query); !v.NotFound && short != r.URL.RawQuery {
		http.Redirect(w, r, auditURL(short), http.StatusSeeOther)
		return nil
	}
	f, problems := known.filter(query)
	v.Form, v.Problems, v.Chips = entries(query), problems, known.chips(query)
	status := http.StatusOK
	if len(problems) > 0 || v.NotFound {
		if len(problems) > 0 {
			status = http.StatusBadRequest
		}
		return h.site.render(w, r, status, views.AuditPage(v))
	}
	forwards := query.Get("after") != ""
	f.Newest = !forwards
	found, err := h.log.Search(r.Context(), f, auditPage)
	if err != nil {
		return err
	}
	standing, err := h.log.Standing(r.Context())
	if err != nil {
		return err
	}
	v.Size, v.State = standing.Size, logStateWords(standing)
	if forwards && !found.More {
		// These are the newest: they are shown with what is before them.
		http.Redirect(w, r, auditURL(without(query, "after", "before")), http.StatusSeeOther)
		return nil
	}
	if err := h.list(r.Context(), &v, query, f, found, known); err != nil {
		return err
	}
	return h.site.render(w, r, http.StatusOK, views.AuditPage(v))
}

// list puts what was found on the page, newest first, with the ways on.
func (h *auditHandler) list(ctx context.Context, v *views.Audit, query url.Values, f auditlog.EventFilter, found auditlog.SearchResult, known searchFilters) error {
	records := slices.Clone(found.Records)
	if !f.Newest {
		slices.Reverse(records)
	}
	for _, r := range records {
		v.Rows = append(v.Rows, auditRow(r, known.name))
	}
	page := func(name string, seq int64) string {
		q := maps.Clone(query)
		q.Del("before")
		q.Del("after")
		q.Set(name, strconv.FormatInt(seq, 10))
		return auditURL(q.Encode())
	}
	switch {
	case f.Newest:
		if found.More {
			v.Older = page("before", found.Reached)
		}
		if f.After > 0 {
			v.Newer = page("after", f.After-1)
			if len(records) > 0 {
				v.Newer = page("after", records[0].Seq())
			}
		}
	default:
		v.Newer, v.Older = page("after", found.Reached), page("before", f.After+1)
		if len(records) > 0 {
			v.Older = page("before", records[len(records)-1].Seq())
		}
	}
	if v.Newer != "" {
		v.Newest = auditURL(without(query, "before", "after"))
	}
	if !found.Stopped {
		return nil
	}
	v.Stopped, v.Forwards = true, !f.Newest
	at, err := h.log.EventAt(ctx, max(found.Reached, 1))
	if err != nil {
		return err
	}
	v.ReachedSeq, v.ReachedAt = found.Reached, at.At
	return nil
}

func auditURL(query string) string {
	if query == "" {
		return "/audit"
	}
	return "/audit?" + query
}

// without is a query without some of its parameters.
func without(query url.Values, names ...string) string {
	q := maps.Clone(query)
	for _, name := range names {
		q.Del(name)
	}
	return q.Encode()
}

// shortened is a search's query without what is empty and what it does not know.
func shortened(query url.Values) string {
	q := url.Values{}
	for _, name := range append([]string{"before", "after"}, filterNames...) {
		if value := strings.TrimSpace(query.Get(name)); value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

func entries(query url.Values) map[string]string {
	form := map[string]string{}
	for _, name := range filterNames {
		form[name] = query.Get(name)
		if at, ok := parseTime(form[name], name == "until"); (name == "since" || name == "until") && ok && !at.IsZero() {
			form[name] = at.Format("2006-01-02T15:04:05.999")
		}
	}
	return form
}

// lookUp leads to what somebody has typed into the one box: an event, an approval,
// a place in the log, or else somebody's or something's name as a filter.
func (h *auditHandler) lookUp(ctx context.Context, asked string, query url.Values, known searchFilters) (string, error) {
	// A UUID as it may be written elsewhere.
	id := strings.ToLower(strings.Trim(asked, "{}"))
	r, err := h.log.Event(ctx, id)
	if err == nil {
		return eventURL(r.ID), nil
	}
	if !isNotFound(err) {
		return "", err
	}
	number := strings.TrimLeft(strings.TrimPrefix(strings.ToLower(asked), "seq"), " :#=")
	if seq, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64); err == nil {
		r, err := h.log.EventAt(ctx, seq)
		switch {
		case err == nil && r.ID != "":
			return eventURL(r.ID), nil
		case err == nil: // its row is gone: the list says so
			return auditURL(url.Values{"before": {strconv.FormatInt(seq+1, 10)}}.Encode()), nil
		case !isNotFound(err):
			return "", err
		}
		return "", nil
	}
	filter, value := known.named(asked)
	if strings.HasPrefix(asked, "apr_") {
		filter, value = "approval", asked
	}
	if filter == "" {
		return "", nil
	}
	q := maps.Clone(query)
	q.Set(filter, value)
	return auditURL(shortened(q)), nil
}

func eventURL(id string) string { return "/audit/events/" + url.PathEscape(id) }

// searchFilters is what there is to filter by.
type searchFilters struct {
	agents map[string]string // names by id
	tools  []string
	people []engine.Person
}

func (h *auditHandler) filters(ctx context.Context) (searchFilters, error) {
	registered, err := h.registry.Snapshot(ctx)
	if err != nil {
		return searchFilters{}, err
	}
	k := searchFilters{agents: map[string]string{}, tools: slices.Sorted(maps.Keys(registered.Tools))}
	for id, a := range registered.Agents {
		k.agents[id] = a.Name
	}
	k.people, err = h.log.Everybody(ctx)
	return k, err
}

// name is the name of a person or an agent; an id without one stands for itself.
func (k searchFilters) name(id string) string {
	if name := k.agents[id]; name != "" {
		return name
	}
	for _, p := range k.people {
		if p.ID == id {
			return displayName(p)
		}
	}
	return id
}

func (k searchFilters) lists() views.AuditKnown {
	var v views.AuditKnown
	for _, id := range slices.SortedFunc(maps.Keys(k.agents), func(a, b string) int { return cmp.Or(strings.Compare(k.agents[a], k.agents[b]), strings.Compare(a, b)) }) {
		v.Agents = append(v.Agents, views.Option{Value: id, Label: views.Visible(k.agents[id])})
	}
	for _, p := range k.people {
		v.People = append(v.People, views.Option{Value: p.Email, Label: views.Visible(p.Name)})
	}
	v.Tools = k.tools
	for _, o := range outcomes {
		v.Outcomes = append(v.Outcomes, views.Option{Value: string(o.outcome), Label: o.words})
	}
	for _, t := range eventTypes {
		v.Types = append(v.Types, views.Option{Value: string(t.kind), Label: t.words})
	}
	return v
}

// agentID and personID are the ids of whom a text names; one that names nobody
// stands for itself, as somebody may be gone or be no person at all.
func (k searchFilters) agentID(text string) string {
	if _, ok := k.agents[text]; ok {
		return text
	}
	found := text
	for _, id := range slices.Sorted(maps.Keys(k.agents)) {
		if strings.EqualFold(k.agents[id], text) {
			found = id
		}
	}
	return found
}

func (k searchFilters) personID(text string) string {
	for _, by := range []func(engine.Person) string{
		func(p engine.Person) string { return p.ID }, func(p engine.Person) string { return p.Email }, func(p engine.Person) string { return p.Name },
	} {
		for _, p := range k.people {
			if strings.EqualFold(by(p), text) {
				return p.ID
			}
		}
	}
	return text
}

// named is the filter for what a text names; "" when it names nothing.
func (k searchFilters) named(text string) (filter, value string) {
	if id := k.personID(text); k.name(id) != id {
		return "person", text
	}
	if id := k.agentID(text); k.agents[id] != "" {
		return "agent", id
	}
	if slices.Contains(k.tools, text) {
		return "tool", text
	}
	return "", ""
}

// filter reads a search, and says what of it cannot be read, by parameter.
func (k searchFilters) filter(query url.Values) (f auditlog.EventFilter, problems map[string]string) {
	problems = map[string]string{}
	get := func(name string) string { return strings.TrimSpace(query.Get(name)) }
	when := func(name string, wholeDay bool) (at time.Time) {
		at, ok := parseTime(get(name), wholeDay)
		if !ok {
			problems[name] = "This is no time. Write it as 2026-11-21 14:30, in UTC."
		}
		return at
	}
	place := func(name string) (seq int64) {
		if get(name) == "" {
			return 0
		}
		seq, err := strconv.ParseInt(get(name), 10, 64)
		if err != nil || seq < 0 {
			problems[name] = "This is no place in the log."
		}
		return seq
	}
	f = auditlog.EventFilter{
		Since: when("since", false), Until: when("until", true), Tool: get("tool"), Outcome: get("outcome"), Type: get("type"), ApprovalID: get("approval"),
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		problems["until"] = "This is before the beginning."
	}
	if agent := get("agent"); agent != "" {
		f.AgentID = k.agentID(agent)
	}
	if person := get("person"); person != "" {
		f.ActorID = k.personID(person)
	}
	f.After = place("before")
	if get("after") != "" {
		f.After = place("after")
	}
	return f, problems
}

// parseTime reads a time in UTC, as a form or a person writes it. A day as the
// end of a range is meant with all its hours.
func parseTime(text string, wholeDay bool) (time.Time, bool) {
	if text == "" {
		return time.Time{}, true
	}
	text = strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(text, "UTC")), "Z")
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	at, err := time.Parse("2006-01-02", text)
	if err == nil && wholeDay {
		at = at.AddDate(0, 0, 1)
	}
	return at, err == nil
}

// chips are the filters in force, each with the search without it.
func (k searchFilters) chips(query url.Values) []views.Chip {
	var chips []views.Chip
	for _, name := range filterNames {
		value := strings.TrimSpace(query.Get(name))
		if value == "" {
			continue
		}
		chip := views.Chip{Param: name, Name: filterWords[name], Value: value, Without: auditURL(without(query, name, "before", "after"))}
		switch name {
		case "agent":
			chip.Value = k.name(k.agentID(value))
		case "person":
			chip.Value = k.name(k.personID(value))
		case "outcome":
			chip.Value = cmp.Or(outcomeWords(value), value)
		case "type":
			chip.Value = cmp.Or(typeWords(value), value)
		case "since", "until":
			if at, ok := parseTime(value, name == "until"); ok {
				chip.Value = views.ClockSeconds(at)
			}
		}
		chips = append(chips, chip)
	}
	return chips
}

var filterWords = map[string]string{
	"since": "From", "until": "Before", "agent": "Agent", "tool": "Tool", "person": "Person", "outcome": "Outcome", "type": "What", "approval": "Approval",
}

func auditRow(r audit.Record, name func(string) string) views.AuditRow {
	e, ok := logged(r)
	row := views.AuditRow{Seq: r.Seq(), At: r.At}
	switch {
	case r.ID == "":
		row.Sentence, row.Broken = "The event at this place is gone: its row is no longer in the database.", true
		return row
	case !ok:
		row.Sentence, row.Broken = "What is recorded here does not agree with itself: it was written by something else, or was changed.", true
	default:
		t := describeEvent(e, name)
		row.Sentence, row.Because = t.Sentence, t.Because
	}
	row.URL, row.AgentID, row.Tool, row.Approval = eventURL(r.ID), r.AgentID, r.ToolName, r.ApprovalID
	row.Outcome = outcomeOf(engine.Outcome(r.Outcome))
	if r.AgentID != "" {
		row.Agent = name(r.AgentID)
	}
	return row
}

// isNotFound reports whether an error says that there is no such thing.
func isNotFound(err error) bool {
	var refusal *access.Refusal
	return errors.As(err, &refusal) && refusal.Kind == access.NotFound
}
