package scim

import (
	"maps"
	"strings"
)

// Config describes what is supported (RFC 7643, section 5). base is the address of
// /scim/v2.
func Config(base string) Resource {
	supported := func(yes bool) map[string]any { return map[string]any{"supported": yes} }
	return Resource{
		"schemas": []any{configSchema}, "patch": supported(true), "changePassword": supported(false), "sort": supported(false), "etag": supported(false),
		"bulk":   map[string]any{"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
		"filter": map[string]any{"supported": true, "maxResults": MostResults},
		"authenticationSchemes": []any{map[string]any{
			"type": "oauthbearertoken", "name": "API key", "primary": true,
			"description": "A key with the scope scim, as a bearer token (holdpoint key create --kind admin --scope scim).",
		}},
		"meta": map[string]any{"resourceType": "ServiceProviderConfig", "location": base + "/ServiceProviderConfig"},
	}
}

// Types describes the kinds of resource (RFC 7643, section 6).
func Types(base string) []Resource {
	var list []Resource
	for _, k := range []*Kind{User, Group} {
		list = append(list, Resource{
			"schemas": []any{typeSchema}, "id": k.Name, "name": k.Name, "endpoint": "/" + k.Name + "s", "schema": k.Schema,
			"meta": map[string]any{"resourceType": "ResourceType", "location": base + "/ResourceTypes/" + k.Name},
		})
	}
	return list
}

// field describes an attribute (RFC 7643, section 7). options has what differs from an
// optional text that can be written.
func field(name, description string, options map[string]any, parts ...any) map[string]any {
	f := map[string]any{
		"name": name, "type": "string", "multiValued": false, "description": description, "required": false,
		"caseExact": false, "mutability": "readWrite", "returned": "default", "uniqueness": "none",
	}
	maps.Copy(f, options)
	if len(parts) > 0 {
		f["type"], f["subAttributes"] = "complex", parts
	}
	return f
}

// Schemas describes the attributes (RFC 7643, section 7).
func Schemas(base string) []Resource {
	readOnly, exact := map[string]any{"mutability": "readOnly"}, map[string]any{"caseExact": true}
	several := func(mutability string) map[string]any {
		return map[string]any{"multiValued": true, "mutability": mutability}
	}
	reference := func(to, mutability string) map[string]any {
		return field("$ref", "Its address.", map[string]any{"type": "reference", "referenceTypes": []any{to}, "caseExact": true, "mutability": mutability})
	}
	schema := func(k *Kind, description string, fields ...any) Resource {
		return Resource{
			"schemas": []any{schemaSchema}, "id": k.Schema, "name": k.Name, "description": description,
			"attributes": append(fields, field("externalId", "What the directory calls it, and never anything else.", exact)),
			"meta":       map[string]any{"resourceType": "Schema", "location": base + "/Schemas/" + k.Schema},
		}
	}
	return []Resource{
		schema(
			User, "A person's account.",
			field("userName", "What the directory calls the person. It may change; the account's address does not.", map[string]any{"required": true, "uniqueness": "server"}),
			field("displayName", "The person's name.", nil),
			field("name", "The person's name in parts, which make the name where displayName is left out.", nil, field("formatted", "", nil), field("givenName", "", nil), field("familyName", "", nil)),
			field("active", "Whether the person may sign in.", map[string]any{"type": "boolean"}),
			field("emails", "The account's address: the primary one when the account is made, or userName.", several("immutable"),
				field("value", "", map[string]any{"mutability": "immutable"}), field("type", "", map[string]any{"mutability": "immutable"}),
				field("primary", "", map[string]any{"type": "boolean", "mutability": "immutable"})),
			field("groups", "The groups that the person is in.", several("readOnly"), field("value", "", readOnly), reference("Group", "readOnly"), field("display", "", readOnly)),
		),
		schema(
			Group, "A group, which gives the roles that the settings name for it.",
			field("displayName", "Its name, by which the settings give roles.", map[string]any{"required": true, "uniqueness": "server"}),
			field("members", "The people in it.", several("readWrite"), field("value", "The id of a user.", map[string]any{"mutability": "immutable", "caseExact": true}),
				reference("User", "immutable"), field("display", "", readOnly)),
		),
	}
}

// Named is the one of a list whose id is given, nil for none.
func Named(list []Resource, id string) Resource {
	for _, r := range list {
		if text, _ := r["id"].(string); strings.EqualFold(text, id) {
			return r
		}
	}
	return nil
}

// List is a page of a list (RFC 7644, section 3.4.2). start counts from 1.
func List(all []Resource, start, count int) Resource {
	start, count = max(start, 1), min(max(count, 0), MostResults)
	page := []any{}
	for i := start - 1; i < len(all) && len(page) < count; i++ {
		page = append(page, all[i])
	}
	return Resource{"schemas": []any{listSchema}, "totalResults": len(all), "startIndex": start, "itemsPerPage": len(page), "Resources": page}
}
