package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/form"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// supplied checks what the requesting side supplies against the form that the
// waiting answer asks for.
func supplied(a approval.Approval, values canon.Value) error {
	if a.Status != approval.Pending || a.State.Status != approval.Pending || a.State.Stage >= len(a.Plan.Requirements) {
		return nil // contribute refuses it
	}
	req := a.Plan.Requirements[a.State.Stage]
	if req.Kind.Traits().Discharger != engine.Requester {
		return nil // contribute refuses it
	}
	if len(req.Form) == 0 {
		if values.Len() > 0 {
			return &access.Refusal{Kind: access.Invalid, Code: "values_not_wanted", Detail: "This approval asks for a yes or no, and for no values."}
		}
		return nil
	}
	asked, err := askedFor(req)
	if err != nil {
		return err
	}
	if values.Kind() != canon.ObjectKind {
		return &access.Refusal{Kind: access.Invalid, Code: "values_missing", Detail: "This approval asks for values: send those of requirements[].form as values."}
	}
	if problems := asked.Validate(values); len(problems) > 0 {
		// A refusal is put on record, so it names what the form knows and nothing that
		// was sent.
		where := cmp.Or(problems[0].Field, "something in them")
		return &access.Refusal{Kind: access.Invalid, Code: "values_invalid", Detail: fmt.Sprintf("The values do not fit what is asked for: %s %s.", where, problems[0].Message)}
	}
	return nil
}

// keepAnswers seals what the requesting side has supplied.
func (g *Contributions) keepAnswers(c *store.Change, values canon.Value) error {
	box, err := g.Sealer.Seal(answersOf(c.Approval.ID), values.Canonical())
	if err != nil {
		return fmt.Errorf("seal the answers of %s: %w", c.Approval.ID, err)
	}
	return c.Answered(box)
}

// AnswerInPerson supplies what a waiting answer asks for, by somebody who answers
// for the call or has the role that it asks.
func (g *Contributions) AnswerInPerson(ctx context.Context, s Contribution, values canon.Value, digest string, version int, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
	f := approval.Fact{Kind: approval.Reply, Yes: true}
	for name := range values.All() {
		f.Details.Supplied = append(f.Details.Supplied, name)
	}
	f.Details.Supplied = words(f.Details.Supplied)
	return g.contributeFact(ctx, s, engine.Answered, f, once, func(c *store.Change) error {
		if err := sameCard(c.Approval, digest, version); err != nil {
			return err
		}
		return supplied(c.Approval, values)
	}, func(c *store.Change) error { return g.keepAnswers(c, values) })
}

// AskedForm is the form of what a waiting approval asks to be supplied; nil when it
// asks for nothing of the kind.
func AskedForm(a approval.Approval) (*form.Form, error) {
	if a.Status.Terminal() || a.State.Stage >= len(a.Plan.Requirements) || len(a.Plan.Requirements[a.State.Stage].Form) == 0 {
		return nil, nil //nolint:nilnil // nothing asked is no error
	}
	return askedFor(a.Plan.Requirements[a.State.Stage])
}

// answersOf is what the answers of an approval are sealed under: they cannot be
// taken for its arguments.
func answersOf(id string) string { return id + "/answers" }

// askedFor reads a requirement's form.
func askedFor(req engine.Requirement) (*form.Form, error) {
	schema, err := canon.Parse(req.Form)
	if err != nil {
		return nil, fmt.Errorf("read the form of an answer: %w", err)
	}
	asked, err := form.Compile(schema)
	if err != nil {
		return nil, fmt.Errorf("read the form of an answer: %w", err)
	}
	return asked, nil
}

// answers opens what the requesting side has supplied; nil for nothing, or when
// it has been erased.
func (g *core) answers(id string, box seal.Box) ([]byte, error) {
	if len(box.Data) == 0 {
		return nil, nil
	}
	text, err := g.Sealer.Open(answersOf(id), box)
	if errors.Is(err, seal.ErrErased) {
		return nil, nil
	}
	return text, err
}
