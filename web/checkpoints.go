package web

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/access"
	"holdpoint/internal/auditlog"
	"holdpoint/web/views"
)

// checkpointsPage is how many checkpoints a page lists.
const checkpointsPage = 50

// Checkpoints is what the page of checkpoints needs of the log.
type Checkpoints interface {
	Standing(ctx context.Context) (auditlog.Status, error)
	// Checkpoints lists checkpoints, newest first, below a size; 0 for all.
	Checkpoints(ctx context.Context, below int64, limit int) ([]auditlog.Checkpoint, error)
}

// checkpointHandler serves the page of checkpoints.
type checkpointHandler struct {
	site *site
	log  Checkpoints
	keys []string
	// floor returns the checkpoint that is kept outside the database; nil where this
	// process does not know of any.
	floor func(context.Context) ([]byte, error)
}

func (h *checkpointHandler) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /audit/checkpoints", h.site.forAuditors(h.show))
}

// show shows what the log has committed itself to, and how to check it.
func (h *checkpointHandler) show(w http.ResponseWriter, r *http.Request, p engine.Person) error {
	var below int64
	if text := r.URL.Query().Get("below"); text != "" {
		var err error
		if below, err = strconv.ParseInt(text, 10, 64); err != nil || below < 1 {
			return &access.Refusal{Kind: access.Malformed, Code: "bad_cursor", Detail: "That is no place in the list. Start at its beginning."}
		}
	}
	// Before the database is: that goes on, and must not look as if it were behind.
	floor := h.readFloor(r)
	standing, err := h.log.Standing(r.Context())
	if err != nil {
		return err
	}
	list, err := h.log.Checkpoints(r.Context(), below, checkpointsPage+1)
	if err != nil {
		return err
	}
	v := views.Checkpoints{
		Frame: h.site.frame(p, "Checkpoints", "audit"), State: logStateWords(standing), Size: standing.Size, Keys: h.keys, Server: h.site.address(r), First: below == 0,
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
	return h.site.render(w, r, http.StatusOK, views.CheckpointsPage(v))
}

// readFloor reads the checkpoint that is kept outside the database, and returns what
// says how the log stands to it.
func (h *checkpointHandler) readFloor(r *http.Request) func(auditlog.Status) views.LogState {
	says := func(code, words string) func(auditlog.Status) views.LogState {
		return func(auditlog.Status) views.LogState { return views.LogState{Code: code, Words: words} }
	}
	if h.floor == nil {
		return says("none", "This process does not know of a checkpoint kept outside the database (log_floor_file). With one, a database that was restored from an older copy is found out at the start.")
	}
	kept, err := h.floor(r.Context())
	if err != nil {
		h.site.logger.WarnContext(r.Context(), "the log's floor not read", "error", err)
		return says("bad", "The checkpoint that is kept outside the database cannot be read at the moment.")
	}
	if kept == nil {
		return says("none", "Nothing is kept outside the database yet: it begins with the next checkpoint.")
	}
	return func(s auditlog.Status) views.LogState { return floorWords(kept, s) }
}

// floorWords says how the log stands to a checkpoint that is kept outside the
// database.
func floorWords(kept []byte, s auditlog.Status) views.LogState {
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

func checkpointRow(c auditlog.Checkpoint) views.Checkpoint {
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

// logStateWords says how the log stands.
func logStateWords(s auditlog.Status) views.LogState {
	switch {
	case s.Waiting == 0 && s.Size == 0:
		return views.LogState{Code: "empty", Words: "The log is empty: nothing has happened yet."}
	case s.Waiting == 0:
		return views.LogState{Code: "good", Words: "Up to date: every event that is on record has its place in the log."}
	}
	waiting := views.Plural(s.Waiting, "event has", "events have")
	if s.Waiting >= auditlog.MaxWaiting {
		waiting = "More than " + views.Thousands(auditlog.MaxWaiting) + " events have"
	}
	behind := s.Now.Sub(s.Oldest)
	if behind < 5*time.Second {
		return views.LogState{Code: "good", Words: "Up to date within seconds: " + waiting + " only just come and no place yet."}
	}
	return views.LogState{Code: "bad", Words: waiting + " no place in the log yet, the oldest since " + brief(behind.Round(time.Second)) +
		". They are on record, but nothing vouches for their order yet. Look whether a worker runs, and what it says."}
}
