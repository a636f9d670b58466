package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"holdpoint/api"
	"holdpoint/engine"
	"holdpoint/internal/store/storetest"
)

// A key that was used for another request is refused, however many use it at once.
func TestReusedKeyOfPeople(t *testing.T) {
	db := storetest.New(t)
	h := harnessOn(t, db, db.Administering(), api.Limits{})
	db.Person(engine.Person{Name: "olga", Roles: []string{"admin"}})
	ada := "/" + db.Person(engine.Person{Name: "ada", Roles: []string{"reviewer"}}).ID
	do := func(path, body string) reply {
		return h.as("ruling", "POST", "/v1/admin/people"+path, body, "Idempotency-Key", "one")
	}
	const parallel = 10
	replies := make([]reply, parallel)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() { replies[i] = do(ada, fmt.Sprintf(`{"name":"Ada %d"}`, i)) })
	}
	all.Wait()
	done := 0
	for _, r := range replies {
		if r.StatusCode == 200 {
			done++
			continue
		}
		r.want(t, 422, "idempotency_key_reused")
	}
	if done != 1 {
		t.Fatalf("%d of %d requests with one key were done", done, parallel)
	}
	for path, body := range map[string]string{
		"": `{"email":"ben@example.com"}`, ada: `{"name":"x"}`, ada + "/disable": `{}`, ada + "/enable": `{}`, ada + "/reset-password": `{}`, ada + "/sign-out": `{}`,
	} {
		do(path, body).want(t, 422, "idempotency_key_reused")
	}
}

// People are administered by an administrator's key, where there is a login for it; a
// repeated request is answered as it was, with the same link.
func TestPeople(t *testing.T) {
	db := storetest.New(t)
	h := harnessOn(t, db, db.Administering(), api.Limits{})
	db.Person(engine.Person{Name: "olga", Roles: []string{"admin"}})
	do := func(path, body string, headers ...string) reply {
		t.Helper()
		return h.as("ruling", "POST", "/v1/admin/people"+path, body, headers...)
	}
	const ada = `{"email":"ada@example.com","name":"Ada","roles":["reviewer"]}`
	var invited, again api.PersonLink
	do("", ada, "Idempotency-Key", "one").want(t, 200, "").into(t, &invited)
	do("", ada, "Idempotency-Key", "one").want(t, 200, "").into(t, &again)
	if invited.Link != again.Link || !strings.HasPrefix(invited.Link, "https://holdpoint.example.com/welcome/") || invited.Person.Identity != invited.Person.ID {
		t.Fatalf("got %+v, and again %+v", invited, again)
	}
	at := "/" + invited.Person.ID
	for _, c := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"", ada, 409, "email_taken"},
		{"", `{"email":"ben@example.com","roles":["review-r"]}`, 422, "unknown_role"},
		{"", `{"email":"ben@example.com","same_as":"nobody@example.com"}`, 422, "unknown_people"},
		{"", `{"email":"ben"}`, 422, "unfit_email"},
		{"", `{"name":"ben"}`, 422, "invalid_body"},
		{"", `{"email":"ben\u0000@example.com"}`, 400, "malformed_json"},
		{"/usr_nobody", `{"name":"x"}`, 404, "not_found"},
		{at, `{}`, 409, "unchanged"},
		{at, `{"password":"x"}`, 422, "invalid_body"},
		{at, `{"add_roles":["to-come"]}`, 422, "unknown_role"},
		{at, `{"add_roles":["to-come"],"allow_unknown_roles":true,"name":"Ada King"}`, 200, ""},
		{at + "/sign-out", `{}`, 200, ""},
		{at + "/enable", `{}`, 409, "unchanged"},
		{at + "/disable", `{}`, 200, ""},
		{at + "/disable", `{}`, 422, "disabled"},
		{at + "/reset-password", `{}`, 422, "disabled"},
	} {
		do(c.path, c.body).want(t, c.status, c.code)
	}
	var back api.PersonLink
	do(at+"/enable", `{}`).want(t, 200, "").into(t, &back)
	if back.Link == invited.Link || strings.Join(back.Person.Roles, " ") != "reviewer to-come" || back.Person.Disabled {
		t.Errorf("enabled: %+v", back)
	}
	do(at+"/reset-password", `{}`).want(t, 200, "")
	list := h.as("ruling", "GET", "/v1/admin/people", "")
	if body := string(list.want(t, 200, "").body); strings.Contains(body, "argon") || strings.Contains(body, "welcome") || !strings.Contains(body, `"Ada King"`) {
		t.Errorf("the list is %s", body)
	}
	var one api.PersonAccount
	h.as("ruling", "GET", "/v1/admin/people"+at, "").want(t, 200, "").into(t, &one)
	if one.Email != "ada@example.com" || one.TOTP || one.LastSignIn != nil {
		t.Errorf("got %+v", one)
	}
	h.as("ruling", "GET", "/v1/admin/people/usr_nobody", "").want(t, 404, "not_found")
	for _, key := range []string{"auditing", "checking"} {
		h.as(key, "GET", "/v1/admin/people", "").want(t, 403, "scope_missing")
		h.as(key, "POST", "/v1/admin/people", ada).want(t, 403, "scope_missing")
	}

	plain := harnessOn(t, db, db.Runtime(), api.Limits{})
	plain.as("ruling", "POST", "/v1/admin/people"+at+"/disable", `{}`).want(t, 422, "by_command")
}
