// Package spreadsheet writes audit events as CSV that people may open in any
// spreadsheet. It is pure: it writes to the csv.Writer that it is given, and
// never reads a clock or looks anything up.
//
// # Cells
//
// Agents choose names and texts, and a spreadsheet computes what looks like a
// formula. So a character that could do harm where it stands is replaced by a
// label that says which one it is:
//
//	[U+003D]SUM(A1)     for =SUM(A1)
//	a[U+202E]b          for a right-to-left override between a and b
//	[BYTE FF]           for a byte that is not UTF-8
//
// Replaced are
//
//   - the signs that begin formulas and commands, = + - @ | %, and their
//     full-width, small, raised and look-alike variants: at the beginning of a
//     cell, also after blanks, quotes and other labels, and after a comma,
//     semicolon or bar, at which a spreadsheet of some countries begins a new
//     cell whatever the quotes say; in a cell of more than 32,767 bytes, which
//     some programs cut in two, everywhere;
//   - every control character, line breaks and tabs among them, so that a record
//     is one line of the file;
//   - what is invisible or reorders the text: format and bidirectional
//     characters, tags, variation selectors, fillers, all blanks but the space,
//     combining marks without a base or piled up, and code points that are
//     private or no characters.
//
// A label cannot be mistaken: a text's own "[U+" or "[BYTE " has its bracket
// replaced, so "[U+003D]" in an event becomes "[U+005B]U+003D]" in the cell.
// Nothing is put in front of a cell, where programs strip or keep it as they
// please; a cell that begins with an apostrophe began with one in the event.
// So a cell has one text, and a test reads it back (Unguard).
//
// # Records
//
// One line an event, comma-separated, in UTF-8 without a byte order mark, lines
// ended by a line feed, after a line of the column names. Columns stay for ever:
// new ones come at the end. Lists and objects are JSON, so that nothing in them
// can pass for their end. Times are RFC 3339 in UTC. What an event has not is
// empty.
package spreadsheet

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdpoint/engine"
)

var header = []string{
	"seq", "timestamp", "event_id", "type", "outcome", "agent_id", "tool_name", "approval_id", "actor_kind", "actor_id", "actor_channel",
	"request_id", "reason_codes", "reason_messages", "policy_digest", "digest_hmac", "prev_outcome", "plugin_source", "requirements", "safe_payload",
}

// Header returns the names of the columns, in their order.
func Header() []string { return slices.Clone(header) }

// Row returns the cells of an event in the order of Header, as they are: Write
// guards them. The codes and the messages of its reasons are JSON arrays of the
// same length; safe_payload is the event's own bytes.
func Row(e engine.Event) []string {
	codes, messages := make([]string, len(e.Reasons)), make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		codes[i], messages[i] = r.Code, r.Message
	}
	row := []string{
		"", "", e.ID, string(e.Type), string(e.Outcome), e.AgentID, e.ToolName, e.ApprovalID, string(e.Actor.Kind), e.Actor.ID, e.Actor.Channel,
		e.RequestID, list(codes), list(messages), e.PolicyDigest, e.DigestHMAC, string(e.PrevOutcome), e.PluginSource, "", string(e.SafePayload),
	}
	if e.Seq != 0 {
		row[0] = strconv.FormatInt(e.Seq, 10)
	}
	if !e.Timestamp.IsZero() {
		row[1] = e.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	if len(e.Requirements) > 0 {
		row[18] = requirements(e.Requirements)
	}
	return row
}

// Write writes one record, with every cell guarded. Header goes through it like
// any row.
func Write(w *csv.Writer, row []string) error {
	guarded := make([]string, len(row))
	for i, cell := range row {
		guarded[i] = Guard(cell)
	}
	if err := w.Write(guarded); err != nil {
		return fmt.Errorf("write a row: %w", err)
	}
	return nil
}

func list(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	return text(texts)
}

// requirements are those of an event as JSON. A form that is not JSON, which no
// log that was read from JSON has, stands there as the text that it is.
func requirements(list []engine.Requirement) string {
	for i, r := range list {
		if len(r.Form) > 0 && !json.Valid(r.Form) {
			list = slices.Clone(list)
			list[i].Form = json.RawMessage(text(string(r.Form)))
		}
	}
	return text(list)
}

// text is v as JSON on one line, readable: what HTML minds is not escaped here.
func text(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "" // texts and requirements with valid forms always encode
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
