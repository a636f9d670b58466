package notify_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/notify"
	"holdpoint/internal/pushtest"
)

// Reviewers of accesses are reminded in their own mailboxes, of what they have left, until
// there is nothing.
func TestAccessReviewIsMailed(t *testing.T) {
	t.Parallel()
	h, ctx := newHarness(t, hour), context.Background()
	h.add(admin.NewEndpoint{Kind: notify.Email, Name: "reviewers", Settings: notify.Settings{To: []string{notify.Reviewers}}})
	pushing(h)
	phone, _ := h.subscribe("boss", false)
	desk, _ := h.subscribe("boss", true)
	other, _ := h.subscribe("ada", true)
	pushed := func(body string) {
		t.Helper()
		for _, b := range []*pushtest.Browser{phone, desk} {
			if said, _ := h.next(b); said.Title != "Access review" || said.Body != "Open Holdpoint" || !strings.HasPrefix(said.Path, "/access-reviews/") {
				t.Errorf("%s: pushed %+v", body, said)
			}
		}
	}
	now, err := h.Store.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	review, err := h.AccessReviews.Start(ctx, access.PersonInitiator(h.people["root"], "console", ""), admin.AccessReviewRequest{
		Title: "Q4", Roles: []string{"reviewer"}, DueAt: now.Add(10 * 24 * time.Hour), Reviewer: h.people["boss"].Email, Alternate: h.people["stranger"].Email,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := &notify.Notifier{PublicURL: "https://console.example.com/", Logger: slog.New(slog.DiscardHandler)}
	remind := func() []letter {
		t.Helper()
		if _, err := h.Store.AccessReviews.Remind(ctx, told.AccessReview); err != nil {
			t.Fatal(err)
		}
		h.deliverAll()
		return h.mailbox.take()
	}
	letters := remind()
	if len(letters) != 1 || letters[0].to != h.people["boss"].Email {
		t.Fatalf("mail to %q, want one to the reviewer", addressees(letters))
	}
	for _, want := range []string{"You have 4 roles of people to review: is each still needed?", "https://console.example.com/access-reviews/" + review.ID} {
		if !strings.Contains(strings.ReplaceAll(letters[0].text, "=\r\n", ""), want) {
			t.Errorf("the letter lacks %q:\n%s", want, letters[0].text)
		}
	}
	pushed("at its start")
	if again := remind(); len(again) != 0 {
		t.Errorf("told again at once: %q", addressees(again))
	}
	// What is overdue is told as that, to whoever has something left.
	if _, err := h.owner.Exec(ctx, `UPDATE access_reviews SET due_at = clock_timestamp() - interval '1 hour', remind_at = clock_timestamp() - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	if late := remind(); len(late) != 1 || !strings.Contains(late[0].text, "It is overdue.") {
		t.Errorf("overdue: %+v", late)
	}
	pushed("overdue")
	shown, err := h.AccessReviews.Get(ctx, review.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, l := range shown.AccessLines {
		all = append(all, l.N)
	}
	slices.Sort(all)
	if _, err := h.AccessReviews.Decide(ctx, h.people["boss"], review.ID, admin.AccessDecision{Lines: all}, "console", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := h.owner.Exec(ctx, `UPDATE access_reviews SET remind_at = clock_timestamp() - interval '1 minute'`); err != nil {
		t.Fatal(err)
	}
	if more := remind(); len(more) != 0 {
		t.Errorf("nothing is left, and they are told: %q", addressees(more))
	}
	if n := phone.Waiting() + desk.Waiting() + other.Waiting(); n != 0 {
		t.Errorf("%d pushes too many", n)
	}
}
