package web

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
)

// fakeHistoryPage is how many rows a page of the fake history has.
const fakeHistoryPage = 30

func (m *fakeGate) ended(search gate.HistorySearch) []approval.Approval {
	var list []approval.Approval
	for _, c := range m.cards {
		a := c.Approval
		by := func(f approval.Fact) bool { return f.Actor.ID == search.DecidedBy }
		part := func(f approval.Fact) bool { return f.Actor.ID == search.PartOf }
		if a.Status.Terminal() && (search.Tool == "" || a.Call.Tool == search.Tool) && (search.Status == "" || a.Status == search.Status) &&
			(search.DecidedBy == "" || slices.ContainsFunc(a.Facts, by)) && (search.PartOf == "" || slices.ContainsFunc(a.Facts, part)) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b approval.Approval) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// History finds by tool, outcome and person, and pages by id.
func (m *fakeGate) History(_ context.Context, _ engine.Person, search gate.HistorySearch) (gate.HistoryPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.ended(search)
	page := gate.HistoryPage{Found: len(list), Recent: map[string][]gate.Count{"agent": {{Value: "agt_billing", N: len(list)}}}}
	if search.After != "" {
		list = slices.DeleteFunc(list, func(a approval.Approval) bool { return a.ID <= search.After })
		page.Previous = search.After
	}
	if len(list) > fakeHistoryPage {
		list = list[:fakeHistoryPage]
		page.Next = list[len(list)-1].ID
	}
	page.Rows = list
	return page, m.broken
}

func (m *fakeGate) ExportHistory(_ context.Context, by access.Initiator, p engine.Person, search gate.HistorySearch, w io.Writer, flush func() error) error {
	if !gate.MayExportHistory(p) {
		return &access.Refusal{Kind: access.Forbidden, Code: "not_yours", Detail: "The history is exported by auditors and administrators."}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	if _, err := fmt.Fprintf(w, "for %s\n", by.Actor.ID); err != nil {
		return err
	}
	for _, a := range m.ended(search) {
		if _, err := fmt.Fprintln(w, a.ID); err != nil {
			return err
		}
	}
	return flush()
}
