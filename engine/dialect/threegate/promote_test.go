package threegate_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdpoint/engine/dialect/threegate"
)

// openings are the ways in which a draft leaves its approval open, each with the
// lines of its promotion.
var openings = []struct{ open, promoted string }{
	{"", "approved_by: 'mara@example.org'\napproved_utc: '2026-05-04T10:00:00Z'\n"},
	{"approved_by: \"\"\napproved_utc: \"\"\n", "approved_by: \"mara@example.org\"\napproved_utc: \"2026-05-04T10:00:00Z\"\n"},
	{"approved_by:\napproved_utc: # later\n", "approved_by:  'mara@example.org'\napproved_utc:  '2026-05-04T10:00:00Z' # later\n"},
	{"approved_utc:   \"\"  # when\napproved_by: \n", "approved_utc:   \"2026-05-04T10:00:00Z\"  # when\napproved_by:  'mara@example.org' \n"},
	{"approved_by: \"\"\n", "approved_utc: '2026-05-04T10:00:00Z'\napproved_by: \"mara@example.org\"\n"},
}

func TestPromote(t *testing.T) {
	at := now.Add(time.Nanosecond).In(time.FixedZone("x", 3600))
	for _, o := range openings {
		draft := strings.Replace(draft(t), "purpose:", o.open+"purpose:", 1)
		if got := threegate.JudgeDraft([]byte(draft), now); !got.Valid {
			t.Errorf("%q: want a valid draft, got %v", o.open, got.Violations)
		}
		if check(draft).Valid {
			t.Errorf("%q: a draft passes for approved", o.open)
		}
		got, err := threegate.Promote([]byte(draft), "mara@example.org", at)
		if err != nil {
			t.Errorf("%q: %v", o.open, err)
			continue
		}
		if want := strings.Replace(draft, o.open+"purpose:", o.promoted+"purpose:", 1); string(got) != want {
			t.Errorf("%q: got\n%s\nwant\n%s", o.open, got, want)
		}
		back, err := threegate.Demote(got)
		if err != nil || string(back) != draft {
			t.Errorf("%q: demoted with %v:\n%s", o.open, err, back)
		}
	}
}

// TestPromoteForms: the front matter's form does not matter.
func TestPromoteForms(t *testing.T) {
	flow := strings.Replace(asJSON, "\n \"approved_by\": \"mara\", \"approved_utc\":\"2026-05-03T09:00:00Z\",", "", 1)
	indented := strings.Replace(draft(t), "---\nrequest_type", "---\n# a request\n  request_type", 1)
	from, to := strings.Index(indented, "schema_version"), strings.Index(indented, "---\n\n")
	indented = indented[:from] + "  " + strings.ReplaceAll(strings.TrimSuffix(indented[from:to], "\n"), "\n", "\n  ") + "\n" + indented[to:]
	last := strings.Replace(draft(t), "requested_by: \"core_draft\"\n", "", 1)
	last = strings.Replace(last, "---\n\n##", "requested_by: >-\n  human\n\n---\n\n##", 1)
	for name, doc := range map[string]string{"flow": flow, "indented": indented, "last": last} {
		got, err := threegate.Promote([]byte(doc), "mara", now)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, doc)
			continue
		}
		if back, err := threegate.Demote(got); err != nil || string(back) != doc {
			t.Errorf("%s: demoted with %v:\n%s", name, err, back)
		}
	}
}

// TestDraftRules: approval fields that say something are reported as A0, and
// everything else as in a promoted document.
func TestDraftRules(t *testing.T) {
	for _, c := range []struct {
		old, replacement, rule string
		line                   int
	}{
		{"purpose:", "approved_by: mara\npurpose:", "A0", 7},
		{"purpose:", "approved_utc: \"2026-05-03T09:00:00Z\"\npurpose:", "A0", 7},
		{"purpose:", "approved_by: null\npurpose:", "A0", 7},
		{"purpose:", "approved_by: ''\npurpose:", "A0", 7},
		{"purpose:", "approved_by: ~\npurpose:", "A0", 7},
		{"purpose:", "approved_by: \" \"\npurpose:", "A0", 7},
		{"purpose:", "approved_by: \"\\\n  \"\npurpose:", "A0", 7},
		{"purpose:", "approved_by: []\npurpose:", "A0", 7},
		{"purpose:", "approved_by: >-\npurpose:", "A0", 7},
		{"purpose:", "approved_by: \"\"\napproved_by: \"\"\npurpose:", "F2", 8},
		{"requested_by: \"core_draft\"\n", "", "F4", 1},
		{"2026-05-03T08:15:00Z", "2026-05-05T08:15:00Z", "A4", 5},
		{"Risk level: low", "Risk level: none", "K2", 41},
	} {
		got := threegate.JudgeDraft([]byte(changeIn(t, draft(t), c.old, c.replacement)), now)
		found := false
		for _, v := range got.Violations {
			found = found || v.Rule == c.rule && v.Line == c.line
		}
		if !found || got.Valid {
			t.Errorf("%q: want %s on line %d, got %v", c.replacement, c.rule, c.line, got.Violations)
		}
	}
}

func TestPromoteRefuses(t *testing.T) {
	valid := []byte(draft(t))
	for _, name := range []string{"", " ", " mara", "core", "TBD", "ma\nra", `ma"ra`, `ma\ra`, "ma\u200bra", "\xff", "password=hunter2", "/etc/passwd"} {
		if got, err := threegate.Promote(valid, name, now); err == nil {
			t.Errorf("approver %q: got\n%s", name, got)
		}
	}
	if _, err := threegate.Promote(valid, "mara", now.AddDate(-1, 0, 0)); err == nil {
		t.Error("promoted before it was created")
	}
	if _, err := threegate.Promote([]byte(document), "mara", now); err == nil {
		t.Error("promoted twice")
	}
	if _, err := threegate.Promote([]byte("x"), "mara", now); err == nil {
		t.Error("promoted nonsense")
	}
	for name, doc := range map[string]string{
		"a draft": draft(t), "nothing": "", "plain": change(t, `"mara.lind@example.org"`, "mara"),
		"another order": change(t, "approved_by: \"mara.lind@example.org\"\n", "") + "approved_by: 'mara'\n",
		"another place": changeIn(t, change(t, "approved_by: \"mara.lind@example.org\"\n", ""), "purpose:", "approved_by: 'mara'\npurpose:"),
	} {
		if got, err := threegate.Demote([]byte(doc)); err == nil {
			t.Errorf("%s: demoted to\n%s", name, got)
		}
	}
}

// drawnDraft draws a valid draft.
func drawnDraft(t *rapid.T) string {
	doc := draft(t)
	if rapid.Bool().Draw(t, "bare") {
		doc = strings.Replace(doc, "\"core_draft\"", "human   # a comment", 1)
	}
	lines := rapid.SampledFrom(openings).Draw(t, "opening").open
	before := rapid.SampledFrom([]string{"request_type", "requested_by", "purpose", "inputs", "constraints"}).Draw(t, "before")
	doc = strings.Replace(doc, "\n"+before+":", "\n"+lines+before+":", 1)
	words := rapid.StringMatching(`[a-zäß][a-zäß ,]{0,60}`).Draw(t, "words")
	return strings.Replace(doc, why, "x "+strings.TrimSpace(words), 1)
}

// TestPromotion: a promoted draft is valid, differs from the draft in the two
// lines of its approval only, and tells which draft it was.
func TestPromotion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draft := drawnDraft(t)
		name := rapid.StringMatching(`[a-zé]{3,12}\.[0-9a-z]{1,9}('[a-z]{1,5})?(@[a-z]{1,9}\.org)?( \(x[^'"\\<>{}|\x00-\x1f\x7f]{0,9}x\))?`).Draw(t, "name")
		promoted, err := threegate.Promote([]byte(draft), name, now)
		if err != nil {
			return // names that the rules refuse; TestPromote has those that they do not
		}
		report := threegate.Judge(promoted, now)
		if !report.Valid || report.Request.ApprovedBy != name || !report.Request.ApprovedUTC.Equal(now) {
			t.Fatalf("promoted: %v", report.Violations)
		}
		left := map[string]int{}
		for line := range strings.Lines(draft) {
			left[line]++
		}
		added := 0
		for line := range strings.Lines(string(promoted)) {
			if left[line]--; left[line] < 0 {
				added++
				if !strings.HasPrefix(line, "approved_") {
					t.Fatalf("promotion changed the line %q", line)
				}
			}
		}
		if added != 2 {
			t.Fatalf("promotion changed %d lines", added)
		}
		back, err := threegate.Demote(promoted)
		if err != nil || string(back) != draft {
			t.Fatalf("demoted with %v:\n%s", err, back)
		}
	})
}
