package aana

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/canon"
)

// identityKeys are the argument keys that bind a read to a person or account.
var identityKeys = []string{
	"account_id", "account_key", "address", "card_id", "case_id", "client_id", "customer_id", "employee_id", "email",
	"invoice_id", "loan_id", "order_id", "patient_id", "payment_id", "payroll_id", "phone", "profile_id", "student_id",
	"subscription_id", "ticket_id", "transaction_id", "user_id",
}

// identityNames are the parts of a tool name that do the same, unless
// something says that the read is a public search.
var identityNames = []string{
	"account", "booking", "cart", "client", "customer", "invoice", "order", "profile", "reservation", "subscription",
	"ticket", "transaction", "user",
}

var (
	publicWords     = []string{"search", "find", "list", "lookup", "catalog", "availability", "public", "opening hours"}
	publicNameWords = []string{"search", "list"}
)

var (
	highRiskNames   = []string{"delete", "transfer", "pay", "purchase", "reset", "send", "deploy", "grant", "revoke"}
	highRiskDomains = []RiskDomain{"finance", "devops", "security", "legal", "pharma", "healthcare"}
)

// Judge decides the call by sections 2 to 6. now is the time by which the age
// of evidence is measured. It is a pure function of its arguments and takes
// time linear in the size of the event.
func (e Event) Judge(now time.Time) Result {
	r, refs := e.judge(now)
	if len(r.ValidationErrors) == 0 {
		r.echo = e.shown(refs)
	}
	return r
}

// Findings are Judge's, for whom nothing of the event is repeated.
func (e Event) Findings(now time.Time) []engine.Finding {
	r, _ := e.judge(now)
	return r.Findings
}

// judge is Judge without what the answer repeats of the event; refs are how it names
// the evidence.
func (e *Event) judge(now time.Time) (r Result, refs shownRefs) {
	if errs := e.malformed(); len(errs) > 0 {
		return refused(errs), refs
	}
	var j judgement
	category := e.effectiveCategory()
	misclassified := category != e.Category
	if misclassified {
		j.reason("public_read_reclassified_identity_bound_private_read")
	}
	e.judgeAuthority(&j, category)
	refs = e.judgeEvidence(&j, category, now)
	own := j.route()
	e.judgeRecommendation(&j, own)
	if misclassified {
		// Section 6: it makes accept defer, once the recommendation is merged, and
		// leaves every other route as it is.
		route := min(j.route(), engine.Defer)
		if route == engine.Accept {
			route = engine.Defer
		}
		if own == engine.Accept {
			own = route
		}
		j.block("public_read_identity_bound_misclassified", route)
	}
	r = j.result()
	r.Own = own
	return r, refs
}

// malformed lists what Parse would never have let through. It is for an Event
// that was made otherwise, which must not be judged as if it were whole.
func (e Event) malformed() []ValidationError {
	var errs []ValidationError
	check := func(ok bool, path string) {
		if !ok {
			errs = append(errs, ValidationError{Path: path, Message: "It is not what the contract allows."})
		}
	}
	check(!isBlank(e.ToolName), "$.tool_name")
	check(slices.Contains(categories, e.Category), "$.tool_category")
	check(slices.Contains(states, e.State), "$.authorization_state")
	check(slices.Contains(riskDomains, e.RiskDomain), "$.risk_domain")
	check(e.Arguments.Kind() == canon.ObjectKind, "$.proposed_arguments")
	check(e.Recommended <= engine.Refuse, "$.recommended_route")
	return errs
}

// effectiveCategory is the category by which the call is judged: a public read
// that is bound to an identity is a private one.
func (e Event) effectiveCategory() Category {
	if e.isIdentityBound() {
		return PrivateRead
	}
	return e.Category
}

func (e Event) isIdentityBound() bool {
	if e.Category != PublicRead {
		return false
	}
	for name := range e.Arguments.All() {
		if slices.Contains(identityKeys, name) {
			return true
		}
	}
	return containsAny(fold(e.ToolName), identityNames) &&
		!hasNameWord(strings.ToLower(e.ToolName), publicNameWords) &&
		!hasWholeWord(e.summaryText(), publicWords)
}

// summaryText is everything that the sender says of the call, in lower case.
// What the engine added says nothing for the sender.
func (e Event) summaryText() string {
	var b strings.Builder
	for _, part := range []string{e.ToolName, string(e.RiskDomain), e.UserIntent} {
		b.WriteString(part)
		b.WriteByte('\n')
	}
	writeASCII(&b, e.Arguments.Canonical())
	for i := range e.Evidence {
		if ref := &e.Evidence[i]; !ref.issued {
			for _, part := range []string{ref.SourceID, ref.Kind, ref.Summary} {
				b.WriteByte('\n')
				b.WriteString(part)
			}
		}
	}
	return strings.ToLower(b.String())
}

// writeASCII writes JSON with an escape for each character outside ASCII, as
// most writers do. Only the escape's first two bytes matter to hasWholeWord: a
// word right behind one is not whole, a word right before one is.
func writeASCII(b *strings.Builder, text []byte) {
	for _, c := range text {
		switch {
		case c < utf8.RuneSelf:
			b.WriteByte(c)
		case utf8.RuneStart(c):
			b.WriteString(`\u`)
		}
	}
}

func (e Event) isHighRisk() bool {
	return slices.Contains(highRiskDomains, e.RiskDomain) || containsAny(fold(e.ToolName), highRiskNames)
}

// judgeAuthority is section 4: what the category by which the call is judged
// and the declared state allow.
func (e Event) judgeAuthority(j *judgement, category Category) {
	switch category {
	case PublicRead:
		j.allow("public_read_allowed_without_identity_auth")
	case PrivateRead:
		e.judgePrivateRead(j)
	case Write:
		e.judgeWrite(j)
	case Unknown:
		j.reason("unknown_tool_category_requires_review")
		j.block("unknown_tool_category", engine.Defer)
	}
}

func (e Event) judgePrivateRead(j *judgement) {
	switch {
	case e.State.AtLeast(Authenticated):
		j.allow("private_read_has_authenticated_context")
	case e.State == UserClaimed:
		j.reason("private_read_needs_verified_authentication")
		j.block("private_read_not_authenticated", engine.Ask)
	default:
		j.reason("private_read_missing_authorization_context")
		j.block("private_read_not_authenticated", engine.Defer)
	}
}

func (e Event) judgeWrite(j *judgement) {
	switch {
	case e.State == Confirmed:
		j.allow("write_has_explicit_confirmation")
	case e.isHighRisk():
		route := engine.Ask
		if e.State == None {
			route = engine.Defer
		}
		j.reason("high_risk_write_requires_explicit_confirmation")
		j.block("high_risk_write_missing_explicit_confirmation", route)
		j.block("write_missing_explicit_confirmation", route)
		if e.State == UserClaimed || e.State == Authenticated {
			j.block("write_missing_validation_or_confirmation", route)
		}
	case e.State == Validated:
		j.reason("write_validated_but_needs_explicit_confirmation")
		j.block("write_missing_explicit_confirmation", engine.Ask)
	case e.State == Authenticated, e.State == UserClaimed:
		j.reason("write_needs_validation_and_confirmation")
		j.block("write_missing_validation_or_confirmation", engine.Ask)
	default:
		j.reason("write_missing_authorization_context")
		j.block("write_missing_authorization", engine.Defer)
	}
}

// judgeRecommendation is sections 2 and 6: the sender's own recommendation,
// once tightened, can only make the route stricter than ours.
func (e Event) judgeRecommendation(j *judgement, own engine.Route) {
	recommended := e.Recommended
	if recommended == engine.Accept {
		switch {
		case e.Category == Write && !e.State.AtLeast(Validated), e.Category == PrivateRead && !e.State.AtLeast(Authenticated):
			recommended = engine.Ask
		case e.Category == Unknown:
			recommended = engine.Defer
		}
	}
	if recommended > own {
		j.reason("runtime_recommended_stricter_route:" + recommended.String())
	}
	switch {
	case recommended == engine.Refuse:
		j.block("runtime_refusal", engine.Refuse)
	case e.Recommended != engine.Accept || recommended > own:
		// Found even where our own route hides it, so that reviewers have seen
		// it when they confirm the call and nothing else is left to stop it.
		j.find("runtime_recommended_route", recommended)
	}
}
