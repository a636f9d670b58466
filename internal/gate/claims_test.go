package gate_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/report"
)

// The report counts, agent by agent, whom nothing but a claim excluded, and what comes
// all at once stands out.
func TestClaimsAreReported(t *testing.T) {
	h := newHarness(t, widening(5))
	ada, ben := h.people["ada"], h.people["ben"]
	before := h.open(onBehalfOf(ben.Email))
	middle := h.now()
	for range 3 {
		h.settle(h.open(onBehalfOf(ada.Email)).ID)
	}
	h.open(onBehalfOf(ben.Email + "," + h.people["owner"].Email))
	h.open(another(deferred))
	until := h.now()
	claims := func(since, until time.Time) []report.AgentClaims {
		r, err := h.Reports.Claims(context.Background(), report.ClaimQuery{Since: since, Until: until})
		if err != nil {
			t.Fatal(err)
		}
		return r.Agents
	}
	// The period before is as long, and has the first approval.
	got := claims(middle, until.Add(max(0, middle.Sub(before.Plan.OpenedAt)-until.Sub(middle))+time.Second))
	want := []report.AgentClaims{{
		AgentID: "bot", Name: "bot", Opened: 5, Claimed: 4, Before: 1, Widened: 3, Sudden: true,
		People: []report.ClaimedPerson{{Identity: ada.Identity, Name: "ada", Times: 3, Sudden: true}, {Identity: ben.Identity, Name: "ben", Times: 1, Before: 1}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	page, err := h.Reports.List(context.Background(), report.ClaimsList, report.ListQuery{Since: middle, Until: until.Add(max(0, middle.Sub(before.Plan.OpenedAt)-until.Sub(middle)) + time.Second)})
	var rows []string
	for _, row := range page.Rows {
		rows = append(rows, strings.Join([]string{row["agent"], row["of"], row["person"], row["times"], row["before"], row["opened"], row["widened"], row["sudden"]}, " "))
	}
	if want := []string{"bot all  4 1 5 3 sudden", "bot person ada 3 0   sudden", "bot person ben 1 1   "}; err != nil || !slices.Equal(rows, want) {
		t.Errorf("as rows: %q, want %q, %v", rows, want, err)
	}
	if got := claims(middle.Add(-2*time.Hour), middle.Add(-time.Hour)); len(got) != 0 {
		t.Errorf("of another period: %+v", got)
	}
}
