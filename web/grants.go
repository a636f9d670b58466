package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/grant"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/httpstatus"
	"holdpoint/web/views"
)

// Grants is what the console needs of standing grants; *gate.Grants is one. Errors
// are as Inbox's are.
type Grants interface {
	// ForPerson lists those that the person may know of, and says what time it is.
	ForPerson(ctx context.Context, p engine.Person) ([]gate.Grant, time.Time, error)
	// Propose says what a grant would have done to the past.
	Propose(ctx context.Context, r gate.GrantRequest) (gate.Backtest, error)
	Save(ctx context.Context, r gate.GrantRequest) (gate.Grant, error)
	Revoke(ctx context.Context, p engine.Person, id string, by access.Initiator, once *access.Idempotency[access.Done]) error
}

// grantHandler serves the list of standing grants, and the form that makes one from
// a card.
type grantHandler struct {
	site   *site
	grants Grants
	cards  Cards
}

func (h *grantHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /grants", h.site.signedIn(h.list))
	mux.HandleFunc("POST /grants/{id}/revoke", h.site.takesForm(h.revoke))
	mux.HandleFunc("GET /approvals/{id}/grant", h.site.signedIn(h.form))
	mux.HandleFunc("POST /approvals/{id}/grant", h.site.takesForm(h.submit))
}

func (h *grantHandler) list(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	list, now, err := h.grants.ForPerson(r.Context(), p)
	if err != nil {
		return err
	}
	v := views.Grants{Frame: h.site.frame(p, "Standing grants", "grants"), Full: len(list) >= maxGrants}
	v.Now, v.Notice = now, h.site.flash(w, r)
	var ids []string
	for _, g := range list {
		ids = append(ids, g.PersonID, g.AgentID, g.RevokedBy)
	}
	name := h.site.names(r.Context(), ids...)
	for _, g := range list {
		v.Rows = append(v.Rows, grantRow(g, now, name))
	}
	return h.site.render(w, r, http.StatusOK, views.GrantsPage(v))
}

// maxGrants is how many grants a list holds.
const maxGrants = 200

func grantRow(g gate.Grant, now time.Time, name func(string) string) views.GrantRow {
	row := views.GrantRow{
		ID: g.ID, Tool: g.Tool, Agent: name(g.AgentID), AgentID: g.AgentID, Environment: g.Environment, By: name(g.PersonID), Reason: g.Reason,
		Uses: g.Uses, MaxUses: g.MaxUses, MadeAt: g.CreatedAt, ExpiresAt: g.ExpiresAt, RevokedAt: g.RevokedAt, From: g.FromApproval,
		UsedBy: g.UsedBy, Acknowledged: g.Acknowledged, MayRevoke: g.MayRevoke, Matches: patternWords(g.Pattern),
	}
	switch {
	case g.RevokedAt != nil:
		row.State, row.RevokedBy = views.Status{Code: "revoked", Word: "Revoked"}, name(g.RevokedBy)
	case g.Uses >= g.MaxUses:
		row.State = views.Status{Code: "cancelled", Word: "Used up"}
	case !now.Before(g.ExpiresAt):
		row.State = views.Status{Code: "expired", Word: "Past its time"}
	default:
		row.State = views.Status{Code: "active", Word: "Live"}
	}
	return row
}

// patternWords says what calls have to be like.
func patternWords(p grant.Pattern) []views.Phrase {
	words := map[grant.Op]string{
		grant.Equals: "is", grant.OneOf: "is one of", grant.AtMost: "is at most", grant.AtLeast: "is at least", grant.Prefix: "begins with", grant.Any: "is anything",
	}
	masked := withoutSecrets(p)
	var list []views.Phrase
	for _, m := range p.Matchers {
		phrase := views.Phrase{}
		names := pointerNames(m.Path)
		for i, name := range names {
			if i > 0 {
				phrase = append(phrase, views.Piece{Text: "›"})
			}
			phrase = append(phrase, views.Piece{Text: name, Code: true})
		}
		if m.Path == "" {
			phrase = append(phrase, views.Piece{Text: "all arguments"})
		}
		phrase = append(phrase, views.Piece{Text: words[m.Op]})
		value := at(masked, names)
		var operands []canon.Value
		switch m.Op {
		case grant.OneOf:
			operands = elements(value)
		case grant.Equals, grant.AtMost, grant.AtLeast, grant.Prefix:
			operands = []canon.Value{value}
		case grant.Any:
		}
		for i, operand := range operands {
			if i > 0 {
				phrase = append(phrase, views.Piece{Text: "or"})
			}
			phrase = append(phrase, views.Piece{Text: shorten(string(operand.Canonical())), Code: true})
		}
		list = append(list, phrase)
	}
	return list
}

// withoutSecrets is what a pattern compares with, as one document and masked as on a card:
// who may list grants need not be allowed to see the calls that they are from.
func withoutSecrets(p grant.Pattern) canon.Value {
	all := canon.Object()
	for _, m := range p.Matchers {
		if m.Op != grant.Any {
			all = put(all, pointerNames(m.Path), m.Value)
		}
	}
	return gate.Mask(all)
}

// put is a document with a value at a place in it.
func put(in canon.Value, names []string, v canon.Value) canon.Value {
	if len(names) == 0 {
		return v
	}
	members := []canon.Member{}
	inner := canon.Object()
	for name, each := range in.All() {
		switch {
		case name == names[0] && each.Kind() == canon.ObjectKind:
			inner = each
		case !strings.EqualFold(name, names[0]):
			members = append(members, canon.Member{Name: name, Value: each})
		}
	}
	return canon.Object(append(members, canon.Member{Name: names[0], Value: put(inner, names[1:], v)})...)
}

// at is the value at a place in a document; a mask where there is none.
func at(v canon.Value, names []string) canon.Value {
	for _, name := range names {
		inner, there := v.Get(name)
		if !there {
			return canon.String(gate.MaskText)
		}
		v = inner
	}
	return v
}

// shorten keeps a list readable: the card that a grant was made from shows the
// whole of its arguments.
func shorten(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "… (" + views.Plural(len(runes)-most, "character", "characters") + " more)"
	}
	return text
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// pointerNames are the names in a JSON Pointer.
func pointerNames(path string) []string {
	if path == "" {
		return nil
	}
	names := strings.Split(path[1:], "/")
	for i := range names {
		names[i] = unescape.Replace(names[i])
	}
	return names
}

func (h *grantHandler) revoke(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	err := h.grants.Revoke(r.Context(), p, r.PathValue("id"), by(p), nil)
	return h.site.redirectOrFail(w, r, err, "ungrant", "/grants")
}

func (h *grantHandler) form(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	draft, err := h.read(r, p)
	if err != nil {
		return err
	}
	return h.site.render(w, r, http.StatusOK, views.GrantFormPage(draft.view))
}

// grantDraft is a grant in the making, and the page that shows it.
type grantDraft struct {
	view   views.GrantForm
	leaves []grant.Leaf
	arrays []string
}

// maxLeaves is how many parts of the arguments a form tells apart.
const maxLeaves = 100

// read reads the card, as long as the person may make a grant from it.
func (h *grantHandler) read(r *http.Request, p engine.Person) (grantDraft, error) {
	card, err := h.cards.Card(r.Context(), p, r.PathValue("id"), gate.Unrecorded)
	if err != nil {
		return grantDraft{}, err
	}
	a := card.Approval
	d := grantDraft{view: views.GrantForm{
		Frame: h.site.frame(p, "Approve calls like this one", ""), ID: a.ID, Tool: a.Call.Tool, Agent: agentName(card), Environment: a.Call.Environment,
		Digest: a.Call.Digest, Lasting: lasting, For: "2h", Uses: "10", MaxUses: gate.MaxGrantUses, MaxReason: access.MaxReason,
	}}
	var refusal *access.Refusal
	if err := gate.MayGrant(p, a, card.Now); errors.As(err, &refusal) && refusal.Code == notVerified {
		d.view.VerifyURL = verifyURL(cardURL(a.ID) + "/grant")
	} else if err != nil {
		return d, err
	}
	if card.Arguments == nil {
		return d, &access.Refusal{Kind: access.Conflict, Code: "erased", Detail: "The arguments have been erased, so there is nothing that other calls could be like."}
	}
	if err := requireShown(card); err != nil {
		return d, err
	}
	args, err := canon.Parse(card.Arguments)
	if err != nil {
		return d, fmt.Errorf("read the arguments of %s: %w", a.ID, err)
	}
	d.leaves, d.arrays = grant.Leaves(args)
	if len(d.leaves) > maxLeaves {
		return d, &access.Refusal{
			Kind: access.Conflict, Code: "too_many_arguments",
			Detail: fmt.Sprintf("The arguments have %d parts. What calls have to be like can be said of %d at most.", len(d.leaves), maxLeaves),
		}
	}
	left := maxFields
	for i, l := range d.leaves {
		v := grantLeaf(i, l, min(left, maxField))
		left -= len(v.Value)
		v.Folded = len(d.leaves) > unfoldedLeaves
		d.view.Leaves = append(d.view.Leaves, v)
	}
	return d, nil
}

var lasting = []views.Option{
	{Value: "15m", Label: "15 minutes"},
	{Value: "1h", Label: "1 hour"},
	{Value: "2h", Label: "2 hours"},
	{Value: "8h", Label: "8 hours"},
	{Value: "24h", Label: "1 day"},
	{Value: "72h", Label: "3 days"},
	{Value: "168h", Label: "7 days"},
}

// unfoldedLeaves is how many leaves a form shows with all of their fields.
const unfoldedLeaves = 6

// maxField is the longest text that a field of the form takes, and maxFields all
// of them together, in bytes: the form has to come back. What is longer can be
// exactly this or anything.
const (
	maxField  = 2000
	maxFields = 12 << 10
)

// What texts are sums: those with a fraction or a currency, and any number where the name says
// that it is one.
var (
	sumText    = regexp.MustCompile(`^([A-Z]{3} )?[-+]?[0-9][0-9.,' ]*[.,][0-9]{1,4}( ?[A-Z]{3})?$|^[0-9]+ [A-Z]{3}$`)
	numberText = regexp.MustCompile(`^[-+]?[0-9]+$`)
	sumNames   = []string{"amount", "total", "sum", "price", "limit", "max_amount"}
)

// sumAsText reports whether a text is a sum, as far as one can see.
func sumAsText(names []string, text string) bool {
	text = strings.TrimSpace(text)
	return sumText.MatchString(text) || numberText.MatchString(text) && len(names) > 0 && slices.Contains(sumNames, strings.ToLower(names[len(names)-1]))
}

// grantLeaf is a leaf's fields, to begin with: exactly what this call has.
func grantLeaf(i int, l grant.Leaf, longest int) views.GrantLeaf {
	v := views.GrantLeaf{Number: i, Names: pointerNames(l.Path), Is: string(l.Value.Canonical()), Op: string(grant.Equals)}
	option := func(op grant.Op, label string) { v.Ops = append(v.Ops, views.Option{Value: string(op), Label: label}) }
	option(grant.Equals, "exactly this")
	switch l.Value.Kind() {
	case canon.NumberKind:
		v.Fields, v.Value = "number", v.Is
		option(grant.AtMost, "at most …")
		option(grant.AtLeast, "at least …")
		option(grant.OneOf, "one of …")
	case canon.StringKind:
		// A field cannot hold what a browser would change, nor show what is invisible.
		_, hidden := views.Quoted(l.Value.Str())
		v.Sum = sumAsText(v.Names, l.Value.Str())
		if text := l.Value.Str(); len(text) <= longest && !hidden && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7F }) {
			v.Fields, v.Value = "text", text
			option(grant.OneOf, "one of …")
			option(grant.Prefix, "begins with …")
		}
	case canon.NullKind, canon.BoolKind, canon.ArrayKind, canon.ObjectKind:
	}
	option(grant.Any, "anything")
	return v
}

// fill reads what the form says into the page and the grant that it asks for.
func (d *grantDraft) fill(form url.Values, p engine.Person, id string) (gate.GrantRequest, error) {
	e := formValues{form: form}
	v := &d.view
	v.For, v.Uses, v.Reason = form.Get("for"), e.text("uses"), e.text("reason")
	r := gate.GrantRequest{
		Contribution: gate.Contribution{Person: p, ApprovalID: id, Comment: v.Reason, RequestID: by(p).RequestID, Channel: "console"},
		Digest:       form.Get("digest"), For: time.Duration(e.duration("for", "It lasts")), Acknowledged: form["acknowledged"],
		Pattern: grant.Pattern{Arrays: d.arrays},
	}
	var there bool
	if r.Uses, there = e.number("uses", "Calls that may pass"); !there {
		e.problems = append(e.problems, "Calls that may pass: write a whole number.")
	}
	for i, l := range d.leaves {
		field := &v.Leaves[i]
		number := strconv.Itoa(i)
		field.Op = form.Get("op" + number)
		entered := strings.ReplaceAll(form.Get("value"+number), "\r\n", "\n")
		if field.Fields == "" {
			entered = ""
		}
		field.Folded = field.Folded && field.Op == string(grant.Equals) && entered == field.Value
		m, err := matcher(*field, l, entered)
		if err != nil {
			e.problems = append(e.problems, leafName(field.Names)+": "+err.Error()+".")
		}
		field.Value = entered
		r.Pattern.Matchers = append(r.Pattern.Matchers, m)
	}
	return r, e.err()
}

func leafName(names []string) string {
	if len(names) == 0 {
		return "All arguments"
	}
	return views.Visible(strings.Join(names, " › "))
}

// matcher reads one leaf's fields. field.Value is what they showed.
func matcher(field views.GrantLeaf, l grant.Leaf, text string) (grant.Matcher, error) {
	m := grant.Matcher{Path: l.Path, Op: grant.Op(field.Op)}
	if !slices.ContainsFunc(field.Ops, func(o views.Option) bool { return o.Value == field.Op }) {
		return m, errors.New("choose what it has to be")
	}
	one := func(text string) (canon.Value, error) {
		if l.Value.Kind() == canon.StringKind {
			return canon.String(text), nil
		}
		n, err := canon.Parse([]byte(strings.TrimSpace(text)))
		if err != nil || n.Kind() != canon.NumberKind {
			return n, errors.New("write a number, such as 120 or 0.5")
		}
		return n, nil
	}
	var err error
	switch m.Op {
	case grant.Equals:
		if m.Value = l.Value; text != field.Value {
			err = errors.New("“exactly this” means what this call has; choose something else, or leave the field as it was")
		}
	case grant.OneOf:
		var choices []canon.Value
		for line := range strings.SplitSeq(text, "\n") {
			if line == "" {
				continue
			}
			choice, wrong := one(line)
			if wrong != nil {
				err = wrong
			}
			choices = append(choices, choice)
		}
		if m.Value = canon.Array(choices...); len(choices) == 0 {
			err = errors.New("write one a line")
		}
	case grant.AtMost, grant.AtLeast, grant.Prefix:
		m.Value, err = one(text)
	case grant.Any:
	}
	return m, err
}

// submit shows what a grant would have done to the past, and makes it when it
// is asked for the second time.
func (h *grantHandler) submit(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	d, err := h.read(r, p)
	if err != nil {
		return err
	}
	request, err := d.fill(r.PostForm, p, d.view.ID)
	status := http.StatusOK
	if err == nil {
		tried := fingerprint([]any{string(request.Pattern.Document().Canonical()), request.For, request.Uses})
		switch {
		case r.PostForm.Get("step") != "save":
		case r.PostForm.Get("seen") != tried:
			status, d.view.Failure = http.StatusConflict, "You have changed it since. Look at what it would have let pass now, then make it."
		default:
			if _, err = h.grants.Save(r.Context(), request); err == nil {
				what, to := "grant", "/grants"
				if ids := h.waiting(r.Context(), request); len(ids) > 0 {
					what, to = "grantwaits", bulkURL(ids)
				}
				h.site.redirectWithFlash(w, r, what, to)
				return nil
			}
			if refusal := (*access.Refusal)(nil); errors.As(err, &refusal) && refusal.Code == "denials_not_acknowledged" {
				status, d.view.Failure, err = httpstatus.Of(refusal.Kind), "People have denied calls that this would let pass. Look at each below and tick it, or make the grant narrower.", nil
			}
		}
		if err == nil {
			d.view.Backtest, err = h.backtest(r.Context(), request)
			d.view.Seen = tried
		}
	}
	var refusal *access.Refusal
	switch {
	case err == nil:
	case errors.As(err, &refusal) && refusal.Code == notVerified:
		status, d.view.VerifyURL = httpstatus.Of(refusal.Kind), verifyURL(cardURL(d.view.ID)+"/grant")
	case refusal != nil && refusal.Kind == access.Invalid:
		status, d.view.Failure = httpstatus.Of(refusal.Kind), refusal.Detail
	default:
		return err
	}
	return h.site.render(w, r, status, views.GrantFormPage(d.view))
}

// waiting are the calls that a grant is too late for: they fit it, and wait already. The
// grant is made, whatever becomes of looking for them.
func (h *grantHandler) waiting(ctx context.Context, r gate.GrantRequest) (ids []string) {
	b, err := h.grants.Propose(ctx, r)
	if err != nil {
		h.site.logger.WarnContext(ctx, "waiting calls not found", "error", err)
		return nil
	}
	for _, one := range b.Matching {
		if one.Status == approval.Pending && len(ids) < maxBulk {
			ids = append(ids, one.ID)
		}
	}
	return ids
}

// maxOthers is how many past calls that nobody denied are listed.
const maxOthers = 20

// backtest tries a grant on the past, for the page.
func (h *grantHandler) backtest(ctx context.Context, r gate.GrantRequest) (*views.GrantBacktest, error) {
	b, err := h.grants.Propose(ctx, r)
	if err != nil {
		return nil, err
	}
	v := &views.GrantBacktest{
		Looked: b.Looked, Unreadable: b.Unreadable, Capped: b.Capped, Matching: len(b.Matching), Approved: b.Count(approval.Approved), Denied: b.Count(approval.Denied),
		Expired: b.Count(approval.Expired), Cancelled: b.Count(approval.Cancelled), Pending: b.Count(approval.Pending),
	}
	for _, one := range b.Matching {
		call := views.PastCall{ID: one.ID, At: one.OpenedAt, Status: status(approval.Approval{Status: one.Status, State: approval.State{Status: one.Status}}), Acknowledged: slices.Contains(r.Acknowledged, one.ID)}
		switch {
		case one.Status == approval.Denied:
			v.Denials = append(v.Denials, call)
		case len(v.Others) < maxOthers:
			v.Others = append(v.Others, call)
		}
	}
	return v, nil
}
