package web

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
	"holdpoint/internal/access"
	"holdpoint/web/views"
)

// policyHandler serves the page of what is in force.
type policyHandler struct{ site *site }

func (h *policyHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /policies", h.site.forAuditors(h.show))
	mux.HandleFunc("POST /policies", h.site.forAuditors(h.try))
}

func (h *policyHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v := h.view(p)
	if v.Query = strings.TrimSpace(r.URL.Query().Get("q")); v.Policy != nil && v.Query != "" {
		v.Policy.Rules = slices.DeleteFunc(v.Policy.Rules, func(rule views.Rule) bool { return !rule.Matches(v.Query) })
	}
	return h.site.render(w, r, http.StatusOK, views.PoliciesPage(v))
}

// view shows what is in force at this moment.
func (h *policyHandler) view(p engine.Person) views.Policies {
	in, now := h.site.inForce(), h.site.clock()
	v := views.Policies{Frame: h.site.frame(p, "Policies", "policies"), Digest: in.Digest, History: h.site.ruleChanges != nil, Try: views.Try{Environment: "dev", Arguments: "{}"}}
	if h.site.ruleChanges != nil && access.MayAdminister(p) {
		_, takes := h.site.ruleChanges.TakesApproval(kinds[0].Value)
		v.Propose, v.ByFile = takes, !takes
	}
	for line := range strings.Lines(in.Problem) {
		if line = strings.TrimSpace(line); line != "" {
			v.Problems = append(v.Problems, line)
		}
	}
	if in.Policy != nil {
		bundle := policyView(in.Policy, in.PolicyFile, now)
		bundle.SignedBy = in.SignedBy
		if rule := in.Signatures; rule != nil {
			bundle.Wanted = "A policy takes the signatures of " + views.Plural(rule.Needed, "person", "people") + " with the role " + rule.Role + " here."
		}
		v.Policy = &bundle
	}
	if in.Contracts != nil {
		v.HasContracts, v.ContractsDigest = true, in.Contracts.Digest()
		v.Contracts, v.ContractsFile = contractRows(in.Contracts, in.ContractsFile), views.Text(string(in.ContractsFile))
	}
	return v
}

func policyView(b *policy.Bundle, file []byte, now time.Time) views.Policy {
	v := views.Policy{
		Version: b.Version, Digest: b.Digest, Generated: b.GeneratedAt, Expires: b.ExpiresAt, Signed: b.Signed,
		Default: outcome(b.Default), Rules: policyRules(b, file), Count: len(b.Rules()), File: views.Text(string(file)),
	}
	switch {
	case b.Expired(now):
		v.Expired, v.Warning = true, "This policy has expired: every call that it would judge is refused until a new one is in force."
	case b.ExpiresAt.Sub(now) <= policy.ExpiresSoon:
		v.Warning = "This policy expires " + views.Until(b.ExpiresAt, now) + ". From then on it refuses every call, so put a new one in force before."
	}
	// What was a warning when it was loaded still is one, and Lint knows more.
	_, problems := policy.Load(file, policy.Options{})
	for _, problem := range slices.Concat(problems, policy.Lint(b)) {
		if problem.Warning {
			v.Warnings = append(v.Warnings, views.Lint{Line: problem.Line, Rule: problem.Rule, Message: problem.Message, Hint: problem.Hint})
		}
	}
	slices.SortStableFunc(v.Warnings, func(a, b views.Lint) int { return a.Line - b.Line })
	return v
}

// try says what the policy alone would decide of a call. Nothing is
// recorded, and nothing runs.
func (h *policyHandler) try(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	v := h.view(p)
	v.Try = views.Try{
		Tool: strings.TrimSpace(r.PostForm.Get("tool")), Arguments: r.PostForm.Get("arguments"),
		Environment: strings.TrimSpace(r.PostForm.Get("environment")), Request: strings.TrimSpace(r.PostForm.Get("request")),
	}
	v.Title = "Try a call"
	bundle := h.site.inForce().Policy
	if bundle == nil {
		v.Try.Failures = []string{"No policy is in force, so there is nothing to try."}
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.PoliciesPage(v))
	}
	request, failures := parseTrial(v.Try)
	if len(failures) > 0 {
		v.Try.Failures = failures
		return h.site.render(w, r, http.StatusUnprocessableEntity, views.PoliciesPage(v))
	}
	result := explanationView(bundle.Explain(request.Policy(), h.site.clock()))
	result.Tool, result.Environment = request.Action.ToolName, request.Agent.Environment
	v.Try.Result = &result
	return h.site.render(w, r, http.StatusOK, views.PoliciesPage(v))
}

// parseTrial reads the call to try: a whole request where there is one, else the
// three fields.
func parseTrial(t views.Try) (spm.Request, []string) {
	if t.Request != "" {
		doc, err := canon.Parse([]byte(t.Request))
		if err != nil {
			return spm.Request{}, []string{"The request is not JSON that Holdpoint reads: " + err.Error() + "."}
		}
		return parseRequest(doc)
	}
	if t.Tool == "" {
		return spm.Request{}, []string{"Name the tool, or paste a whole request."}
	}
	arguments := t.Arguments
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	args, err := canon.Parse([]byte(arguments))
	if err != nil {
		return spm.Request{}, []string{"The arguments are not JSON that Holdpoint reads: " + err.Error() + "."}
	}
	members := []canon.Member{
		{Name: "toolName", Value: canon.String(t.Tool)}, {Name: "toolArgs", Value: args}, {Name: "agentId", Value: canon.String("somebody")},
	}
	if t.Environment != "" {
		members = append(members, canon.Member{Name: "environment", Value: canon.String(t.Environment)})
	}
	return parseRequest(canon.Object(members...))
}

func parseRequest(doc canon.Value) (spm.Request, []string) {
	request, wrong := spm.Parse(doc)
	var failures []string
	for _, e := range wrong {
		where := cmp.Or(e.Path, "The request")
		failures = append(failures, where+" "+e.Message)
	}
	return request, failures
}

func explanationView(e policy.Explanation) views.Explained {
	v := views.Explained{Outcome: outcome(e.Decision.Outcome), Rule: e.Decision.Rule, Expired: e.Expired, Role: e.Decision.ApproverRole}
	for _, reason := range e.Decision.Reasons {
		v.Reasons = append(v.Reasons, reason.Message)
	}
	decided := false
	for i, rule := range e.Rules {
		x := views.ExplainedRule{Number: i + 1, ID: rule.ID, Outcome: outcome(rule.Outcome), Matched: rule.Matched, Decided: rule.Decided, After: decided}
		for _, condition := range rule.Conditions {
			held := "no"
			switch {
			case condition.Held:
				held = "yes"
			case condition.Unknown:
				held = "unknown"
			}
			x.Conditions = append(x.Conditions, views.Condition{Name: condition.Name, Held: held, Why: condition.Why})
			if !condition.Held && x.Because == "" {
				x.Because = condition.Why
			}
		}
		decided = decided || rule.Decided
		v.Rules = append(v.Rules, x)
	}
	return v
}

// outcome is an outcome with its words and the colour of its route.
func outcome(o engine.Outcome) views.Outcome {
	v := views.Outcome{Code: string(o)}
	switch o {
	case engine.Allow:
		v.Kind, v.Words = "allow", "may run, unless another check holds it"
	case engine.Deny:
		v.Kind, v.Words = "deny", "is refused"
	case engine.RequireApproval:
		v.Kind, v.Words = "wait", "waits for people to approve it"
	case engine.RequireHuman:
		v.Kind, v.Words = "wait", "waits for a person to decide"
	case engine.RequireTicket:
		v.Kind, v.Words = "ask", "waits for a ticket"
	case engine.RequireStepUp:
		v.Kind, v.Words = "ask", "waits for somebody to sign in again"
	default:
		v.Kind = "wait"
	}
	return v
}
