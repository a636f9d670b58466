package gate

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/spreadsheet"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// MayExportHistory reports whether the person may take the history out of Holdpoint:
// those who may export the audit log.
func MayExportHistory(p engine.Person) bool { return access.ReadsEverything(p) && !p.Disabled }

// historyColumns are those of an export of the history. Arguments are sealed, and what is
// made from them is not exported.
var historyColumns = []string{
	"approval", "tool", "agent_id", "agent", "environment", "risk_domain", "request_id", "status", "outcome", "reasons",
	"proposed_at", "ended_at", "seconds", "decided_by", "decided_by_id", "execution",
}

// exportPage is how many approvals an export reads at once.
const exportPage = 200

// ExportHistory writes what a search of the history finds as CSV, each cell so that no
// spreadsheet computes it. An event is recorded before the first byte, and one with the
// file's digest after the last. flush is called after every page. An error leaves the
// file without its end, and the second event out.
func (g *Histories) ExportHistory(ctx context.Context, by access.Initiator, p engine.Person, search HistorySearch, w io.Writer, flush func() error) error {
	if !MayExportHistory(p) {
		return &access.Refusal{Kind: access.Forbidden, Code: "not_yours", Detail: "The history is exported by auditors and administrators."}
	}
	reader, err := g.reader(ctx, p)
	if err != nil {
		return err
	}
	if err = g.searched(ctx, p, &search); err != nil {
		return err
	}
	search.Limit, search.After, search.Before, search.Counts = exportPage, "", "", false
	page, err := g.history(ctx, reader, search) // what cannot be searched is refused before anything is on record
	if err != nil {
		return err
	}
	details := map[string]any{"as": "approval_history", "format": "csv", "filter": filterOf(search)}
	if err := g.recordExport(ctx, by, "EXPORT_BEGUN", "Somebody exports the history of approvals.", details); err != nil {
		return err
	}
	sum, n := sha256.New(), 0
	file := csv.NewWriter(io.MultiWriter(w, sum))
	if err := spreadsheet.Write(file, historyColumns); err != nil {
		return err
	}
	for {
		if err := g.writeHistory(ctx, file, page.Rows); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		n += len(page.Rows)
		if page.Next == "" {
			break
		}
		search.After = page.Next
		if page, err = g.history(ctx, reader, search); err != nil {
			return err
		}
	}
	details["approvals"], details["digest"] = n, "sha256:"+hex.EncodeToString(sum.Sum(nil))
	return g.recordExport(context.WithoutCancel(ctx), by, "EXPORTED", "The history of approvals was exported.", details)
}

func (g *Histories) recordExport(ctx context.Context, by access.Initiator, code, message string, details map[string]any) error {
	payload, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode what an export tells: %w", err)
	}
	e := engine.Event{
		ID: store.NewEventID(), Type: engine.Exported, RequestID: by.RequestID, Outcome: engine.Allow,
		Reasons: []engine.Reason{{Code: code, Message: message}}, SafePayload: payload, Actor: by.Actor,
	}
	_, err = g.Store.Submit(ctx, store.Submission{Event: e})
	return err
}

// filterOf is a search as the events of its export have it: people by id, and of words
// only that there are some, as they may name somebody, and what is in the log stays there.
func filterOf(s HistorySearch) map[string]any {
	filter := map[string]any{}
	for name, value := range map[string]string{
		"tool_name": s.Tool, "agent_id": s.AgentID, "environment": s.Environment, "status": string(s.Status), "decided_by": s.DecidedBy, "part_of": s.PartOf,
	} {
		if value != "" {
			filter[name] = value
		}
	}
	if len(s.Words) > 0 {
		filter["searched"] = true
	}
	for name, at := range map[string]time.Time{"since": s.Since, "until": s.Until} {
		if !at.IsZero() {
			filter[name] = at
		}
	}
	return filter
}

func (g *Histories) writeHistory(ctx context.Context, file *csv.Writer, rows []approval.Approval) error {
	var ids []string
	for _, a := range rows {
		ids = append(ids, a.Call.AgentID)
		for _, f := range deciders(a) {
			ids = append(ids, f.Actor.ID)
		}
	}
	slices.Sort(ids)
	names, err := g.Store.People.Names(ctx, slices.Compact(ids))
	if err != nil {
		return err
	}
	for _, a := range rows {
		if err := spreadsheet.Write(file, historyCells(a, names)); err != nil {
			return err
		}
	}
	file.Flush()
	return file.Error()
}

func historyCells(a approval.Approval, names map[string]string) []string {
	var reasons, who, whoIDs []string
	for _, r := range a.Reasons {
		reasons = append(reasons, r.Message)
	}
	for _, f := range deciders(a) {
		if !slices.Contains(whoIDs, f.Actor.ID) {
			who, whoIDs = append(who, names[f.Actor.ID]), append(whoIDs, f.Actor.ID)
		}
	}
	return []string{
		a.ID, a.Call.Tool, a.Call.AgentID, names[a.Call.AgentID], a.Call.Environment, a.Call.RiskDomain, a.Call.RequestID, string(a.Status), string(a.Status.Outcome()),
		strings.Join(reasons, " "), a.Plan.OpenedAt.UTC().Format(time.RFC3339Nano), a.EndedAt.UTC().Format(time.RFC3339Nano),
		strconv.FormatFloat(OpenFor(a).Seconds(), 'f', 3, 64), strings.Join(who, ", "), strings.Join(whoIDs, ", "), string(a.Execution),
	}
}
