package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
	"holdpoint/internal/store"
)

// secretCall is a call with what looks like secrets, found by its looks, by its name, and
// by the name beside it.
const secretCall = `{"amount":1,"env":[{"name":"API_KEY","value":"kw7Fq2Lm9Xz4Rt8Vb3Nc6Pd1"},{"name":"LEVEL","value":"info"}],"note":"use ghp_16C7e42F292c6912E7710c838347Ae178B4a now","password":"hunter2x","to":"Ann"}`

// TestSecretsAreMasked: what looks like a secret is masked on a card until somebody asks
// for it, which goes on record each time, and before they approve. A no takes no look.
func TestSecretsAreMasked(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 2))
	ctx := context.Background()
	a := h.open(callOf("pay", secretCall))
	look := func(who string, look gate.Display) gate.Card {
		t.Helper()
		c, err := h.Queries.Card(ctx, h.people[who], a.ID, look)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := look("ada", gate.Excerpt)
	masked := string(c.Concealed().Arguments)
	for _, secret := range []string{"kw7F", "ghp_", "hunter2x"} {
		if strings.Contains(masked, secret) || strings.Contains(string(c.Concealed().Document), secret) {
			t.Errorf("%s is not masked in %s", secret, masked)
		}
	}
	for _, plain := range []string{`"amount":1`, `"info"`, "use ", " now", `"Ann"`} {
		if !strings.Contains(masked, plain) {
			t.Errorf("%s is masked in %s", plain, masked)
		}
	}
	limits := h.open(callOf("ask_model", `{"max_tokens":500,"password_required":true}`))
	if c, err := h.Queries.Card(ctx, h.people["ada"], limits.ID, gate.Excerpt); err != nil || c.Masked != nil {
		t.Errorf("a number of tokens is masked: %+v, %v", c.Masked, err)
	}
	if want := []string{"env[0].value", "note", "password"}; !slices.Equal(c.Masked.Places, want) {
		t.Errorf("they are at %q", c.Masked.Places)
	}
	if string(c.Arguments) != secretCall || c.Shown || look("ada", gate.Full).Shown {
		t.Errorf("a masked look is one at all of %s", c.Arguments)
	}
	if got := code(h.vote("ada", a, true)); got != "arguments_not_shown" {
		t.Errorf("a yes without a look at them: %q", got)
	}
	for range 2 {
		c = look("ada", gate.Revealed)
		seen := gate.SeenCard{Approval: c.Approval, Card: []byte(audit.Card{ApprovalID: a.ID, Edition: c.Approval.Plan.Edition, CallDigest: c.Approval.Call.Digest, Salt: c.Salt}.Open() + "x" + audit.CardEnd), Revealed: true}
		if err := h.Queries.Show(ctx, h.people["ada"], "console", seen); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Shown || !look("ada", gate.Excerpt).Shown {
		t.Error("who has revealed them has not been shown all of it")
	}
	events, err := h.Events(ctx, store.EventFilter{ApprovalID: a.ID}, 100)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Type == engine.Shown && slices.ContainsFunc(e.Reasons, func(r engine.Reason) bool { return r.Code == gate.CodeRevealed }) {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d of 2 are on record", n)
	}
	// It counts for whom it was done, and for the call as it was.
	if got := code(h.vote("ada", a, true)); got != "" {
		t.Errorf("a yes after a look: %q", got)
	}
	if got := code(h.vote("ben", a, true)); got != "arguments_not_shown" {
		t.Errorf("somebody else's yes: %q", got)
	}
	if got := code(h.vote("ben", a, false)); got != "" {
		t.Errorf("a no: %q", got)
	}
	b := h.open(callOf("pay", `{"amount":1,"page_count":"3","to":"Ann"}`))
	if c := h.card("ada", b.ID); c.Masked != nil || string(c.Concealed().Arguments) != string(c.Arguments) {
		t.Errorf("a call without secrets: %+v", c.Masked)
	}
	if got := code(h.vote("ada", b, true)); got != "" {
		t.Errorf("a call without secrets: %q", got)
	}
}

// TestSecretsOfEveryShape: a name that says secret masks whatever it stands for, on the
// card as in the sentence, in the arguments as in the document that has them again.
func TestSecretsOfEveryShape(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	for args, secrets := range map[string][]string{
		`{"password":48392017}`: {"48392017"},
		`{"credentials":{"user":"bob","value":"hunter2x"},"to":"Ann"}`:     {"hunter2x"},
		`{"secret":{"data":["correct-horse",7719]}}`:                       {"correct-horse", "7719"},
		`{"pwd":"Tr0ub4dor&3","user":"svc"}`:                               {"Tr0ub4dor"},
		`{"name":"DB_PASSWORD","value":"hunter2x"}`:                        {"hunter2x"},
		`{"amount":5,"settings":{"api_key":{"current":"abcd-efgh-ijkl"}}}`: {"abcd-efgh"},
	} {
		a := h.open(callOf("db_login", args))
		c, err := h.Queries.Card(context.Background(), h.people["ada"], a.ID, gate.Excerpt)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			for where, text := range map[string]string{"arguments": string(c.Concealed().Arguments), "document": string(c.Concealed().Document), "sentence": c.Stakes.Sentence.String()} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s is in the %s: %s", args, secret, where, text)
				}
			}
		}
		if got := code(h.vote("ada", a, true)); got != "arguments_not_shown" {
			t.Errorf("%s: a yes without a look: %q", args, got)
		}
	}
}

// TestWhatIsMaskedIsNotEditedUnseen: whoever changes a call's arguments has been shown
// them, by whatever way the edit comes.
func TestWhatIsMaskedIsNotEditedUnseen(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	a := h.open(callOf("pay", secretCall))
	const other = `{"amount":2,"password":"hunter2y","to":"Ann"}`
	if _, err := h.edit("ada", a, other); code(err) != "arguments_not_shown" {
		t.Errorf("an edit without a look at them: %v", err)
	}
	if got := h.get(a.ID).Approval; got.Call.Digest != a.Call.Digest || len(got.Facts) != 0 {
		t.Errorf("what was refused is on the approval: %+v", got.Facts)
	}
	if _, err := h.Queries.Card(context.Background(), h.people["ada"], a.ID, gate.Revealed); err != nil {
		t.Fatal(err)
	}
	if _, err := h.edit("ada", a, other); err != nil {
		t.Errorf("an edit after a look: %v", err)
	}
}

// TestWhatCannotBeReadHasACard: it says so, takes no yes, and goes on to take a no; it
// takes no other card away.
func TestWhatCannotBeReadHasACard(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	good, bad, withdrawn := h.open(callOf("pay", `{"amount":5,"to":"Ann"}`)), h.open(callOf("pay", `{"amount":6,"to":"Bob"}`)), h.open(callOf("pay", `{"amount":7,"to":"Cid"}`))
	if err := h.vote("ada", good, true); err != nil {
		t.Fatal(err)
	}
	h.settle(good.ID)
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET sealed = substring(sealed FROM 2)`)
	h.db.Exec(`ALTER TABLE approvals ENABLE TRIGGER approvals_guard`)
	for _, id := range []string{good.ID, bad.ID, withdrawn.ID} {
		if c := h.card("ben", id); !c.Unreadable || c.Arguments != nil || c.Document != nil || c.Masked != nil || len(c.Timeline) == 0 {
			t.Errorf("the card of %s: %+v", id, c)
		}
	}
	if got := code(h.vote("ben", bad, true)); got != "arguments_unreadable" {
		t.Errorf("a yes: %q", got)
	}
	if got := code(h.vote("ben", bad, false)); got != "" {
		t.Errorf("a no: %q", got)
	}
	if h.settle(bad.ID); h.get(bad.ID).Approval.Status != approval.Denied {
		t.Error("it is not denied")
	}
	if _, err := h.Contributions.Cancel(context.Background(), h.agent, withdrawn.ID, "", nil); err != nil {
		t.Errorf("its agent withdraws it: %v", err)
	}
	// A former call that cannot be read is not compared with.
	fresh := h.open(callOf("pay", `{"amount":8,"to":"Ann"}`))
	if c := h.card("ben", fresh.ID); c.Unreadable || string(c.Arguments) != `{"amount":8,"to":"Ann"}` {
		t.Errorf("a call beside it: %+v", c)
	}
}

// TestLastSimilarCall: the last approved one of the same agent and tool that can be
// read, by who may read it, without what looks like a secret.
func TestLastSimilarCall(t *testing.T) {
	h := newHarness(t, routing(time.Hour, 1))
	decided := func(doc string, yes bool) approval.Approval {
		a := h.open(doc)
		if _, err := h.Queries.Card(context.Background(), h.people["ada"], a.ID, gate.Revealed); err != nil {
			t.Fatal(err)
		}
		if err := h.vote("ada", a, yes); err != nil {
			t.Fatal(err)
		}
		h.settle(a.ID)
		return a
	}
	last := func(who string) *gate.SimilarCall {
		return h.card(who, h.open(another(callOf("pay", `{"amount":9}`))).ID).LastAlike
	}
	if got := last("ada"); got != nil {
		t.Errorf("before any: %+v", got)
	}
	first := decided(callOf("pay", `{"amount":1,"password":"hunter2x"}`), true)
	second := decided(callOf("pay", `{"amount":2}`), true)
	decided(callOf("pay", `{"amount":3}`), false)
	decided(callOf("other", `{"amount":4}`), true)
	if got := last("ada"); got == nil || got.ID != second.ID || string(got.Arguments) != `{"amount":2}` || got.At.IsZero() {
		t.Errorf("the last one: %+v", got)
	}
	h.db.Exec(`ALTER TABLE approvals DISABLE TRIGGER approvals_guard`)
	h.db.Exec(`UPDATE approvals SET sealed = substring(sealed FROM 2) WHERE id = $1`, second.ID)
	if got := last("ada"); got == nil || got.ID != first.ID || string(got.Arguments) != `{"amount":1,"password":"••••••••"}` {
		t.Errorf("where the last one cannot be read: %+v", got)
	}
	h.db.Exec(`UPDATE approvals SET requirements = replace(requirements::text, 'reviewer', 'nobody')::jsonb WHERE id = $1`, first.ID)
	if got := last("ada"); got != nil {
		t.Errorf("one that is somebody else's to read: %+v", got)
	}
}
