package web

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// How much of long arguments a card shows before somebody asks for all of it.
const (
	previewLines = 40
	previewRunes = 4000
)

// denials are the kinds of denial, the mildest first: the first one is what a plain Deny means.
var denials = []views.Option{
	{Value: string(approval.NotNow), Label: "Not now: again in " + views.Plural(int(gate.NotNowFor/time.Minute), "minute", "minutes")},
	{Value: string(approval.WrongArgs), Label: "Wrong arguments: it may correct them"},
	{Value: string(approval.NeedsInfo), Label: "Needs more information first"},
	{Value: string(approval.Never), Label: "Never: refused for " + views.Plural(int(gate.Remembered/time.Hour), "hour", "hours")},
}

// card tells everything about an approval to the person p. look says whether the whole of
// long arguments is to be shown, and what looks like a secret in them; stopped is the kill
// switch that stops its agent, if one does.
func card(c gate.Card, p engine.Person, look gate.Display, stopped *engine.Finding) views.Approval {
	full := look == gate.Full || look == gate.Revealed
	hidden := c.Masked != nil && look != gate.Revealed
	if hidden {
		c = c.Concealed()
	}
	a := c.Approval
	name := nameIn(c.Names)
	agent := agentName(c)
	v := views.Approval{
		ID: a.ID, Version: a.Version, Digest: a.Call.Digest, Policy: a.Decision.PolicyDigest, Request: a.Call.RequestID,
		Erased: a.ErasedAt, Tool: a.Call.Tool, Agent: agent,
		Tags: []string{words(a.Call.RiskDomain), words(a.Call.Category)}, Environment: a.Call.Environment,
		Stakes:     views.Stakes{Sentence: c.Stakes.Sentence, From: c.Stakes.From},
		Status:     status(a),
		Over:       over(a),
		Sentence:   sentence(a, name),
		Votes:      votes(a, name),
		Requester:  requester(c, name),
		Statements: agentStatements(a.Call.Dialect, c.Document),
		Path:       approvalPath(a),
		Timeline:   timeline(c, agent, name),
	}
	ruleChange(&v, c)
	if !over(a) {
		v.Deadline = deadline(a)
	}
	for _, r := range c.Resembles {
		v.Resembles = append(v.Resembles, resembling(r, hidden))
	}
	v.Stages, v.Edition, v.Claim, v.Ticket = stages(c), editionOf(a, name), claimOf(c, p, name), attachedTicket(a)
	v.Paused, v.FollowUp, v.Tasks, v.Actions = pausedUntil(a), followUp(c, name), openTasks(c, p, name), actions(c, p, full)
	if v.Tasks.Question == nil && !over(a) {
		v.Question = openQuestion(a, name)
	}
	if !over(a) {
		v.Answered = answeredQuestions(a, agent, name)
	}
	if len(c.Permits) > 0 && string(c.Permits) != "{}" && string(c.Permits) != "null" {
		code := views.JSON(c.Permits)
		v.Permits = &code
	}
	if len(c.Answers) > 0 {
		code := views.JSON(c.Answers)
		v.Answers = &code
	}
	if c.Session > 1 {
		v.SessionURL, v.SessionSize = sessionURL(a.Call.AgentID, a.Session), c.Session
	}
	for _, f := range a.Decision.StrictestFirst() {
		finding := views.Finding{Message: f.Message, From: findingSource(f), Route: f.Route.String(), RouteWord: routeWords(f.Route)}
		if plain := plainWords(f); plain != "" {
			finding.Message, finding.Original = plain, f.Message
		}
		v.Findings = append(v.Findings, finding)
	}
	v.Arguments, v.Warnings = arguments(c, full)
	if m := c.Masked; m != nil {
		v.Secrets = views.Secrets{Places: m.Places, More: m.More, Hidden: hidden}
	}
	v.Changed = changesOf(c, c.Former, v.Arguments.Cut())
	v.EditedBy, v.EditedWhy = lastEdit(a, name)
	v.ChangedInAll = changesOf(c, c.First, v.Arguments.Cut())
	if last := c.LastAlike; last != nil && c.Approval.Call.Dialect != gate.DialectThreeGate && c.Approval.Call.Dialect != gate.DialectChange {
		masked := c
		if c.Masked != nil {
			masked = c.Concealed() // as the other one is
		}
		v.LastAlike = &views.LastAlike{URL: cardURL(last.ID), At: last.At, Changes: changesOf(masked, last.Arguments, v.Arguments.Cut()), Masked: c.Masked != nil || bytes.Contains(last.Arguments, []byte(gate.MaskText))}
	}
	v.ToolRequest = toolRequest(c, v.Arguments.Cut())
	for _, t := range []struct{ place, text string }{
		{"the tool's name", v.Tool}, {"the agent's name", v.Agent}, {"the agent's intent", v.Statements.Intent},
	} {
		v.Warnings.Add(t.place, views.MarkDeceptive(t.text))
	}
	for _, e := range v.Statements.Evidence {
		for _, text := range []string{e.Source, e.Kind, e.Trust, e.Redaction, e.Freshness, e.Provenance, e.Summary} {
			v.Warnings.Add("the evidence", views.MarkDeceptive(text))
		}
	}
	for _, f := range v.Statements.Facts {
		v.Warnings.Add("the agent's claims", views.MarkDeceptive(f.Value))
	}
	v.Decide = decisionOf(c, p, full, stopped)
	if needs := v.Decide.Approve && a.NeedsProof() && v.Decide.Verify == "" || v.Actions.Break && v.Actions.BreakVerify == ""; needs && gate.Proved(p, c.Now) {
		v.ProvedUntil = p.VerifiedAt.Add(approval.FreshFor)
	}
	v.Sum = callSummary(c, p, v)
	return v
}

// resembling is a text that resembles another one; neither is shown while secrets are hidden.
func resembling(r gate.Resemblance, hidden bool) views.Resembling {
	v := views.Resembling{Place: r.Place, At: r.At}
	if !hidden {
		v.Here, v.Known = r.Here, r.Known
	}
	return v
}

func arguments(c gate.Card, full bool) (views.Arguments, views.Warnings) {
	if c.Unreadable {
		return views.Arguments{Unreadable: true}, nil
	}
	if c.Arguments == nil {
		return views.Arguments{Erased: true, ErasedAt: c.Approval.ErasedAt}, nil
	}
	args := views.Arguments{Code: views.JSON(c.Arguments)}
	found := slices.Clone(args.Code.Warnings)
	if c.Long && !c.Shown && !full {
		args.Code, args.MoreLines, args.MoreRunes = args.Code.Preview(previewLines, previewRunes)
		args.FullURL = "/approvals/" + c.Approval.ID + "?full=1"
		return args, found
	}
	args.Forms, args.Tree = layOut(c.Arguments, views.NewBudget())
	return args, found
}

// decisionOf says what the person may do and, where they may not, why.
func decisionOf(c gate.Card, p engine.Person, full bool, stopped *engine.Finding) views.Decide {
	d := views.Decide{MaxComment: gate.MaxComment, Kinds: denials, Terms: termsOf(c)}
	a := c.Approval
	if over(a) {
		return d
	}
	d.Approve = c.CannotVote == nil
	d.Deny = d.Approve || refusalOf(c, p, approval.Fact{Kind: approval.Vote, Signed: true}) == nil
	d.SignDeny = d.Deny && c.SignNo
	if d.DenyBlocked = d.SignDeny && !c.CanSign; d.DenyBlocked {
		unsignable(&d)
	}
	if !d.Approve {
		d.Note = whyNot(c, p, d.Deny)
		return d
	}
	if stopped != nil {
		d.Approve = false
		d.Note = stopped.Message + " Nothing of this agent can be approved until an administrator releases it; you can still deny this."
		return d
	}
	if c.Unreadable {
		d.Approve = false
		d.Note = "This call cannot be read, so nobody can approve it. You can deny it."
		return d
	}
	d.Blocked = unseen(c, full)
	switch {
	case d.Blocked != "":
	case c.Arguments == nil:
		d.Blocked = "The arguments have been erased, so there is nothing left to approve."
	case c.SignYes && !c.CanSign:
		unsignable(&d)
	case c.SignYes:
		d.Sign = true
	case a.NeedsProof() && !gate.Proved(p, c.Now):
		// One look of the passkey is the proof and the signature.
		d.Verify, d.Sign = verifyURL(cardURL(a.ID)), c.CanSign
	}
	return d
}

// unseen says what of the call the person has not been shown, or "".
func unseen(c gate.Card, full bool) string {
	switch {
	case c.Shown || c.Arguments == nil:
		return ""
	case c.Masked != nil:
		return "Approving needs the values that look like secrets to have been revealed to you."
	case c.Long && !full:
		return "Approving needs the whole of the arguments to have been on your screen."
	}
	return ""
}

// unsignable says what to do to somebody whose vote has to be signed and cannot be.
func unsignable(d *views.Decide) {
	d.Blocked = "Only votes that the voter’s own passkey has signed count here, and the audit log knows no passkey of yours."
	d.BlockedAt, d.BlockedLink = "/account", "Add a passkey"
}

// signedHere takes back what passkeys cannot do at the address by which the page was
// reached, which is elsewhere where they work.
func signedHere(d *views.Decide, elsewhere string) {
	switch {
	case elsewhere == "" || !d.Sign && !d.SignDeny:
	case d.Verify != "" && !d.SignDeny:
		d.Sign = false
	default:
		d.Blocked, d.BlockedAt, d.BlockedLink = "Only votes that the voter’s own passkey has signed count here, and passkeys do not work at this address.", elsewhere, "Go on where they do"
		d.DenyBlocked = d.SignDeny
	}
}

func whyNot(c gate.Card, p engine.Person, canDeny bool) string {
	var refusal *access.Refusal
	req, _ := waiting(c.Approval)
	role := views.Visible(rolesOf(req))
	switch err := c.CannotVote; {
	case errors.Is(err, approval.ErrSelfReview) && slices.ContainsFunc(c.Approval.Facts, func(f approval.Fact) bool { return f.Kind == approval.Edit && f.Actor.ID == p.ID }):
		return "You have changed the arguments of this call, so somebody else has to decide it."
	case errors.Is(err, approval.ErrSelfReview) && !slices.ContainsFunc(c.Approval.Plan.Requirements, func(r engine.Requirement) bool { return r.Kind.Traits().VotesCount }):
		return "Nobody else has to decide this one: it takes only what the requesting side has to give."
	case errors.Is(err, approval.ErrSelfReview):
		return "You are on the requesting side of this call, so somebody else has to decide it."
	case errors.Is(err, approval.ErrAlreadyVoted) && canDeny:
		return "You have approved this. It still needs others; until then you can stop it by denying it."
	case errors.Is(err, approval.ErrAlreadyVoted):
		return "You have already voted on this."
	case errors.Is(err, approval.ErrExpired):
		return "Its deadline has passed."
	case errors.Is(err, approval.ErrDecided):
		return "It is already decided."
	case errors.Is(err, approval.ErrNotNeeded) && canDeny:
		return "The places that you could fill are filled; others have to approve the rest. You can still deny it."
	case errors.Is(err, approval.ErrMachine):
		return "Only a signed-in person can decide this."
	case errors.Is(err, approval.ErrNotEligible) && canDeny && !req.Kind.Traits().VotesCount:
		return "It first waits for " + lowerFirst(requirementWords(req.Kind, "")) + ". You can already deny it."
	case errors.Is(err, approval.ErrNotEligible) && canDeny:
		return "It is not your turn to approve: this step is for " + role + ". You can already deny it."
	case errors.Is(err, approval.ErrNotEligible) && !req.Kind.Traits().VotesCount:
		return "No reviewer decides this step: it waits for the requesting side."
	case errors.Is(err, approval.ErrNotEligible) && role != "":
		return "Deciding this takes the role " + role + ", which you do not have."
	case errors.As(err, &refusal):
		return refusal.Detail
	}
	return "You cannot decide this one."
}

// findingSource names the check that a finding is of. A finding of the policy
// carries the id of the rule as its code.
func findingSource(f engine.Finding) string {
	switch {
	case f.Source != "policy":
		return f.Source + "/" + f.Code
	case strings.HasPrefix(f.Code, "DEFAULT_"):
		return "policy: no rule matched, its default decides"
	case f.Code == policy.CodeExpired || f.Code == policy.CodeTextTooLong:
		return "policy/" + f.Code
	}
	return "policy rule " + f.Code
}

// plainWords say what a finding means, where its own message is for those who write rules;
// else "".
func plainWords(f engine.Finding) string {
	if f.Source != "policy" || !strings.HasPrefix(f.Code, "DEFAULT_") {
		return ""
	}
	switch f.Route {
	case engine.Accept:
		return "No rule of the policy is about this call; its default lets such calls run."
	case engine.Refuse:
		return "No rule of the policy is about this call; its default refuses such calls."
	case engine.Ask, engine.Defer:
		return "No rule of the policy is about this call; by its default somebody looks at such calls."
	}
	return ""
}

func routeWords(r engine.Route) string {
	switch r {
	case engine.Accept:
		return "note"
	case engine.Ask:
		return "ask first"
	case engine.Defer:
		return "needs review"
	case engine.Refuse:
		return "refuse"
	}
	return r.String()
}

func factsInOrder(facts []approval.Fact) []approval.Fact {
	sorted := slices.Clone(facts)
	slices.SortFunc(sorted, func(a, b approval.Fact) int { return int(a.Seq - b.Seq) })
	return sorted
}

// requester is who asks, and whom it says it asks for.
func requester(c gate.Card, name func(string) string) views.Requester {
	a := c.Approval
	v := views.Requester{Agent: agentName(c), AgentID: a.Call.AgentID, Owner: c.AgentOwner, Credential: credential(a.RequestedBy)}
	var who []string
	for _, identity := range a.Plan.ByClaim {
		who = append(who, name(identity))
	}
	switch len(who) {
	case 0:
		return v
	case 1:
		v.ByClaim = "Asked on behalf of " + who[0] + ", says the agent: " + who[0] + " may not decide."
	default:
		v.ByClaim = "Asked on behalf of " + list(who) + ", says the agent: none of them may decide."
	}
	if role := a.WidenedTo(); role != "" {
		v.Widened = "Without " + plainWord(len(who), "this person", "these people") + " too few are left, so people with the role " + role + " may decide as well."
	}
	return v
}

func credential(by engine.Actor) string {
	kind := map[engine.ActorKind]string{
		engine.HumanActor: "a person", engine.AgentActor: "an agent's key", engine.ServiceActor: "a service key", engine.SystemActor: "Holdpoint itself",
	}[by.Kind]
	kind = cmp.Or(kind, string(by.Kind))
	text := fmt.Sprintf("%s (%s)", by.ID, kind)
	if by.Channel != "" {
		text += ", over " + by.Channel
	}
	return text
}

// EvidenceCard is how a card is put before people, whoever they are: for evidence packs.
func EvidenceCard(c gate.Card) views.Approval { return card(c, engine.Person{}, gate.Revealed, nil) }

func agentName(c gate.Card) string { return cmp.Or(c.AgentName, c.Approval.Call.AgentID) }
