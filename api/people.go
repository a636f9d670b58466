package api

import (
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/identity"
)

// Person is an account on the wire. It holds no secret.
type Person struct {
	ID       string   `json:"id"`
	Email    string   `json:"email"`
	Name     string   `json:"name"`
	Identity string   `json:"identity" doc:"The human being: accounts that share it have one voice."`
	Roles    []string `json:"roles" doc:"The account's own, without those of being on call."`
	Disabled bool     `json:"disabled"`
}

// PersonAccount is a person with what is known of the account.
type PersonAccount struct {
	Person

	CreatedAt  time.Time  `json:"created_at"`
	DisabledAt *time.Time `json:"disabled_at,omitempty"`
	LastSignIn *time.Time `json:"last_sign_in,omitempty"`
	TOTP       bool       `json:"totp" doc:"Whether there is an authenticator app."`
	Passkeys   int        `json:"passkeys"`
}

// People lists everybody.
type People struct {
	People []PersonAccount `json:"people"`
}

// InviteBody adds somebody who sets a password by a link.
type InviteBody struct {
	Email             string   `json:"email" maxLength:"254"`
	Name              string   `json:"name,omitempty" maxLength:"200" doc:"The address when left out."`
	Roles             []string `json:"roles,omitempty"`
	SameAs            string   `json:"same_as,omitempty" maxLength:"254" doc:"The e-mail address of another account of the same human being."`
	AllowUnknownRoles bool     `json:"allow_unknown_roles,omitempty" doc:"Take roles that no rule asks for yet."`
}

// PersonBody changes somebody's name and roles; what is left out stays.
type PersonBody struct {
	Name              *string   `json:"name,omitempty" maxLength:"200"`
	Roles             *[]string `json:"roles,omitempty" doc:"All of them from now on; or"`
	AddRoles          []string  `json:"add_roles,omitempty" doc:"some more,"`
	RemoveRoles       []string  `json:"remove_roles,omitempty" doc:"and some less."`
	AllowUnknownRoles bool      `json:"allow_unknown_roles,omitempty" doc:"Take roles that no rule asks for yet."`
	Reason            string    `json:"reason,omitempty" maxLength:"1000" doc:"Why, for those who have to approve it, where giving roles takes an approval."`
}

// PersonLink answers with a link by which somebody sets a password.
type PersonLink struct {
	Person    Person    `json:"person"`
	Link      string    `json:"link" doc:"It sets the password of whoever opens it, once. Only its hash is stored; with an Idempotency-Key, this answer is also kept, sealed, for repetitions until it lapses."`
	ExpiresAt time.Time `json:"expires_at"`
	RolesWait string    `json:"roles_wait,omitempty" doc:"The approval by which the person gets the roles, where giving them takes one. Left out, they have them."`
}

// people are the operations that say who there is.
func (a peopleDoor) people() []operation {
	const path = "/v1/admin/people"
	change := func(at, summary, detail string, in, out any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: path + at, summary: summary, detail: detail, scope: identity.ScopeAdmin, in: in, out: out,
			statuses: []int{200}, problems: []int{400, 401, 403, 404, 409, 413, 415, 422, 503}, repeats: true, handle: handle,
		}
	}
	return []operation{
		{method: "GET", path: path, summary: "List people", scope: identity.ScopeAdmin, out: People{}, statuses: []int{200}, problems: []int{401, 403, 503}, handle: a.listPeople},
		{method: "GET", path: path + "/{id}", summary: "Read a person", scope: identity.ScopeAdmin, out: PersonAccount{}, statuses: []int{200}, problems: []int{401, 403, 404, 503}, handle: a.getPerson},
		change("", "Invite a person", "Changes of people take database_people_url; without it they are made by command (422 by_command).", InviteBody{}, PersonLink{}, a.invite),
		change("/{id}", "Change a person's name and roles", "Without a role, votes in what still waits are void. Where giving roles takes an approval, nothing is changed yet: 409 approval_required names it as successor.", PersonBody{}, Person{}, a.changePerson),
		change("/{id}/disable", "Disable a person", "", CancelBody{}, Person{}, a.changing(func(c *call, by access.Initiator, once *access.Idempotency[engine.Person]) (engine.Person, error) {
			return a.Admin.People.Disable(c.r.Context(), by, c.r.PathValue("id"), once)
		})),
		change("/{id}/sign-out", "End all sessions of a person", "", CancelBody{}, Person{}, a.changing(func(c *call, by access.Initiator, once *access.Idempotency[engine.Person]) (engine.Person, error) {
			return a.Admin.People.SignOut(c.r.Context(), by, c.r.PathValue("id"), once)
		})),
		change("/{id}/enable", "Enable a person again", "The former password is void. Second factors stay.", CancelBody{}, PersonLink{}, a.linking(func(c *call, by access.Initiator, once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error) {
			return a.Admin.People.Enable(c.r.Context(), by, c.r.PathValue("id"), once)
		})),
		change("/{id}/reset-password", "Make a person's password void", "All sessions end. Second factors stay.", CancelBody{}, PersonLink{}, a.linking(func(c *call, by access.Initiator, once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error) {
			return a.Admin.People.ResetPassword(c.r.Context(), by, c.r.PathValue("id"), once)
		})),
	}
}

func wirePerson(p engine.Person) Person {
	return Person{ID: p.ID, Email: p.Email, Name: p.Name, Identity: p.Identity, Roles: append([]string{}, p.Roles...), Disabled: p.Disabled}
}

func wireAccount(a admin.Account) PersonAccount {
	return PersonAccount{
		Person: wirePerson(a.Person), CreatedAt: a.CreatedAt, DisabledAt: a.DisabledAt, LastSignIn: a.LastSignIn, TOTP: a.TOTPSince != nil, Passkeys: a.Passkeys,
	}
}

func (a peopleDoor) listPeople(c *call) error {
	list, err := a.Admin.People.Accounts(c.r.Context())
	if err != nil {
		return err
	}
	out := People{People: []PersonAccount{}}
	for _, p := range list {
		out.People = append(out.People, wireAccount(p))
	}
	return ok(c, out)
}

func (a peopleDoor) getPerson(c *call) error {
	p, err := a.Admin.People.Account(c.r.Context(), c.r.PathValue("id"))
	if err != nil {
		return err
	}
	return ok(c, wireAccount(p))
}

// changing is a handler that answers with the person who was changed.
func (a peopleDoor) changing(do func(*call, access.Initiator, *access.Idempotency[engine.Person]) (engine.Person, error)) func(*call) error {
	return func(c *call) error { return changed(a, c, &CancelBody{}, do) }
}

func changed(a peopleDoor, c *call, in any, do func(*call, access.Initiator, *access.Idempotency[engine.Person]) (engine.Person, error)) error {
	body, err := readInto(c, in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[engine.Person]) (engine.Person, error) {
		return do(c, c.principal.Initiator(RequestID(c.r.Context())), once)
	}, func(p engine.Person) (access.Reply, error) { return jsonReply(http.StatusOK, wirePerson(p), nil) })
}

func (a peopleDoor) changePerson(c *call) error {
	var in PersonBody
	return changed(a, c, &in, func(c *call, by access.Initiator, once *access.Idempotency[engine.Person]) (engine.Person, error) {
		return a.Admin.People.Change(c.r.Context(), by, c.r.PathValue("id"), admin.PersonChange(in), once)
	})
}

// linking is a handler that answers with a link by which the person sets a password.
func (a peopleDoor) linking(do func(*call, access.Initiator, *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error)) func(*call) error {
	return func(c *call) error { return linked(a, c, &CancelBody{}, do) }
}

func linked(a peopleDoor, c *call, in any, do func(*call, access.Initiator, *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error)) error {
	body, err := readInto(c, in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error) {
		return do(c, c.principal.Initiator(RequestID(c.r.Context())), once)
	}, func(l admin.PasswordLink) (access.Reply, error) {
		return jsonReply(http.StatusOK, PersonLink{Person: wirePerson(l.Person), Link: l.URL, ExpiresAt: l.ExpiresAt, RolesWait: l.RolesWait}, nil)
	})
}

func (a peopleDoor) invite(c *call) error {
	var in InviteBody
	return linked(a, c, &in, func(c *call, by access.Initiator, once *access.Idempotency[admin.PasswordLink]) (admin.PasswordLink, error) {
		n := admin.NewPerson{Email: in.Email, Name: in.Name, Roles: in.Roles, SameAs: in.SameAs}
		return a.Admin.People.Invite(c.r.Context(), by, n, in.AllowUnknownRoles, once)
	})
}
