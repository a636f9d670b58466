package policy

import (
	"encoding/json"
	"slices"
	"time"

	"holdpoint/engine"
)

// The bounds of a bundle. They are inclusive, and the same for JSON and YAML.
const (
	// MaxRules is the number of rules of the largest bundle.
	MaxRules = 1000
	// MaxBytes is the size of the largest bundle: 1 MiB, as it was written.
	MaxBytes = 1 << 20
	// MaxDepth is the largest number of arrays and objects of a bundle that are
	// inside each other, the bundle itself being the first.
	MaxDepth = 20
	// MaxRegex is the length of the longest regular expression, in characters
	// as JavaScript counts them (UTF-16 code units).
	MaxRegex = 512
)

// Bundle is a policy bundle that was found free of errors, ready to decide. It
// never changes and may be used by any number of callers at once; nobody may
// write to its fields.
type Bundle struct {
	// Version is the author's own name for this state of the policy.
	Version string
	// GeneratedAt and ExpiresAt bound its life; at ExpiresAt it is over.
	GeneratedAt, ExpiresAt time.Time
	// Digest is "sha256:" and, in lower-case hex, the SHA-256 of the RFC 8785
	// form of the bundle without its signatures.
	Digest string
	// Default is the outcome of a call that no rule matches.
	Default engine.Outcome
	// Signed says whether the bundle has a signature. Load has verified it only
	// if it was given a secret.
	Signed bool

	rules    []rule
	signedBy []signedBy
	index    index
	fallback Decision
	file     string
	judgedAt time.Time // Options.Now
}

// Rule is what can be said of a rule without judging a call.
type Rule struct {
	ID          string         `json:"id"`
	Description string         `json:"description"`
	Outcome     engine.Outcome `json:"outcome"`
	// Line and Column are where the rule begins in its file, from 1; they are 0
	// for a bundle that came without positions.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Rules is the bundle's rules in the order in which they are tried.
func (b *Bundle) Rules() []Rule {
	rules := make([]Rule, len(b.rules))
	for i := range b.rules {
		rules[i] = b.rules[i].Rule
	}
	return rules
}

// Requirements is what each rule asks for before a call that it decides may run,
// in the order of Rules; nil for a rule that asks for nobody.
func (b *Bundle) Requirements() [][]engine.Requirement {
	all := make([][]engine.Requirement, len(b.rules))
	for i := range b.rules {
		all[i] = b.rules[i].decision.Requirements()
	}
	return all
}

// Tools are the names of tools that rules mention: exact ones, and the beginnings of others.
func (b *Bundle) Tools() (exact, prefixes []string) {
	for i := range b.rules {
		switch t := b.rules[i].tools; {
		case t.every:
		case t.prefix:
			prefixes = append(prefixes, t.names[0])
		default:
			exact = append(exact, t.names...)
		}
	}
	return exact, prefixes
}

// Expired reports whether the bundle must not decide any more at now.
func (b *Bundle) Expired(now time.Time) bool { return !now.Before(b.ExpiresAt) }

// Roles is the set of roles that the bundle's rules want people of, sorted:
// of approver_role, and of the groups and escalations of their approvals.
func (b *Bundle) Roles() []string {
	var roles []string
	for i := range b.rules {
		d := &b.rules[i].decision
		if d.ApproverRole != "" {
			roles = append(roles, d.ApproverRole)
		}
		if d.Approval != nil {
			for _, g := range slices.Concat(d.Approval.Groups, d.Approval.AnyOf) {
				roles = append(roles, g.Role)
			}
			for _, e := range d.Approval.Escalation {
				roles = append(roles, e.Role)
			}
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// Decision is what a bundle says of a call. Its JSON form is Agent-SPM's
// Decision: outcome, reasons, and approver_role and constraints when set. What
// its fields point to belongs to the bundle and must not be written to.
type Decision struct {
	Outcome engine.Outcome `json:"outcome"`
	// Rule is the id of the rule that matched, and "" if none did.
	Rule    string          `json:"-"`
	Reasons []engine.Reason `json:"reasons"`
	// ApproverRole is the role that the rule wants an approver of; "" is none.
	ApproverRole string `json:"approver_role,omitempty"`
	// Constraints is a JSON object in canonical form, or nil.
	Constraints json.RawMessage `json:"constraints,omitempty"`
	// Approval is the rule's own terms for the approval, or nil.
	Approval *Approval `json:"-"`
	// Stakes is the rule's template of the sentence that says what the call will do
	// (package stakes), or "". Nothing is decided by it.
	Stakes string `json:"-"`
}

// The reason codes of decisions that no rule made.
const (
	// CodeExpired is the reason of a bundle that decides nothing any more.
	CodeExpired = "POLICY_EXPIRED"
	// CodeTextTooLong is the reason of a call whose text is too long to be
	// searched by the rules that would have to.
	CodeTextTooLong = "TEXT_TOO_LONG"
	// codeDefault begins the reason of a call that no rule matched.
	codeDefault = "DEFAULT_"
)
