package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
	"holdpoint/internal/sso"
	"holdpoint/internal/store"
	"holdpoint/internal/store/storetest"
)

// directoryHarness is a harness with the key of a directory, which sends people and groups.
type directoryHarness struct {
	*harness
	t    *testing.T
	olga engine.Person
	corp *sso.Config
}

func newDirectoryHarness(t *testing.T) *directoryHarness {
	db := storetest.New(t)
	h := harnessOn(t, db, db.Administering(), api.Limits{})
	o := &directoryHarness{harness: h, t: t, corp: &sso.Config{
		Name: "corp", Issuer: "https://id.example.com", SCIM: true, EmailDomains: []string{"example.com"},
		Roles: map[string][]string{"finance": {"reviewer", "finance"}, "ops": {"admin"}},
	}}
	o.olga = db.Person(engine.Person{Name: "olga", Roles: []string{"admin"}})
	h.Directory.SCIM = o.corp
	return o
}

type scimAnswer map[string]any

// scim sends a request as the directory, and fails the test unless the status, and for an
// error its scimType, are these.
func (o *directoryHarness) scim(method, path, body string, status int, kind string) scimAnswer {
	o.t.Helper()
	headers := []string{"Authorization", "Bearer directory"}
	if body != "" {
		headers = append(headers, "Content-Type", "application/scim+json")
	}
	r := o.send(method, "/scim/v2"+path, body, headers...)
	a := scimAnswer{}
	if len(r.body) > 0 {
		if err := json.Unmarshal(r.body, &a); err != nil {
			o.t.Fatalf("%s %s: %v: %s", method, path, err, r.body)
		}
		if got := r.Header.Get("Content-Type"); got != "application/scim+json" {
			o.t.Errorf("%s %s: Content-Type %s", method, path, got)
		}
	}
	said, _ := a["scimType"].(string)
	if r.StatusCode != status || said != kind || status >= 400 && (a["status"] != fmt.Sprint(status) || a["detail"] == "") {
		o.t.Fatalf("%s %s %.200s: %d %s, want %d %q", method, path, body, r.StatusCode, r.body, status, kind)
	}
	if status == 201 && r.Header.Get("Location") != a.meta("location") {
		o.t.Errorf("%s %s: Location %q", method, path, r.Header.Get("Location"))
	}
	return a
}

func (a scimAnswer) id() string { id, _ := a["id"].(string); return id }

func (a scimAnswer) meta(name string) string {
	meta, _ := a["meta"].(map[string]any)
	text, _ := meta[name].(string)
	return text
}

func (o *directoryHarness) user(name, more string) scimAnswer {
	o.t.Helper()
	return o.scim("POST", "/Users", fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"%s@example.com","displayName":%q,"externalId":"x-%s"%s}`, name, name, name, more), 201, "")
}

func (o *directoryHarness) group(name string, members ...string) scimAnswer {
	o.t.Helper()
	return o.scim("POST", "/Groups", fmt.Sprintf(`{"displayName":%q,"members":[%s]}`, name, values(members)), 201, "")
}

func values(ids []string) string {
	var list []string
	for _, id := range ids {
		list = append(list, fmt.Sprintf(`{"value":%q}`, id))
	}
	return strings.Join(list, ",")
}

func (o *directoryHarness) patch(path, operations string, status int, kind string) scimAnswer {
	o.t.Helper()
	return o.scim("PATCH", path, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":`+operations+`}`, status, kind)
}

// roles are somebody's, and whether they are disabled.
func (o *directoryHarness) roles(id string) string {
	o.t.Helper()
	p, err := o.Store.People.Get(o.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	slices.Sort(p.Roles)
	if p.Disabled {
		return strings.Join(append(p.Roles, "disabled"), " ")
	}
	return strings.Join(p.Roles, " ")
}

func (o *directoryHarness) check(what, id, want string) {
	o.t.Helper()
	if got := o.roles(id); got != want {
		o.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// codes are those of the events about somebody, the newest first; each by the key.
func (o *directoryHarness) codes(id string) (codes []string) {
	o.t.Helper()
	events, err := o.Store.Reports.EventsAbout(o.t.Context(), []string{id}, 50)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, e := range events {
		if e.Actor.ID != "key_d" || e.Actor.Kind != engine.ServiceActor {
			o.t.Errorf("the actor is %+v", e.Actor)
		}
		codes = append(codes, e.Reasons[0].Code)
	}
	return codes
}

const off, on = `[{"op":"replace","value":{"active":false}}]`, `[{"op":"Replace","path":"active","value":"True"}]`

// People come, change, go, and come back as who they were.
func TestDirectoryUsers(t *testing.T) {
	o := newDirectoryHarness(t)
	ada := o.user("ada", `,"name":{"givenName":"Ada","familyName":"King"},"password":"hush","roles":[{"value":"admin"}],"groups":[{"value":"ops"}],"title":"x"`)
	path := "/Users/" + ada.id()
	o.check("without a group", ada.id(), "")
	if got := o.scim("GET", path, "", 200, ""); got["userName"] != "ada@example.com" || got["active"] != true || got["externalId"] != "x-ada" || got["password"] != nil || got["roles"] != nil {
		t.Errorf("she is %v", got)
	}
	finance := o.group("finance", ada.id())
	o.check("in a group", ada.id(), "finance reviewer")
	session := []byte(strings.Repeat("s", 32))
	p, hash, err := o.Store.People.ByEmail(t.Context(), "ada@example.com")
	if err != nil {
		t.Fatal(err)
	}
	p.PasswordChecked = store.PasswordDigest(hash)
	if err := o.Store.Sessions.Create(t.Context(), session, p, 1e12); err != nil {
		t.Fatal(err)
	}
	if got := o.patch(path, off, 200, ""); got["active"] != false {
		t.Errorf("she is %v", got)
	}
	if _, err := o.Store.Sessions.Person(t.Context(), session); err == nil {
		t.Error("her session lives")
	}
	o.check("left", ada.id(), "finance reviewer disabled")
	o.patch(path, on, 200, "")
	o.check("back", ada.id(), "finance reviewer")
	o.scim("PUT", path, `{"userName":"ada.king@example.com","externalId":"x-ada","name":{"formatted":"Ada King"},"active":true,"emails":[{"value":"eve@example.com"}]}`, 200, "")
	if got := o.scim("GET", path, "", 200, ""); got["userName"] != "ada.king@example.com" || got["displayName"] != "Ada King" || fmt.Sprint(got["emails"]) != "[map[primary:true type:work value:ada@example.com]]" {
		t.Errorf("she is %v", got)
	}
	o.scim("DELETE", path, "", 204, "")
	o.scim("GET", path, "", 404, "")
	o.scim("DELETE", path, "", 404, "")
	o.patch(path, on, 404, "")
	o.check("removed", ada.id(), "disabled")
	if got := o.scim("GET", "/Groups/"+finance.id(), "", 200, ""); got["members"] != nil {
		t.Errorf("the group is %v", got)
	}
	// Another person who has got the address is not given her account.
	o.scim("POST", "/Users", `{"userName":"ada@example.com","externalId":"x-other"}`, 409, "uniqueness")
	o.scim("POST", "/Users", `{"userName":"ada@example.com"}`, 409, "uniqueness")
	if back := o.user("ada", ""); back.id() != ada.id() {
		t.Errorf("she came back as %s, and was %s", back.id(), ada.id())
	}
	o.check("back without groups", ada.id(), "")
	o.patch(path, `[{"op":"replace","path":"externalId","value":"x-new"}]`, 200, "")
	want := []string{
		"DIRECTORY_USER_CHANGED", "USER_LINKED", "USER_ENABLED", "USER_RENAMED", "USER_ROLES_CHANGED", "DIRECTORY_USER_REMOVED", "USER_DISABLED",
		"DIRECTORY_USER_CHANGED", "USER_RENAMED", "USER_ENABLED", "USER_DISABLED", "USER_ROLES_CHANGED", "USER_ADDED",
	}
	got := o.codes(ada.id())
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the log has %v, want %v", got, want)
	}
}

// Roles go by the names of groups, and by nothing else.
func TestDirectoryGroups(t *testing.T) {
	o := newDirectoryHarness(t)
	ada, ben := o.user("ada", "").id(), o.user("ben", "").id()
	o.exec(`UPDATE people SET roles = '{auditor}' WHERE id = $1`, ada)
	g := "/Groups/" + o.group("nobody's", ada, ben).id()
	o.check("of a group that gives nothing", ada, "auditor")
	o.patch(g, `[{"op":"replace","value":{"displayName":"finance"}}]`, 204, "")
	o.check("of a group that was renamed", ben, "finance reviewer")
	o.check("with a role that no group gives", ada, "auditor finance reviewer")
	o.patch(g, `[{"op":"Remove","path":"members","value":[{"value":"`+ben+`"}]}]`, 204, "")
	o.check("who was taken out", ben, "")
	o.patch(g, `[{"op":"add","path":"members","value":[{"value":"`+ben+`"}]},{"op":"remove","path":"members[value eq \"`+ada+`\"]"}]`, 204, "")
	o.check("who went", ada, "auditor")
	o.check("who came", ben, "finance reviewer")
	o.scim("PUT", g, `{"displayName":"finance","members":[`+values([]string{ada, ada})+`]}`, 200, "")
	o.check("in place of", ada, "auditor finance reviewer")
	o.check("replaced", ben, "")
	o.scim("DELETE", g, "", 204, "")
	o.check("of a group that is gone", ada, "auditor")
	o.scim("GET", g, "", 404, "")
	o.scim("GET", "/Groups/", "", 404, "")

	// The last administrator stays, and a second group of a name does not come.
	ops := "/Groups/" + o.group("ops", ada, ben).id()
	o.scim("POST", "/Groups", `{"displayName":"OPS","members":[`+values([]string{ada})+`]}`, 409, "uniqueness")
	o.exec(`INSERT INTO sso_identities (issuer, subject, person_id) VALUES ('https://id.example.com', 's', $1)`, ada)
	o.exec(`UPDATE people SET roles = '{}' WHERE id = $1`, o.olga.ID)
	events := o.count(`SELECT count(*) FROM events`)
	o.scim("PUT", ops, `{"displayName":"ops"}`, 409, "")
	o.patch(ops, `[{"op":"remove","path":"members[value eq \"`+ada+`\"]"}]`, 409, "")
	o.patch(ops, `[{"op":"replace","path":"displayName","value":"nothing"}]`, 409, "")
	o.scim("DELETE", ops, "", 409, "")
	o.check("the last one who can sign in", ada, "admin auditor")
	o.check("of a group that could not be changed", ben, "admin")
	if n := o.count(`SELECT count(*) FROM events`); n != events {
		t.Errorf("refusals have left %d events", n-events)
	}
	o.scim("PUT", ops, `{"displayName":"ops","members":[`+values([]string{ada})+`]}`, 200, "")
	o.check("who cannot sign in", ben, "")
	o.patch("/Users/"+ada, off, 409, "")
	o.scim("DELETE", "/Users/"+ada, "", 409, "")
	o.check("the last one", ada, "admin auditor")
}

// What was made here, or decided here, is not the directory's.
func TestDirectoryTakesNothingOver(t *testing.T) {
	o := newDirectoryHarness(t)
	o.scim("POST", "/Users", `{"userName":"olga@example.com","externalId":"x"}`, 409, "uniqueness")
	o.scim("POST", "/Users", `{"userName":"o","emails":[{"value":"Olga@Example.com","primary":true}]}`, 409, "uniqueness")
	for _, path := range []string{"/Users/" + o.olga.ID, "/Users/usr_x", "/Users/'"} {
		o.scim("GET", path, "", 404, "")
		o.patch(path, off, 404, "")
		o.scim("PUT", path, `{"userName":"x"}`, 404, "")
		o.scim("DELETE", path, "", 404, "")
	}
	o.scim("POST", "/Groups", `{"displayName":"ops","members":[{"value":"`+o.olga.ID+`"}]}`, 400, "invalidValue")
	o.check("she", o.olga.ID, "admin")

	ada := o.user("ada", "").id()
	o.db.Disable(ada, storetest.Event())
	for range 2 {
		if got := o.patch("/Users/"+ada, on, 200, ""); got["active"] != false {
			t.Errorf("who was disabled here is %v", got)
		}
		o.scim("PUT", "/Users/"+ada, `{"userName":"ada@example.com","externalId":"x-ada","active":true}`, 200, "")
		o.patch("/Users/"+ada, off, 200, "")
	}
	o.check("disabled here", ada, "disabled")

	// The settings may give the directory accounts that there are.
	o.corp.LinkByEmail = true
	leo := o.db.Person(engine.Person{Name: "leo", Roles: []string{"auditor", "finance"}})
	if got := o.user("leo", "").id(); got != leo.ID {
		t.Errorf("he is %s", got)
	}
	o.check("linked", leo.ID, "auditor finance")

	// But by an address alone no administrator's, and nobody's who comes in elsewhere.
	o.scim("POST", "/Users", `{"userName":"olga@example.com","externalId":"x-olga"}`, 409, "uniqueness")
	o.check("the account for emergencies", o.olga.ID, "admin")
	zoe := o.db.Person(engine.Person{Name: "zoe", Roles: []string{}})
	o.exec(`INSERT INTO sso_identities (issuer, subject, person_id) VALUES ('https://other.example.com', 'x-zoe', $1)`, zoe.ID)
	o.scim("POST", "/Users", `{"userName":"zoe@example.com","externalId":"x-zoe"}`, 409, "uniqueness")
	ida := o.db.Person(engine.Person{Name: "ida", Roles: []string{"admin"}})
	o.exec(`INSERT INTO sso_identities (issuer, subject, person_id) VALUES ('https://id.example.com', 'x-ida', $1)`, ida.ID)
	if got := o.user("ida", "").id(); got != ida.ID {
		t.Errorf("an administrator who comes in by the provider is %s", got)
	}
	mia := o.db.Person(engine.Person{Name: "mia", Roles: []string{}})
	o.exec(`INSERT INTO sso_identities (issuer, subject, person_id) VALUES ('https://id.example.com', 'x-former', $1)`, mia.ID)
	o.scim("POST", "/Users", `{"userName":"mia@example.com","externalId":"x-mia"}`, 409, "uniqueness")
}

// Whose account a sign-in opens, and with which roles.
func TestDirectoryAndSignIn(t *testing.T) {
	o := newDirectoryHarness(t)
	ada := o.user("ada", "").id()
	o.group("finance", ada)
	arrive := func(c sso.Config, w sso.User) (string, error) {
		w.Issuer = c.Issuer
		p, _, err := o.People.Arrive(t.Context(), c, w)
		return p.ID, err
	}
	without := *o.corp
	without.SCIM = false
	for what, c := range map[string]struct {
		corp sso.Config
		who  sso.User
	}{
		"another one with her address":     {*o.corp, sso.User{Subject: "s2", ExternalID: "x-eve", Email: "ada@example.com", EmailVerified: true}},
		"a provider that has no directory": {without, sso.User{Subject: "s2", ExternalID: "x-ada"}},
		"nobody":                           {*o.corp, sso.User{Subject: "s2"}},
	} {
		if id, err := arrive(c.corp, c.who); err == nil {
			t.Errorf("%s came in as %s", what, id)
		}
	}
	o.exec(`UPDATE people SET roles = '{admin,auditor}' WHERE id = $1`, ada)
	for range 2 {
		if id, err := arrive(*o.corp, sso.User{Subject: "s1", ExternalID: "x-ada", Groups: []string{"ops"}}); err != nil || id != ada {
			t.Errorf("she came in as %s: %v", id, err)
		}
		o.check("by the directory, not by a claim", ada, "auditor finance reviewer")
	}
	if id, err := arrive(*o.corp, sso.User{Subject: "s3", ExternalID: "x-ada"}); err == nil {
		t.Errorf("a second one came in as %s", id)
	}
	o.patch("/Users/"+ada, off, 200, "")
	if _, err := arrive(*o.corp, sso.User{Subject: "s1", ExternalID: "x-ada"}); err == nil {
		t.Error("she came in, and had left")
	}
}

// A day of a directory, in the words of two that are known: each person and each group is
// asked for, made, and changed.
func TestDirectoryAsProvidersSend(t *testing.T) {
	o := newDirectoryHarness(t)
	const core, more, group = "urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User", "urn:ietf:params:scim:schemas:core:2.0:Group"
	var ids []string
	for i := range 12 {
		name := fmt.Sprintf("p%d", i)
		if a := o.scim("GET", "/Users?filter=userName+eq+%22"+name+"@example.com%22", "", 200, ""); fmt.Sprint(a["totalResults"], a["Resources"]) != "0 []" {
			t.Fatalf("before: %v", a)
		}
		body := fmt.Sprintf(`{"schemas":[%q],"userName":"%[2]s@example.com","name":{"givenName":"Pia","familyName":"N"},"emails":[{"primary":true,"value":"%[2]s@example.com","type":"work"}],`+
			`"displayName":"Pia N","locale":"en-US","externalId":"x-%[2]s","groups":[],"password":"hush","active":true}`, core, name)
		if i%2 == 0 {
			body = fmt.Sprintf(`{"schemas":[%q,%[2]q],"externalId":"x-%[3]s","userName":"%[3]s@example.com","active":true,"displayName":"Pia N","emails":[{"primary":true,"type":"work","value":"%[3]s@example.com"}],`+
				`"meta":{"resourceType":"User"},"name":{"formatted":"Pia N","familyName":"N","givenName":"Pia"},%[2]q:{"department":"x"}}`, core, more, name)
		}
		ids = append(ids, o.scim("POST", "/Users", body, 201, "").id())
	}
	finance := "/Groups/" + o.scim("POST", "/Groups", fmt.Sprintf(`{"schemas":[%q],"displayName":"finance","members":[{"value":%q,"display":"p0"}]}`, group, ids[0]), 201, "").id()
	ops := "/Groups/" + o.scim("POST", "/Groups", fmt.Sprintf(`{"schemas":[%q,"http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],"externalId":"g","displayName":"ops","meta":{"resourceType":"Group"}}`, group), 201, "").id()
	for i := 1; i < 12; i++ {
		to := []string{finance, ops}[i%2]
		o.patch(to, `[{"op":"Add","path":"members","value":[{"$ref":null,"value":"`+ids[i]+`"}]}]`, 204, "")
	}
	// Some move.
	o.patch(finance, `[{"op":"remove","path":"members[value eq \"`+ids[0]+`\"]"}]`, 204, "")
	o.patch(ops, `[{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+ids[1]+`"}]}]`, 204, "")
	o.patch(finance, `[{"op":"add","path":"members","value":[{"value":"`+ids[1]+`","display":"p1"}]}]`, 204, "")
	// Some leave, in each of the ways, and one of them comes back.
	o.patch("/Users/"+ids[2], off, 200, "")
	o.patch("/Users/"+ids[3], `[{"op":"Replace","path":"active","value":"False"}]`, 200, "")
	o.scim("PUT", "/Users/"+ids[4], fmt.Sprintf(`{"schemas":[%q],"id":%q,"userName":"p4@example.com","externalId":"x-p4","active":false,"emails":[]}`, core, ids[4]), 200, "")
	o.scim("DELETE", "/Users/"+ids[5], "", 204, "")
	o.patch("/Users/"+ids[2], on, 200, "")
	o.patch("/Users/"+ids[6], `[{"op":"Replace","path":"displayName","value":"Pia M"},{"op":"Replace","path":"name.familyName","value":"M"},{"op":"Add","path":"emails[type eq \"work\"].value","value":"eve@example.com"},{"op":"Add","path":"`+more+`:department","value":"y"}]`, 200, "")
	o.patch(ops, `[{"op":"replace","value":{"id":"`+strings.TrimPrefix(ops, "/Groups/")+`","displayName":"readers"}}]`, 204, "")
	for i, want := range []string{"", "finance reviewer", "finance reviewer", "disabled", "finance reviewer disabled", "disabled", "finance reviewer", "", "finance reviewer", "", "finance reviewer", ""} {
		o.check(fmt.Sprintf("p%d", i), ids[i], want)
	}
	for sql, want := range map[string]int64{
		`SELECT count(*) FROM people WHERE name = 'Pia M' AND email = 'p6@example.com'`:                                                             1,
		`SELECT count(*) FROM directory_members`:                                                                                                    11 - 1,
		`SELECT count(*) FROM people WHERE 'admin' = ANY (roles) AND disabled_at IS NULL`:                                                           1,
		`SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%USER_ADDED%'`:                                                          12,
		`SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%hush%' OR convert_from(body, 'UTF8') LIKE '%Pia%'`:                     0,
		`SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%DIRECTORY_%' AND convert_from(body, 'UTF8') NOT LIKE '%"id":"key_d"%'`: 0,
	} {
		if got := o.count(sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}

// What the RFCs ask for, and what is refused.
func TestDirectoryProtocol(t *testing.T) {
	o := newDirectoryHarness(t)
	ids := []string{}
	for _, name := range []string{"ada", "ben", "cem"} {
		ids = append(ids, o.user(name, "").id())
	}
	g := o.group("finance", ids...)
	for query, want := range map[string]int{
		`?filter=userName+eq+"%C3%A9%FF"`: 0, `?filter=id+eq+"%25"`: 0, `?filter=id+eq+"_"`: 0,
		``: 3, `?filter=userName%20eq%20%22BEN@example.com%22`: 1, `?filter=externalId+eq+"x-ada"`: 1, `?filter=externalId+eq+"X-ada"`: 0, `?filter=id+eq+"` + ids[0] + `"`: 1,
		`?filter=active+eq+true`: 3, `?filter=active+eq+true+and+userName+sw+"c"`: 1, `?filter=userName+eq+"x"+or+id+pr`: 3, `?filter=groups.value+eq+"` + g.id() + `"`: 3,
		`?filter=userName+eq+"x'%20OR%201=1%20--"`: 0, `?filter=emails[value+eq+"ada@example.com"]`: 1, `?sortBy=userName`: 3,
	} {
		if a := o.scim("GET", "/Users"+strings.ReplaceAll(query, `"`, "%22"), "", 200, ""); fmt.Sprint(a["totalResults"]) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %d", query, a, want)
		}
	}
	for query, want := range map[string]string{
		`?count=2`: "3 1 2 2", `?startIndex=3`: "3 3 1 1", `?startIndex=0&count=1`: "3 1 1 1", `?startIndex=9`: "3 9 0 0", `?startIndex=90000&count=2147483647`: "3 90000 0 0", `?startIndex=-5`: "3 1 3 3", `?count=0`: "3 1 0 0", `?count=-1`: "3 1 0 0",
	} {
		a := o.scim("GET", "/Users"+query, "", 200, "")
		if got := fmt.Sprint(a["totalResults"], a["startIndex"], a["itemsPerPage"], len(a["Resources"].([]any))); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{
		`?attributes=userName`: "id schemas userName", `?attributes=MEMBERS,displayName`: "displayName id schemas", `?attributes=name.formatted`: "id name schemas",
		`?excludedAttributes=id,meta,emails,groups,name,externalId`: "active displayName id schemas userName", `?attributes=nothing`: "id schemas",
	} {
		names := []string{}
		for name := range o.scim("GET", "/Users/"+ids[0]+query, "", 200, "") {
			names = append(names, name)
		}
		if slices.Sort(names); strings.Join(names, " ") != want {
			t.Errorf("%s: %v, want %s", query, names, want)
		}
	}
	if a := o.scim("GET", "/Groups?excludedAttributes=members&filter=displayName+eq+%22Finance%22", "", 200, ""); fmt.Sprint(a["totalResults"]) != "1" || strings.Contains(fmt.Sprint(a), ids[0]) {
		t.Errorf("the groups are %v", a)
	}
	if a := o.scim("GET", "/Groups?filter=members.value+eq+%22"+ids[0]+"%22&excludedAttributes=members", "", 200, ""); fmt.Sprint(a["totalResults"]) != "1" {
		t.Errorf("the groups are %v", a)
	}
	for _, path := range []string{"/ServiceProviderConfig", "/ResourceTypes", "/ResourceTypes/User", "/Schemas", "/Schemas/urn:ietf:params:scim:schemas:core:2.0:Group"} {
		o.scim("GET", path, "", 200, "")
	}
	const user = `{"userName":"dan@example.com"}`
	for _, c := range []struct {
		method, path, body string
		status             int
		kind               string
	}{
		{"GET", "/Users?filter=password+pr", "", 400, "invalidFilter"},
		{"GET", "/Users?filter=userName+eq", "", 400, "invalidFilter"},
		{"GET", "/Users?filter=" + strings.Repeat("(", 3000), "", 400, "invalidFilter"},
		{"GET", "/Users?filter=" + strings.Repeat("not+(", 90), "", 400, "invalidFilter"},
		{"GET", `/Users?filter=externalId+eq+%22a\u0000b%22`, "", 400, "invalidValue"},
		{"GET", "/Users?count=many", "", 400, "invalidValue"},
		{"GET", "/Users?count=99999999999", "", 400, "invalidValue"},
		{"GET", "/Schemas?filter=id+pr", "", 403, ""},
		{"GET", "/ResourceTypes?filter=id+pr", "", 403, ""},
		{"GET", "", "", 404, ""},
		{"GET", "/", "", 404, ""},
		{"GET", "/ResourceTypes/x", "", 404, ""},
		{"POST", "/Users", `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, 400, "invalidSyntax"},
		{"POST", "/Users", `{"userName":"a\u0000@example.com"}`, 400, "invalidSyntax"},
		{"GET", "/Users/%00", "", 400, "invalidValue"},
		{"DELETE", "/Groups/%00", "", 400, "invalidValue"},
		{"GET", "/Users?attributes=id&excludedAttributes=id", "", 400, "invalidValue"},
		{"GET", "/Users?filter=%zz", "", 400, "invalidSyntax"},
		{"GET", "/Nobody", "", 404, ""},
		{"POST", "/Users/" + ids[0], user, 404, ""},
		{"GET", "/Me", "", 501, ""},
		{"POST", "/Bulk", `{}`, 501, ""},
		{"POST", "/Users/.search", `{}`, 501, ""},
		{"POST", "/Users", `{`, 400, "invalidSyntax"},
		{"POST", "/Users", `[]`, 400, "invalidSyntax"},
		{"POST", "/Users", `{"userName":"a","username":"b"}`, 400, "invalidSyntax"},
		{"POST", "/Users", `{}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":7}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"x@elsewhere.com"}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"аda@example.com"}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"no address"}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"x@example.com","active":"perhaps"}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"x@example.com","emails":[1]}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"x@example.com","externalId":"` + strings.Repeat("x", 256) + `"}`, 400, "invalidValue"},
		{"POST", "/Users", `{"userName":"ADA@example.com","externalId":"y"}`, 409, "uniqueness"},
		{"POST", "/Users", `{"userName":"z@example.com","externalId":"x-ada"}`, 409, "uniqueness"},
		{"PUT", "/Users/" + ids[1], `{"userName":"ADA@example.com"}`, 409, "uniqueness"},
		{"PUT", "/Users/" + ids[1], `{"displayName":"x"}`, 400, "invalidValue"},
		{"POST", "/Groups", `{"members":[]}`, 400, "invalidValue"},
		{"POST", "/Groups", `{"displayName":"x","members":[{"display":"y"}]}`, 400, "invalidValue"},
		{"POST", "/Groups", `{"displayName":"x","members":[{"value":"usr_nobody"}]}`, 400, "invalidValue"},
		{"POST", "/Groups", `{"displayName":"a\u202eb"}`, 400, "invalidValue"},
		{"POST", "/Groups", `{"displayName":"x","members":[{"value":"` + g.id() + `"}]}`, 400, "invalidValue"},
		{"POST", "/Groups", `{"displayName":"x","members":"` + strings.Repeat("x", 1<<20) + `"}`, 413, ""},
		{"PATCH", "/Groups/" + g.id(), `{"Operations":[]}`, 400, "invalidSyntax"},
	} {
		o.scim(c.method, c.path, c.body, c.status, c.kind)
	}
	for _, ops := range []string{`[{"op":"replace","path":"active","value":"perhaps"}]`, `[{"op":"remove","path":"userName"}]`, `[{"op":"replace","path":"active"}]`} {
		o.patch("/Users/"+ids[0], ops, 400, "invalidValue")
	}
	o.patch("/Groups/"+g.id(), `[{"op":"replace","path":"members"}]`, 400, "invalidValue") // nobody loses a role by what was left out
	o.check("of a group that could not be changed", ids[0], "finance reviewer")
	if n := o.count(`SELECT count(*) FROM people`); n != 4 {
		t.Errorf("there are %d people: a refusal has left some", n)
	}
	if config := o.scim("GET", "/ServiceProviderConfig", "", 200, ""); fmt.Sprint(config["bulk"], config["etag"], config["patch"]) != "map[maxOperations:0 maxPayloadSize:0 supported:false] map[supported:false] map[supported:true]" {
		t.Errorf("what is supported: %v", config)
	}
	// What is refused is on record, without what was written.
	o.scim("GET", "/Users?filter=secret@example.com+eq+1", "", 400, "invalidFilter")
	if n, all := o.count(`SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%secret@%'`), o.count(`SELECT count(*) FROM events WHERE convert_from(body, 'UTF8') LIKE '%A request of a directory was turned away.%'`); n != 0 || all == 0 {
		t.Errorf("%d of %d events quote it", n, all)
	}
}

// The directory's key is for the directory, and no other key is.
func TestDirectoryKey(t *testing.T) {
	o := newDirectoryHarness(t)
	for _, key := range []string{"", "ruling", "auditing", "checking", "nothing"} {
		want := 403
		headers := []string{"Authorization", "Bearer " + key}
		if key == "" {
			headers = nil
		}
		if key == "" || key == "nothing" {
			want = 401
		}
		for _, path := range []string{"/Users", "/Schemas", "/ServiceProviderConfig", "/nothing"} {
			r := o.send("GET", "/scim/v2"+path, "", headers...)
			if r.StatusCode != want || !strings.Contains(string(r.body), "urn:ietf:params:scim:api:messages:2.0:Error") || (want == 401) != (r.Header.Get("WWW-Authenticate") != "") {
				t.Errorf("%q at %s: %d %s", key, path, r.StatusCode, r.body)
			}
		}
	}
	for _, path := range []string{"GET /v1/admin/people", "GET /v1/audit/events", "GET /v1/approvals", "GET /metrics", "POST /pre-tool-check"} {
		method, path, _ := strings.Cut(path, " ")
		if r := o.send(method, path, "{}", "Authorization", "Bearer directory", "Content-Type", "application/json"); r.StatusCode != 403 {
			t.Errorf("the directory's key at %s: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := o.do("GET", "/v1/audit/events", "Authorization", "Bearer both"); r.StatusCode != 403 { // such a key cannot be made
		t.Errorf("a key for a directory and more: %d", r.StatusCode)
	}
	if r := o.send("POST", "/scim/v2/Users", `{}`, "Authorization", "Bearer directory", "Content-Type", "text/plain"); r.StatusCode != 415 {
		t.Errorf("a text: %d", r.StatusCode)
	}
	by := access.Initiator{Actor: engine.Actor{Kind: engine.ServiceActor, ID: "ops"}}
	for scopes, want := range map[string]bool{identity.ScopeSCIM: true, "": true, identity.ScopeSCIM + "," + identity.ScopeAdmin: false, identity.ScopeAudit + "," + identity.ScopeSCIM: false} {
		n := admin.NewKey{Kind: access.AdminKey}
		if scopes != "" {
			n.Scopes = strings.Split(scopes, ",")
		}
		// The store refuses all of them here: keys are made as the owner.
		key, _, err := o.Keys.Create(t.Context(), by, n)
		if (err != nil && !strings.Contains(err.Error(), "--scope")) != want || scopes == "" && slices.Contains(key.Scopes, identity.ScopeSCIM) {
			t.Errorf("a key for %q has %v: %v", scopes, key.Scopes, err)
		}
	}
	for kind, agent := range map[string]string{access.AdminKey: "", access.AgentKey: "bot"} {
		if _, _, err := o.Keys.Issue(t.Context(), by, admin.NewKey{Kind: kind, Agent: agent, Scopes: []string{identity.ScopeSCIM}}); err == nil {
			t.Errorf("the console makes a key of kind %s for a directory", kind)
		}
	}
	o.Directory.SCIM = nil
	o.scim("GET", "/Users", "", 404, "")
	o.scim("POST", "/Users", `{"userName":"x@example.com"}`, 404, "")
}
