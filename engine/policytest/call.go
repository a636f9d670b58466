package policytest

import (
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/spm"
	"holdpoint/engine/policy"
	"holdpoint/engine/source"
)

// call is a call as a test writes it; nil is not said.
type call struct {
	tool, environment, provider, userInput  *string
	agentType, trustLevel, category, domain *string
	registered                              *bool
	roles, labels                           *[]string
	args                                    *canon.Value
	claims                                  *policy.Claims
}

func (l *loader) call(n source.Node, what string) call {
	var c call
	text := func(to **string, name string) func(source.Node) {
		return func(n source.Node) { s := l.text(n, name); *to = &s }
	}
	l.object(n, what, fields{
		"tool": func(n source.Node) {
			if text(&c.tool, "tool")(n); n.Value.Kind() == canon.StringKind && *c.tool == "" {
				l.fail(n, "empty", "tool must not be empty", "")
			}
		},
		"args": func(n source.Node) {
			if l.isObject(n, "args") {
				c.args = &n.Value
			}
		},
		"environment": text(&c.environment, "environment"),
		"provider":    text(&c.provider, "provider"),
		"claims":      func(n source.Node) { c.claims = l.claims(n) },
		"user_input":  text(&c.userInput, "user_input"),
		"data_labels": func(n source.Node) { c.labels = l.texts(n, "data_labels") },
		"tool_category": func(n source.Node) {
			text(&c.category, "tool_category")(n)
			l.oneOf(n, "tool category", engine.ToolCategories())
		},
		"tool_risk_domain": func(n source.Node) {
			text(&c.domain, "tool_risk_domain")(n)
			l.oneOf(n, "risk domain", engine.RiskDomains())
		},
		"tool_registered": func(n source.Node) {
			if n.Value.Kind() != canon.BoolKind {
				l.fail(n, "type", "tool_registered has to be a boolean", "write true or false")
				return
			}
			registered := n.Value.Bool()
			c.registered = &registered
		},
		"agent": func(n source.Node) {
			l.object(n, "agent", fields{
				"agent_type": text(&c.agentType, "agent_type"),
				"trust_level": func(n source.Node) {
					text(&c.trustLevel, "trust_level")(n)
					l.oneOf(n, "trust_level", engine.TrustLevels())
				},
				"roles": func(n source.Node) { c.roles = l.texts(n, "roles") },
			})
		},
	})
	return c
}

// claims are what the call says and nobody has confirmed.
func (l *loader) claims(n source.Node) *policy.Claims {
	var c policy.Claims
	text := func(to *string, name string) func(source.Node) {
		return func(n source.Node) { *to = l.text(n, name) }
	}
	l.object(n, "claims", fields{
		"user_input": text(&c.UserInput, "user_input"), "environment": text(&c.Environment, "environment"), "provider": text(&c.Provider, "provider"),
		"data_labels": func(n source.Node) { c.DataLabels = *l.texts(n, "data_labels") },
	})
	return &c
}

func (l *loader) oneOf(n source.Node, what string, names []string) {
	if n.Value.Kind() == canon.StringKind && !slices.Contains(names, n.Value.Str()) {
		l.fail(n, "unknown_word", source.Quote(n.Value.Str())+" is no "+what, "use one of "+strings.Join(names, ", "))
	}
}

func (l *loader) texts(n source.Node, what string) *[]string {
	list := []string{}
	if l.isList(n, what) {
		for i := range n.Value.Len() {
			list = append(list, l.text(n.Element(i), "each of "+what))
		}
	}
	return &list
}

// over is the call, with what it does not say taken from others.
func (c call) over(others call) call {
	return call{
		tool: first(c.tool, others.tool), environment: first(c.environment, others.environment), provider: first(c.provider, others.provider),
		userInput: first(c.userInput, others.userInput), category: first(c.category, others.category), domain: first(c.domain, others.domain),
		registered: first(c.registered, others.registered), agentType: first(c.agentType, others.agentType),
		trustLevel: first(c.trustLevel, others.trustLevel), roles: first(c.roles, others.roles), labels: first(c.labels, others.labels),
		args: first(c.args, others.args), claims: first(c.claims, others.claims),
	}
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// or is what p points to, or the default.
func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// request is what rules look at, with Agent-SPM's defaults for what is not said.
func (c call) request() *policy.Request {
	return &policy.Request{
		Tool: or(c.tool, ""), ToolCategory: or(c.category, ""), ToolRiskDomain: or(c.domain, ""),
		ToolRegistered: or(c.registered, c.category != nil || c.domain != nil), Args: or(c.args, canon.Object()), Environment: or(c.environment, "dev"),
		AgentType: c.agentType, TrustLevel: c.trustLevel, Provider: c.provider, Roles: or(c.roles, nil), UserInput: or(c.userInput, ""),
		DataLabels: or(c.labels, nil), Claims: or(c.claims, policy.Claims{}),
	}
}

// ReadCall reads one call in any form that authors write them in: as in a test
// ({"tool": …}, by itself or as the member "call"), an Agent-SPM
// AgentActionRequest, or its CheckToolCallParams.
func ReadCall(n source.Node) (*policy.Request, []source.Problem) {
	l := &loader{}
	if !l.isObject(n, "a call") {
		return nil, l.problems
	}
	_, full := n.Get("action")
	_, params := n.Get("toolName")
	if full || params {
		a, wrong := spm.Parse(n.Value)
		for _, e := range wrong {
			message, _ := strings.CutSuffix(e.Message, ".")
			l.problems = append(l.problems, source.Problem{Path: e.Path, Code: "not_a_call", Message: e.Path + ": " + message})
		}
		if len(wrong) > 0 {
			return nil, l.problems
		}
		return a.Policy(), nil
	}
	if inner, ok := n.Get("call"); ok {
		n = inner
	}
	c := l.call(n, "a call")
	if c.claims != nil {
		l.fail(n, "claims_untried", "claims are looked at in a test alone; here, what a call says is true", "write it as the call's own, or as a test")
	}
	if c.tool == nil && len(l.problems) == 0 {
		l.fail(n, "missing", `the call has no "tool"`, "")
	}
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return c.request(), nil
}
