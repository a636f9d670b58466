package tests

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// slackApp stands in for Slack and for an app there: it keeps what comes to the app's
// channel, and sends what people do in it.
type slackApp struct {
	*httptest.Server
	secret         string
	mu             sync.Mutex
	posts, answers []string
}

func startSlack(t *testing.T) *slackApp {
	t.Helper()
	s := &slackApp{secret: newID("signing")}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.URL.Path == "/services/T01/B01/x" {
			s.posts = append(s.posts, string(body))
		} else {
			s.answers = append(s.answers, string(body))
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s
}

// about is the message in the channel about an approval; "" while there is none.
func (s *slackApp) about(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.posts {
		if strings.Contains(p, id) {
			return p
		}
	}
	return ""
}

func (s *slackApp) answer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.answers, "\n")
}

// send signs a form and sends it, as Slack does.
func (s *slackApp) send(t *testing.T, target string, form url.Values) (status int, body string) {
	t.Helper()
	text, stamp := form.Encode(), fmt.Sprint(time.Now().Unix())
	m := hmac.New(sha256.New, []byte(s.secret))
	_, _ = io.WriteString(m, "v0:"+stamp+":"+text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Slack-Request-Timestamp", stamp)
	req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(m.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// TestDecidedInSlack: from the command that allows it to the token, by the program as it
// is run. What takes more than a vote has no buttons in Slack, and nobody votes there.
func TestDecidedInSlack(t *testing.T) {
	d, app := onShared(t), startSlack(t)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(app.secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := newID("")[:6]
	tool, large := "note_"+run, "sum_"+run
	command := func(args ...string) string {
		t.Helper()
		return must(t, nil, "", append(args, "--data", d.dir)...)
	}
	command("tool", "set", tool, "--stakes", "[low] Note {text}")
	command("tool", "set", large, "--stakes", "[high] Pay {amount}")
	added := command("notify", "add", "slack", "Slack "+run, "--url", app.URL+"/services/T01/B01/x", "--decide", "low", "--signing-secret-file", file, "--tool", tool, "--tool", large)
	id := regexp.MustCompile(`end_\w+`).FindString(added)
	presses, commands := d.URL+"/v1/slack/interactions/"+id, d.URL+"/v1/slack/commands/"+id
	if id == "" || strings.Contains(added, app.secret) || !strings.Contains(added, "/v1/slack/commands/"+id) {
		t.Fatalf("added: %s", added)
	}
	t.Cleanup(func() { command("notify", "disable", id) })

	held, above := d.agent(t).hold(tool, map[string]any{"text": "milk & eggs"}), d.agent(t).hold(large, map[string]any{"amount": 5})
	eventually(t, settleWithin, "both messages", func() bool { return app.about(held.ID) != "" && app.about(above.ID) != "" })
	if m := app.about(above.ID); strings.Contains(m, `"actions"`) || !strings.Contains(m, "its danger is high") {
		t.Errorf("of a dangerous call: %s", m)
	}
	var message struct {
		Blocks []struct {
			Type     string
			Elements []struct {
				ID    string `json:"action_id"`
				Value string
			}
		}
	}
	if err := json.Unmarshal([]byte(app.about(held.ID)), &message); err != nil {
		t.Fatal(err)
	}
	value := ""
	for _, b := range message.Blocks {
		for _, e := range b.Elements {
			if b.Type == "actions" && e.ID == "holdpoint_approve" {
				value = e.Value
			}
		}
	}
	if value == "" || !strings.Contains(app.about(held.ID), "milk &amp; eggs") {
		t.Fatalf("no buttons: %s", app.about(held.ID))
	}
	press := func(value string) url.Values {
		payload, err := json.Marshal(map[string]any{
			"type": "block_actions", "user": map[string]any{"id": "U" + strings.ToUpper(run), "team_id": "T01"}, "team": map[string]any{"id": "T01"},
			"response_url": app.URL + "/actions/T01/1/x", "actions": []any{map[string]any{"action_id": "holdpoint_approve", "value": value}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return url.Values{"payload": {string(payload)}}
	}
	// Slack has its 200 first, and who has pressed is told after that.
	pressing := func(form url.Values, told string) {
		t.Helper()
		if status, body := app.send(t, presses, form); status != http.StatusOK || body != "" {
			t.Fatalf("a press: %d %s", status, body)
		}
		eventually(t, settleWithin, "to be told: "+told, func() bool { return strings.Contains(app.answer(), told) })
	}
	pressing(press(value), "not linked")

	reviewer := d.newPerson(t, "--role", "reviewer")
	console := d.as(t, reviewer)
	page := console.do("POST", "/account/slack/code", url.Values{}).want(t, http.StatusOK)
	code := regexp.MustCompile(`/holdpoint link ([A-Z2-7-]{14})`).FindSubmatch(page.Body)
	if code == nil {
		t.Fatalf("the page has no code: %s", page.Body)
	}
	form := url.Values{"command": {"/holdpoint"}, "text": {"link " + string(code[1])}, "team_id": {"T01"}, "user_id": {"U" + strings.ToUpper(run)}}
	if status, body := app.send(t, commands, form); status != http.StatusOK || !strings.Contains(body, "is linked") || !strings.Contains(body, "ephemeral") {
		t.Fatalf("the link: %d %s", status, body)
	}
	if page := console.do("GET", "/account", nil).want(t, http.StatusOK); !strings.Contains(string(page.Body), "U"+strings.ToUpper(run)) || strings.Contains(string(page.Body), string(code[1])) {
		t.Error("the page of the account does not tell of the link, or shows the code again")
	}

	pressed := press(value)
	pressed.Set("again", "1") // another request than the stranger's
	pressing(pressed, "approval is recorded")
	released := d.agent(t).wait(held.ID)
	if released.Status != "approved" {
		t.Fatalf("after the press: %+v", released)
	}
	d.agent(t).redeem(released.Token, tool, map[string]any{"text": "milk & eggs"}).want(t, http.StatusOK)
	record := string(d.admin(t).do("GET", "/v1/audit/events?approval_id="+held.ID, nil).Body)
	if !regexp.MustCompile(`"channel":\s*"slack"`).MatchString(record) || strings.Contains(record, "milk") {
		t.Errorf("the log: %s", record)
	}
	pressing(press(strings.Replace(value, held.ID, above.ID, 1)), "not one of ours")
	if got := d.agent(t).get(above.ID).Status; got != "pending" {
		t.Errorf("after a forged press: %s", got)
	}
	d.agent(t).cancel(above.ID)
}
