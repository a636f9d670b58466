package tracker

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	request := time.Date(2026, 3, 4, 12, 0, 0, 500_000_000, time.UTC)
	now := request.Add(24 * time.Hour)
	good := Ticket{Ref: "PAY-12", Project: "PAY", State: "Ready", CreatedAt: request.Add(-time.Hour)}
	with := func(change func(*Ticket)) Ticket {
		t := good
		change(&t)
		return t
	}
	at := func(when time.Time) Ticket { return with(func(t *Ticket) { t.CreatedAt = when }) }
	closed := with(func(t *Ticket) { t.Closed = true })
	for what, test := range map[string]struct {
		ticket Ticket
		terms  Terms
		want   Code
	}{
		"no terms":                 {good, Terms{}, ""},
		"all terms":                {good, Terms{[]string{"X", "pay"}, []string{"READY"}, 26 * time.Hour}, ""},
		"closed":                   {closed, Terms{}, TicketClosed},
		"closed before the rest":   {closed, Terms{[]string{"X"}, []string{"Y"}, 1}, TicketClosed},
		"closed, other states":     {closed, Terms{States: []string{"Done"}}, TicketClosed},
		"closed, but named":        {closed, Terms{States: []string{"ready"}}, ""},
		"other project":            {good, Terms{Projects: []string{"PAYX", "PA"}}, TicketOtherProject},
		"no project":               {with(func(t *Ticket) { t.Project = "" }), Terms{Projects: []string{"PAY", ""}}, TicketOtherProject},
		"other state":              {good, Terms{States: []string{"Read"}}, TicketState},
		"no state":                 {with(func(t *Ticket) { t.State = "" }), Terms{States: []string{"", "x"}}, TicketState},
		"no time":                  {at(time.Time{}), Terms{}, TicketTooNew},
		"at the request":           {at(request), Terms{}, TicketTooNew},
		"just after":               {at(request.Add(1)), Terms{}, TicketTooNew},
		"in the future":            {at(now.Add(time.Hour)), Terms{}, TicketTooNew},
		"just before":              {at(request.Add(-1)), Terms{}, ""},
		"within its millisecond":   {at(request.Truncate(time.Millisecond)), Terms{}, TicketTooNew},
		"a millisecond before":     {at(request.Add(-time.Millisecond)), Terms{}, ""},
		"within its second":        {at(request.Truncate(time.Second)), Terms{}, TicketTooNew},
		"a second before that":     {at(request.Truncate(time.Second).Add(-time.Second)), Terms{}, ""},
		"other zone":               {at(request.Add(-time.Hour).In(time.FixedZone("", 7200))), Terms{}, ""},
		"exactly as old as may be": {good, Terms{MaxAge: 25 * time.Hour}, ""},
		"older":                    {good, Terms{MaxAge: 25*time.Hour - 1}, TicketTooOld},
		"a negative age":           {good, Terms{MaxAge: -1}, TicketTooOld},
	} {
		got := Judge(test.ticket, test.terms, request, now)
		if test.want == "" && got != nil || test.want != "" && (got == nil || got.Code != test.want) {
			t.Errorf("%s: %+v, want %q", what, got, test.want)
		}
		if got != nil && (!strings.HasSuffix(got.Message, ".") || strings.Contains(got.Message, ". ")) {
			t.Errorf("%s: %q is not one sentence", what, got.Message)
		}
	}
	if got := Judge(good, Terms{}, time.Time{}, now); got == nil || got.Code != TicketTooNew {
		t.Errorf("no time of request: %+v", got)
	}
}

// A ticket that covers a call under some terms is open or in a named state, was
// there before the call, and covers it under looser terms as well.
func TestJudgeProperties(t *testing.T) {
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return epoch.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "ns")) * rapid.SampledFrom([]time.Duration{1, 1e3}).Draw(t, "by"))
	})
	word := rapid.SampledFrom([]string{"", "a", "A", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		ticket := Ticket{Project: word.Draw(t, "project"), State: word.Draw(t, "state"), Closed: rapid.Bool().Draw(t, "closed"), CreatedAt: moment.Draw(t, "created")}
		terms := Terms{
			Projects: rapid.SliceOfN(word, 0, 3).Draw(t, "projects"), States: rapid.SliceOfN(word, 0, 3).Draw(t, "states"),
			MaxAge: time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "age")),
		}
		request, now := moment.Draw(t, "request"), moment.Draw(t, "now")
		if Judge(ticket, terms, request, now) != nil {
			return
		}
		if !ticket.CreatedAt.Before(request) {
			t.Fatal("covers a call that was there first")
		}
		if ticket.Closed && !contains(terms.States, ticket.State) {
			t.Fatal("covers a call although it is closed")
		}
		looser := terms
		looser.Projects, looser.MaxAge = nil, 0
		if got := Judge(ticket, looser, request, now); got != nil {
			t.Fatalf("looser terms: %+v", got)
		}
	})
}

func TestTermsOr(t *testing.T) {
	own := Terms{[]string{"PAY"}, []string{"Ready"}, time.Hour}
	if got := (Terms{}).Or(own); !reflect.DeepEqual(got, own) {
		t.Errorf("nothing said: %+v", got)
	}
	given := Terms{[]string{"OPS"}, []string{"Open"}, time.Minute}
	if got := given.Or(own); !reflect.DeepEqual(got, given) {
		t.Errorf("everything said: %+v", got)
	}
	want := Terms{[]string{"OPS"}, []string{"Ready"}, time.Hour}
	if got := (Terms{Projects: []string{"OPS"}}).Or(own); !reflect.DeepEqual(got, want) {
		t.Errorf("something said: %+v", got)
	}
}
