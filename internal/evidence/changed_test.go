package evidence_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/evidence"
	"holdpoint/internal/gate"
)

// TestErasedRecord: what is gone is said to be gone, and the proof stands.
func TestErasedRecord(t *testing.T) {
	h := newHarness(t)
	a := h.open("pay", `{"to":"canary-argument"}`)
	h.look("ada", a.ID)
	h.vote("ada", a, false, "no canary")
	h.settle(a.ID)
	h.db.Exec(`UPDATE retention_floor SET shortest = interval '0'`)
	must(t, second(h.Retention.Erase(context.Background(), access.PersonInitiator(h.people["owner"], "cli", ""), admin.EraseRequest{ApprovalID: a.ID, Reason: "asked for"}, nil)))
	pack := h.pack(evidence.Request{ApprovalID: a.ID})
	wrong, d := h.verify(pack)
	if len(wrong) > 0 || d.Cards != 0 || d.NoCards != 1 || d.Bound+d.Unbound != 0 || d.NoArguments != 1 || d.Comments != 0 || d.NoComments != 1 {
		t.Errorf("wrong %q, disclosed %+v", wrong, d)
	}
	for _, gone := range []string{"canary-argument", "no canary", a.Call.Digest} {
		if strings.Contains(pack, gone) {
			t.Errorf("the pack has %q, which was erased", gone)
		}
	}
	text := shownText(t, pack)
	for _, want := range []string{"The arguments have been erased", "It has been erased. The log keeps its digest.", "What they wrote has been erased", "What the approval was about, and what was said of it, was erased."} {
		if !strings.Contains(text, want) {
			t.Errorf("the pack does not say %q", want)
		}
	}
}

// TestDamagedRecord: what was changed in the database is not passed off as what was.
func TestDamagedRecord(t *testing.T) {
	h := newHarness(t)
	a := h.open("pay", `{"amount":1}`)
	h.vote("ada", a, false, "the true words")
	h.settle(a.ID)
	h.db.Exec(`ALTER TABLE facts DISABLE TRIGGER USER`)
	h.db.Exec(`UPDATE facts SET comment = 'other words' WHERE approval_id = $1 AND comment <> ''`, a.ID)
	pack := h.pack(evidence.Request{ApprovalID: a.ID})
	wrong, d := h.verify(pack)
	if len(wrong) != 1 || !strings.Contains(wrong[0], "was changed before the pack was made: the comment of fact") || d.Comments != 0 || d.NoComments != 0 {
		t.Errorf("wrong %q, disclosed %+v", wrong, d)
	}
	if !strings.Contains(shownText(t, pack), "the record was changed") {
		t.Error("the pack does not say that the words were changed")
	}
}

// TestChangedRecord: a pack whose pages tell otherwise than the log is no good, and
// says what was changed.
func TestChangedRecord(t *testing.T) {
	h := newHarness(t)
	a := h.open("pay", `{"amount":1}`)
	h.look("ada", a.ID)
	less, err := canon.Parse([]byte(`{"amount":0}`))
	must(t, err)
	a, err = h.Contributions.Edit(t.Context(), gate.EditRequest{
		Contribution: gate.Contribution{Person: h.people["ben"], ApprovalID: a.ID, Comment: "less", Channel: "console"}, Arguments: less, Digest: a.Call.Digest, Version: a.Version,
	}, nil)
	must(t, err)
	h.look("ada", a.ID)
	h.vote("ada", a, false, "the true words")
	h.settle(a.ID)
	h.db.Agent("other", "Other", h.people["owner"])
	const swapped = `UPDATE cards c SET sealed = o.sealed, sealed_key = o.sealed_key FROM cards o WHERE c.approval_id = $1 AND o.approval_id = $1 AND o.digest <> c.digest`
	const sealedSwapped = `WITH a AS (SELECT sealed, sealed_key FROM approvals WHERE id = $1), f AS (SELECT sealed, sealed_key FROM former_documents WHERE approval_id = $1),
		x AS (UPDATE former_documents SET (sealed, sealed_key) = (SELECT sealed, sealed_key FROM a) WHERE approval_id = $1)
		UPDATE approvals SET (sealed, sealed_key) = (SELECT sealed, sealed_key FROM f) WHERE id = $1`
	sound := func() {
		t.Helper()
		if wrong, d := h.verify(h.pack(evidence.Request{ApprovalID: a.ID})); len(wrong) > 0 || d.Cards != 2 {
			t.Errorf("as it is: wrong %q, disclosed %+v", wrong, d)
		}
	}
	sound()
	for name, test := range map[string]struct{ change, undo, want string }{
		"a vote": {
			`UPDATE facts SET yes = true, denial = '' WHERE approval_id = $1 AND kind = 'vote'`,
			`UPDATE facts SET yes = false, denial = 'wrong_args' WHERE approval_id = $1 AND kind = 'vote'`, ": fact ",
		},
		"who voted": {
			`UPDATE facts SET channel = 'engine' WHERE approval_id = $1 AND kind = 'vote'`,
			`UPDATE facts SET channel = 'console' WHERE approval_id = $1 AND kind = 'vote'`, ": fact ",
		},
		"a vote that is gone": {
			`UPDATE facts SET approval_id = approval_id || 'x' WHERE approval_id = $1`,
			`UPDATE facts SET approval_id = $1 WHERE approval_id = $1 || 'x'`, ": fact ",
		},
		"the end": {
			`UPDATE approvals SET status = 'approved' WHERE id = $1`,
			`UPDATE approvals SET status = 'denied' WHERE id = $1`, ": end ",
		},
		"the call": {
			`UPDATE approvals SET digest = 'sha256:' || repeat('0', 64) WHERE id = $1`,
			`UPDATE approvals SET digest = '` + a.Call.Digest + `' WHERE id = $1`, ": arguments ",
		},
		"a card": {
			swapped, swapped, ": the card sha256:",
		},
		"whose call it is": {
			`UPDATE approvals SET agent_id = 'other' WHERE id = $1`,
			`UPDATE approvals SET agent_id = 'bot' WHERE id = $1`, ": whose call ",
		},
		"how many were asked": {
			`UPDATE approvals SET requirements = jsonb_set(requirements, '{0,needed}', '1') WHERE id = $1`,
			`UPDATE approvals SET requirements = jsonb_set(requirements, '{0,needed}', '2') WHERE id = $1`, ": what was asked ",
		},
		"who could not decide": {
			`UPDATE approvals SET excluded = excluded || 'idn_x'::text WHERE id = $1`,
			`UPDATE approvals SET excluded = array_remove(excluded, 'idn_x') WHERE id = $1`, ": what was asked ",
		},
		"why it ended": {
			`UPDATE approvals SET reasons = jsonb_set(reasons, '{0,message}', to_jsonb('x' || (reasons #>> '{0,message}'))) WHERE id = $1`,
			`UPDATE approvals SET reasons = jsonb_set(reasons, '{0,message}', to_jsonb(substr(reasons #>> '{0,message}', 2))) WHERE id = $1`, ": end ",
		},
		"when it ended": {
			`UPDATE approvals SET ended_at = ended_at - interval '1 hour' WHERE id = $1`,
			`UPDATE approvals SET ended_at = ended_at + interval '1 hour' WHERE id = $1`, ": end ",
		},
		"when it was asked": {
			`UPDATE approvals SET opened_at = opened_at - interval '1 hour' WHERE id = $1`,
			`UPDATE approvals SET opened_at = opened_at + interval '1 hour' WHERE id = $1`, ": end ",
		},
		"what was sealed of the call": {
			sealedSwapped, sealedSwapped, ": arguments ",
		},
		"the rules": {
			`ALTER TABLE rulesets DROP CONSTRAINT rulesets_check; UPDATE rulesets SET body = convert_to(replace(convert_from(body, 'UTF8'), '"needed":2', '"needed":3'), 'UTF8')`,
			`UPDATE rulesets SET body = convert_to(replace(convert_from(body, 'UTF8'), '"needed":3', '"needed":2'), 'UTF8')`, ": the text of the rules sha256:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(sql string) {
				h.db.Exec(`SET session_replication_role = replica; ` + strings.ReplaceAll(sql, "$1", "'"+a.ID+"'"))
			}
			change(test.change)
			pack := h.pack(evidence.Request{ApprovalID: a.ID})
			wrong, d := h.verify(pack)
			change(test.undo)
			sound()
			if !strings.Contains(shownText(t, pack), "the record was changed") && !strings.Contains(shownText(t, pack), "The record was changed") && !strings.Contains(shownText(t, pack), "is not what was on the screen") {
				t.Error("the pages do not say so")
			}
			kept := slices.DeleteFunc(strings.SplitAfter(pack, "\n"), func(line string) bool { return strings.Contains(line, `"changed":true}`) })
			if wrong, _ := h.verify(strings.ReplaceAll(strings.Join(kept, ""), "},\n]", "}\n]")); !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, "was taken out") }) {
				t.Errorf("without what it says of that: wrong %q", wrong)
			}
			if !slices.ContainsFunc(wrong, func(w string) bool {
				return strings.Contains(w, "was changed before the pack was made"+test.want)
			}) {
				t.Errorf("wrong %q, disclosed %+v", wrong, d)
			}
		})
	}
}

// TestTextsWrittenAfterTheDecision: what people write after the decision is bound to its event, and
// is told for what it is when it was changed or erased.
func TestTextsWrittenAfterTheDecision(t *testing.T) {
	h := newHarness(t)
	ctx := context.Background()
	fay := h.people["cleo"]
	fay.Roles, fay.VerifiedBy, fay.VerifiedAt = []string{"reviewer", approval.BreakGlassRole}, "totp", time.Now()
	says := func(p engine.Person, id, comment string) gate.Contribution {
		return gate.Contribution{Person: p, ApprovalID: id, Comment: comment, Channel: "console"}
	}
	h.db.Exec(`UPDATE people SET roles = $2 WHERE id = $1`, fay.ID, fay.Roles)
	a := h.open("pay", `{"amount":1}`)
	must(t, second(h.Contributions.BreakGlass(ctx, says(fay, a.ID, "fire"), true, a.Call.Digest, a.Version, nil)))
	h.settle(a.ID)
	v, err := h.Queries.ForAgent(ctx, h.agent, a.ID)
	must(t, err)
	args, err := canon.Parse([]byte(`{"amount":1}`))
	must(t, err)
	must(t, second(h.Redeem(ctx, h.agent, gate.RedeemRequest{Token: v.Token, Tool: "pay", Arguments: args}, nil)))
	must(t, second(h.Executed(ctx, h.agent, gate.ExecutionRequest{ApprovalID: a.ID, Outcome: approval.Unknown}, nil)))
	must(t, second(h.Contributions.ReviewBreakGlass(ctx, says(h.people["ben"], a.ID, "there was no fire"), false, nil)))
	must(t, second(h.Contributions.Reconcile(ctx, says(h.people["owner"], a.ID, "the ledger has it"), approval.Succeeded, nil)))

	pack := h.pack(evidence.Request{ApprovalID: a.ID})
	wrong, d := h.verify(pack)
	if text := shownText(t, pack); len(wrong) > 0 || d.Comments != 3 || d.NoComments != 0 || !strings.Contains(text, "there was no fire") || !strings.Contains(text, "the ledger has it") {
		t.Errorf("wrong %q, disclosed %+v in\n%s", wrong, d, text)
	}
	last := strings.LastIndex(pack, `"kind":"comment"`)
	place := regexp.MustCompile(`"seq":[0-9]+`)
	for name, tc := range map[string]struct{ item, want string }{
		"the words": {strings.Replace(pack[last:], `"text":"`, `"text":"Now `, 1), "is another one"},
		"the event": {place.ReplaceAllString(pack[last:], `"seq":1`), "does not name it"},
		"a fact":    {place.ReplaceAllString(pack[last:], `"fact":1`), "does not name it"},
	} {
		if wrong, _ := h.verify(pack[:last] + tc.item); tc.item == pack[last:] || !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, tc.want) }) {
			t.Errorf("another %s: %q", name, wrong)
		}
	}

	for name, c := range map[string]struct{ change, undo string }{
		"what became of it":  {`UPDATE approvals SET execution = 'failed'`, `UPDATE approvals SET execution = 'succeeded'`},
		"who found it out":   {`UPDATE reconciliations SET person_id = '` + h.people["ada"].ID + `'`, `UPDATE reconciliations SET person_id = '` + h.people["owner"].ID + `'`},
		"that it was needed": {`UPDATE afterwards SET justified = true`, `UPDATE afterwards SET justified = false`},
	} {
		h.db.Exec(`SET session_replication_role = replica; ` + c.change)
		wrong, _ := h.verify(h.pack(evidence.Request{ApprovalID: a.ID}))
		h.db.Exec(`SET session_replication_role = replica; ` + c.undo)
		if len(wrong) != 1 || !strings.Contains(wrong[0], "was changed before the pack was made: what became of the call is not what the log has") {
			t.Errorf("%s: wrong %q", name, wrong)
		}
	}

	h.db.Exec(`ALTER TABLE afterwards DISABLE TRIGGER USER`)
	h.db.Exec(`UPDATE afterwards SET comment = 'there was a fire' WHERE approval_id = $1`, a.ID)
	h.db.Exec(`ALTER TABLE afterwards ENABLE TRIGGER USER`)
	changed := h.pack(evidence.Request{ApprovalID: a.ID})
	if wrong, d := h.verify(changed); len(wrong) != 1 || !strings.Contains(wrong[0], "was changed before the pack was made: the comment of event") || d.Comments != 2 || d.NoComments != 0 || !strings.Contains(shownText(t, changed), "the record was changed") {
		t.Errorf("changed: wrong %q, disclosed %+v", wrong, d)
	}

	h.db.Exec(`UPDATE retention_floor SET shortest = interval '0'`)
	must(t, second(h.Retention.Erase(ctx, access.PersonInitiator(h.people["owner"], "cli", ""), admin.EraseRequest{ApprovalID: a.ID, Reason: "asked for"}, nil)))
	erased := h.pack(evidence.Request{ApprovalID: a.ID})
	if wrong, d := h.verify(erased); len(wrong) > 0 || d.Comments != 0 || d.NoComments != 3 || strings.Contains(erased, "ledger") {
		t.Errorf("erased: wrong %q, disclosed %+v", wrong, d)
	}
}
