package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"holdpoint/engine/audit"
	"holdpoint/engine/policy"
	"holdpoint/internal/store"
	"holdpoint/web/views"
)

// rules are what decisions under a digest were judged by.
type rules struct {
	found                                   bool
	Policy, Version, Contracts, Environment string
	// proved says that an event which the proof has names them.
	proved bool
}

// judged notes by which rules an approval was judged, and fills in those of its
// last edition.
func (k *packing) judged(ctx context.Context, r record, c *views.PackChapter) error {
	for _, e := range r.events {
		if e.PolicyDigest == "" {
			continue
		}
		known, err := k.ruleset(ctx, e.PolicyDigest)
		if err != nil {
			return err
		}
		known.proved = known.proved || k.within(e.Timestamp)
	}
	digest := r.Approval.Decision.PolicyDigest
	c.Rules.Digest = digest
	if digest == "" {
		return nil
	}
	known, err := k.ruleset(ctx, digest)
	if err != nil || !known.found {
		return err
	}
	c.Rules = views.PackRules{Digest: digest, Anchor: anchor(digest), Policy: known.Policy, Version: known.Version, Contracts: known.Contracts, Environment: known.Environment}
	return nil
}

func anchor(digest string) string { return "r-" + digest[len("sha256:"):] }

// ruleset looks rules up once for the whole pack.
func (k *packing) ruleset(ctx context.Context, digest string) (*rules, error) {
	if known := k.rules[digest]; known != nil {
		return known, nil
	}
	known := &rules{}
	body, err := k.Store.Rules.Ruleset(ctx, digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("read the rules of the time: %w", err)
	default:
		var names struct {
			Policy      string `json:"policy"`
			Contracts   string `json:"tool_contracts"`
			Environment string `json:"environment"`
		}
		if err := json.Unmarshal(body, &names); err != nil {
			return nil, fmt.Errorf("read the rules of the time: %w", err)
		}
		known.found, known.Policy, known.Contracts, known.Environment = true, names.Policy, names.Contracts, names.Environment
		if text, err := k.document(ctx, names.Policy); err != nil {
			return nil, err
		} else if b, _ := policy.Load(text, policy.Options{}); b != nil {
			known.Version = b.Version
		}
	}
	k.rules[digest] = known
	k.order = append(k.order, digest)
	return known, nil
}

// document is the text of a policy or of contracts; nil where there is none.
func (k *packing) document(ctx context.Context, digest string) ([]byte, error) {
	if digest == "" {
		return nil, nil
	}
	text, err := k.Store.Rules.DocumentKnownAs(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return text, err
}

// eachDocument goes through the rules and the documents that they name, each once:
// what they are called, of what kind they are, and their text.
func (k *packing) eachDocument(ctx context.Context, wanted func(*rules) bool, do func(kind, digest, version string, text []byte) error) error {
	done := map[string]bool{}
	for _, digest := range k.order {
		known := k.rules[digest]
		if !known.found || !wanted(known) {
			continue
		}
		body, err := k.Store.Rules.Ruleset(ctx, digest)
		if err != nil {
			return err
		}
		if err := do("rules", digest, "", body); err != nil {
			return err
		}
		for _, d := range []struct{ kind, digest, version string }{{"policy", known.Policy, known.Version}, {"contracts", known.Contracts, ""}} {
			if d.digest == "" || done[d.kind+d.digest] {
				continue
			}
			done[d.kind+d.digest] = true
			text, err := k.document(ctx, d.digest)
			if err != nil {
				return err
			}
			if text == nil {
				continue
			}
			if err := do(d.kind, d.digest, d.version, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// documents writes the rules in full.
func (k *packing) documents(ctx context.Context) error {
	if len(k.order) == 0 {
		return nil
	}
	if err := k.raw(`<div class="rules">`); err != nil {
		return err
	}
	err := k.eachDocument(ctx, func(*rules) bool { return true }, func(kind, digest, version string, text []byte) error {
		d := views.PackDocument{Anchor: anchor(digest), Digest: digest, Changed: !isDocument(kind, digest, text)}
		if d.Changed {
			k.changed++
			k.otherDocuments = append(k.otherDocuments, audit.Item{Kind: kind, Digest: digest, Changed: true})
		}
		switch kind {
		case "rules":
			d.Title, d.Code = "Rules", views.JSON(text)
			d.Note = "Everything that decisions under this digest depended on, beside the call and what is registered. It names the policy and the contracts by theirs."
		case "policy":
			d.Title, d.Code = "Policy", views.Document(string(text))
			if version != "" {
				d.Title += ", version " + views.Visible(version)
			}
			d.Note = "As its author wrote it. The digest is over what it means (RFC 8785, without the signature)."
		default:
			d.Title, d.Code = "Tool contracts", views.Document(string(text))
			d.Note = "As their author wrote them. The digest is over what they mean."
		}
		return k.render(ctx, views.PackText(d))
	})
	if err != nil {
		return err
	}
	return k.raw("</div>")
}
