package web

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// auditEvent shows one event of the log.
func (c *Console) auditEvent(w http.ResponseWriter, r *http.Request, p engine.Person) {
	record, err := c.cfg.Log.LogEvent(r.Context(), r.PathValue("id"))
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	standing, err := c.cfg.Log.LogStanding(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	e, ok := logged(record)
	ids := []string{e.Actor.ID, record.AgentID}
	name := c.site.names(r.Context(), ids...)
	document := record.Document()
	v := views.AuditEvent{
		Frame: c.site.frame(p, "Event "+record.ID, "audit"), AuditRow: auditRow(record, name), ID: record.ID, Size: standing.Size,
		Document: views.JSON(document), Exact: string(document), Digest: audit.Digest(document), Keys: c.cfg.LogKeys, Server: c.address(r),
	}
	if v.Seq > 0 {
		v.Entry = string(record.Entry())
		hash := audit.LeafHash(record.Entry())
		v.LeafHash = base64.StdEncoding.EncodeToString(hash[:])
		v.Title = "Event " + strconv.FormatInt(v.Seq, 10)
	}
	v.Fields = fields(record, e, ok, name)
	c.site.render(w, r, http.StatusOK, views.AuditEventPage(v))
}

// fields are the event's own, in words where there are any.
func fields(r audit.Record, e engine.Event, ok bool, name func(string) string) []views.AuditField {
	var list []views.AuditField
	add := func(label, value, hint, to string) {
		if value != "" {
			list = append(list, views.AuditField{Label: label, Value: value, Hint: hint, URL: to})
		}
	}
	search := func(filter, value string) string {
		if value == "" {
			return ""
		}
		return auditURL(filter + "=" + url.QueryEscape(value))
	}
	named := func(id string) string {
		if n := name(id); n != id {
			return n
		}
		return ""
	}
	add("What", r.Type, typeWords(r.Type), search("type", r.Type))
	add("Outcome", r.Outcome, outcomeWords(r.Outcome), search("outcome", r.Outcome))
	if ok {
		add("Who", e.Actor.ID, strings.Trim(named(e.Actor.ID)+", "+string(e.Actor.Kind)+through(e.Actor.Channel), ", "), search("person", e.Actor.ID))
		if e.Actor.ID == "" {
			add("Who", string(e.Actor.Kind), strings.TrimPrefix(through(e.Actor.Channel), ", "), "")
		}
	}
	add("Agent", r.AgentID, named(r.AgentID), search("agent", r.AgentID))
	add("Tool", r.ToolName, "", search("tool", r.ToolName))
	if r.ApprovalID != "" {
		add("Approval", r.ApprovalID, "its card", "/approvals/"+url.PathEscape(r.ApprovalID))
		add("", "all its events", "", search("approval", r.ApprovalID))
	}
	if !ok {
		return list
	}
	add("Request", e.RequestID, "", "")
	add("Outcome before", string(e.PrevOutcome), outcomeWords(string(e.PrevOutcome)), "")
	for _, reason := range e.Reasons {
		add("Reason", reason.Code, reason.Message, "")
	}
	for _, req := range e.Requirements {
		add("Requires", string(req.Kind), requirementWords(req.Kind, req.Role), "")
	}
	add("Source", e.PluginSource, "the check that decided it", "")
	add("Digest of the call", e.DigestHMAC, "keyed: the call's arguments cannot be guessed from it", "")
	add("Policy", e.PolicyDigest, "", "")
	return list
}

func through(channel string) string {
	switch channel {
	case "":
		return ""
	case "cli":
		return ", by command line"
	case "console":
		return ", in the console"
	case "api":
		return ", over the API"
	}
	return ", " + channel
}

// auditDocument is an event's document, byte for byte.
func (c *Console) auditDocument(w http.ResponseWriter, r *http.Request, p engine.Person) {
	record, err := c.cfg.Log.LogEvent(r.Context(), r.PathValue("id"))
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="event-`+record.ID+`.json"`)
	_, _ = w.Write(record.Document()) // the reader is gone: there is nobody to tell
}

// checkpointsPage is how many checkpoints a page lists.
const checkpointsPage = 50

// auditCheckpoints shows what the log has committed itself to, and how to check it.
func (c *Console) auditCheckpoints(w http.ResponseWriter, r *http.Request, p engine.Person) {
	var below int64
	if text := r.URL.Query().Get("below"); text != "" {
		var err error
		if below, err = strconv.ParseInt(text, 10, 64); err != nil || below < 1 {
			c.site.fail(w, r, p, &gate.Refusal{Status: http.StatusBadRequest, Code: "bad_cursor", Detail: "That is no place in the list. Start at its beginning."})
			return
		}
	}
	// Before the database is: that goes on, and must not look as if it were behind.
	floor := c.readFloor(r)
	standing, err := c.cfg.Log.LogStanding(r.Context())
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	list, err := c.cfg.Log.LogCheckpoints(r.Context(), below, checkpointsPage+1)
	if err != nil {
		c.site.fail(w, r, p, err)
		return
	}
	v := views.Checkpoints{
		Frame: c.site.frame(p, "Checkpoints", "audit"), State: stateWords(standing), Size: standing.Size, Keys: c.cfg.LogKeys, Server: c.address(r), First: below == 0,
	}
	v.Now = standing.Now
	if standing.Latest != nil {
		latest := checkpointRow(*standing.Latest)
		v.Latest, v.Note = &latest, string(standing.Latest.Signed())
	}
	if len(list) > checkpointsPage {
		list = list[:checkpointsPage]
		v.Older = "/audit/checkpoints?below=" + strconv.FormatInt(list[checkpointsPage-1].Size, 10)
	}
	for _, one := range list {
		v.Rows = append(v.Rows, checkpointRow(one))
	}
	v.Floor = floor(standing)
	c.site.render(w, r, http.StatusOK, views.CheckpointsPage(v))
}

func checkpointRow(c gate.Checkpoint) views.Checkpoint {
	row := views.Checkpoint{Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), At: c.At}
	row.Origin, _, _ = strings.Cut(string(c.Note), "\n")
	// Cosignatures are lines "— name base64".
	for _, line := range c.Cosignatures {
		if fields := strings.Fields(line); len(fields) == 3 {
			row.Cosigned = append(row.Cosigned, fields[1])
		}
	}
	return row
}

// stateWords says how the log stands.
func stateWords(s gate.LogStanding) views.LogState {
	switch {
	case s.Waiting == 0 && s.Size == 0:
		return views.LogState{Code: "empty", Words: "The log is empty: nothing has happened yet."}
	case s.Waiting == 0:
		return views.LogState{Code: "good", Words: "Up to date: every event that is on record has its place in the log."}
	}
	waiting := views.Plural(s.Waiting, "event has", "events have")
	if s.Waiting >= gate.MaxWaiting {
		waiting = "More than " + views.Thousands(gate.MaxWaiting) + " events have"
	}
	behind := s.Now.Sub(s.Oldest)
	if behind < 5*time.Second {
		return views.LogState{Code: "good", Words: "Up to date within seconds: " + waiting + " only just come and no place yet."}
	}
	return views.LogState{Code: "bad", Words: waiting + " no place in the log yet, the oldest since " + brief(behind.Round(time.Second)) +
		". They are on record, but nothing vouches for their order yet. Look whether a worker runs, and what it says."}
}

// readFloor reads the checkpoint that is kept outside the database, and returns what
// says how the log stands to it.
func (c *Console) readFloor(r *http.Request) func(gate.LogStanding) views.LogState {
	says := func(code, words string) func(gate.LogStanding) views.LogState {
		return func(gate.LogStanding) views.LogState { return views.LogState{Code: code, Words: words} }
	}
	if c.cfg.Floor == nil {
		return says("none", "This process does not know of a checkpoint kept outside the database (log_floor_file). With one, a database that was restored from an older copy is found out at the start.")
	}
	kept, err := c.cfg.Floor(r.Context())
	if err != nil {
		c.site.logger.WarnContext(r.Context(), "the log's floor not read", "error", err)
		return says("bad", "The checkpoint that is kept outside the database cannot be read at the moment.")
	}
	if kept == nil {
		return says("none", "Nothing is kept outside the database yet: it begins with the next checkpoint.")
	}
	return func(s gate.LogStanding) views.LogState { return floorWords(kept, s) }
}

// floorWords says how the log stands to a checkpoint that is kept outside the
// database.
func floorWords(kept []byte, s gate.LogStanding) views.LogState {
	text, _, _ := strings.Cut(string(kept), "\n\n")
	known, err := audit.ParseCheckpoint(text + "\n")
	switch {
	case err != nil:
		return views.LogState{Code: "bad", Words: "What is kept outside the database is no checkpoint."}
	case known.Size > s.Size:
		return views.LogState{Code: "bad", Words: "The log is behind what is kept outside the database: that was signed at " + views.Plural(int(known.Size), "event", "events") +
			", and the database has " + views.Thousands(int(s.Size)) + ". It was restored from an older copy, or its last events were removed."}
	case s.Latest != nil && known.Size == s.Latest.Size && known.Root != s.Latest.Root:
		return views.LogState{Code: "bad", Words: "The checkpoint that is kept outside the database has another root than the database's of the same size: the log was rewritten."}
	}
	return views.LogState{Code: "good", Words: "A checkpoint of " + views.Plural(int(known.Size), "event", "events") + " is kept outside the database, and the log is not behind it."}
}

// address is where people reach this server, for commands to copy.
func (c *Console) address(r *http.Request) string {
	scheme := "http://"
	if c.site.secure {
		scheme = "https://"
	}
	return scheme + r.Host
}

// isNotFound reports whether an error says that there is no such thing.
func isNotFound(err error) bool {
	var refusal *gate.Refusal
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}
