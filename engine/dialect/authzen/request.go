package authzen

import (
	"errors"
	"fmt"

	"holdpoint/engine/canon"
)

// The arguments that say which resource it is.
const (
	ResourceType = "resource_type"
	ResourceID   = "resource_id"
)

// Entity is a subject or a resource. Nothing of it is verified here.
type Entity struct {
	Type, ID   string
	Properties canon.Value // an object, empty when there are none
}

// Request is an Access Evaluation request.
type Request struct {
	Subject  Entity
	Resource Entity
	// Tool is the action's name.
	Tool string
	// Arguments are the action's properties, the resource's, and its type and id.
	Arguments canon.Value
	// Document is the request without what the specification does not know.
	Document canon.Value
}

// FieldError is one mistake in a request: its place, as a JSON Pointer, and what is
// wrong with it.
type FieldError struct{ Path, Message string }

// Parse reads an Access Evaluation request. Members that the specification does not
// know are left out; what it knows has to have the type that it gives.
func Parse(doc canon.Value) (Request, []FieldError) {
	r := reader{}
	if doc.Kind() != canon.ObjectKind {
		return Request{}, []FieldError{{"", "must be an object"}}
	}
	subject, resource, action, context := part(doc, "subject"), part(doc, "resource"), part(doc, "action"), part(doc, "context")
	request := Request{Subject: r.entity("/subject", subject), Tool: r.text("/action", action, "name"), Resource: r.entity("/resource", resource)}
	given := r.properties("/action", action)
	if context != nil && context.Kind() != canon.ObjectKind {
		r.wrong("/context", "must be an object")
	}
	if r.errors != nil {
		return Request{}, r.errors
	}
	request.Arguments = r.joined(given, request.Resource)
	known := []canon.Member{
		{Name: "subject", Value: entity(request.Subject)},
		{Name: "action", Value: canon.Object(canon.Member{Name: "name", Value: canon.String(request.Tool)}, canon.Member{Name: "properties", Value: given})},
		{Name: "resource", Value: entity(request.Resource)},
	}
	if context != nil {
		known = append(known, canon.Member{Name: "context", Value: *context})
	}
	request.Document = canon.Object(known...)
	return request, r.errors
}

// WithArguments is a document that Parse has read, with other arguments, and those
// that it had. What was the resource's stays the resource's, what is new becomes the
// action's. It may be no request any more: Parse says so.
func WithArguments(doc, arguments canon.Value) (changed, before canon.Value, err error) {
	r, wrong := Parse(doc)
	if len(wrong) > 0 {
		return doc, canon.Value{}, fmt.Errorf("the document is no request: %s %s", wrong[0].Path, wrong[0].Message)
	}
	var resource, own, action []canon.Member
	for _, m := range arguments.Members() {
		_, of := r.Resource.Properties.Get(m.Name)
		switch {
		case m.Name == ResourceType:
			resource = append(resource, canon.Member{Name: "type", Value: m.Value})
		case m.Name == ResourceID:
			resource = append(resource, canon.Member{Name: "id", Value: m.Value})
		case of:
			own = append(own, m)
		default:
			action = append(action, m)
		}
	}
	subject, _ := doc.Get("subject")
	members := []canon.Member{
		{Name: "subject", Value: subject},
		{Name: "action", Value: canon.Object(canon.Member{Name: "name", Value: canon.String(r.Tool)}, canon.Member{Name: "properties", Value: canon.Object(action...)})},
		{Name: "resource", Value: canon.Object(append(resource, canon.Member{Name: "properties", Value: canon.Object(own...)})...)},
	}
	if context, there := doc.Get("context"); there {
		members = append(members, canon.Member{Name: "context", Value: context})
	}
	return canon.Object(members...), r.Arguments, nil
}

// part is a member of an object; nil when it is not there.
func part(doc canon.Value, name string) *canon.Value {
	v, there := doc.Get(name)
	if !there {
		return nil
	}
	return &v
}

func entity(e Entity) canon.Value {
	return canon.Object(
		canon.Member{Name: "type", Value: canon.String(e.Type)}, canon.Member{Name: "id", Value: canon.String(e.ID)}, canon.Member{Name: "properties", Value: e.Properties},
	)
}

// reader collects what is wrong with a request.
type reader struct{ errors []FieldError }

func (r *reader) wrong(path, message string) {
	r.errors = append(r.errors, FieldError{path, message})
}

func (r *reader) entity(path string, v *canon.Value) Entity {
	return Entity{Type: r.text(path, v, "type"), ID: r.text(path, v, "id"), Properties: r.properties(path, v)}
}

// text is the required text of that name. What is wrong with the object itself is
// said once.
func (r *reader) text(path string, v *canon.Value, name string) string {
	switch {
	case v == nil || v.Kind() != canon.ObjectKind:
		message := "must be an object"
		if v == nil {
			message = "is missing"
		}
		if n := len(r.errors); n == 0 || r.errors[n-1].Path != path {
			r.wrong(path, message)
		}
		return ""
	case part(*v, name) == nil:
		r.wrong(path+"/"+name, "is missing")
		return ""
	}
	value := part(*v, name)
	if value.Kind() != canon.StringKind || value.Str() == "" {
		r.wrong(path+"/"+name, "must be a text that is not empty")
	}
	return value.Str()
}

func (r *reader) properties(path string, v *canon.Value) canon.Value {
	if v == nil || v.Kind() != canon.ObjectKind {
		return canon.Object()
	}
	properties := part(*v, "properties")
	switch {
	case properties == nil:
		return canon.Object()
	case properties.Kind() != canon.ObjectKind:
		r.wrong(path+"/properties", "must be an object")
		return canon.Object()
	}
	return *properties
}

// joined are the call's arguments. Two of one name would have two readings: the
// reader that the request came through says so.
func (r *reader) joined(action canon.Value, resource Entity) canon.Value {
	names := canon.Object(canon.Member{Name: ResourceType, Value: canon.String(resource.Type)}, canon.Member{Name: ResourceID, Value: canon.String(resource.ID)})
	var text []byte
	for _, v := range []canon.Value{action, resource.Properties, names} {
		if v.Len() > 0 {
			members := v.Canonical()
			text = append(append(text, ','), members[1:len(members)-1]...)
		}
	}
	text = append(append([]byte{'{'}, text[1:]...), '}')
	arguments, err := canon.Parse(text)
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) {
		message := "cannot be joined with the action's into one object of arguments: " + syntax.Message
		if syntax.Code == canon.DuplicateKey || syntax.Code == canon.CaseVariantKey {
			message = "and the action's have a name in common, or one of them is " + ResourceType + " or " + ResourceID + ": the call would have two readings"
		}
		r.wrong("/resource/properties", message)
	}
	return arguments
}
