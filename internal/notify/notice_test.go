package notify

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// waiting is a notice such as the relay would send.
func waiting() Notice {
	return Notice{
		ID: "ntf_0001", Kind: engine.NotifyOpened, At: noon, ApprovalID: "apr_7Q2", Tool: "issue_refund", Agent: "support-bot",
		Environment: "prod", Reason: "Refunds of more than 500 need two of finance.", Status: "pending",
		Stage: "review by finance-approver, 1 of 2", Deadline: noon.Add(4 * time.Hour),
		Link: "https://holdpoint.example/approvals/apr_7Q2", Message: "support-bot asks to run issue_refund in prod.",
	}
}

// TestNoticeHasNoPlaceForSecrets is the canary: whoever adds a field has to say
// here why it can hold no argument, secret or token.
func TestNoticeHasNoPlaceForSecrets(t *testing.T) {
	text, at := reflect.TypeFor[string](), reflect.TypeFor[time.Time]()
	want := map[string]reflect.Type{
		"ID": text, "Kind": reflect.TypeFor[engine.NotificationKind](), "At": at, "ApprovalID": text, "Tool": text, "Agent": text,
		"Environment": text, "Reason": text, "Status": text, "Outcome": text, "Stage": text, "Deadline": at, "Link": text,
		"Message": text, "Items": reflect.TypeFor[[]Notice](),
	}
	notice := reflect.TypeFor[Notice]()
	for i := range notice.NumField() {
		f := notice.Field(i)
		if want[f.Name] != f.Type {
			t.Errorf("a notice has %s %s: could it hold an argument, a secret or a token?", f.Name, f.Type)
		}
		delete(want, f.Name)
	}
	for name := range want {
		t.Errorf("a notice has no %s", name)
	}
	// And nothing gets into a webhook but what a notice has.
	for i := range reflect.TypeFor[datum]().NumField() {
		name := reflect.TypeFor[datum]().Field(i).Name
		if _, ok := notice.FieldByName(name); !ok && name != "Truncated" && name != "More" {
			t.Errorf("a webhook has %s, which is no field of a notice", name)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := waiting().Check(); err != nil {
		t.Fatalf("a good notice: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*Notice)
		want   string
	}{
		"no id":              {func(n *Notice) { n.ID = "" }, "id: "},
		"id with line break": {func(n *Notice) { n.ID = "ntf_1\r\nBcc: x" }, "id: "},
		"id with dot":        {func(n *Notice) { n.ID = "ntf_1.2" }, "id: "},
		"id alone":           {func(n *Notice) { n.ID = "ntf_" }, "id: "},
		"long id":            {func(n *Notice) { n.ID = "ntf_" + strings.Repeat("1", 125) }, "id: "},
		"kind":               {func(n *Notice) { n.Kind = "open" }, "kind: "},
		"no time":            {func(n *Notice) { n.At = time.Time{} }, "at: "},
		"items":              {func(n *Notice) { n.Items = []Notice{waiting()} }, "items: "},
		"digest in digest":   {func(n *Notice) { *n = Digest("ntf_2", []Notice{*n}); n.Items[0].Kind = engine.NotifyDigest }, "items[0]: "},
		"item":               {func(n *Notice) { n.Link = "javascript:0"; *n = Digest("ntf_2", []Notice{*n}) }, "items[0]: link: "},
		"script":             {func(n *Notice) { n.Link = "javascript:alert(1)" }, "link: "},
		"script with host":   {func(n *Notice) { n.Link = "javascript://x/%0aalert(1)" }, "link: "},
		"data":               {func(n *Notice) { n.Link = "data:text/html,x" }, "link: "},
		"relative":           {func(n *Notice) { n.Link = "/approvals/1" }, "link: "},
		"other host":         {func(n *Notice) { n.Link = "//evil.example" }, "link: "},
		"user":               {func(n *Notice) { n.Link = "https://console@evil.example/" }, "link: "},
		"query":              {func(n *Notice) { n.Link = "https://h.example/?token=1" }, "link: "},
		"fragment":           {func(n *Notice) { n.Link = "https://h.example/#token" }, "link: "},
		"pipe":               {func(n *Notice) { n.Link = "https://h.example/|x" }, "link: "},
		"angle":              {func(n *Notice) { n.Link = "https://h.example/><!channel>" }, "link: "},
		"line break":         {func(n *Notice) { n.Link = "https://h.example/\n" }, "link: "},
		"bidi":               {func(n *Notice) { n.Link = "https://h.example/\u202E" }, "link: "},
		"long":               {func(n *Notice) { n.Link = "https://h.example/" + strings.Repeat("x", 1024) }, "link: "},
	} {
		t.Run(name, func(t *testing.T) {
			n := waiting()
			c.change(&n)
			err := n.Check()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s…", err, c.want)
			}
			for what, render := range renderers {
				if out, err := render(n); err == nil {
					t.Errorf("%s renders it all the same: %.80s", what, out)
				}
			}
		})
	}
}

func TestEveryKindHasWords(t *testing.T) {
	seen := map[string]engine.NotificationKind{}
	for _, k := range engine.NotificationKinds() {
		n := waiting()
		n.Kind = k
		if title(n) == "Notice" {
			t.Errorf("%s has no title", k)
		}
		if other, twice := seen[title(n)]; twice {
			t.Errorf("%s and %s have the same title", k, other)
		}
		seen[title(n)] = k
		for what, render := range renderers {
			if out, err := render(n); err != nil || len(out) == 0 {
				t.Errorf("%s of %s: %v", what, k, err)
			}
		}
	}
	for status, want := range map[string]string{"approved": "Approved", "denied": "Denied", "expired": "Expired", "cancelled": "Cancelled", "else": "Decided"} {
		if got := title(Notice{Kind: engine.NotifyDecided, Status: status}); got != want {
			t.Errorf("%s: got %q, want %q", status, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	total := time.Duration(0)
	for i, want := range []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	} {
		least, most := 25*time.Hour, time.Duration(0)
		for j := range 2000 {
			id := "ntf_" + thousands(j)
			got, ok := Backoff(id, i+1)
			if again, _ := Backoff(id, i+1); !ok || again != got || got < want || got > want+want/10 {
				t.Fatalf("attempt %d of %s: %v, %t, then %v; want %v and up to a tenth", i+1, id, got, ok, again, want)
			}
			least, most = min(least, got), max(most, got)
		}
		if spread := most - least; spread < want/11 {
			t.Errorf("attempt %d: everybody comes within %v", i+1, spread)
		}
		total += want
	}
	if total < 72*time.Hour {
		t.Errorf("all is over after %v", total)
	}
	for _, attempt := range []int{-1, 0, 11, 1 << 40} {
		if got, ok := Backoff("ntf_1", attempt); ok || got != 0 {
			t.Errorf("attempt %d: %v, %t", attempt, got, ok)
		}
	}
}
