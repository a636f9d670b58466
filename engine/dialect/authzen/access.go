package authzen

import (
	"slices"

	"holdpoint/engine/canon"
)

// Submission is an access request: the denied evaluation, and what names it.
type Submission struct {
	Request
	// EvaluationID is the denied evaluation's.
	EvaluationID string
}

// ParseSubmission reads an access request by the Access Request and Approval Profile.
func ParseSubmission(doc canon.Value) (Submission, []FieldError) {
	if doc.Kind() == canon.ObjectKind {
		// What they ask for is not done, so they are not passed over.
		for _, name := range []string{"items", "callback"} {
			if part(doc, name) != nil {
				return Submission{}, []FieldError{{"/" + name, "is not taken here"}}
			}
		}
	}
	r, wrong := Parse(doc)
	if len(wrong) > 0 {
		return Submission{}, wrong
	}
	more := reader{}
	denial := part(doc, "denial")
	s := Submission{Request: r, EvaluationID: more.text("/denial", denial, "evaluation_id")}
	more.text("/denial", denial, "expires_at")
	return s, more.errors
}

// Binding is what an approval is bound to beside the call: subject, action and resource
// as they were evaluated, in one digest. Who acts for the subject may be named in
// another place, and is left out.
func (r Request) Binding() string {
	subject := r.Subject
	subject.Properties = canon.Object(slices.DeleteFunc(slices.Clone(subject.Properties.Members()), func(m canon.Member) bool { return m.Name == "act" })...)
	action, _ := r.Document.Get("action")
	return canon.Digest(Dialect, canon.Object(
		canon.Member{Name: "subject", Value: entity(subject)}, canon.Member{Name: "action", Value: action}, canon.Member{Name: "resource", Value: entity(r.Resource)},
	))
}

// PresentsApproval reports whether a document has an approval in its context, whatever
// else it is.
func PresentsApproval(doc canon.Value) bool {
	context, _ := doc.Get("context")
	_, presents := context.Get("approval")
	return presents
}

// Approval is the id of the approval that a request presents in its context; "" when it
// presents none. What is there and is no approval has an id that none has.
func (r Request) Approval() string {
	context, _ := r.Document.Get("context")
	approval, there := context.Get("approval")
	if !there {
		return ""
	}
	if id, _ := approval.Get("id"); id.Str() != "" {
		return id.Str()
	}
	return "none"
}
