package admin_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/internal/admin"
)

func TestLinks(t *testing.T) {
	o := newHarness(t)
	ctx := t.Context()
	link, err := o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "Ada@Example.com", Name: "Ada", Roles: []string{"reviewer"}}, false, nil)
	if err != nil || !strings.HasPrefix(link.URL, "https://hp.example.com/welcome/") || len(token(link)) != 26 {
		t.Fatal(link, err)
	}
	ada := link.Person
	o.check("the address is taken", second(o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ada@example.com"}, false, nil)), "email_taken")
	o.check("no address", second(o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ada"}, false, nil)), "unfit_email")
	for what, unfit := range map[string]string{
		"long": strings.Repeat("a", 243) + "@example.com", "zero width": "ada\u200b@example.com", "a filler": "ada\u3164@example.com", "turned around": "ada\u202e@example.com",
	} {
		o.check("an address: "+what, second(o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: unfit, Name: "Eve"}, false, nil)), "unfit_email")
	}
	o.check("a role that nothing knows", second(o.people.Invite(ctx, by(o.olga), admin.NewPerson{Email: "ben@example.com", Roles: []string{"x"}}, false, nil)), "unknown_role")
	if o.signsIn(ada, "") || o.signsIn(ada, "battery staple") {
		t.Error("she signs in without a password")
	}
	o.check("too short", o.follow(link, "short"), "unfit_password")
	o.check("a wrong one", o.follow(admin.PasswordLink{URL: "/" + strings.Repeat("a", 26)}, "battery staple"), "link_over")
	o.check("no link at all", o.follow(admin.PasswordLink{URL: "/'; DROP"}, "battery staple"), "link_over")

	lost := admin.New(admin.Config{Store: o.store}).People
	if _, err := lost.ResetPassword(ctx, by(o.olga), ada.Email, nil); err == nil || !strings.Contains(err.Error(), "public_url") {
		t.Errorf("a link that leads nowhere: %v", err)
	}

	// Two follow it at once: one password is set.
	var both sync.WaitGroup
	results := make([]string, 2)
	words := []string{"first password", "second password"}
	for i := range results {
		both.Go(func() { results[i] = code(o.follow(link, words[i])) })
	}
	both.Wait()
	if !slices.Contains(results, "") || !slices.Contains(results, "link_over") {
		t.Fatalf("two at once: %q", results)
	}
	won := slices.Index(results, "")
	if !o.signsIn(ada, words[won]) || o.signsIn(ada, words[1-won]) {
		t.Error("it is not the winner's password")
	}
	if e, _ := o.last(ada); e.Reasons[0].Code != "PASSWORD_SET" || e.Actor.ID != ada.ID {
		t.Errorf("the event is %+v", e)
	}

	// A reset ends what there was, and a second link the first.
	live := o.session(ada)
	first, err := o.people.ResetPassword(ctx, by(o.olga), ada.ID, nil)
	if err != nil || live() || o.signsIn(ada, words[won]) {
		t.Error("the former session or password still gets in:", err)
	}
	again, err := o.people.ResetPassword(ctx, by(o.olga), ada.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.check("the earlier link", o.follow(first, "battery staple"), "link_over")
	o.db.Exec(`UPDATE password_links SET created_at = created_at - interval '73 hours', expires_at = expires_at - interval '73 hours'`)
	o.check("an old link", o.follow(again, "battery staple"), "link_over")
	if again, err = o.people.ResetPassword(ctx, by(o.olga), ada.ID, nil); err != nil {
		t.Fatal(err)
	}
	o.check("disabled", second(o.people.Disable(ctx, by(o.olga), ada.ID, nil)), "")
	o.check("a disabled person's", o.follow(again, "battery staple"), "link_over")
	o.db.Exec(`UPDATE people SET disabled_at = NULL WHERE id = $1`, ada.ID)
	o.check("after she is back", o.follow(again, "battery staple"), "link_over")
}

// Links are limited for each address, as wrong passwords are, also when many are
// followed at once: each costs a hash that sign-ins wait for.
func TestParallelLinksAreLimited(t *testing.T) {
	o := newHarness(t)
	link, err := o.people.Invite(t.Context(), by(o.olga), admin.NewPerson{Email: "ada@example.com"}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := admin.PasswordLink{URL: "/" + strings.Repeat("a", 26)}
	results := make([]string, 200)
	began := time.Now()
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = code(o.follow(wrong, "battery staple")) })
	}
	all.Wait()
	counts := map[string]int{}
	for _, r := range results {
		counts[r]++
	}
	most := 50 + int(time.Since(began)/(2*time.Second)) + 1
	if counts["link_over"] > most || counts["link_over"]+counts["too_many_attempts"] != len(results) {
		t.Errorf("got %v, and at most %d are to be looked at", counts, most)
	}
	if _, err := o.signIn.FollowLink(t.Context(), token(link), "battery staple", "192.0.2.10"); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
}

// Wrong links are limited for each address, as wrong passwords are.
func TestLinksAreLimited(t *testing.T) {
	o := newHarness(t)
	wrong := admin.PasswordLink{URL: "/x"}
	for range 200 {
		if code(o.follow(wrong, "battery staple")) == "too_many_attempts" {
			return
		}
	}
	t.Error("200 wrong links were looked at")
}
