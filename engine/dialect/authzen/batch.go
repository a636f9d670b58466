package authzen

import (
	"fmt"
	"slices"

	"holdpoint/engine/canon"
)

// MaxEvaluations is how many evaluations one request may ask for.
const MaxEvaluations = 50

// Semantic says when a batch of evaluations ends.
type Semantic string

// The semantics of the specification.
const (
	ExecuteAll          Semantic = "execute_all"
	DenyOnFirstDeny     Semantic = "deny_on_first_deny"
	PermitOnFirstPermit Semantic = "permit_on_first_permit"
)

// Ends reports whether an evaluation with this decision is the last one.
func (s Semantic) Ends(decision bool) bool {
	return s == DenyOnFirstDeny && !decision || s == PermitOnFirstPermit && decision
}

// Batch is an Access Evaluations request.
type Batch struct {
	// Items are the requests, each with the defaults in it, in their order: documents
	// for Parse, which may still be wrong. None means that the whole document is one
	// Access Evaluation request.
	Items    []canon.Value
	Semantic Semantic
}

// Split reads an Access Evaluations request.
func Split(doc canon.Value) (Batch, []FieldError) {
	if doc.Kind() != canon.ObjectKind {
		return Batch{}, []FieldError{{"", "must be an object"}}
	}
	r := reader{}
	b := Batch{Semantic: ExecuteAll}
	if options := part(doc, "options"); options != nil {
		b.Semantic = r.semantic(*options)
	}
	evaluations := part(doc, "evaluations")
	switch {
	case evaluations == nil:
		return b, r.errors
	case evaluations.Kind() != canon.ArrayKind:
		r.wrong("/evaluations", "must be an array")
		return b, r.errors
	case evaluations.Len() == 0:
		return b, r.errors
	case evaluations.Len() > MaxEvaluations:
		r.wrong("/evaluations", fmt.Sprintf("has %d evaluations; at most %d are accepted", evaluations.Len(), MaxEvaluations))
		return b, r.errors
	}
	var defaults []canon.Member
	for _, name := range []string{"subject", "action", "resource", "context"} {
		if v := part(doc, name); v != nil {
			if v.Kind() != canon.ObjectKind {
				r.wrong("/"+name, "must be an object")
			}
			defaults = append(defaults, canon.Member{Name: name, Value: *v})
		}
	}
	for _, item := range evaluations.Elements() {
		if item.Kind() == canon.ObjectKind {
			// An entity of the evaluation's own takes the default's place as a whole.
			members := slices.Clone(item.Members())
			for _, m := range defaults {
				if _, own := item.Get(m.Name); !own {
					members = append(members, m)
				}
			}
			item = known(members)
		}
		b.Items = append(b.Items, item)
	}
	return b, r.errors
}

// known is an object of the members that the specification knows: another one
// could have a default's name in other letters.
func known(members []canon.Member) canon.Value {
	return canon.Object(slices.DeleteFunc(members, func(m canon.Member) bool {
		return m.Name != "subject" && m.Name != "action" && m.Name != "resource" && m.Name != "context"
	})...)
}

func (r *reader) semantic(options canon.Value) Semantic {
	if options.Kind() != canon.ObjectKind {
		r.wrong("/options", "must be an object")
		return ExecuteAll
	}
	chosen := part(options, "evaluations_semantic")
	if chosen == nil {
		return ExecuteAll
	}
	switch s := Semantic(chosen.Str()); s {
	case ExecuteAll, DenyOnFirstDeny, PermitOnFirstPermit:
		return s
	}
	r.wrong("/options/evaluations_semantic", "must be execute_all, deny_on_first_deny or permit_on_first_permit")
	return ExecuteAll
}
