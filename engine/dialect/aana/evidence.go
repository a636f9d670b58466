package aana

import (
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
)

// maxAge is how old evidence may be.
const maxAge = 168 * time.Hour

var (
	missingAuthorizationMarks = []string{"missing authorization", "removes verified authorization"}
	contradictionMarks        = []string{"contradict", "conflict", "inconsistent", "does not match", "disputes", "opposes"}
	missingInformationMarks   = []string{
		"evidence missing", "missing evidence", "information is missing", "record is missing", "not available",
		"unavailable", "unknown", "insufficient", "no evidence",
	}
)

// missingAuthorizationSource begins the source_id of a reference that says
// that authorization is missing.
const missingAuthorizationSource = "counterfactual.missing_authorization"

// evidenceRoutes is the route of each of section 5's codes, in the order in
// which they are reported.
var evidenceRoutes = []struct {
	code  string
	route engine.Route
}{
	{"missing_evidence_refs", engine.Defer},
	{"evidence_missing_authorization", engine.Defer},
	{"evidence_secret_leak", engine.Refuse},
	{"evidence_pii_leak", engine.Refuse},
	{"unsafe_redaction_status", engine.Refuse},
	{"stale_evidence", engine.Defer},
	{"invalid_retrieved_at", engine.Defer},
	{"contradictory_evidence", engine.Defer},
	{"evidence_marks_missing_information", engine.Defer},
}

// evidenceWarnings are the codes that are reported and block nothing, likewise.
var evidenceWarnings = []string{"weak_trust_tier", "unknown_redaction_status", "unknown_freshness", "missing_freshness_timestamp"}

// judgeEvidence is section 5. It returns the names under which references may
// be shown.
func (e Event) judgeEvidence(j *judgement, category Category, now time.Time) shownRefs {
	var found codes
	if len(e.Evidence) == 0 && category != PublicRead {
		found.add("missing_evidence_refs")
	}
	shown := shownRefs{used: make([]string, 0, min(len(e.Evidence), fewRefs))}
	for i := range e.Evidence {
		ref := &e.Evidence[i]
		contradicts := false
		if !ref.issued {
			contradicts = ref.check(&found, now)
			ref.warn(&found, category)
		}
		shown.add(i, ref, contradicts)
	}
	for _, known := range evidenceRoutes {
		if slices.Contains(found, known.code) {
			j.reason(known.code)
			j.block(known.code, known.route)
		}
	}
	for _, code := range evidenceWarnings {
		if slices.Contains(found, code) {
			j.note("evidence_warning:" + code)
		}
	}
	return shown
}

// codes is a set of codes. There are few, so that a list is the fastest.
type codes []string

func (c *codes) add(code string) {
	if !slices.Contains(*c, code) {
		*c = append(*c, code)
	}
}

// check adds the codes of everything in one reference that blocks, and reports
// whether the reference contradicts something.
func (r *Evidence) check(found *codes, now time.Time) (contradicts bool) {
	summary := fold(r.Summary)
	if strings.HasPrefix(r.SourceID, missingAuthorizationSource) ||
		r.Kind == "system_state" && containsAny(summary, missingAuthorizationMarks) {
		found.add("evidence_missing_authorization")
	}
	text := r.scanned()
	if leaksSecret(text) {
		found.add("evidence_secret_leak")
	} else if r.Redaction != "redacted" && leaksPII(text) {
		found.add("evidence_pii_leak")
	}
	if r.Redaction == "sensitive" {
		found.add("unsafe_redaction_status")
	}
	if r.Freshness == "stale" {
		found.add("stale_evidence")
	}
	if r.timed {
		checkTime(found, r.RetrievedAt, now)
	}
	if r.checked {
		checkTime(found, r.CheckedAt, now)
	}
	contradicts = len(r.Contradicts) > 0 || containsAny(summary, contradictionMarks)
	if contradicts {
		found.add("contradictory_evidence")
	}
	if containsAny(summary, missingInformationMarks) {
		found.add("evidence_marks_missing_information")
	}
	return contradicts
}

func checkTime(found *codes, text string, now time.Time) {
	t, ok := parseTime(text)
	switch {
	case !ok:
		found.add("invalid_retrieved_at")
	case t.Before(now.Add(-maxAge)):
		found.add("stale_evidence")
	}
}

// scanned is what is searched for leaks, joined by a space: a leak may be
// split over two fields.
func (r *Evidence) scanned() string {
	var b strings.Builder
	parts := [...]string{r.SourceID, r.Summary, r.CitationURL, r.RetrievalURL, r.Provenance}
	b.Grow(len(parts) + len(r.SourceID) + len(r.Summary) + len(r.CitationURL) + len(r.RetrievalURL) + len(r.Provenance))
	for _, part := range parts {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(part)
	}
	return b.String()
}

// warn adds the codes of what is weak in one reference of a consequential call.
func (r *Evidence) warn(found *codes, category Category) {
	if category != PrivateRead && category != Write {
		return
	}
	if r.TrustTier == "unverified" || r.TrustTier == "unknown" {
		found.add("weak_trust_tier")
	}
	if r.Redaction == "unknown" {
		found.add("unknown_redaction_status")
	}
	if r.Freshness == "unknown" {
		found.add("unknown_freshness")
	}
	if !r.timed && !r.checked {
		found.add("missing_freshness_timestamp")
	}
}
