package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// An agent may name any ticket: what the tracker says of one that does not cover
// its call is not for it to read.
func TestTicketOnTheWire(t *testing.T) {
	link := approval.Ticket{System: "jira", Ref: "PAY-12"}
	found := approval.Ticket{System: "jira", Ref: "PAY-12", Title: "Refund", Project: "PAY", State: "Open", URL: "https://acme.example/PAY-12"}
	rejected := found
	rejected.Code, rejected.Message = "ticket_other_project", "No."
	fact := func(seq int64, edition int, kind approval.FactKind, t approval.Ticket) approval.Fact {
		return approval.Fact{Seq: seq, Edition: edition, Kind: kind, Details: approval.Details{Ticket: &t}}
	}
	agent, person := access.Principal{Kind: access.AgentKey}, access.Principal{}
	attached, shown := Ticket{System: "jira", Ref: "PAY-12"}, Ticket{System: "jira", Ref: "PAY-12", Title: "Refund", State: "Open", URL: "https://acme.example/PAY-12", Checked: true}
	withheld, whole := Ticket{System: "jira", Ref: "PAY-12", Code: "ticket_other_project", Message: "No.", Checked: true}, shown
	whole.Code, whole.Message = "ticket_other_project", "No."
	for what, tc := range map[string]struct {
		facts         []approval.Fact
		agent, person *Ticket
	}{
		"none":               {nil, nil, nil},
		"attached":           {[]approval.Fact{fact(1, 2, approval.TicketLink, link)}, &attached, &attached},
		"good":               {[]approval.Fact{fact(1, 2, approval.TicketLink, link), fact(2, 2, approval.TicketCheck, found)}, &shown, &shown},
		"rejected":           {[]approval.Fact{fact(1, 2, approval.TicketLink, link), fact(2, 2, approval.TicketCheck, rejected)}, &withheld, &whole},
		"another after it":   {[]approval.Fact{fact(1, 2, approval.TicketLink, link), fact(2, 2, approval.TicketCheck, rejected), fact(3, 2, approval.TicketLink, link)}, &attached, &attached},
		"a former edition's": {[]approval.Fact{fact(1, 1, approval.TicketLink, link), fact(2, 1, approval.TicketCheck, found)}, nil, nil},
	} {
		a := approval.Approval{Plan: approval.Plan{Edition: 2}, Facts: tc.facts}
		for _, side := range []struct {
			who  access.Principal
			want *Ticket
		}{{agent, tc.agent}, {person, tc.person}} {
			got := wireTicket(side.who, a)
			if (got == nil) != (side.want == nil) || got != nil && *got != *side.want {
				t.Errorf("%s, %q: %+v, want %+v", what, side.who.Kind, got, side.want)
			}
		}
	}
}

// Whoever may read an approval reads all that its caller said beside the document.
func TestCircumstancesOnTheWire(t *testing.T) {
	var a approval.Approval
	for field, value := range reflect.ValueOf(&a.Circumstances).Elem().Fields() {
		switch text := value.Addr().Interface().(type) {
		case *string:
			*text = "the " + field.Name
		case *map[string]string:
			*text = map[string]string{"a": "the " + field.Name}
		default:
			t.Fatalf("this test cannot fill in %s", field.Name)
		}
		wire, err := json.Marshal((&API{}).wire(access.Principal{Kind: access.AgentKey}, gate.View{Approval: a}))
		if err != nil || !strings.Contains(string(wire), "the "+field.Name) {
			t.Errorf("%s is missing: %s, %v", field.Name, wire, err)
		}
	}
}

// While an approval is pending there is something to do, and be it to wait: a caller
// who reads that there is nothing goes away.
func TestNextActionWhilePending(t *testing.T) {
	pending := approval.Approval{Status: approval.Pending}
	for _, kind := range engine.Kinds() {
		pending.Plan.Requirements = []engine.Requirement{{Kind: kind}}
		for _, who := range []access.Principal{{Kind: access.AgentKey}, {Kind: access.RuntimeKey}, {Kind: access.AdminKey}, {}} {
			for _, reached := range []approval.Status{approval.Pending, approval.Approved, approval.Denied, approval.Expired, approval.Cancelled} {
				for _, question := range []*approval.Fact{nil, {Kind: approval.Question}} {
					pending.State = approval.State{Status: reached, Question: question}
					got := nextAction(who, pending)
					if got == "none" || got == "" || reached.Terminal() && got != "wait" {
						t.Errorf("%s, %q, facts say %s: %s", kind, who.Kind, reached, got)
					}
				}
			}
		}
	}
}
