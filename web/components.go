package web

import (
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/canon"
	"holdpoint/engine/stakes"
	"holdpoint/web/views"
)

// componentHandler shows each component of the console in its states.
type componentHandler struct{ site *site }

func (h *componentHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /components", h.site.signedIn(h.show))
}

// The sample call, as it was and as it is.
const (
	sampleBefore = `{"amount":890,"currency":"EUR","lines":[{"item":"paper","price":40},{"item":"pens","price":850}],"memo":"Invoice 2026-1187","query":"SELECT id FROM invoices WHERE paid = false","to":"Paper & Pens Ltd."}`
	sampleAfter  = `{"amount":1250,"currency":"EUR","lines":[{"item":"paper","price":400},{"item":"pens","price":850}],"memo":"Invoice 2026-1187\nSecond reminder","query":"SELECT id FROM invoices WHERE paid = false","to":"Paper & Pens Ltd."}`
)

func (h *componentHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	frame := h.site.frame(p, "Components", "")
	now := frame.Now
	v := views.Components{
		Frame: frame, Far: now.Add(26 * time.Hour), Soon: now.Add(4 * time.Minute),
		Deceptive: "pay \u202e001 EUR\u202c to pаypal.com\u200b",
		Statuses: []views.Status{
			{Code: "pending", Word: "Waiting"},
			{Code: "settling", Word: "Settling"},
			{Code: "approved", Word: "Approved"},
			{Code: "denied", Word: "Denied"},
			{Code: "expired", Word: "Expired"},
			{Code: "cancelled", Word: "Cancelled"},
			{Code: "active", Word: "Active"},
			{Code: "stopped", Word: "Stopped"},
			{Code: "revoked", Word: "Revoked"},
		},
		Plots: []views.Plot{
			{
				ID: "sample-bars", Title: "Bars", Summary: "Three of something.", Legend: []string{"one part", "another part"},
				Bars:  []views.Bar{{Label: "the most", Value: "90", Parts: []float64{.6, .3}}, {Label: "fewer", Value: "40", Parts: []float64{.3, .1}}, {Label: "too few to tell", Value: "2", Parts: []float64{.02}, Few: true}},
				Table: views.PlotTable{Head: []string{"What", "How many"}, Rows: [][]string{{"the most", "90"}, {"fewer", "40"}, {"too few to tell", "2"}}},
			},
			{
				ID: "sample-lines", Title: "Lines", Summary: "A week of something.", Legend: []string{"half", "nine of ten"},
				Columns: &views.Columns{
					Days: week(now), Lines: [][]float64{{60, 80, 70, -1, 90, 60, 50}, {300, 500, 400, -1, 420, 380, 200}},
					Few: []bool{false, false, true, false, false, false, false}, Steps: views.DurationSteps, Words: func(s float64) string { return axisWords(seconds(s)) },
				},
			},
		},
	}
	for _, o := range engine.Outcomes() {
		v.Outcomes = append(v.Outcomes, outcomeOf(o))
	}
	before, after := sample(sampleBefore), sample(sampleAfter)
	for _, text := range []string{"low", "medium", "high"} {
		v.Sentences = append(v.Sentences, views.Stakes{Sentence: stakes.Writer{}.Write("payments.transfer", after, "["+text+"] Pay {amount} {currency} to {to}."), From: "a sample"})
	}
	v.Rows = sampleRows(now, v.Sentences)
	code := views.JSON([]byte(sampleAfter))
	v.Forms, v.Call.Arguments.Tree = layOut([]byte(sampleAfter), views.NewBudget())
	v.Call.Frame, v.Call.Stages = frame, []views.Stage{{}}
	v.Call.Arguments.Code, v.Call.Warnings = code, views.JSON([]byte(`{"memo":"`+v.Deceptive+`"}`)).Warnings
	v.Call.Sum = views.CallSummary{
		Amount: "1,250.00 EUR", Environment: "prod", Asked: now.Add(-20 * time.Minute), Why: "You are a finance-approver.",
		Flags: []string{"First call for this payee"}, Alike: "12 approved, 1 denied in 30 days",
	}
	v.Call.Changed, v.Call.EditedBy, v.Call.EditedWhy = differences(nil, "", before, after), "Grace", "The reminder says more."
	markWords(v.Call.Changed)
	v.Call.Resembles = []views.Resembling{{Place: "to", Here: "P\u0430per & Pens Ltd.", Known: "Paper & Pens Ltd.", At: now.Add(-48 * time.Hour)}}
	v.Call.Findings = []views.Finding{
		{Message: "Payments above 1,000 EUR wait for two people.", Route: "defer", RouteWord: "waits", From: "policy rule large-payments"},
		{Message: "The payee is on no list.", Route: "ask", RouteWord: "asks", From: "contract/unknown_payee"},
	}
	return h.site.render(w, r, http.StatusOK, views.ComponentsPage(v))
}

// sample reads a sample's arguments.
func sample(text string) canon.Value {
	v, err := canon.Parse([]byte(text))
	if err != nil {
		panic(err) // it is written above
	}
	return v
}

// week is the seven days before now.
func week(now time.Time) (days []time.Time) {
	for i := range 7 {
		days = append(days, now.UTC().Truncate(24*time.Hour).AddDate(0, 0, i-7))
	}
	return days
}

// sampleRows are rows of an inbox.
func sampleRows(now time.Time, told []views.Stakes) []views.InboxRow {
	row := func(change func(*views.InboxRow)) views.InboxRow {
		r := views.InboxRow{
			ID: "apr_sample", Tool: "payments.transfer", Agent: "Invoice agent", Environment: "prod", Domain: "finance", Stakes: told[len(told)-1],
			Why: "Payments above 1,000 EUR wait for two people.", Asked: "review by finance-approver", Needed: 2, Given: 1,
			OpenedAt: now.Add(-20 * time.Minute), Deadline: now.Add(26 * time.Hour),
		}
		change(&r)
		return r
	}
	return []views.InboxRow{
		row(func(r *views.InboxRow) {
			r.Amounts, r.Before = []string{"1,250.00 EUR"}, "Last 13 of this agent and tool: 12 approved, 1 denied"
		}),
		row(func(r *views.InboxRow) {
			r.Deadline, r.Deceptive, r.Edited, r.Question, r.ClaimedBy = now.Add(4*time.Minute), true, true, true, "Ada"
			r.Named, r.Stakes = "dev", told[0]
		}),
		row(func(r *views.InboxRow) {
			r.Alike, r.AlikeURL, r.Stakes, r.Amounts = 12, "#lists", told[1], []string{"12.50 – 4,600.00 EUR", "80.00 USD"}
			r.Before, r.MostlyDenied = "Last 15 of this agent and tool: all denied", true
		}),
		row(func(r *views.InboxRow) {
			r.Answered, r.AskedByMe, r.Stakes = "Your question has an answer", true, told[0]
		}),
		row(func(r *views.InboxRow) { r.Unreadable, r.Stakes = true, views.Stakes{} }),
	}
}
