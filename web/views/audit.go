package views

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
)

// Audit is the page on which the log is searched.
type Audit struct {
	Frame
	// Asked is what was looked up in the one box; NotFound says that nothing was.
	Asked    string
	NotFound bool
	// Form is what was entered, Problems what of it cannot be read, by parameter.
	Form, Problems map[string]string
	Chips          []Chip
	Known          AuditKnown
	Rows           []AuditRow
	// Older, Newer and Newest are the ways on, or "".
	Older, Newer, Newest string
	// Stopped says that the search took too long and came as far as ReachedSeq.
	// Forwards says that it went from older events to newer ones.
	Stopped    bool
	Forwards   bool
	ReachedSeq int64
	ReachedAt  time.Time
	// Size is how many events the log has.
	Size  int64
	State LogState
}

// AuditKnown is what there is to filter by.
type AuditKnown struct {
	Agents, People, Outcomes, Types []Option
	Tools                           []string
}

// Chip is a filter in force: its parameter, its name and value in words, and the
// search without it.
type Chip struct{ Param, Name, Value, Without string }

// AuditRow is an event of the log.
type AuditRow struct {
	Seq int64 // 0 for none yet
	At  time.Time
	// Sentence says what happened, Because what was given as the reasons.
	Sentence string
	Because  []string
	// Broken says that the row is gone or does not agree with itself.
	Broken         bool
	URL            string
	Agent, AgentID string
	Tool, Approval string
	Outcome        Outcome
}

// LogState is how something about the log stands.
type LogState struct {
	Code  string // good, bad, none, empty
	Words string
}

// AuditEvent is the page of one event.
type AuditEvent struct {
	Frame
	AuditRow
	ID     string
	Fields []AuditField
	// Document is the event's document for reading, Exact byte for byte.
	Document Code
	Exact    string
	Digest   string
	// Entry and LeafHash are what the log has of it; "" without a place.
	Entry, LeafHash string
	// Size is how many events the log has.
	Size int64
	// Keys are the log's public keys as far as this server knows them, Server is
	// its address.
	Keys   []string
	Server string
}

// AuditField is a field of an event. URL leads to more of its kind, or is "".
type AuditField struct{ Label, Value, Hint, URL string }

// Checkpoints is the page of what the log has committed itself to.
type Checkpoints struct {
	Frame
	State, Floor LogState
	Size         int64
	// Latest is the newest checkpoint, Note its signed note; nil before the first.
	Latest *Checkpoint
	Note   string
	Rows   []Checkpoint
	First  bool
	Older  string
	Keys   []string
	Server string
}

// Checkpoint is a signed checkpoint.
type Checkpoint struct {
	Size   int64
	Root   string // base64
	Origin string
	At     time.Time
	// Cosigned are the names of the witnesses who have signed it.
	Cosigned []string
}

// timeInput is the kind of a field for a moment: what a browser's own field for it would not
// show, such as what cannot be read, is text.
func timeInput(value string) string {
	if _, err := time.Parse("2006-01-02T15:04:05.999999999", value); value == "" || err == nil {
		return "datetime-local"
	}
	return "text"
}

func thousands(n int64) string { return Thousands(int(n)) }

func direction(v Audit) string {
	if v.Forwards {
		return "on"
	}
	return "back"
}

func approvalURL(id string) string { return "/approvals/" + url.PathEscape(id) }

func hasOption(options []Option, value string) bool {
	return slices.ContainsFunc(options, func(o Option) bool { return o.Value == value })
}

// listOf names a field's list of suggestions, where it has one.
func listOf(id string) templ.Attributes {
	if id == "" {
		return nil
	}
	return templ.Attributes{"list": id}
}

// invalidOf ties a field to what is wrong with it.
func invalidOf(problem, id string) templ.Attributes {
	if problem == "" {
		return nil
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": id}
}

// verifyData is what the script has to know.
func verifyData(v AuditEvent) templ.Attributes {
	if v.Seq == 0 {
		return nil
	}
	return templ.Attributes{"data-proof": "/v1/audit/events/" + v.ID + "/proof", "data-document": v.Exact, "data-keys": strings.Join(v.Keys, "\n")}
}

func keyOr(keys []string) string {
	if len(keys) == 0 {
		return "NAME+HASH+KEY"
	}
	return keys[0]
}
