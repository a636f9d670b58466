// Package evidence writes evidence packs: what an auditor is handed about one
// approval, or about all of a period, as one HTML file that tells the story and
// carries its own proof (engine/audit, pack.go). It reads and opens what is on
// record and changes nothing of it; that a pack was made is an event. It writes as
// it reads: a pack of many approvals takes no more memory than one of a few.
package evidence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/a-h/templ"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/gate"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
	"holdpoint/web/views"
)

// What one pack holds at most. Whoever needs more takes shorter periods.
const (
	MaxApprovals = 2000
	MaxEvents    = 100_000
)

// pageSize is how many approvals are named at a time.
const pageSize = 100

// catchUp is how long a pack waits for what has only just been appended.
const catchUp = 1500 * time.Millisecond

// Packer makes packs.
type Packer struct {
	Store    *store.Store
	Sealer   *seal.Sealer
	Exporter *auditlog.Exporter
	// Present says how a card is put before people.
	Present func(c gate.Card) views.Approval
	// MostApprovals and MostEvents bound a pack; MaxApprovals and MaxEvents when 0.
	MostApprovals, MostEvents int
}

// Request is what a pack is to be about: an approval, or the approvals that were
// opened in a period.
type Request struct {
	ApprovalID   string
	Since, Until time.Time
	// Actor and RequestID are who wants it, for the log.
	Actor     engine.Actor
	RequestID string
	// Progress, when set, is told how many of how many approvals are told.
	Progress func(done, all int64)
	// Flush, when set, is called after every chapter.
	Flush func() error
}

// Errors of what cannot be packed. auditlog.ErrNoCheckpoint: the log is not
// signed yet; auditlog.ErrNotWitnessed: not by witnesses.
var (
	// ErrNotFound: there is no such approval.
	ErrNotFound = store.ErrNotFound
	// ErrRequest: it is neither one approval nor a period.
	ErrRequest = errors.New("a pack is about one approval, or about a period with a beginning and an end")
	// ErrStill: what has happened last has no place in the log, which stands still.
	ErrStill = errors.New("the audit log stands still: is a worker running?")
	// ErrTooMuch: the period has more than a pack holds.
	ErrTooMuch = errors.New("the period has too much for one pack")
)

// Summary is what was packed.
type Summary struct {
	Approvals int
	Events    int64
	Size      int64 // of the log that the proof is of
}

// Write writes a pack. Before the first byte is written, it is known that there is
// something to write; an error after that leaves a file that proves nothing.
func (p *Packer) Write(ctx context.Context, w io.Writer, r Request) (Summary, error) {
	if (r.ApprovalID == "") == (r.Since.IsZero() || r.Until.IsZero() || !r.Since.Before(r.Until)) || r.ApprovalID != "" && !(r.Since.IsZero() && r.Until.IsZero()) {
		return Summary{}, ErrRequest
	}
	k := &packing{Packer: p, Request: r, w: w, rules: map[string]*rules{}}
	if err := k.begin(ctx); err != nil {
		return Summary{}, err
	}
	pages := sha256.New()
	k.out = io.MultiWriter(w, pages)
	if err := k.pages(ctx); err != nil {
		return Summary{}, err
	}
	digest := "sha256:" + hex.EncodeToString(pages.Sum(nil))
	done, err := k.prove(ctx, digest)
	if err != nil {
		return Summary{}, err
	}
	if err := k.disclose(ctx, digest, done); err != nil {
		return Summary{}, err
	}
	_, err = io.WriteString(w, audit.PackEnds)
	return Summary{Approvals: k.period.Approvals, Events: done.Events, Size: done.Size}, err
}

// packing is one pack on its way.
type packing struct {
	*Packer
	Request
	w, out io.Writer

	made   time.Time
	period store.Period
	people []engine.Person
	names  map[string]string // of people, by id
	rules  map[string]*rules
	// signers are those whose passkeys have been disclosed.
	signers map[string]bool
	order   []string // digests of rules, as they were met
	// changed is how many things of the record are not what the log has, by the pages.
	changed int
	// otherDocuments are those of the changed ones by which calls were judged.
	otherDocuments []audit.Item
}

// begin finds out whether the pack can be made.
func (k *packing) begin(ctx context.Context) error {
	placed, err := k.Store.Log.CatchUp(ctx, catchUp)
	if err != nil {
		return err
	}
	if !placed {
		return ErrStill
	}
	k.made = time.Now()
	if k.ApprovalID != "" {
		if _, err := k.Store.Approvals.Get(ctx, k.ApprovalID); err != nil {
			return err
		}
		k.period.Approvals = 1
	} else {
		approvals, events := cmp.Or(k.MostApprovals, MaxApprovals), cmp.Or(k.MostEvents, MaxEvents)
		if k.period, err = k.Store.Evidence.Period(ctx, k.Since, k.Until, events); err != nil {
			return err
		}
		if k.period.Approvals > approvals {
			return fmt.Errorf("%w: %d approvals, where one holds %d", ErrTooMuch, k.period.Approvals, approvals)
		}
		if k.period.Events > events {
			return fmt.Errorf("%w: more than %d events", ErrTooMuch, events)
		}
	}
	if err := k.Exporter.Ready(ctx); err != nil {
		return err
	}
	if k.people, err = k.Store.People.List(ctx); err != nil {
		return err
	}
	// Accounts of one human being share an identity, which is the first one's id.
	k.names = make(map[string]string, len(k.people))
	for _, p := range k.people {
		k.names[p.ID] = cmp.Or(p.Name, p.Email)
	}
	return nil
}

func (k *packing) render(ctx context.Context, c templ.Component) error { return c.Render(ctx, k.out) }

func (k *packing) raw(text string) error {
	_, err := io.WriteString(k.out, text)
	return err
}

// pages writes what people read.
func (k *packing) pages(ctx context.Context) error {
	front := views.Pack{Title: "Approval " + k.ApprovalID, Since: k.Since, Until: k.Until, Made: k.made, By: string(k.Actor.Kind) + " " + k.Actor.ID, Approvals: k.period.Approvals}
	if k.ApprovalID == "" {
		front.Title, front.Totals = "Approvals of a period", totals(k.period)
	}
	steps := []func() error{
		func() error { return k.raw("<!DOCTYPE html>\n<html lang=\"en\">\n") },
		func() error { return k.render(ctx, views.PackHead(front)) },
		func() error { return k.raw("\n<body>\n") },
		func() error { return k.render(ctx, views.PackFront(front)) },
		func() error { return k.index(ctx) },
		func() error { return k.chapters(ctx) },
		func() error { return k.documents(ctx) },
		func() error { return k.render(ctx, views.PackEnd(front)) },
		func() error { return k.raw("\n") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// totals are what a period has, in words.
func totals(p store.Period) []views.Total {
	list := []views.Total{{N: p.Approvals, What: "approvals"}}
	for _, s := range []struct{ code, word string }{
		{"approved", "approved"}, {"denied", "denied"}, {"expired", "expired"}, {"cancelled", "cancelled"}, {"pending", "still waiting"},
	} {
		if n := p.By[s.code]; n > 0 {
			list = append(list, views.Total{N: n, What: s.word})
		}
	}
	ran := p.Ran["redeemed"] + p.Ran["succeeded"] + p.Ran["failed"] + p.Ran["unknown"]
	return append(list, views.Total{N: ran, What: "calls were started"}, views.Total{N: p.Events, What: "events in the log"})
}

// each goes through the approvals that the pack is about.
func (k *packing) each(ctx context.Context, do func(number int, id string) error) error {
	if k.ApprovalID != "" {
		return do(0, k.ApprovalID)
	}
	at, id, number := time.Time{}, "", 0
	for {
		ids, last, err := k.Store.Evidence.Opened(ctx, k.Since, k.Until, at, id, pageSize)
		if err != nil {
			return err
		}
		for _, next := range ids {
			// Nobody opens an approval in the past; but a period may end in the future.
			if number++; number > k.period.Approvals {
				return nil
			}
			if err := do(number, next); err != nil {
				return err
			}
		}
		if len(ids) < pageSize {
			return nil
		}
		at, id = last, ids[len(ids)-1]
	}
}

// index lists the chapters of a period.
func (k *packing) index(ctx context.Context) error {
	if k.ApprovalID != "" {
		return nil
	}
	if k.period.Approvals == 0 {
		return k.raw("<p class=\"index\">No approval was opened in this period.</p>\n")
	}
	if err := k.raw(`<nav class="index" aria-label="Chapters"><table><thead><tr><th scope="col">#</th><th scope="col">Call</th><th scope="col">End</th><th scope="col">Ran</th><th scope="col">Asked</th><th scope="col">Approval</th></tr></thead><tbody>`); err != nil {
		return err
	}
	err := k.each(ctx, func(number int, id string) error {
		r, err := k.Store.Approvals.Get(ctx, id)
		if err != nil {
			return err
		}
		a, err := k.Store.People.Agent(ctx, r.Approval.Call.AgentID)
		if err != nil {
			return err
		}
		v := k.Present(gate.Card{Approval: r.Approval, Now: r.Now, AgentName: a.Name, Names: k.names})
		return k.render(ctx, views.PackIndexRow(row(number, r, v)))
	})
	if err != nil {
		return err
	}
	return k.raw("</tbody></table></nav>\n")
}

func row(number int, r store.Record, v views.Approval) views.PackRow {
	return views.PackRow{
		Number: number, ID: r.Approval.ID, Tool: v.Tool, Agent: v.Agent, Status: v.Status, Execution: executionWords(r.Approval),
		Opened: r.Approval.Plan.OpenedAt, Anchor: "a-" + r.Approval.ID,
	}
}

func (k *packing) chapters(ctx context.Context) error {
	done := int64(0)
	return k.each(ctx, func(number int, id string) error {
		c, err := k.chapter(ctx, number, id)
		if err != nil {
			return fmt.Errorf("tell of %s: %w", id, err)
		}
		if err := k.render(ctx, views.PackStory(c)); err != nil {
			return err
		}
		if done++; k.Progress != nil {
			k.Progress(done, int64(k.period.Approvals))
		}
		return k.flush()
	})
}

func (k *packing) flush() error {
	if k.Flush == nil {
		return nil
	}
	return k.Flush()
}

// filter is what the proof is of.
func (k *packing) filter() store.EventFilter {
	return store.EventFilter{ApprovalID: k.ApprovalID, Since: k.Since, Until: k.Until}
}

// prove writes the block of the proof, with the event that the pack is made.
func (k *packing) prove(ctx context.Context, pages string) (auditlog.ExportSummary, error) {
	if _, err := io.WriteString(k.w, audit.ProofOpens+"\n"); err != nil {
		return auditlog.ExportSummary{}, err
	}
	details := map[string]any{"as": "evidence_pack", "pages": pages}
	if k.changed > 0 {
		details["changed"] = k.changed
	}
	done, err := k.Exporter.Write(ctx, escaping{k.w}, auditlog.ExportRequest{
		Format: auditlog.JSONL, Filter: k.filter(), Actor: k.Actor, RequestID: k.RequestID, Flush: k.Flush,
		Details: details,
	})
	if err != nil {
		return done, err
	}
	_, err = io.WriteString(k.w, audit.BlockCloses+"\n")
	return done, err
}

// escaping writes JSON so that no HTML can be in it.
type escaping struct{ w io.Writer }

func (e escaping) Write(data []byte) (int, error) {
	if _, err := e.w.Write(audit.Escape(data)); err != nil {
		return 0, err
	}
	return len(data), nil
}

// within reports whether the proof has events of this time.
func (k *packing) within(at time.Time) bool {
	return k.Since.IsZero() || !at.Before(k.Since) && at.Before(k.Until)
}
