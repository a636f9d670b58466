// Package scim is the protocol by which a provider's directory tells of people and
// groups: SCIM 2.0 (RFC 7643, RFC 7644). It reads filters and patches, applies them to
// resources, and describes what is supported. It stores nothing, knows no HTTP, and
// decides nothing about an account.
package scim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The schemas of what is sent and answered (RFC 7643, section 8.7; RFC 7644, section 8.2).
const (
	UserSchema   = "urn:ietf:params:scim:schemas:core:2.0:User"
	GroupSchema  = "urn:ietf:params:scim:schemas:core:2.0:Group"
	ErrorSchema  = "urn:ietf:params:scim:api:messages:2.0:Error"
	listSchema   = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	PatchSchema  = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	configSchema = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	typeSchema   = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	schemaSchema = "urn:ietf:params:scim:schemas:core:2.0:Schema"
)

// MediaType is how resources are sent.
const MediaType = "application/scim+json"

// Bounds of what is taken.
const (
	MostResults = 1000 // of a page
	maxFilter   = 4000 // bytes
	maxTerms    = 100  // of a filter
	maxOps      = 1000 // of a patch
)

// Error is a request that cannot be done as it is sent. Type is RFC 7644's scimType.
type Error struct{ Type, Detail string }

func (e *Error) Error() string { return e.Type + ": " + e.Detail }

func wrong(kind, format string, args ...any) error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}

// InvalidValue is an Error for a value that does not fit.
func InvalidValue(format string, args ...any) error { return wrong("invalidValue", format, args...) }

// Resource is a user or a group, as its JSON object. Names of attributes are spelled as
// the schema spells them; Read brings them to that.
type Resource map[string]any

// Kind is a kind of resource.
type Kind struct {
	Name, Schema string
	// attributes are those that are known, by their path in lower case; what is not
	// known is taken and left out.
	attributes map[string]attribute
}

// attribute is how one is spelled, and compared.
type attribute struct {
	name      string // with its parent's
	caseExact bool
	multi     bool
}

func kind(name, schema string, list ...attribute) *Kind {
	k := &Kind{Name: name, Schema: schema, attributes: map[string]attribute{}}
	for _, a := range append(list, attribute{name: "schemas", caseExact: true, multi: true}, attribute{name: "id", caseExact: true}, attribute{name: "externalId", caseExact: true},
		attribute{name: "meta"}, attribute{name: "meta.resourceType", caseExact: true}, attribute{name: "meta.created", caseExact: true},
		attribute{name: "meta.lastModified", caseExact: true}, attribute{name: "meta.location", caseExact: true}) {
		k.attributes[strings.ToLower(a.name)] = a
	}
	return k
}

// User and Group are the kinds of resource that there are.
var (
	User = kind("User", UserSchema,
		attribute{name: "userName"}, attribute{name: "displayName"}, attribute{name: "active"},
		attribute{name: "name"}, attribute{name: "name.formatted"}, attribute{name: "name.givenName"}, attribute{name: "name.familyName"},
		attribute{name: "emails", multi: true}, attribute{name: "emails.value"}, attribute{name: "emails.type"}, attribute{name: "emails.primary"}, attribute{name: "emails.display"},
		attribute{name: "groups", multi: true}, attribute{name: "groups.value", caseExact: true}, attribute{name: "groups.display"}, attribute{name: "groups.$ref", caseExact: true}, attribute{name: "groups.type"})
	Group = kind("Group", GroupSchema,
		attribute{name: "displayName"},
		attribute{name: "members", multi: true}, attribute{name: "members.value", caseExact: true}, attribute{name: "members.display"}, attribute{name: "members.$ref", caseExact: true}, attribute{name: "members.type"})
)

// find returns the attribute of a path, which may have the schema's name in front.
func (k *Kind) find(path string) (attribute, bool) {
	a, ok := k.attributes[strings.ToLower(k.withoutSchema(path))]
	return a, ok
}

// withoutSchema is a path without the name of the kind's own schema.
func (k *Kind) withoutSchema(path string) string {
	if len(path) > len(k.Schema) && strings.EqualFold(path[:len(k.Schema)], k.Schema) && path[len(k.Schema)] == ':' {
		return path[len(k.Schema)+1:]
	}
	return path
}

// Read brings the names of a body's attributes to the schema's spelling. A value of null
// is the same as none (RFC 7643, section 2.5).
func (k *Kind) Read(body map[string]any) Resource {
	r := Resource{}
	for _, name := range slices.Sorted(maps.Keys(body)) { // of two spellings, always the same one
		if value := body[name]; value != nil {
			a, ok := k.find(name)
			if ok {
				name = a.name
			}
			r[name] = k.spelled(name, value)
		}
	}
	return r
}

// spelled is a value with the names within it in the schema's spelling.
func (k *Kind) spelled(parent string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			if inner == nil {
				continue
			}
			if a, ok := k.attributes[strings.ToLower(parent+"."+name)]; ok {
				name = a.name[len(parent)+1:]
			}
			out[name] = inner
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, one := range v {
			out = append(out, k.spelled(parent, one))
		}
		return out
	}
	return value
}

// Text is an attribute that is a text, "" where there is none.
func (r Resource) Text(name string) (string, error) {
	switch v := r[name].(type) {
	case nil:
		return "", nil
	case string:
		return strings.TrimSpace(v), nil
	}
	return "", InvalidValue("%s has to be a text.", name)
}

// Bool is an attribute that is true or false, or the same as a text, as some providers
// write it; nil where there is none.
func (r Resource) Bool(name string) (*bool, error) {
	yes := false
	switch v := r[name].(type) {
	case nil:
		return nil, nil
	case bool:
		return &v, nil
	case string:
		if yes = strings.EqualFold(v, "true"); yes || strings.EqualFold(v, "false") {
			return &yes, nil
		}
	}
	return nil, InvalidValue("%s has to be true or false.", name)
}

// Inner is a text within an attribute, "" where there is none.
func (r Resource) Inner(name, sub string) (string, error) {
	switch v := r[name].(type) {
	case nil:
		return "", nil
	case map[string]any:
		return Resource(v).Text(sub)
	}
	return "", InvalidValue("%s has to be an object.", name)
}

// Values are the elements of an attribute that has several.
func (r Resource) Values(name string) ([]Resource, error) {
	var list []Resource
	for _, one := range elements(r[name]) {
		switch v := one.(type) {
		case map[string]any:
			list = append(list, v)
		case string:
			list = append(list, Resource{"value": v}) // some write an address, or an id, alone
		default:
			return nil, InvalidValue("%s has to be a list of objects.", name)
		}
	}
	return list, nil
}

// elements are those of a list; one value is a list of itself.
func elements(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// Time is a time as resources have it.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Selection is which attributes are answered.
type Selection struct{ only, without []string }

// Select reads the parameters attributes and excludedAttributes.
func (k *Kind) Select(attributes, excluded string) (Selection, error) {
	if attributes != "" && excluded != "" {
		return Selection{}, InvalidValue("Send attributes or excludedAttributes, not both.")
	}
	return Selection{k.paths(attributes), k.paths(excluded)}, nil
}

func (k *Kind) paths(list string) (paths []string) {
	for path := range strings.SplitSeq(list, ",") {
		if a, ok := k.find(strings.TrimSpace(path)); ok {
			paths = append(paths, a.name)
		} else if strings.TrimSpace(path) != "" {
			paths = append(paths, "-") // one that there is not
		}
	}
	return paths
}

// Wants reports whether an attribute is answered at all.
func (s Selection) Wants(name string) bool {
	if s.only != nil {
		return slices.ContainsFunc(s.only, func(p string) bool { return p == name || strings.HasPrefix(p, name+".") })
	}
	return !slices.Contains(s.without, name)
}

// Named reports whether attributes were asked for by name.
func (s Selection) Named() bool { return s.only != nil }

// Of is what is answered of a resource. Its id and schemas always are.
func (s Selection) Of(r Resource) Resource {
	out := Resource{}
	for name, value := range r {
		if name == "id" || name == "schemas" {
			out[name] = value
		} else if s.Wants(name) {
			out[name] = s.inner(name, value)
		}
	}
	return out
}

// inner is what is answered of a value that has parts.
func (s Selection) inner(name string, value any) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = s.inner(name, one)
		}
		return out
	case map[string]any:
		out := maps.Clone(v)
		maps.DeleteFunc(out, func(sub string, _ any) bool {
			if s.only != nil {
				return !slices.Contains(s.only, name) && !slices.Contains(s.only, name+"."+sub)
			}
			return slices.Contains(s.without, name+"."+sub)
		})
		return out
	}
	return value
}
