package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"holdpoint/engine"
	"holdpoint/engine/audit"
	"holdpoint/internal/auditlog"
	"holdpoint/internal/store"
)

// disclosing writes the second block: what the log has only digests of.
type disclosing struct {
	w    io.Writer
	some bool
}

func (d *disclosing) item(i audit.Item) error {
	line, err := json.Marshal(i) // which escapes all that HTML is made of
	if err != nil {
		return fmt.Errorf("encode what is disclosed: %w", err)
	}
	lead := "\n"
	if d.some {
		lead = ",\n"
	}
	d.some = true
	_, err = io.WriteString(d.w, lead+string(line))
	return err
}

// remark writes what a person wrote, and that it was changed where the log has another
// digest of it.
func (d *disclosing) remark(id string, r remark) error {
	if r.changed() {
		return d.item(audit.Item{Kind: audit.ItemComment, ApprovalID: id, Digest: r.Digest, Fact: r.Fact, Seq: r.Seq, Changed: true})
	}
	if !r.Good {
		return nil
	}
	return d.item(audit.Item{Kind: audit.ItemComment, ApprovalID: id, Digest: r.Digest, Fact: r.Fact, Seq: r.Seq, Salt: r.Salt, Text: r.Comment})
}

// disclose writes everything that the proof's events have a digest of, and nothing
// that they have not: what cannot be held against the log would prove nothing.
func (k *packing) disclose(ctx context.Context, pages string, done auditlog.ExportSummary) error {
	if _, err := io.WriteString(k.w, audit.DisclosedOpens+"\n["); err != nil {
		return err
	}
	d := &disclosing{w: k.w}
	line, err := k.Exporter.Line(ctx, done.Begun, done.Size)
	if errors.Is(err, store.ErrNotFound) {
		return ErrStill
	}
	if err == nil {
		err = d.item(audit.Item{Kind: audit.ItemPages, Digest: pages, Event: string(line)})
	}
	if err != nil {
		return err
	}
	for _, item := range k.otherDocuments {
		if err := d.item(item); err != nil {
			return err
		}
	}
	err = k.each(ctx, func(_ int, id string) error {
		if err := k.discloseOne(ctx, d, id, done.Size); err != nil {
			return fmt.Errorf("disclose %s: %w", id, err)
		}
		return k.flush()
	})
	if err != nil {
		return err
	}
	err = k.eachDocument(ctx, func(r *rules) bool { return r.proved }, func(kind, digest, _ string, text []byte) error {
		if !isDocument(kind, digest, text) {
			return nil // has been told
		}
		return d.item(audit.Item{Kind: kind, Digest: digest, Text: string(text)})
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(k.w, "\n]\n"+audit.BlockCloses+"\n")
	return err
}

func (k *packing) discloseOne(ctx context.Context, d *disclosing, id string, size int64) error {
	r, err := k.read(ctx, id)
	if err != nil {
		return err
	}
	proved := func(e logged) bool { return e.Seq > 0 && e.Seq <= size && k.within(e.Timestamp) }
	there := map[string]bool{}
	for _, e := range r.shownCards() {
		if there[e.payload.Card] {
			continue
		}
		there[e.payload.Card] = proved(e)
		card, err := k.openCard(ctx, id, e.payload.Card)
		if errors.Is(err, errOther) {
			there[e.payload.Card] = true
			if err := d.item(audit.Item{Kind: audit.ItemCard, ApprovalID: id, Digest: e.payload.Card, Changed: true}); err != nil {
				return err
			}
			continue
		}
		if !proved(e) {
			continue
		}
		if err != nil {
			if _, err := unshownReason(err); err != nil {
				return err
			}
			continue
		}
		if err := d.item(audit.Item{Kind: audit.ItemCard, ApprovalID: id, Digest: e.payload.Card, Text: string(card)}); err != nil {
			return err
		}
	}
	if err := k.disclosePasskeys(ctx, d, r, size); err != nil {
		return err
	}
	if r, err = k.compared(ctx, r); err != nil {
		return err
	}
	for _, item := range r.changes {
		if err := d.item(item); err != nil {
			return err
		}
	}
	events := r.factEvents()
	for _, f := range r.Approval.Facts {
		e, ok := events[f.Seq]
		m := comment(f, e)
		if !ok || !proved(e) && !m.changed() {
			continue
		}
		if err := d.remark(id, m); err != nil {
			return err
		}
	}
	found, review := r.later()
	for _, e := range r.events {
		for _, m := range []remark{found, review} {
			if e.Seq == m.Seq && (proved(e) || m.changed()) {
				if err := d.remark(id, m); err != nil {
					return err
				}
			}
		}
	}
	begun := false
	for _, e := range r.events {
		begun = begun || e.Type == engine.Decided && len(e.Requirements) > 0 && proved(e)
	}
	if begun && r.card.Arguments != nil {
		item := audit.Item{
			Kind: audit.ItemArguments, ApprovalID: id, Digest: r.Approval.Call.Digest, Edition: r.Approval.Plan.Edition, Tool: r.Approval.Call.Tool, Text: string(r.card.Arguments),
		}
		if err := d.item(item); err != nil {
			return err
		}
	}
	if begun && r.card.Answers != nil {
		return d.item(audit.Item{Kind: audit.ItemAnswers, ApprovalID: id, Text: string(r.card.Answers)})
	}
	return nil
}

// disclosePasskeys writes the events of the passkeys of everybody who has signed, each
// once in a pack: their keys are what the signatures are verified by.
func (k *packing) disclosePasskeys(ctx context.Context, d *disclosing, r record, size int64) error {
	for _, f := range r.Approval.Facts {
		if f.Details.Signature == nil || k.signers[f.Actor.ID] {
			continue
		}
		if k.signers == nil {
			k.signers = map[string]bool{}
		}
		k.signers[f.Actor.ID] = true
		ids, err := k.Store.Factors.PasskeyEvents(ctx, f.Actor.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			line, err := k.Exporter.Line(ctx, id, size)
			if errors.Is(err, store.ErrNotFound) {
				continue // it came after what the pack proves
			}
			if err == nil {
				err = d.item(audit.Item{Kind: audit.ItemPasskey, ApprovalID: r.Approval.ID, Event: string(line)})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
