package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
)

// at reads an answer by names and places, as in Resources.0.emails.0.value; nil for what is
// not there.
func (a scimAnswer) at(path string) any {
	var v any = map[string]any(a)
	for _, step := range strings.Split(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[step]
		case []any:
			if step != "0" || len(of) == 0 {
				return nil
			}
			v = of[0]
		default:
			return nil
		}
	}
	return v
}

// TestDirectoryByOktasList goes through the public list by which Okta has the SCIM servers of
// others tried before it lists them (its "SCIM 2.0 SPEC test"): the requests in its order, and
// what it asks of each answer.
func TestDirectoryByOktasList(t *testing.T) {
	o := newDirectoryHarness(t)
	has := func(a scimAnswer, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if v := a.at(path); v == nil || v == "" {
				t.Errorf("%s is %v: %v", path, v, a)
			}
		}
	}
	equal := func(a scimAnswer, path string, want any) {
		t.Helper()
		if got := a.at(path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	schema := func(a scimAnswer, want string) {
		t.Helper()
		if list, _ := a.at("schemas").([]any); !slices.Contains(list, any(want)) {
			t.Errorf("the schemas are %v, want %s among them", list, want)
		}
	}
	const (
		listSchema  = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
		errorSchema = "urn:ietf:params:scim:api:messages:2.0:Error"
		userSchema  = "urn:ietf:params:scim:schemas:core:2.0:User"
	)
	body := func(name string) string {
		text, err := json.Marshal(map[string]any{
			"schemas": []string{userSchema}, "userName": name + "@example.com", "active": true, "displayName": name + " Lindt", "externalId": "okta-" + name,
			"name":   map[string]string{"givenName": name, "familyName": "Lindt"},
			"emails": []map[string]any{{"primary": true, "type": "work", "value": name + "@example.com"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	o.scim("POST", "/Users", body("known"), 201, "") // the list wants somebody to be there
	is := func(name string) string { return "/Users?filter=" + url.QueryEscape(`userName eq "`+name+`"`) }

	// Test Users endpoint.
	first := o.scim("GET", "/Users?count=1&startIndex=1", "", 200, "")
	schema(first, listSchema)
	has(first, "itemsPerPage", "startIndex", "totalResults", "Resources.0.id", "Resources.0.name.familyName", "Resources.0.name.givenName", "Resources.0.userName", "Resources.0.active", "Resources.0.emails.0.value")
	// Get Users/{{id}}.
	id, _ := first.at("Resources.0.id").(string)
	known := o.scim("GET", "/Users/"+id, "", 200, "")
	equal(known, "id", id)
	has(known, "name.familyName", "name.givenName", "userName", "active", "emails.0.value")
	// Test invalid User by username, and by id; make sure random user doesn't exist.
	none := o.scim("GET", is("nobody@example.com"), "", 200, "")
	schema(none, listSchema)
	equal(none, "totalResults", 0.0)
	missing := o.scim("GET", "/Users/010101001010101011001010101011", "", 404, "")
	schema(missing, errorSchema)
	has(missing, "detail")
	equal(o.scim("GET", is("runscope300@example.com"), "", 200, ""), "totalResults", 0.0)
	// Create Okta user with realistic values, and verify that user was created.
	made := o.scim("POST", "/Users", body("runscope300"), 201, "")
	schema(made, userSchema)
	for _, a := range []scimAnswer{made, o.scim("GET", "/Users/"+made.id(), "", 200, "")} {
		has(a, "id", "active")
		equal(a, "active", true)
		equal(a, "userName", "runscope300@example.com")
		equal(a, "name.givenName", "runscope300")
		equal(a, "name.familyName", "Lindt")
	}
	// Expect failure when recreating user with same values.
	o.scim("POST", "/Users", body("runscope300"), 409, "uniqueness")
	// Username case sensitivity check.
	equal(o.scim("GET", is("RUNSCOPE300@EXAMPLE.COM"), "", 200, ""), "totalResults", 1.0)
	// Optional: verify Groups endpoint; check the status and the error of a group that there is not.
	groups := o.scim("GET", "/Groups", "", 200, "")
	schema(groups, listSchema)
	has(groups, "totalResults")
	gone := o.scim("GET", "/Groups/00919288221112222", "", 404, "")
	schema(gone, errorSchema)
	has(gone, "detail")
}

// TestDirectoryByEntrasList goes through the public list by which Entra ID has the SCIM servers
// of others tried (its "SCIM Validator"), with the requests that its documentation shows.
func TestDirectoryByEntrasList(t *testing.T) {
	o := newDirectoryHarness(t)
	const core, enterprise = "urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	body := func(name string) string {
		return `{"schemas":["` + core + `","` + enterprise + `"],"externalId":"e-` + name + `","userName":"` + name + `@example.com","active":true,"displayName":"Dr. ` + name + `",
			"emails":[{"primary":true,"type":"work","value":"` + name + `@example.com"}],"meta":{"resourceType":"User"},"name":{"formatted":"Doctor ` + name + `","familyName":"Moe","givenName":"` + name + `"},
			"roles":[],"title":"x","preferredLanguage":"en","` + enterprise + `":{"department":"y"}}`
	}
	is := func(kind, attribute, value string) string {
		return "/" + kind + "?filter=" + url.QueryEscape(attribute+` eq "`+value+`"`)
	}
	equal := func(what string, a scimAnswer, want map[string]any) {
		t.Helper()
		for path, value := range want {
			if got := a.at(path); got != value {
				t.Errorf("%s: %s is %v, want %v", what, path, got, value)
			}
		}
	}

	// Create a new User; a duplicate User.
	equal("made", o.scim("POST", "/Users", body("bea"), 201, ""), map[string]any{
		"userName": "bea@example.com", "externalId": "e-bea", "active": true, "displayName": "Dr. bea", "emails.0.value": "bea@example.com",
		"name.formatted": "Doctor bea", "name.familyName": "Moe", "name.givenName": "bea",
	})
	o.scim("POST", "/Users", body("bea"), 409, "uniqueness")
	// Filter existing User, with a different case; a User that there is not.
	found := o.scim("GET", is("Users", "userName", "BEA@EXAMPLE.COM"), "", 200, "")
	equal("found", found, map[string]any{"totalResults": 1.0, "Resources.0.name.familyName": "Moe"})
	id, _ := found.at("Resources.0.id").(string)
	bea := "/Users/" + id
	equal("by a name within", o.scim("GET", is("Users", "name.familyName", "MOE"), "", 200, ""), map[string]any{"totalResults": 1.0})
	equal("none", o.scim("GET", is("Users", "userName", "nobody@example.com"), "", 200, ""), map[string]any{"totalResults": 0.0})
	// Patch: replace attributes, each by an operation of its own; in one without a path; add; disable; another userName.
	equal("replaced", o.patch(bea, `[{"op":"replace","path":"name.familyName","value":"Noe"},{"op":"replace","path":"name.formatted","value":"Doctor Noe"},{"op":"replace","path":"displayName","value":"Dr. Noe"}]`, 200, ""),
		map[string]any{"name.familyName": "Noe", "name.givenName": "bea", "name.formatted": "Doctor Noe", "displayName": "Dr. Noe"})
	equal("verbose", o.patch(bea, `[{"op":"Replace","value":{"displayName":"Dr. Poe","name.givenName":"Bea","name.familyName":"Poe","`+enterprise+`:department":"z"}}]`, 200, ""),
		map[string]any{"name.familyName": "Poe", "name.givenName": "Bea", "name.formatted": "Doctor Noe", "displayName": "Dr. Poe"})
	equal("added", o.patch(bea, `[{"op":"Add","path":"name.formatted","value":"Bea Poe"},{"op":"Add","path":"`+enterprise+`:manager","value":"`+id+`"}]`, 200, ""), map[string]any{"name.formatted": "Bea Poe", "displayName": "Dr. Poe"})
	equal("disabled", o.patch(bea, `[{"op":"Replace","path":"active","value":false}]`, 200, ""), map[string]any{"active": false, "displayName": "Dr. Poe"})
	equal("another userName", o.patch(bea, `[{"op":"Replace","path":"userName","value":"poe@example.com"}]`, 200, ""), map[string]any{"userName": "poe@example.com"})
	equal("kept", o.scim("GET", bea, "", 200, ""), map[string]any{"userName": "poe@example.com", "active": false, "name.familyName": "Poe", "name.formatted": "Bea Poe", "displayName": "Dr. Poe"})
	// Groups: create, a duplicate, filter, without members, patch, members, delete.
	group := o.scim("POST", "/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group","http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],"externalId":"g","displayName":"Moes","meta":{"resourceType":"Group"}}`, 201, "")
	moes := "/Groups/" + group.id()
	o.scim("POST", "/Groups", `{"externalId":"g","displayName":"moes"}`, 409, "uniqueness")
	o.patch(moes, `[{"op":"Add","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}]`, 204, "")
	equal("a member", o.scim("GET", moes, "", 200, ""), map[string]any{"members.0.value": id})
	equal("without members", o.scim("GET", moes+"?excludedAttributes=members", "", 200, ""), map[string]any{"members": nil, "displayName": "Moes"})
	equal("found, without members", o.scim("GET", is("Groups", "displayName", "moes")+"&excludedAttributes=members", "", 200, ""), map[string]any{"totalResults": 1.0, "Resources.0.members": nil, "Resources.0.id": group.id()})
	equal("none", o.scim("GET", is("Groups", "displayName", "nobody"), "", 200, ""), map[string]any{"totalResults": 0.0})
	o.patch(moes, `[{"op":"Replace","path":"displayName","value":"Poes"}]`, 204, "")
	o.patch(moes, `[{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}]`, 204, "")
	equal("no member", o.scim("GET", moes, "", 200, ""), map[string]any{"members": nil, "displayName": "Poes"})
	// Delete a User and a Group; one that there is not; the same one twice.
	for _, path := range []string{bea, moes} {
		o.scim("DELETE", path, "", 204, "")
		o.scim("DELETE", path, "", 404, "")
		o.scim("GET", path, "", 404, "")
	}
	o.scim("DELETE", "/Users/5171a35d82074e068ce2", "", 404, "")
	o.scim("DELETE", "/Groups/5171a35d82074e068ce2", "", 404, "")
}

// Which of the names that a directory sends is the account's, and what becomes of them.
func TestDirectoryNames(t *testing.T) {
	o := newDirectoryHarness(t)
	eve := o.user("eve", `,"name":{"givenName":"Eve","familyName":"Moe"}`)
	path := "/Users/" + eve.id()
	put := func(more string) scimAnswer {
		return o.scim("PUT", path, `{"userName":"eve@example.com","externalId":"x-eve"`+more+`}`, 200, "")
	}
	for _, c := range []struct {
		what string
		got  func() scimAnswer
		want string // displayName, formatted, givenName, familyName
	}{
		{"displayName is", func() scimAnswer { return eve }, "eve · Eve Moe · Eve · Moe"},
		{"however often it is said", func() scimAnswer {
			put(`,"displayName":"Dr. Moe","name":{"givenName":"Eve","familyName":"Moe","formatted":"Moe, Eve"}`)
			return put(`,"displayName":"Dr. Moe","name":{"givenName":"Eve","familyName":"Moe","formatted":"Moe, Eve"}`)
		}, "Dr. Moe · Moe, Eve · Eve · Moe"},
		{"a patch of others leaves it", func() scimAnswer {
			return o.patch(path, `[{"op":"replace","path":"name.familyName","value":"Noe"}]`, 200, "")
		}, "Dr. Moe · Moe, Eve · Eve · Noe"},
		{"formatted in place of it", func() scimAnswer { return put(`,"name":{"givenName":"Eve","familyName":"Moe","formatted":"Moe, Eve"}`) }, "Moe, Eve · Moe, Eve · Eve · Moe"},
		{"parts in place of both", func() scimAnswer { return put(`,"name":{"givenName":"Eve","familyName":"Moe"}`) }, "Eve Moe · Eve Moe · Eve · Moe"},
		{"it follows what it was made of", func() scimAnswer {
			return o.patch(path, `[{"op":"replace","path":"name","value":{"familyName":"Noe"}}]`, 200, "")
		}, "Eve Noe · Eve Noe · Eve · Noe"},
		{"one goes", func() scimAnswer { return o.patch(path, `[{"op":"remove","path":"name.givenName"}]`, 200, "") }, "Noe · Noe · <nil> · Noe"},
		{"nothing is said of it", func() scimAnswer { return put(``) }, "Noe · Noe · <nil> · <nil>"},
		{"one alone is no name", func() scimAnswer {
			return o.patch(path, `[{"op":"add","path":"name.givenName","value":"Eve"}]`, 200, "")
		}, "Noe · Eve · Eve · <nil>"},
	} {
		a := c.got()
		if got := fmt.Sprintf("%v · %v · %v · %v", a.at("displayName"), a.at("name.formatted"), a.at("name.givenName"), a.at("name.familyName")); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	o.scim("PUT", path, `{"userName":"eve@example.com","name":{"givenName":"`+strings.Repeat("é", 256)+`"}}`, 400, "invalidValue")
	o.scim("PUT", path, `{"userName":"eve@example.com","name":{"familyName":"a\nb"}}`, 400, "invalidValue")
	o.scim("PUT", path, `{"userName":"eve@example.com","name":{"familyName":7}}`, 400, "invalidValue")
	if n := o.count(`SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%Noe%'`); n != 0 {
		t.Errorf("%d events have a name", n)
	}

	// An erasure takes them.
	o.exec(`UPDATE retention_floor SET shortest = '0'`)
	by := access.Initiator{Actor: engine.Actor{Kind: engine.HumanActor, ID: o.olga.ID}}
	if _, err := o.Retention.Erase(t.Context(), by, admin.EraseRequest{Person: eve.id(), Reason: "asked for"}, nil); err != nil {
		t.Fatal(err)
	}
	if n := o.count(`SELECT count(*) FROM directory_users`); n != 0 {
		t.Errorf("%d rows of the directory are left", n)
	}
}
