package slack_test

import (
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/admin"
	"holdpoint/internal/gate"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/slack"
	"holdpoint/internal/store/storetest"
)

const (
	plain = `{"amount":12,"to":"Ann & Co"}`
	never = channel.SlackDeny + "never"
)

// What is decided by the buttons is decided as in the console: by one vote of one person,
// who is told what came of it.
func TestDecide(t *testing.T) {
	h := newHarness(t)
	a, m := h.open("small", plain)
	if !strings.Contains(m.text, `Ann &amp; Co`) || !strings.Contains(m.text, "Pay 12 to") || m.button(channel.SlackApprove) == "" || m.button(never) == "" {
		t.Fatalf("the message is %s", m.text)
	}
	if says := h.press("ada", channel.SlackApprove, m.button(channel.SlackApprove)); !strings.Contains(says, "approval is recorded") {
		t.Errorf("who approves is told %q", says)
	}
	h.settle(a.ID)
	if got := h.read(a.ID); got.Status != approval.Approved || h.voted(a.ID) != 1 {
		t.Errorf("%s, %d votes", got.Status, h.voted(a.ID))
	}
	if says := h.press("ben", never, m.button(never)); !strings.Contains(says, "already approved") {
		t.Errorf("who comes late is told %q", says)
	}
	denied, m := h.open("small", plain)
	if says := h.press("ben", never, m.button(never)); !strings.Contains(says, "does not run") {
		t.Errorf("who denies is told %q", says)
	}
	h.settle(denied.ID)
	if f, ok := h.read(denied.ID).Denial(); !ok || f.Denial != approval.Never || f.Actor.ID != h.people["ben"].ID {
		t.Errorf("denied by %+v", f)
	}
}

// Only a short call of low danger that a review decides has buttons. Every other message
// links to the page, and says why.
func TestWithoutButtons(t *testing.T) {
	h := newHarness(t)
	for name, c := range map[string]struct{ tool, arguments, why string }{
		"medium":           {"middling", plain, "its danger is medium"},
		"nobody said":      {"unknown_tool", plain, "nobody has said how dangerous"},
		"a person":         {"person", plain, "more than a review"},
		"step-up":          {"step", plain, "more than a review"},
		"a secret":         {"small", `{"amount":12,"to":"Ann","password":"hunter2hunter2"}`, "look like secrets"},
		"long":             {"small", `{"amount":12,"to":"` + strings.Repeat("Ann ", 200) + `"}`, "too long"},
		"many lines":       {"small", `{"amount":12,"to":"Ann","list":[` + strings.Repeat("1,", 60) + `1]}`, "too long"},
		"hidden":           {"small", `{"amount":12,"to":"Ann‮"}`, "cannot show as they are"},
		"an address":       {"small", `{"amount":12,"to":"https://example.com"}`, "cannot show as they are"},
		"other letters":    {"small", `{"amount":12,"to":"pаypal"}`, "cannot show as they are"},
		"name that hides":  {"small", `{"amount":12,"to":"Ann","a​b":1}`, "cannot show as they are"},
		"environment":      {"small", `{"amount":12,"to":"Ann","environment":"prod"}`, "another environment"},
		"many blanks":      {"small", `{"amount":12,"to":"Ann` + strings.Repeat(" ", 9) + `Bob"}`, "cannot show as they are"},
		"address of a man": {"small", `{"amount":12,"to":"xn--80ak6aa92e"}`, "cannot show as they are"},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := h.open(c.tool, c.arguments)
			if m.button(channel.SlackApprove) != "" || strings.Contains(m.text, `"actions"`) || strings.Contains(m.text, "Ann") || !strings.Contains(m.text, c.why) {
				t.Errorf("want no buttons because %s: %s", c.why, m.text)
			}
		})
	}
	h.set(func(s *notify.Settings) { s.Decide = "medium" }, "")
	if _, m := h.open("middling", plain); m.button(channel.SlackApprove) == "" {
		t.Errorf("medium is allowed: %s", m.text)
	}
	h.set(func(s *notify.Settings) { s.Decide = "" }, "")
	if _, m := h.open("small", plain); strings.Contains(m.text, "actions") || strings.Contains(m.text, "Ann") || strings.Contains(m.text, "Decide it") {
		t.Errorf("links only: %s", m.text)
	}
}

// ticket is one as the gate makes it, by its key: what nobody outside can.
func (h *harness) ticket(endpoint string, a approval.Approval) string {
	version := strconv.Itoa(a.Version)
	mac := h.db.Sealer.Row("button", endpoint, a.ID, version, a.Call.Digest)
	return strings.Join([]string{a.ID, version, a.Call.Digest, hex.EncodeToString(mac)}, ".")
}

// What has no buttons cannot be decided in Slack, even by a button that is genuine.
func TestForgedPress(t *testing.T) {
	h := newHarness(t)
	good, m := h.open("small", plain)
	genuine := m.button(channel.SlackApprove)
	if genuine != h.ticket(h.endpoint, good) {
		t.Fatal("the test makes other tickets than the gate")
	}
	for name, c := range map[string]struct{ tool, arguments, why string }{
		"medium":   {"middling", plain, "its danger is medium"},
		"a person": {"person", plain, "more than a review"},
		"step-up":  {"step", plain, "more than a review"},
		"a secret": {"small", `{"amount":12,"to":"Ann","password":"hunter2hunter2"}`, "look like secrets"},
	} {
		a, _ := h.open(c.tool, c.arguments)
		for _, action := range []string{channel.SlackApprove, never} {
			if says := h.press("ada", action, h.ticket(h.endpoint, a)); !strings.Contains(says, "Not done") || !strings.Contains(says, c.why) {
				t.Errorf("%s, %s: %q", name, action, says)
			}
		}
		if says := h.press("ada", channel.SlackApprove, strings.Replace(h.ticket(h.endpoint, a), a.ID, good.ID, 1)); !strings.Contains(says, "not one of ours") {
			t.Errorf("%s, of another call: %q", name, says)
		}
		if h.voted(a.ID) != 0 || h.read(a.ID).Status != approval.Pending {
			t.Errorf("%s: somebody has voted", name)
		}
	}
	parts := strings.Split(genuine, ".")
	for name, value := range map[string]string{
		"another endpoint": h.ticket(h.add("#another", "low", secret), good),
		"another version":  strings.Join([]string{parts[0], "2", parts[2], parts[3]}, "."),
		"another digest":   strings.Join([]string{parts[0], parts[1], "sha256:" + strings.Repeat("0", 64), parts[3]}, "."),
		"no hash":          strings.Join(parts[:3], "."), "nothing": "", "dots": "....",
	} {
		if says := h.press("ada", channel.SlackApprove, value); !strings.Contains(says, "not one of ours") {
			t.Errorf("%s: %q", name, says)
		}
	}
	if says := h.press("ada", "something_else", genuine); !strings.Contains(says, "Not done") {
		t.Errorf("a button that we do not have: %q", says)
	}
	if says := h.press("ada", channel.SlackDeny+"maybe", genuine); !strings.Contains(says, "which kind") {
		t.Errorf("a denial of no kind: %q", says)
	}
	if h.voted(good.ID) != 0 {
		t.Error("somebody has voted")
	}
}

// Who may not decide in the console may not in Slack.
func TestRefusedPeople(t *testing.T) {
	h := newHarness(t)
	a, m := h.open("small", plain)
	button := m.button(channel.SlackApprove)
	want := func(who, what string) {
		t.Helper()
		if says := h.press(who, channel.SlackApprove, button); !strings.HasPrefix(says, "Not done. ") || !strings.Contains(says, what) {
			t.Errorf("%s is told %q, want %q", who, says, what)
		}
	}
	want("nobody", "not linked")
	want("owner", "somebody else has to decide")
	want("stranger", "no such approval")
	form := h.pressed(user("ada"), channel.SlackApprove, button)
	form.Set("payload", strings.Replace(form.Get("payload"), `"team":{"id":"T01"}`, `"team":{"id":"T02"}`, 1))
	if says := h.send(form); !strings.Contains(says, "not a member") {
		t.Errorf("somebody of another workspace is told %q", says)
	}
	h.door.SecondFactorRoles = []string{"reviewer"}
	want("ada", "second factor")
	h.door.SecondFactorRoles = nil

	h.set(func(s *notify.Settings) { s.Decide = "" }, "")
	want("ada", "any more")
	h.set(func(s *notify.Settings) { s.Decide = "low" }, "")
	if err := h.Endpoints.Switch(t.Context(), by, h.endpoint, true); err != nil {
		t.Fatal(err)
	}
	want("ada", "any more")
	if says := h.command(user("ada"), "link AAAA-AAAA-AAAA"); !strings.Contains(says, "any more") {
		t.Errorf("an endpoint that is off links: %q", says)
	}
	if err := h.Endpoints.Switch(t.Context(), by, h.endpoint, false); err != nil {
		t.Fatal(err)
	}
	h.db.Exec(`UPDATE people SET roles = '{}' WHERE id = $1`, h.people["ada"].ID)
	want("ada", "no such approval")
	h.db.Disable(h.people["ada"].ID, storetest.Event())
	want("ada", "not linked")
	if h.voted(a.ID) != 0 {
		t.Error("somebody has voted")
	}
	if says := h.press("ben", channel.SlackApprove, button); !strings.Contains(says, "recorded") {
		t.Errorf("who may is told %q", says)
	}
	want("ben", "already decided")

	_, m = h.open("pair", plain)
	button = m.button(channel.SlackApprove)
	if says := h.press("ben", channel.SlackApprove, button); !strings.Contains(says, "Others have to decide") {
		t.Errorf("the first of two is told %q", says)
	}
	want("ben", "voted on this already")
}

// A button is for the call as its message shows it.
func TestStalePress(t *testing.T) {
	h := newHarness(t)
	a, m := h.open("small", plain)
	v, err := canon.Parse([]byte(`{"amount":1200,"to":"Ann & Co"}`))
	if err != nil {
		t.Fatal(err)
	}
	edit := gate.EditRequest{Contribution: gate.Contribution{Person: h.people["ben"], ApprovalID: a.ID, Comment: "x", Channel: "console"}, Arguments: v, Digest: a.Call.Digest, Version: a.Version}
	if _, err := h.gate.Contributions.Edit(t.Context(), edit, nil); err != nil {
		t.Fatal(err)
	}
	if says := h.press("ada", channel.SlackApprove, m.button(channel.SlackApprove)); !strings.Contains(says, "no longer what would be approved") {
		t.Errorf("who presses late is told %q", says)
	}
	h.settle(a.ID)
	for _, m := range h.told() {
		if strings.Contains(m.text, `"actions"`) || !strings.Contains(m.text, "it was changed") {
			t.Errorf("of the changed call: %s", m.text)
		}
	}
	if says := h.press("ada", channel.SlackApprove, h.ticket(h.endpoint, h.read(a.ID))); !strings.Contains(says, "it was changed") {
		t.Errorf("the changed call: %q", says)
	}

	talked, m := h.open("small", plain)
	comment := gate.Contribution{Person: h.people["ben"], ApprovalID: talked.ID, Comment: "Wait for me.", Channel: "console"}
	if _, err := h.gate.Contributions.Comment(t.Context(), comment, nil); err != nil {
		t.Fatal(err)
	}
	if says := h.press("ada", channel.SlackApprove, m.button(channel.SlackApprove)); !strings.Contains(says, "talked about it") {
		t.Errorf("of a call with a comment: %q", says)
	}

	late, m := h.open("small", plain)
	door := h.ahead(2 * time.Hour)
	form := h.pressed(user("ada"), channel.SlackApprove, m.button(channel.SlackApprove))
	before := len(h.space.answers)
	if err := interaction(t, door, h.signed(form, time.Now().Add(2*time.Hour), secret)); err != nil {
		t.Fatal(err)
	}
	if says := h.space.answers[before]; !strings.Contains(says, "deadline has passed") {
		t.Errorf("after the deadline: %s", says)
	}
	if h.voted(a.ID)+h.voted(talked.ID)+h.voted(late.ID) != 0 {
		t.Error("somebody has voted")
	}
}

// What Slack has not signed just now, for this endpoint and for the first time, is nothing.
func TestRequests(t *testing.T) {
	h := newHarness(t)
	a, m := h.open("small", plain)
	form := h.pressed(user("ada"), channel.SlackApprove, m.button(channel.SlackApprove))
	now := time.Now()
	good := h.signed(form, now, secret)
	change := func(f func(*slack.Request)) slack.Request {
		r := good
		f(&r)
		return r
	}
	for name, r := range map[string]slack.Request{
		"old":              h.signed(form, now.Add(-slack.Window-30*time.Second), secret),
		"of the future":    h.signed(form, now.Add(slack.Window+30*time.Second), secret),
		"another secret":   h.signed(form, now, secret+"0"),
		"no secret":        h.signed(form, now, ""),
		"no signature":     change(func(r *slack.Request) { r.Signature = "" }),
		"another body":     change(func(r *slack.Request) { r.Body = append([]byte("x=1&"), r.Body...) }),
		"another time":     change(func(r *slack.Request) { r.Timestamp = strconv.FormatInt(now.Unix()-1, 10) }),
		"another endpoint": change(func(r *slack.Request) { r.Endpoint = h.add("#else", "low", secret+"1") }),
		"no endpoint":      change(func(r *slack.Request) { r.Endpoint = "end_none" }),
		"no id":            change(func(r *slack.Request) { r.Endpoint = "' OR 1" }),
		"links only":       change(func(r *slack.Request) { r.Endpoint = h.add("#links", "", "") }),
		"too large":        change(func(r *slack.Request) { r.Body = make([]byte, slack.MaxBody+1) }),
	} {
		if err := interaction(t, h.door, r); code(err) != "not_signed" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.door.Command(t.Context(), r); code(err) != "not_signed" {
			t.Errorf("%s, as a command: %v", name, err)
		}
	}
	if h.voted(a.ID) != 0 || len(h.space.answers) != 0 {
		t.Fatal("something came of it")
	}
	if err := interaction(t, h.door, good); err != nil {
		t.Fatal(err)
	}
	// At another gate, with another database connection, it is known.
	for _, door := range []*slack.Door{h.door, h.second} {
		if err := interaction(t, door, good); code(err) != "replayed" {
			t.Errorf("again: %v", err)
		}
	}
	if h.voted(a.ID) != 1 {
		t.Errorf("%d votes", h.voted(a.ID))
	}
	for name, form := range map[string]url.Values{"no payload": {"x": {"1"}}, "no JSON": {"payload": {"{"}}} {
		if err := interaction(t, h.door, h.signed(form, now, secret)); code(err) != "invalid_body" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, payload := range []string{`{"type":"view_submission"}`, `{"type":"block_actions"}`} {
		if err := interaction(t, h.door, h.signed(url.Values{"payload": {payload}}, now, secret)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// An answer goes to Slack's own server alone, wherever a request wants it.
func TestAnswersGoToSlackAlone(t *testing.T) {
	h := newHarness(t)
	elsewhere := newWorkspace(t)
	_, m := h.open("small", plain)
	form := h.pressed(user("ada"), channel.SlackApprove, m.button(channel.SlackApprove))
	form.Set("payload", strings.Replace(form.Get("payload"), h.space.URL, elsewhere.URL, 1))
	if err := interaction(t, h.door, h.signed(form, time.Now(), secret)); err != nil {
		t.Fatal(err)
	}
	if len(elsewhere.answers)+len(elsewhere.messages) != 0 {
		t.Error("another server was answered")
	}
}

// A code links once, for a while, and for the app that was told of it.
func TestLink(t *testing.T) {
	h := newHarness(t)
	asPerson := func(name string) access.Initiator { return access.PersonInitiator(h.people[name], "console", "") }
	make1 := func(name string) string {
		t.Helper()
		code, err := h.Slack.NewCode(t.Context(), asPerson(name))
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	if says := h.command("UX", "help"); !strings.Contains(says, "/holdpoint link CODE") {
		t.Errorf("help is %q", says)
	}
	first := make1("ada")
	second := make1("ada")
	for name, text := range map[string]string{"replaced": "link " + first, "none": "link", "long": "link " + strings.Repeat("A", 5000), "another": "link AAAA-BBBB-CCCC"} {
		if says := h.command("UX", text); !strings.Contains(says, "no such code") {
			t.Errorf("%s: %q", name, says)
		}
	}
	if says := h.command("UX", " Link  "+strings.ToLower(second)); !strings.Contains(says, "is linked") {
		t.Errorf("in lower case: %q", says)
	}
	if says := h.command("UY", "link "+second); !strings.Contains(says, "no such code") {
		t.Errorf("used twice: %q", says)
	}
	// Ada's other account is not linked any more; whose account it was before counts no more.
	a, m := h.open("small", plain)
	if says := h.press("ada", channel.SlackApprove, m.button(channel.SlackApprove)); !strings.Contains(says, "not linked") {
		t.Errorf("the former account: %q", says)
	}
	if says := h.command("UX", "link "+make1("ben")); !strings.Contains(says, "is linked") {
		t.Errorf("taken over: %q", says)
	}
	if link, err := h.Slack.Of(t.Context(), h.people["ada"]); err != nil || link != nil {
		t.Errorf("ada still has %+v, %v", link, err)
	}
	if link, err := h.Slack.Of(t.Context(), h.people["ben"]); err != nil || link == nil || link.User != "UX" || link.Team != team {
		t.Errorf("ben has %+v, %v", link, err)
	}
	// A row that was written without the key is nobody's.
	h.db.Exec(`UPDATE slack_links SET person_id = $1 WHERE user_id = 'UX'`, h.people["ada"].ID)
	if says := h.press("x", channel.SlackApprove, m.button(channel.SlackApprove)); !strings.Contains(says, "not linked") {
		t.Errorf("a forged row: %q", says)
	}
	code := make1("ada")
	h.db.Exec(`DELETE FROM slack_codes WHERE person_id = $1`, h.people["ben"].ID)
	h.db.Exec(`UPDATE slack_codes SET person_id = $1 WHERE person_id = $2`, h.people["ben"].ID, h.people["ada"].ID)
	if says := h.command("UZ", "link "+code); !strings.Contains(says, "no such code") {
		t.Errorf("a forged code: %q", says)
	}
	h.link("ada")
	// Another app, or the same one with another secret, speaks for nobody.
	h.set(nil, secret+"2")
	form := h.pressed(user("ada"), channel.SlackApprove, m.button(channel.SlackApprove))
	before := len(h.space.answers)
	if err := interaction(t, h.door, h.signed(form, time.Now(), secret+"2")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(h.space.answers[before], "not linked") {
		t.Errorf("another app: %s", h.space.answers[before])
	}
	h.set(nil, secret)
	if err := h.Slack.Unlink(t.Context(), asPerson("ada")); err != nil {
		t.Fatal(err)
	}
	if says := h.press("ada", channel.SlackApprove, m.button(channel.SlackApprove)); !strings.Contains(says, "not linked") {
		t.Errorf("after the end: %q", says)
	}
	if err := h.Slack.Unlink(t.Context(), asPerson("ada")); err == nil {
		t.Error("what is not there was ended")
	}
	late := make1("ada")
	answer, err := h.ahead(admin.CodeLasts+time.Minute).Command(t.Context(), h.signed(url.Values{"text": {"link " + late}, "team_id": {team}, "user_id": {"UL"}}, time.Now().Add(admin.CodeLasts+time.Minute), secret))
	if err != nil || !strings.Contains(answer.Text, "no such code") {
		t.Errorf("too late: %+v, %v", answer, err)
	}
	if h.voted(a.ID) != 0 {
		t.Error("somebody has voted")
	}
}

// Where decisions are allowed Slack's signing secret is there, and seen by nobody.
func TestEndpointThatDecides(t *testing.T) {
	h := newHarness(t)
	for name, e := range map[string]admin.NewEndpoint{
		"without a secret": {Kind: notify.Slack, URL: h.space.URL + "/services/x", Settings: notify.Settings{Decide: "low"}},
		"short secret":     {Kind: notify.Slack, URL: h.space.URL + "/services/x", Signing: "short", Settings: notify.Settings{Decide: "low"}},
		"high":             {Kind: notify.Slack, URL: h.space.URL + "/services/x", Signing: secret, Settings: notify.Settings{Decide: "high"}},
		"gathered":         {Kind: notify.Slack, URL: h.space.URL + "/services/x", Signing: secret, Settings: notify.Settings{Decide: "low", Digest: engine.Duration(time.Minute)}},
		"mail":             {Kind: notify.Email, Settings: notify.Settings{Decide: "low", To: []string{"reviewers"}}},
		"webhook":          {Kind: notify.Webhook, URL: h.space.URL, Plain: true, Signing: secret},
	} {
		e.Name = name
		if _, _, err := h.Endpoints.Add(t.Context(), by, e); code(err) != "invalid_body" {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, _, err := h.Endpoints.Overview(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(list); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("the list shows the secret, or %v", err)
	}
}
