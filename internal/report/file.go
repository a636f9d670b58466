package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// AccessFile is the access report as a file.
const AccessFile = "access_report"

// FileName names a file after what it has and its period, of which the last day is in it: files of
// two periods lie beside each other, and nobody takes one for the other. A zero time is open.
func FileName(what string, since, until time.Time, ending string) string {
	name := "holdpoint-" + what
	if !since.IsZero() {
		name += "-from-" + since.UTC().Format(time.DateOnly)
	}
	if !until.IsZero() {
		name += "-to-" + until.Add(-time.Nanosecond).UTC().Format(time.DateOnly)
	}
	return name + "." + ending
}

// File is a report that somebody takes along.
type File struct {
	As string // AccessFile
	// At is the moment that it describes, Role the only one that it has, "" for all.
	At   time.Time
	Role string
	// Searched says that it has only people who were searched for; the words, which may
	// name somebody, are not recorded.
	Searched bool
	Rows     int
	Text     []byte
}

// Exported records that somebody takes a file of a report, with its digest. When it has
// returned nil, the file may be sent.
func (s Reports) Exported(ctx context.Context, by access.Initiator, f File) error {
	sum := sha256.Sum256(f.Text)
	payload, err := json.Marshal(map[string]any{"as": f.As, "at": f.At.UTC(), "role": f.Role, "searched": f.Searched, "rows": f.Rows, "digest": "sha256:" + hex.EncodeToString(sum[:])})
	if err != nil {
		return fmt.Errorf("encode what an export tells: %w", err)
	}
	_, err = s.Store.Submit(ctx, store.Submission{Event: engine.Event{
		ID: store.NewEventID(), Type: engine.Exported, RequestID: by.RequestID, Outcome: engine.Allow,
		Reasons: []engine.Reason{{Code: "EXPORTED", Message: "Who has which role was exported."}}, SafePayload: payload, Actor: by.Actor,
	}})
	return err
}
