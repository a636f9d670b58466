package scim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"holdpoint/api/scim"
)

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	o := map[string]any{}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

const ada = `{"id":"usr_a","externalId":"X1","userName":"Ada@Example.com","displayName":"Ada","active":true,"name":{"formatted":"Ada"},
	"emails":[{"value":"ada@example.com","type":"work","primary":true}],"meta":{"created":"2026-01-02T00:00:00.000Z"}}`

func kindOf(err error) string {
	var bad *scim.Error
	if errors.As(err, &bad) {
		return bad.Type
	}
	return ""
}

func TestFilter(t *testing.T) {
	r := scim.User.Read(object(t, ada))
	for filter, want := range map[string]bool{
		``:                                      true,
		`userName eq "ada@example.com"`:         true,
		`USERNAME Eq "ADA@EXAMPLE.COM"`:         true,
		`externalId eq "x1"`:                    false,
		`externalId eq "X1" and active eq true`: true,
		`active eq false or id eq "usr_a"`:      true,
		`active eq "true"`:                      false,
		`not (active eq false)`:                 true,
		`userName ne "ada@example.com"`:         false,
		`userName sw "ada" and userName ew "COM" and userName co "@"`: true,
		`emails eq "ada@example.com"`:                                 true,
		`emails.value co "nobody"`:                                    false,
		`emails[type eq "work" and primary eq true]`:                  true,
		`emails[type eq "home"]`:                                      false,
		`groups pr`:                                                   false,
		`externalId pr`:                                               true,
		`meta.created ge "2026-01-01T00:00:00.000Z"`:                  true,
		`urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ada@example.com"`: true,
		`(active eq false or active eq true) and displayName eq "ada"`:             true,
		`active eq false and active eq true or displayName eq "ada"`:               true,
	} {
		f, err := scim.User.Filter(filter)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
		} else if got := f.Match(r); got != want {
			t.Errorf("%s: %v, want %v", filter, got, want)
		}
	}
	for _, filter := range []string{
		`userName`, `userName eq`, `userName eq ada`, `userName is "x"`, `password eq "x"`, `userName eq "x" and`, `(userName eq "x"`, `userName eq "x")`, `"x" eq userName`,
		`userName eq "x`, `userName eq "\"`, `userName gt true`, `not userName eq "x"`, `emails[type eq "work"`, `emails[userName eq "x"]`, `'; DROP TABLE people; --`,
		`userName eq "x" OR 1=1`, strings.Repeat("(", 5000), strings.Repeat("(", 200) + `active eq true`, strings.Repeat(`active eq true or `, 200) + `active eq true`, `[`, `]`, `not`, `not (`,
	} {
		if _, err := scim.User.Filter(filter); kindOf(err) != "invalidFilter" {
			t.Errorf("%.60s: %v", filter, err)
		}
	}
}

func patched(t *testing.T, kind *scim.Kind, r, operations string) (scim.Resource, error) {
	t.Helper()
	body := object(t, fmt.Sprintf(`{"schemas":[%q],"Operations":%s}`, scim.PatchSchema, operations))
	return kind.Patch(kind.Read(object(t, r)), body)
}

func TestPatch(t *testing.T) {
	const group = `{"id":"x","displayName":"g","members":[{"value":"a"},{"value":"b"},{"value":"c"}]}`
	for _, c := range []struct {
		what string
		kind *scim.Kind
		r    string
		ops  string
		want string // the attribute that changes, as JSON
	}{
		{"no path (Okta)", scim.User, ada, `[{"op":"replace","value":{"active":false}}]`, `{"active":false}`},
		{"a text (Entra)", scim.User, ada, `[{"op":"Replace","path":"active","value":"False"}]`, `{"active":"False"}`},
		{"names with dots", scim.User, ada, `[{"op":"Add","value":{"name.formatted":"Ada L","displayName":"Ada K"}}]`, `{"displayName":"Ada K","name":{"formatted":"Ada L"}}`},
		{"a part", scim.User, ada, `[{"op":"replace","path":"name.familyName","value":"King"}]`, `{"name":{"formatted":"Ada","familyName":"King"}}`},
		{"in capitals", scim.User, ada, `[{"OP":"REPLACE","Path":"DISPLAYNAME","Value":"x"}]`, `{"displayName":"x"}`},
		{"the schema's name in front", scim.User, ada, `[{"op":"add","path":"urn:ietf:params:scim:schemas:core:2.0:User:displayName","value":"x"}]`, `{"displayName":"x"}`},
		{"one that is not known", scim.User, ada, `[{"op":"add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department","value":"x"},{"op":"add","path":"title","value":"x"}]`, `{}`},
		{"an element of one that is not known", scim.User, ada, `[{"op":"add","path":"phoneNumbers[type eq \"mobile\"].value","value":"1"}]`, `{}`},
		{"what is the server's, as it was answered", scim.User, ada, `[{"op":"replace","path":"id","value":"usr_a"},{"op":"replace","value":{"id":"usr_a","meta":{"resourceType":"User"},"groups":[{"value":"grp_admins"}],"schemas":[]}},{"op":"add","path":"emails[type eq \"work\"].value","value":"eve@example.com"}]`, `{}`},
		{"remove", scim.User, ada, `[{"op":"remove","path":"externalId"}]`, `{"externalId":null}`},
		{"members come", scim.Group, group, `[{"op":"add","path":"members","value":[{"value":"c"},{"value":"d"},{"value":"d"}]}]`, `{"members":[{"value":"a"},{"value":"b"},{"value":"c"},{"value":"d"}]}`},
		{"one goes by a filter", scim.Group, group, `[{"op":"remove","path":"members[value eq \"b\"]"}]`, `{"members":[{"value":"a"},{"value":"c"}]}`},
		{"one goes by a value (Entra)", scim.Group, group, `[{"op":"Remove","path":"members","value":[{"value":"b"}]}]`, `{"members":[{"value":"a"},{"value":"c"}]}`},
		{"nobody goes", scim.Group, group, `[{"op":"remove","path":"members","value":[]},{"op":"remove","path":"members[value eq \"x\"]"}]`, `{}`},
		{"all go", scim.Group, group, `[{"op":"remove","path":"members"}]`, `{"members":null}`},
		{"others", scim.Group, group, `[{"op":"replace","path":"members","value":[{"value":"d"}]}]`, `{"members":[{"value":"d"}]}`},
		{"others, without a path", scim.Group, group, `[{"op":"replace","value":{"id":"x","displayName":"h","members":[{"value":"d"}]}}]`, `{"displayName":"h","members":[{"value":"d"}]}`},
	} {
		got, err := patched(t, c.kind, c.r, c.ops)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		want := c.kind.Read(object(t, c.r))
		for name, value := range object(t, c.want) {
			if want[name] = value; value == nil {
				delete(want, name)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", c.what, got, want)
		}
	}
	for ops, want := range map[string]string{
		`[]`: "invalidSyntax", `{}`: "invalidSyntax", `[1]`: "invalidSyntax", `[{"op":"move","path":"active"}]`: "invalidSyntax",
		`[{"op":"remove"}]`: "noTarget", `[{"op":"add","value":1}]`: "invalidValue", `[{"op":"add","path":1,"value":1}]`: "invalidPath",
		`[{"op":"replace","path":"id","value":"y"}]`: "mutability", `[{"op":"add","path":"ID","value":["x"]}]`: "mutability", `[{"op":"remove","path":"id"}]`: "mutability",
		`[{"op":"replace","value":{"displayName":"h","id":"y"}}]`: "mutability", `[{"op":"replace","path":"meta.created","value":"2020-01-01T00:00:00Z"}]`: "mutability",
		`[{"op":"replace","path":"members[value eq \"a\"]","value":{"value":"z"}}]`: "noTarget", `[{"op":"remove","path":"members[value eq]"}]`: "invalidPath",
		`[{"op":"remove","path":"members[password eq \"x\"]"}]`: "invalidPath", `[{"op":"remove","path":"members x"}]`: "invalidPath",
		`[` + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"displayName","value":"x"},`, 1001), ",") + `]`: "invalidSyntax",
	} {
		if _, err := patched(t, scim.Group, group, ops); kindOf(err) != want {
			t.Errorf("%.80s: %v, want %s", ops, err, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(`userName eq "x" and (active eq true or not (emails[type eq "work"]))`)
	f.Add(`members[value eq "x"].display`)
	r := scim.User.Read(map[string]any{"userName": "x", "emails": []any{map[string]any{"type": "work"}, "y"}, "name": 1.0})
	f.Fuzz(func(_ *testing.T, text string) {
		if filter, err := scim.User.Filter(text); err == nil {
			filter.Match(r)
		}
		scim.User.Exact(text)
		body := map[string]any{"schemas": []any{scim.PatchSchema}, "Operations": []any{map[string]any{"op": "remove", "path": text}}}
		_, _ = scim.User.Patch(r, body)
	})
}
