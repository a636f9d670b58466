package gate

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/store"
)

// maxDraft bounds what is kept of one form, in bytes.
const maxDraft = 1 << 20

var draftOver = &access.Refusal{Kind: access.Conflict, Code: "already_decided", Detail: "This is over, so nothing can be sent about it any more."}

// Keep keeps what the person has written into a form of an approval and not sent, in
// place of what was kept before; nothing takes that away. It decides nothing and is not
// on record. What ends the approval takes it away.
func (g *Drafts) Keep(ctx context.Context, p engine.Person, id, form string, fields url.Values) error {
	if _, _, err := g.readFor(ctx, p, id); err != nil {
		return err
	}
	if len(fields) == 0 {
		return g.Store.Drafts.Delete(ctx, id, p.ID, form)
	}
	text := fields.Encode()
	if len(text) > maxDraft {
		return &access.Refusal{Kind: access.TooLarge, Code: "body_too_large", Detail: "That is more than is kept of a form."}
	}
	box, err := g.Sealer.Seal(draftID(id, p.ID, form), []byte(text))
	if err != nil {
		return fmt.Errorf("seal a draft about %s: %w", id, err)
	}
	err = g.Store.Drafts.Save(ctx, id, p.ID, store.Draft{Form: form, Box: box})
	if errors.Is(err, store.ErrNotFound) {
		return draftOver
	}
	return err
}

// OfApproval is what the person has written about an approval and not sent, by form.
func (g *Drafts) OfApproval(ctx context.Context, p engine.Person, id string) (map[string]url.Values, error) {
	list, err := g.Store.Drafts.Of(ctx, id, p.ID)
	if err != nil {
		return nil, err
	}
	kept := map[string]url.Values{}
	for _, d := range list {
		text, err := g.Sealer.Open(draftID(id, p.ID, d.Form), d.Box)
		if err != nil {
			return nil, fmt.Errorf("open a draft about %s: %w", id, err)
		}
		if kept[d.Form], err = url.ParseQuery(string(text)); err != nil {
			return nil, fmt.Errorf("read a draft about %s: %w", id, err)
		}
	}
	return kept, nil
}

// Drop takes away what is kept of a form, because it was sent.
func (g *Drafts) Drop(ctx context.Context, p engine.Person, id, form string) error {
	return g.Store.Drafts.Delete(ctx, id, p.ID, form)
}

// draftID is what a draft's box is bound to: nobody else's, and no other form's.
func draftID(id, personID, form string) string { return "draft " + id + " " + personID + " " + form }
