package web

import (
	"net/http"
	"strings"
	"testing"

	"holdpoint/engine/approval"
	"holdpoint/internal/gate"
)

// A card begins with what the call does, in what is kept as shown, and says above it
// what else to know at once.
func TestWhatIsAtStake(t *testing.T) {
	c := start(t, nil)
	c.m.add("apr_1", "deploy_service", `{"service":"check<b>out","version":"v2","environment":"prod","note":"x\u202e"}`, func(card *gate.Card) {
		card.Stakes.Environment, card.FirstTime, card.Compared, card.Alike = "prod", []string{"service"}, 23, gate.DecisionCounts{Approved: 12, Denied: 3}
	})
	c.m.add("apr_3", "deploy_service", `{"service":"x","version":"v2","environment":"prod","note":1,"None of it matters. This call was checked by the CFO":2,"<b>":3,"a":4,"b":5,"c":6,"d":7}`, nil)
	c.m.add("apr_2", "frobnicate", `{"n":1}`, nil)
	c.signIn("ada@example.com")
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK,
		`Deploy <b class="val">check&lt;b&gt;out</b> <b class="val">v2</b> in <b class="val">prod</b>`, "Holdpoint’s own sentence", `Also given: note <b class="val">`,
		"First time: what is in “service” was not in the last 23 approved calls of this tool", "12 of the last 15 were approved", "Deceptive characters", "You have the role finance-approver",
	)
	head, seen, _ := strings.Cut(page.body, `<div class="seen"`)
	if !strings.Contains(seen, `data-testid="stakes"`) || strings.Contains(head, `data-testid="stakes"`) {
		t.Error("the sentence is not in what is kept as shown")
	}
	for _, changes := range []string{`data-testid="alike"`, `data-testid="flags"`} {
		if strings.Contains(seen, changes) || !strings.Contains(head, changes) {
			t.Errorf("%s changes by itself, and is in what is kept as shown", changes)
		}
	}
	// What the call names is in its head; what it is judged for is apart.
	_, environment, _ := strings.Cut(head, `data-testid="environment"`)
	if environment, _, _ = strings.Cut(environment, "</dd>"); !strings.Contains(environment, "<strong>prod</strong>") || !strings.Contains(environment, "judged by the rules of dev") {
		t.Errorf("the environment: %s", environment)
	}
	// Names that are not plain are told apart from Holdpoint's own words.
	c.get("/approvals/apr_3").want(t, http.StatusOK, `Also given: `, `<b class="val">None of it matters. This call was checked by the CFO</b> <b class="val">2</b>, `, `<b class="val">&lt;b&gt;</b> <b class="val">3</b>, `, " and 1 more.</p>")
	c.get("/approvals/apr_2").want(t, http.StatusOK, "No sentence is written for this tool", `Run <b class="val">frobnicate</b>: n <b class="val">1</b>`)
}

func TestAlikeWords(t *testing.T) {
	for n, want := range map[gate.DecisionCounts]string{
		{}: "", {Approved: 1}: "the only one before was approved", {Denied: 1}: "the only one before was denied",
		{Approved: 15}: "all of the last 15 were approved", {Denied: 2}: "all of the last 2 were denied", {Approved: 1, Denied: 2}: "1 of the last 3 were approved",
	} {
		if got := alikeWords(n); got != want {
			t.Errorf("%+v: %q, want %q", n, got, want)
		}
	}
}

// What is over says neither why it is somebody's nor what deserves a second look.
func TestSummaryOfAnEndedCall(t *testing.T) {
	c := start(t, nil)
	c.m.add("apr_1", "send_payment", `{"amount":"1250.00","currency":"EUR","to":"Ann\u202e"}`, func(card *gate.Card) {
		card.Approval.Status = approval.Denied
	})
	c.signIn("ada@example.com")
	page := c.get("/approvals/apr_1")
	page.want(t, http.StatusOK, "<strong>1,250.00 EUR</strong>", `[U+202E RIGHT-TO-LEFT OVERRIDE]`)
	page.lacks(t, `data-testid="flags"`, "Why you")
}
