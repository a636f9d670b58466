package aana

// messages says each code in one sentence to the person who has to decide, or
// to find out later why a call ran. None of them depends on the event, so none
// can carry a secret.
var messages = map[string]string{
	"schema_validation_failed": "The request does not follow the contract, so nothing in it can be relied on.",

	"public_read_allowed_without_identity_auth": "The tool is declared as one that only reads public information.",
	"private_read_has_authenticated_context":    "The tool is declared as one that reads private data, for a user who has signed in.",
	"write_has_explicit_confirmation":           "The change was explicitly confirmed.",

	"public_read_identity_bound_misclassified":      "The tool is declared as reading public information, but its name or arguments point to one person's data.",
	"private_read_not_authenticated":                "The tool reads private data, and nobody is known to have signed in.",
	"write_missing_authorization":                   "The tool changes something, and nothing shows that anybody may do that.",
	"write_missing_validation_or_confirmation":      "The tool changes something whose target or permission was not checked, and nobody confirmed it.",
	"write_missing_explicit_confirmation":           "The tool changes something, and nobody explicitly confirmed it.",
	"high_risk_write_missing_explicit_confirmation": "The change is of a kind that can do serious harm and needs an explicit confirmation.",
	"unknown_tool_category":                         "Nobody has classified what this tool does.",

	"missing_evidence_refs":              "The agent gives no evidence for a call that has consequences.",
	"evidence_missing_authorization":     "The agent's own evidence says that the authorization is missing.",
	"evidence_secret_leak":               "The agent's evidence seems to hold a password, key, card number or similar secret.",
	"evidence_pii_leak":                  "The agent's evidence seems to hold an e-mail address or telephone number that is not redacted.",
	"unsafe_redaction_status":            "The agent's evidence is marked as sensitive.",
	"stale_evidence":                     "Some of the agent's evidence is out of date.",
	"invalid_retrieved_at":               "The date of some of the agent's evidence cannot be read.",
	"contradictory_evidence":             "Some of the agent's evidence contradicts the call.",
	"evidence_marks_missing_information": "The agent's evidence says that information is missing.",

	"evidence_warning:weak_trust_tier":             "Some of the agent's evidence comes from a source that nobody has verified.",
	"evidence_warning:unknown_redaction_status":    "It is not known whether some of the agent's evidence is redacted.",
	"evidence_warning:unknown_freshness":           "It is not known how old some of the agent's evidence is.",
	"evidence_warning:missing_freshness_timestamp": "Some of the agent's evidence has no date.",

	"runtime_recommended_route": "The agent's own runtime recommends not to run the call at once.",
	"runtime_refusal":           "The agent's own runtime recommends to refuse the call.",
}

// Message is the sentence for a finding's code, for a person who reviews or
// audits the call. For a code that is not this package's it is a general one.
func Message(code string) string {
	if m, ok := messages[code]; ok {
		return m
	}
	return "The contract does not explain this code."
}

// recoveries tells the agent what to do about each route.
var recoveries = map[string]string{
	"accept": "Run the call exactly as it was checked, and record the decision.",
	"ask":    "Get the missing authorization, confirmation or information, then have the call checked again.",
	"defer":  "Wait for a reviewer or bring stronger evidence, then have the call checked again.",
	"refuse": "Do not run this call; change what blocks it before proposing another one.",
}
