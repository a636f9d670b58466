package web

import (
	"strconv"
	"strings"

	"holdpoint/engine/canon"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
	"holdpoint/engine/source"
	"holdpoint/web/views"
)

// maxListed is how many operands a condition names before it counts the rest;
// the file below the table has them all.
const maxListed = 12

// parseFile reads a file that has been loaded already, for showing it. Nothing is
// decided by what comes out, which is null where it cannot be read.
func parseFile(file []byte) canon.Value {
	n, _ := source.Read(file, source.Options{})
	return n.Value
}

// member follows names into an object; what is not there is null.
func member(v canon.Value, names ...string) canon.Value {
	for _, name := range names {
		v, _ = v.Get(name)
	}
	return v
}

// policyRules is the bundle's rules, with their conditions as the file has them.
func policyRules(b *policy.Bundle, file []byte) []views.Rule {
	written := elements(member(parseFile(file), "rules"))
	var rules []views.Rule
	for i, r := range b.Rules() {
		v := views.Rule{Number: i + 1, ID: r.ID, Description: r.Description, Line: r.Line, Outcome: outcome(r.Outcome), Unread: true}
		if i < len(written) && member(written[i], "id").Str() == r.ID {
			v.Match, v.When = matchWords(member(written[i], "match")), whenWords(member(written[i], "when"))
			v.Terms, v.Unread = termWords(written[i]), false
		}
		rules = append(rules, v)
	}
	return rules
}

// phrase is words, then operands between which joint stands.
func phrase(lead, joint string, operands ...canon.Value) views.Phrase {
	p := views.Phrase{{Text: lead}}
	for i, operand := range operands {
		if i == maxListed {
			return append(p, views.Piece{Text: "and " + strconv.Itoa(len(operands)-maxListed) + " more"})
		}
		if i > 0 {
			p = append(p, views.Piece{Text: joint})
		}
		p = append(p, views.Piece{Text: shownValue(operand), Code: true})
	}
	return p
}

// shownValue is a text as it is, and anything else as JSON.
func shownValue(v canon.Value) string {
	if v.Kind() == canon.StringKind {
		return v.Str()
	}
	return string(v.Canonical())
}

// elementsOrSelf is an array's elements, or the value itself as the only one.
func elementsOrSelf(v canon.Value) []canon.Value {
	if v.Kind() == canon.ArrayKind {
		return elements(v)
	}
	return []canon.Value{v}
}

func elements(v canon.Value) []canon.Value {
	var list []canon.Value
	for _, e := range v.Elements() {
		list = append(list, e)
	}
	return list
}

func matchWords(match canon.Value) []views.Phrase {
	var words []views.Phrase
	tool := member(match, "tool_name")
	switch name := tool.Str(); {
	case name == "*":
		words = append(words, phrase("any tool", ""))
	case tool.Kind() == canon.StringKind && len(name) > 1 && strings.HasSuffix(name, "*"):
		words = append(words, phrase("tools that begin with", "", canon.String(strings.TrimSuffix(name, "*"))))
	default:
		words = append(words, phrase("tool", "or", elementsOrSelf(tool)...))
	}
	if environment := member(match, "environment"); environment.Str() != "*" {
		words = append(words, phrase("in", "", environment))
	}
	for _, m := range []struct{ field, lead string }{
		{"agent_type", "agents of type"},
		{"trust_level_min", "agents trusted at least"},
		{"agent_roles_any", "agents with the role"},
		{"tool_provider", "tools provided by"},
		{"tool_category", "tools registered as"},
		{"tool_risk_domain", "tools registered for"},
	} {
		value, there := match.Get(m.field)
		if !there || value.IsNull() || value.Kind() == canon.StringKind && value.Str() == "" {
			continue
		}
		words = append(words, phrase(m.lead, "or", elementsOrSelf(value)...))
	}
	switch registered, there := match.Get("tool_registered"); {
	case there && registered.Bool():
		words = append(words, phrase("registered tools", ""))
	case there:
		words = append(words, phrase("tools that are not registered", ""))
	}
	return words
}

var operatorLeads = map[string]string{
	"gt": "is more than", "gte": "is at least", "lt": "is less than", "lte": "is at most", "eq": "is", "neq": "is not",
}

func whenWords(when canon.Value) []views.Phrase {
	var words []views.Phrase
	for _, w := range []struct{ field, lead, joint string }{
		{"contains_any", "its text holds", "or"},
		{"not_contains", "its text does not hold", "or"},
		{"matches_regex", "its text matches", ""},
		{"data_labels_any", "it is labelled", "or"},
	} {
		if value, there := when.Get(w.field); there && (value.Kind() != canon.ArrayKind || value.Len() > 0) && shownValue(value) != "" {
			words = append(words, phrase(w.lead, w.joint, elementsOrSelf(value)...))
		}
	}
	for name, wanted := range member(when, "tool_args_match").All() {
		p := phrase("the argument", "", canon.String(name))
		tests := 0
		for operator, operand := range wanted.All() {
			lead, known := operatorLeads[operator]
			if !known {
				continue
			}
			if tests++; tests > 1 {
				lead = "and " + lead
			}
			p = append(p, phrase(lead, "", operand)...)
		}
		if tests == 0 {
			p = append(p, phrase("is", "", wanted)...)
		}
		words = append(words, p)
	}
	return words
}

// termWords says who has to agree, by when, and under which constraints.
func termWords(rule canon.Value) []views.Phrase {
	var words []views.Phrase
	approval := member(rule, "approval")
	quorum, role := member(approval, "quorum"), member(rule, "approver_role")
	switch {
	case quorum.Kind() == canon.NumberKind && role.Str() != "":
		words = append(words, append(phrase("", "", quorum), phrase("of", "", role)...))
	case quorum.Kind() == canon.NumberKind:
		words = append(words, append(phrase("", "", quorum), views.Piece{Text: "people"}))
	case role.Str() != "":
		words = append(words, phrase("by", "", role))
	}
	// All groups in any order, or one of several.
	for _, g := range []struct{ field, lead, joint string }{{"groups", "", "and"}, {"any_of", "either", "or"}} {
		if list := member(approval, g.field); list.Len() > 0 {
			words = append(words, groupWords(list, g.lead, g.joint))
		}
	}
	if within := member(approval, "within"); !within.IsNull() {
		words = append(words, phrase("each within", "", canon.String(briefText(within.Str()))))
	}
	if all := member(approval, "expires_in"); !all.IsNull() {
		words = append(words, phrase("in all within", "", canon.String(briefText(all.Str()))))
	}
	for _, e := range member(approval, "escalation").Elements() {
		words = append(words, append(phrase("after", "", canon.String(briefText(member(e, "after").Str()))), phrase("also", "", member(e, "role"))...))
	}
	if constraints := member(rule, "constraints"); constraints.Kind() == canon.ObjectKind {
		words = append(words, phrase("constraints", "", constraints))
	}
	if stakes := member(rule, "stakes"); stakes.Str() != "" {
		words = append(words, phrase("told as", "", stakes))
	}
	return words
}

// groupWords names groups of people, with joint between them.
func groupWords(list canon.Value, lead, joint string) views.Phrase {
	words := views.Phrase{}
	for _, g := range list.Elements() {
		words = append(words, views.Piece{Text: lead})
		words = append(words, append(phrase("", "", member(g, "needed")), phrase("of", "", member(g, "role"))...)...)
		lead = joint
	}
	return words
}

// contractRows is the contracts in force, with their terms as the file has them.
func contractRows(s *safeai.Set, file []byte) []views.Contract {
	written := map[string]canon.Value{}
	for tool, contract := range member(parseFile(file), "tool_contracts").All() {
		written[strings.TrimSpace(tool)] = contract
	}
	var rows []views.Contract
	for _, tool := range s.Tools() {
		contract, there := written[tool]
		if terms, ok := s.Terms(tool); ok && !there && len(written) == 0 { // a file of SafeAI's own version
			rows = append(rows, views.Contract{Tool: tool, Tags: terms.Tags, Fields: terms.Fields, Masks: terms.Masks})
			continue
		}
		rows = append(rows, views.Contract{
			Tool: tool, Tags: texts(member(contract, "allowed_request_tags")), Fields: texts(member(contract, "allowed_response_fields")),
			Masks: member(contract, "mask_response").Bool(), Unread: !there,
		})
	}
	return rows
}

func texts(list canon.Value) []string {
	var out []string
	for _, e := range list.Elements() {
		out = append(out, e.Str())
	}
	return out
}
