package auditlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/internal/store"
)

// JSONL is the format that proves itself (engine/audit, export.go).
const JSONL = "jsonl"

// Encoding is a format for other programs. It does not prove itself.
type Encoding struct {
	// Header comes before the events; nil for none.
	Header []byte
	// Event is one event, with whatever ends it.
	Event func(e engine.Event) ([]byte, error)
}

// Exporter writes exports.
type Exporter struct {
	Store *store.Store
	// Keys are the log's public keys, for the header; none where they are not known.
	Keys []string
	// Encodings are the formats beside JSONL, by name.
	Encodings map[string]Encoding
	// Witnessed is how many witnesses have to have signed the checkpoint that an
	// export ends with. It waits a moment for them.
	Witnessed int
}

// ExportRequest is what somebody wants exported.
type ExportRequest struct {
	Format string
	// Filter narrows it. Its After says where to go on; the other direction is not
	// for exports.
	Filter store.EventFilter
	// Size is the checkpoint's to which an export goes on that was cut off; 0 for the
	// latest.
	Size int64
	// Before is how many events such an export had already.
	Before int64
	// Actor and RequestID are who wants it, for the log.
	Actor     engine.Actor
	RequestID string
	// Details are more members of the payload of the export's events; nil for none.
	Details map[string]any
	// Progress, when set, is told now and then how far it is: the place of the last
	// event, and that of the last one there is.
	Progress func(seq, size int64)
	// Flush, when set, is called after every page.
	Flush func() error
}

// ExportSummary is what was exported.
type ExportSummary struct {
	Events int64
	Size   int64 // the checkpoint's
	// Digest is the SHA-256 of the bytes that were written.
	Digest string
	// Mismatches is how many of the events the log's index has under other names than
	// their own, and First says which is the first: who searches does not find those.
	Mismatches int64
	First      string
	// Unplaced is, of a whole export, how many events the database has that have no place
	// in the log and never get one (store.CountUnplaced). They are in no export.
	Unplaced int64
	// Begun is the id of the event that somebody begins to export.
	Begun string
}

// ErrNoCheckpoint is returned where nothing has been signed that an export could be
// held against.
var ErrNoCheckpoint = errors.New("the audit log has no checkpoint yet: is a worker running?")

// ErrNotWitnessed is returned where too few witnesses have signed the log as it is.
var ErrNotWitnessed = errors.New("too few witnesses have signed the log as it is now")

// ErrFormat is returned for a format that there is not.
var ErrFormat = errors.New("there is no such format")

// Bounds of how many events are in memory at once, and of about how many bytes: one
// has 256 KiB at most.
const (
	page      = 200
	pageBytes = 2 << 20
)

// How long an export waits for what has only just been appended, and for witnesses to
// sign it: the worker has them sign a checkpoint after the other.
const (
	catchUp       = 1500 * time.Millisecond
	witnessWithin = 10 * time.Second
	witnessPause  = 100 * time.Millisecond
)

// Write writes an export. An error leaves it without its end, so that nobody takes
// it for all there is. Errors of w come back as they are.
func (x *Exporter) Write(ctx context.Context, w io.Writer, r ExportRequest) (ExportSummary, error) {
	encoding, known := x.Encodings[r.Format]
	if r.Format != JSONL && !known {
		return ExportSummary{}, fmt.Errorf("%w as %q", ErrFormat, r.Format)
	}
	if err := r.Filter.Check(); err != nil {
		return ExportSummary{}, err
	}
	begun, err := x.record(ctx, r, "EXPORT_BEGUN", "Somebody exports the audit log.", nil)
	if err != nil {
		return ExportSummary{}, err
	}
	point, err := x.checkpoint(ctx, r.Size)
	if err != nil {
		return ExportSummary{}, err
	}
	sum := sha256.New()
	out := &exporting{Exporter: x, ExportRequest: r, point: point, w: io.MultiWriter(w, sum), whole: wantsAll(r.Filter)}
	if r.Format == JSONL {
		err = out.lines(ctx)
	} else {
		err = out.encoded(ctx, encoding)
	}
	if err != nil {
		return ExportSummary{}, err
	}
	s := ExportSummary{
		Events: out.events, Size: point.Size, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Mismatches: out.mismatches, First: out.first, Begun: begun,
	}
	if out.whole {
		if s.Unplaced, err = x.Store.Events.CountUnplaced(ctx); err != nil {
			return ExportSummary{}, err
		}
	}
	_, err = x.record(ctx, r, "EXPORTED", "The audit log was exported.", &s)
	return s, err
}

// Line is an event as a line of an export of a part of the log up to a checkpoint's
// size, without the line feed. store.ErrNotFound: it has no place there.
func (x *Exporter) Line(ctx context.Context, eventID string, size int64) ([]byte, error) {
	point, err := x.Store.Log.CheckpointAt(ctx, size)
	if err != nil {
		return nil, err
	}
	r, err := x.Store.Log.LeafOf(ctx, eventID)
	if err != nil {
		return nil, err
	}
	if r.Leaf < 0 || r.Seq() > size {
		return nil, fmt.Errorf("%w: the event has no place among the first %d", store.ErrNotFound, size)
	}
	tiles := x.Store.Log.Tiles(ctx)
	hashes, err := tiles(0, r.Leaf/audit.TileWidth, int(min(audit.TileWidth, size-r.Leaf/audit.TileWidth*audit.TileWidth)))
	if err != nil {
		return nil, err
	}
	proof, err := tiles.ProveLeaf(point.Size, point.Root, r.Leaf)
	if err != nil {
		return nil, err
	}
	line := audit.EventLine(r.Document(), hashes[r.Leaf%audit.TileWidth], proof, false)
	return line[:len(line)-1], nil
}

// Ready waits until an export could be made of everything that has happened so far,
// and returns why it cannot.
func (x *Exporter) Ready(ctx context.Context) error {
	_, err := x.checkpoint(ctx, 0)
	return err
}

// checkpoint is the one of this size, or the latest.
func (x *Exporter) checkpoint(ctx context.Context, size int64) (c store.Checkpoint, err error) {
	if size > 0 {
		c, err = x.Store.Log.CheckpointAt(ctx, size)
	} else {
		if _, err := x.Store.Log.CatchUp(ctx, catchUp); err != nil {
			return c, err
		}
		c, err = x.Store.Log.LatestCheckpoint(ctx, 0)
	}
	if errors.Is(err, store.ErrNotFound) {
		return c, ErrNoCheckpoint
	}
	if err == nil && size == 0 && x.Witnessed > 0 {
		return x.witnessed(ctx, c.Size)
	}
	return c, err
}

// witnessed is the latest checkpoint that enough witnesses have signed, once that
// has so many events.
func (x *Exporter) witnessed(ctx context.Context, size int64) (store.Checkpoint, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, witnessWithin, ErrNotWitnessed)
	defer cancel()
	for {
		c, err := x.Store.Log.LatestCheckpoint(ctx, x.Witnessed)
		if err == nil && c.Size >= size {
			return c, nil
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
			return c, err
		}
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(witnessPause):
		}
	}
}

// record appends the event of an export and returns its id.
func (x *Exporter) record(ctx context.Context, r ExportRequest, code, message string, done *ExportSummary) (string, error) {
	filter, err := x.loggable(ctx, headerFilter(r.Filter))
	if err != nil {
		return "", err
	}
	details := map[string]any{"format": r.Format, "filter": json.RawMessage(filter.JSON())}
	for name, value := range r.Details {
		details[name] = value
	}
	if r.Filter.After > 0 {
		details["after"] = r.Filter.After
	}
	if done != nil {
		details["events"], details["size"], details["digest"] = done.Events, done.Size, done.Digest
		if done.Mismatches > 0 {
			details["misfiled"] = done.Mismatches
		}
		if done.Unplaced > 0 {
			details["strays"] = done.Unplaced
		}
	}
	payload, err := json.Marshal(details)
	if err != nil {
		return "", fmt.Errorf("encode what an export tells: %w", err)
	}
	e := engine.Event{
		ID: uuid.NewString(), Type: engine.Exported, RequestID: r.RequestID, Outcome: engine.Allow,
		Reasons: []engine.Reason{{Code: code, Message: message}}, SafePayload: payload, Actor: r.Actor,
	}
	ctx = context.WithoutCancel(ctx)
	if len(r.Details) > 0 {
		// More than that it is exported is not for the reader's role to say.
		_, err := x.Store.Submit(ctx, store.Submission{Event: e})
		return e.ID, err
	}
	return e.ID, x.Store.Events.RecordExport(ctx, e)
}

// inNoEvent stands in the log for a text of a filter that no event has.
const inNoEvent = "(in no event)"

// loggable is a filter as the log may have it for good: a text that somebody looks for and that is in no
// event, which may be an address or a secret, is not in the event of their export either.
func (x *Exporter) loggable(ctx context.Context, f audit.Filter) (audit.Filter, error) {
	for _, text := range []struct {
		of    *string
		alone store.EventFilter
	}{
		{&f.AgentID, store.EventFilter{AgentID: f.AgentID}},
		{&f.Tool, store.EventFilter{Tool: f.Tool}},
		{&f.ActorID, store.EventFilter{ActorID: f.ActorID}},
		{&f.ApprovalID, store.EventFilter{ApprovalID: f.ApprovalID}},
	} {
		if *text.of == "" {
			continue
		}
		text.alone.Limit = 1
		found, err := x.Store.Events.Placed(ctx, text.alone)
		if err != nil {
			return f, err
		}
		if len(found) == 0 {
			*text.of = inNoEvent
		}
	}
	return f, nil
}

// headerFilter is the filter as an export's header has it.
func headerFilter(f store.EventFilter) audit.Filter {
	return audit.Filter{
		Since: f.Since, Until: f.Until, AgentID: f.AgentID, Tool: f.Tool, Outcome: f.Outcome, Type: f.Type, ActorID: f.ActorID, ApprovalID: f.ApprovalID,
	}
}

// wantsAll reports whether the filter asks for everything.
func wantsAll(f store.EventFilter) bool { return headerFilter(f) == audit.Filter{} }

// exporting is one export on its way.
type exporting struct {
	*Exporter
	ExportRequest
	point  store.Checkpoint
	w      io.Writer
	whole  bool
	events int64

	mismatches int64
	first      string
}

// each reads the events, page by page. Pages of long events are short ones.
func (x *exporting) each(ctx context.Context, write func(r audit.Record, document canon.Value) error) error {
	f := x.Filter
	f.Limit, f.Newest = page/4, false
	for {
		records, err := x.Store.Events.Placed(ctx, f)
		if err != nil {
			return err
		}
		bytes := 0
		for _, r := range records {
			if r.Seq() > x.point.Size {
				return x.flush(r.Seq() - 1)
			}
			document, actor := r.Value()
			if what := r.Mismatch(actor); what != "" && r.ID != "" {
				if x.mismatches++; x.first == "" {
					x.first = fmt.Sprintf("event %d is filed under another %s than its own", r.Seq(), what)
				}
			}
			if err := write(r.Record, document); err != nil {
				return err
			}
			x.events++
			bytes += len(r.Body)
		}
		if len(records) < f.Limit {
			return x.flush(x.point.Size)
		}
		f.After = records[len(records)-1].Seq()
		f.Limit = min(page, max(1, pageBytes*len(records)/max(bytes, 1)))
		if err := x.flush(f.After); err != nil {
			return err
		}
	}
}

func (x *exporting) flush(seq int64) error {
	if x.Progress != nil {
		x.Progress(seq, x.point.Size)
	}
	if x.Flush != nil {
		return x.Flush()
	}
	return nil
}

// header is the first line. With an export that goes on only its digest is used.
func (x *exporting) header() audit.Header {
	return audit.Header{Checkpoint: string(x.point.Signed()), Whole: x.whole, Filter: headerFilter(x.Filter), Keys: x.Keys}
}

func (x *exporting) lines(ctx context.Context) error {
	if x.Filter.After == 0 {
		if _, err := x.w.Write(x.header().Line()); err != nil {
			return err
		}
	}
	prover := audit.NewProver(x.point.Size, x.point.Root, x.Store.Log.Tiles(ctx))
	err := x.each(ctx, func(r audit.Record, document canon.Value) error {
		// What the log has in this place, whatever has become of the event since. Where
		// it has nothing, or its tiles are not the log's, whoever verifies sees it.
		leaf, err := prover.Leaf(r.Leaf)
		if errors.Is(err, store.ErrUnavailable) {
			return err
		}
		var proof tlog.RecordProof
		if !x.whole {
			if proof, err = prover.Prove(r.Leaf); errors.Is(err, store.ErrUnavailable) {
				return err
			}
		}
		_, err = x.w.Write(audit.Line(document, leaf, proof, x.whole))
		return err
	})
	if err != nil {
		return err
	}
	_, err = x.w.Write(audit.EndLine(x.header(), x.count()))
	return err
}

// count is the number of events with those that an export had before it was cut
// off. Of the whole log that is the size.
func (x *exporting) count() int64 {
	if x.whole {
		return x.point.Size
	}
	return x.events + x.Before
}

func (x *exporting) encoded(ctx context.Context, encoding Encoding) error {
	if x.Filter.After == 0 {
		if _, err := x.w.Write(encoding.Header); err != nil {
			return err
		}
	}
	return x.each(ctx, func(r audit.Record, document canon.Value) error {
		data, err := encoding.Event(event(r, document))
		if err != nil {
			return fmt.Errorf("encode event %d: %w", r.Seq(), err)
		}
		_, err = x.w.Write(data)
		return err
	})
}

// event is the record as an event. Of one that cannot be read it says so, and what
// the columns hold.
func event(r audit.Record, document canon.Value) (e engine.Event) {
	if err := json.Unmarshal(document.Canonical(), &e); err == nil && e.Reasons != nil {
		return e
	}
	return engine.Event{
		ID: r.ID, Seq: r.Seq(), Timestamp: r.At.UTC(), Type: engine.EventType(r.Type), Outcome: engine.Outcome(r.Outcome), AgentID: r.AgentID,
		ToolName: r.ToolName, ApprovalID: r.ApprovalID, SafePayload: json.RawMessage(`{}`),
		Reasons: []engine.Reason{{Code: "UNREADABLE", Message: "The record is not one event: it was written around the programs, or is damaged."}},
	}
}
