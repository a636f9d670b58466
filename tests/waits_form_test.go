package tests

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// TestSupplied: what a rule asks for is supplied by the runtime, or by a person
// over the API or the page of it; then the call goes on.
func TestSupplied(t *testing.T) {
	d := onWaiting(t)
	agent, runtime := d.agent(t), d.runtime(t)
	good, bad := map[string]any{"cost_center": "4711"}, map[string]any{"cost_center": "47"}
	first := agent.checked("order", map[string]any{"n": 1})
	if r := first.Requirements[0]; r.Kind != "answer" {
		t.Fatalf("got %+v", first.Requirements)
	}
	d.reviewer(t, ada).vote(first, "approve").want(t, 403, "not_eligible") // a yes supplies nothing
	agent.act(first.ID, "answers", map[string]any{"confirmed": true, "values": good}).want(t, 403, "agent_cannot_confirm")
	runtime.act(first.ID, "answers", map[string]any{"confirmed": true}).want(t, 422, "values_missing")
	runtime.act(first.ID, "answers", map[string]any{"confirmed": true, "values": bad}).want(t, 422, "values_invalid")
	runtime.act(first.ID, "answers", map[string]any{"confirmed": true, "values": good}).want(t, 200)
	runtime.act(first.ID, "answers", map[string]any{"confirmed": true, "values": good}).want(t, 409, "nothing_to_answer")

	second := agent.checked("order", map[string]any{"n": 2})
	agent.act(second.ID, "values", seen(second, map[string]any{"values": good})).want(t, 403, "machine_principal")
	d.reviewer(t, ada).act(second.ID, "values", seen(second, map[string]any{"values": bad})).want(t, 422, "values_invalid")
	d.reviewer(t, ada).act(second.ID, "values", seen(second, map[string]any{"values": good})).want(t, 200)

	third := agent.checked("order", map[string]any{"n": 3})
	page := "/approvals/" + third.ID + "/answer"
	if got := string(d.reviewer(t, ada).do("GET", page, nil).want(t, 200).Body); !strings.Contains(got, `name="argument:cost_center"`) {
		t.Errorf("the page has no field: %s", got)
	}
	form := url.Values{"digest": {third.Digest}, "version": {strconv.Itoa(third.Version)}, "argument:cost_center": {"47"}}
	if got := string(d.reviewer(t, ada).do("POST", page, form).want(t, 422).Body); !strings.Contains(got, "Has fewer than 4 characters") {
		t.Errorf("what is wrong is not said: %s", got)
	}
	form.Set("argument:cost_center", "4711")
	d.reviewer(t, ada).do("POST", page, form).want(t, http.StatusSeeOther)

	for _, a := range []approval{first, second, third} {
		if got := string(d.reviewer(t, ben).do("GET", "/approvals/"+a.ID, nil).want(t, 200).Body); !strings.Contains(got, "What was supplied") || !strings.Contains(got, "4711") {
			t.Errorf("the card of %s does not show what was supplied", a.ID)
		}
		d.reviewer(t, ben).approve(a)
		if got := agent.wait(a.ID); got.Status != "approved" {
			t.Errorf("got %+v", got)
		}
	}
}

// TestBulkOfSession: the calls of a session are decided on one page, each for
// itself.
func TestBulkOfSession(t *testing.T) {
	d := onWaiting(t)
	agent, session := d.agent(t), newID("session ")
	calls := make([]approval, 3)
	form := url.Values{"kind": {"not_now"}, "comment": {"together"}}
	for i := range calls {
		calls[i] = agent.checked("pay", map[string]any{"amount": i + 1, "round": session}, header{"Holdpoint-Session", session})
		id := calls[i].ID
		form.Add("id", id)
		form.Set("digest:"+id, calls[i].Digest)
		form.Set("version:"+id, strconv.Itoa(calls[i].Version))
		form.Set("decision:"+id, []string{"approve", "deny", "leave"}[i])
	}
	page := "/sessions/" + "demo-agent" + "/" + url.PathEscape(session)
	if got := string(d.reviewer(t, ada).do("GET", page, nil).want(t, 200).Body); strings.Count(got, `name="id"`) != len(calls) {
		t.Errorf("the page of the session has other calls: %s", got)
	}
	d.reviewer(t, ada).do("POST", page+"/votes", form).want(t, 200)
	for i, want := range []string{"approved", "denied"} {
		if got := agent.wait(calls[i].ID); got.Status != want {
			t.Errorf("call %d: %s, want %s", i, got.Status, want)
		}
	}
	if got := agent.get(calls[2].ID); got.Status != "pending" || got.Requirements[0].Given != 0 {
		t.Errorf("the one that was left: %+v", got)
	}
	agent.cancel(calls[2].ID).want(t, 200)
}
