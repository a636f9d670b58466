package channel

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// waiting is a notification such as the relay would send.
func waiting() Notification {
	return Notification{
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
		"Environment": text, "About": text /* a kind of changes, in words of ours */, "Reason": text, "Status": text, "Outcome": text, "Stage": text, "Deadline": at, "Link": text,
		"Message": text, "Self": text /* an address without a query, as Link is */, "Items": reflect.TypeFor[[]Notification](),
	}
	notice := reflect.TypeFor[Notification]()
	for i := range notice.NumField() {
		f := notice.Field(i)
		if want[f.Name] != f.Type {
			t.Errorf("a notification has %s %s: could it hold an argument, a secret or a token?", f.Name, f.Type)
		}
		delete(want, f.Name)
	}
	for name := range want {
		t.Errorf("a notification has no %s", name)
	}
	// And nothing gets into a webhook but what a notification has.
	for i := range reflect.TypeFor[datum]().NumField() {
		name := reflect.TypeFor[datum]().Field(i).Name
		if _, ok := notice.FieldByName(name); !ok && name != "Truncated" && name != "More" {
			t.Errorf("a webhook has %s, which is no field of a notification", name)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := waiting().Check(); err != nil {
		t.Fatalf("a good notification: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*Notification)
		want   string
	}{
		"no id":              {func(n *Notification) { n.ID = "" }, "id: "},
		"id with line break": {func(n *Notification) { n.ID = "ntf_1\r\nBcc: x" }, "id: "},
		"id with dot":        {func(n *Notification) { n.ID = "ntf_1.2" }, "id: "},
		"id alone":           {func(n *Notification) { n.ID = "ntf_" }, "id: "},
		"long id":            {func(n *Notification) { n.ID = "ntf_" + strings.Repeat("1", 125) }, "id: "},
		"kind":               {func(n *Notification) { n.Kind = "open" }, "kind: "},
		"no time":            {func(n *Notification) { n.At = time.Time{} }, "at: "},
		"items":              {func(n *Notification) { n.Items = []Notification{waiting()} }, "items: "},
		"digest in digest":   {func(n *Notification) { *n = Digest("ntf_2", []Notification{*n}); n.Items[0].Kind = engine.NotifyDigest }, "items[0]: "},
		"item":               {func(n *Notification) { n.Link = "javascript:0"; *n = Digest("ntf_2", []Notification{*n}) }, "items[0]: link: "},
		"script":             {func(n *Notification) { n.Link = "javascript:alert(1)" }, "link: "},
		"script with host":   {func(n *Notification) { n.Link = "javascript://x/%0aalert(1)" }, "link: "},
		"data":               {func(n *Notification) { n.Link = "data:text/html,x" }, "link: "},
		"relative":           {func(n *Notification) { n.Link = "/approvals/1" }, "link: "},
		"other host":         {func(n *Notification) { n.Link = "//evil.example" }, "link: "},
		"user":               {func(n *Notification) { n.Link = "https://console@evil.example/" }, "link: "},
		"query":              {func(n *Notification) { n.Link = "https://h.example/?token=1" }, "link: "},
		"fragment":           {func(n *Notification) { n.Link = "https://h.example/#token" }, "link: "},
		"pipe":               {func(n *Notification) { n.Link = "https://h.example/|x" }, "link: "},
		"angle":              {func(n *Notification) { n.Link = "https://h.example/><!channel>" }, "link: "},
		"line break":         {func(n *Notification) { n.Link = "https://h.example/\n" }, "link: "},
		"bidi":               {func(n *Notification) { n.Link = "https://h.example/\u202E" }, "link: "},
		"long":               {func(n *Notification) { n.Link = "https://h.example/" + strings.Repeat("x", 1024) }, "link: "},
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
		if got := title(Notification{Kind: engine.NotifyDecided, Status: status}); got != want {
			t.Errorf("%s: got %q, want %q", status, got, want)
		}
	}
}
