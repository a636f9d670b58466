package report

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"holdpoint/engine"
	"holdpoint/engine/spreadsheet"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// ListFile is a report that is a list, as a file.
const ListFile = "report"

// ExportList writes a report that is a list as CSV, each cell so that no spreadsheet
// computes it. An event is recorded before the first byte, and one with the file's digest
// after the last. flush is called after every page. An error leaves the file without its
// end, and the second event out.
func (s Reports) ExportList(ctx context.Context, by access.Initiator, name string, q ListQuery, w io.Writer, flush func() error) error {
	q.Cursor, q.Limit, q.Count = "", MaxListPage, false
	page, err := s.List(ctx, name, q) // what cannot be made is refused before anything is on record
	if err != nil {
		return err
	}
	q.Since, q.Until = page.Since, page.Until
	details := map[string]any{"as": ListFile, "report": name, "format": "csv", "since": page.Since, "until": page.Until}
	s.narrowing(details, &q, page)
	if err := s.recordList(ctx, by, "EXPORT_BEGUN", "Somebody exports a report.", details); err != nil {
		return err
	}
	sum, rows := sha256.New(), 0
	file := csv.NewWriter(io.MultiWriter(w, sum))
	cells := make([]string, len(page.Columns))
	for i, c := range page.Columns {
		cells[i] = c.Name
	}
	if err := spreadsheet.Write(file, cells); err != nil {
		return err
	}
	for {
		for _, row := range page.Rows {
			for i, c := range page.Columns {
				cells[i] = row[c.Name]
			}
			if err := spreadsheet.Write(file, cells); err != nil {
				return err
			}
		}
		if file.Flush(); file.Error() != nil {
			return file.Error()
		}
		if err := flush(); err != nil {
			return err
		}
		rows += len(page.Rows)
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
		if page, err = s.List(ctx, name, q); err != nil {
			return err
		}
	}
	details["rows"], details["digest"] = rows, "sha256:"+hex.EncodeToString(sum.Sum(nil))
	return s.recordList(context.WithoutCancel(ctx), by, "EXPORTED", "A report was exported.", details)
}

// narrowing adds to what an export tells to what the report is narrowed, and that it has amounts.
func (Reports) narrowing(details map[string]any, q *ListQuery, page ListPage) {
	if page.Person != nil { // no address or name: what is in the log stays there
		q.Person = page.Person.ID
		details["person"] = q.Person
	}
	if page.OfAmounts() {
		details["amounts"] = true
	}
	if q.AtLeast != "" {
		details["at_least"] = strings.TrimSpace(q.AtLeast)
	}
	if page.Zone != "" {
		details["zone"] = page.Zone
	}
}

// Told records that somebody takes along a page of a report that has amounts, which come out of
// sealed arguments; of others there is nothing to record. When it has returned nil, the page
// may be sent. format says as what.
func (s Reports) Told(ctx context.Context, by access.Initiator, q ListQuery, page ListPage, format string) error {
	if !page.OfAmounts() || len(page.Rows) == 0 {
		return nil
	}
	details := map[string]any{"as": ListFile, "report": page.Name, "format": format, "since": page.Since, "until": page.Until, "rows": len(page.Rows)}
	s.narrowing(details, &q, page)
	return s.recordList(ctx, by, "EXPORTED", "A report was exported.", details)
}

func (s Reports) recordList(ctx context.Context, by access.Initiator, code, message string, details map[string]any) error {
	payload, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode what an export tells: %w", err)
	}
	_, err = s.Store.Submit(ctx, store.Submission{Event: engine.Event{
		ID: store.NewEventID(), Type: engine.Exported, RequestID: by.RequestID, Outcome: engine.Allow,
		Reasons: []engine.Reason{{Code: code, Message: message}}, SafePayload: payload, Actor: by.Actor,
	}})
	return err
}
