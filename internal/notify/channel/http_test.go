package channel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver is a program on the other side: it remembers what came and answers
// with what it is told to.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	reply  func(http.ResponseWriter, *http.Request)
	header []http.Header
	body   [][]byte
}

func newReceiver(t *testing.T, reply func(http.ResponseWriter, *http.Request)) *receiver {
	t.Helper()
	r := &receiver{reply: reply}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Errorf("read body: %v", err)
		}
		r.mu.Lock()
		r.header, r.body = append(r.header, req.Header.Clone()), append(r.body, body)
		r.mu.Unlock()
		r.reply(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestWebhook(t *testing.T) {
	r := newReceiver(t, status(http.StatusNoContent))
	w, err := NewWebhook(HTTPConfig{Client: r.Client()})
	if err != nil {
		t.Fatal(err)
	}
	secret := NewSecret()
	private, public := NewEd25519()
	to := WebhookEndpoint{URL: r.URL + "/hook?key=canary", Secrets: []string{secret, private}}
	for range 2 {
		if res, err := w.Send(context.Background(), waiting(), to); err != nil || res != (Result{Done: true}) {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	for i, h := range r.header {
		for _, key := range []string{secret, public} {
			if err := Verify([]string{key}, h, r.body[i], time.Now()); err != nil {
				t.Error(err)
			}
		}
		if h.Get("Webhook-Id") != "ntf_0001" || h.Get("Content-Type") != "application/json" || h.Get("User-Agent") != "Holdpoint" {
			t.Errorf("header %v", h)
		}
	}
	if string(r.body[0]) != string(r.body[1]) {
		t.Error("the second attempt has another body")
	}
	var got struct {
		Type      string
		Timestamp time.Time
		Data      map[string]any
	}
	if err := json.Unmarshal(r.body[0], &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "approval.opened" || !got.Timestamp.Equal(noon) || got.Data["approval_id"] != "apr_7Q2" || got.Data["deadline"] != "2026-11-17T16:00:00Z" {
		t.Errorf("body %s", r.body[0])
	}
}

func TestWebhookAnswers(t *testing.T) {
	reached := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer elsewhere.Close()
	after := func(code int, value string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.Header().Set("Location", elsewhere.URL)
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "canary of the receiver")
		}
	}
	r := newReceiver(t, nil)
	client := r.Client()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client.Jar = jar
	w, err := NewWebhook(HTTPConfig{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	to := WebhookEndpoint{URL: r.URL + "/hook/canary-path", Secrets: []string{NewSecret()}}
	for name, c := range map[string]struct {
		reply func(http.ResponseWriter, *http.Request)
		want  Result
	}{
		"200":               {after(200, "9"), Result{Done: true}},
		"202":               {status(202), Result{Done: true}},
		"301":               {after(301, "9"), Result{}},
		"307":               {after(307, "9"), Result{}},
		"308":               {after(308, "9"), Result{}},
		"400":               {after(400, "9"), Result{}},
		"404":               {status(404), Result{}},
		"410":               {after(410, "9"), Result{Gone: true}},
		"429":               {after(429, "120"), Result{RetryAfter: 2 * time.Minute}},
		"429, for ever":     {after(429, "99999999"), Result{RetryAfter: 24 * time.Hour}},
		"429, too long":     {after(429, "99999999999999999999"), Result{}},
		"429, negative":     {after(429, "-5"), Result{}},
		"429, nonsense":     {after(429, "soon"), Result{}},
		"500":               {after(500, "9"), Result{}},
		"503":               {after(503, " 5 "), Result{RetryAfter: 5 * time.Second}},
		"503, long ago":     {after(503, "Mon, 02 Jan 2006 15:04:05 GMT"), Result{}},
		"connection broken": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			r.reply = c.reply
			got, err := w.Send(context.Background(), waiting(), to)
			if got != c.want || (err == nil) != c.want.Done {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "ntf_0001")) {
				t.Errorf("the error says %q", err)
			}
		})
	}
	if reached != 0 {
		t.Error("a redirect was followed")
	}
	for _, h := range r.header {
		if h.Get("Cookie") != "" {
			t.Error("a cookie was kept")
		}
	}
	if got := retryAfter("Tue, 17 Nov 2026 12:01:00 GMT", noon); got != time.Minute {
		t.Errorf("a date: %v", got)
	}
}

// A receiver that takes its time costs an attempt, not a worker.
func TestWebhookTimeout(t *testing.T) {
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	w, err := NewWebhook(HTTPConfig{Client: r.Client(), Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Send(context.Background(), waiting(), WebhookEndpoint{URL: r.URL + "/canary", Secrets: []string{NewSecret()}})
	if !errors.Is(err, context.DeadlineExceeded) || res != (Result{}) || strings.Contains(err.Error(), "canary") {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestEndpointCheck(t *testing.T) {
	secrets := []string{NewSecret()}
	for target, want := range map[string]bool{
		"https://hooks.example/a?b=c": true, "http://127.0.0.1:9/": true, "http://localhost/": true, "http://[::1]/": true,
		"http://hooks.example/": false, "ftp://hooks.example/": false, "hooks.example": false, "": false, "https://": false,
		"https://user:canary@hooks.example/": false, "https://hooks.example/#canary": false, "https:canary": false,
		"javascript:alert(1)": false, "http://127.0.0.1.hooks.example/": false, "https://hooks.example/\n": false,
	} {
		err := WebhookEndpoint{URL: target, Secrets: secrets}.Check()
		if (err == nil) != want || err != nil && (!strings.HasPrefix(err.Error(), "url: ") || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%q: %v", target, err)
		}
	}
	if err := (WebhookEndpoint{URL: "http://hooks.example/", Secrets: secrets, AllowPlain: true}).Check(); err != nil {
		t.Error(err)
	}
	if err := (WebhookEndpoint{URL: "https://hooks.example/"}).Check(); err == nil || !strings.HasPrefix(err.Error(), "secrets: ") {
		t.Errorf("no secrets: %v", err)
	}
	if _, err := NewWebhook(HTTPConfig{}); err == nil {
		t.Error("a webhook sender without a client")
	}
	if _, err := NewSlack(HTTPConfig{Client: http.DefaultClient, Timeout: -1}); err == nil {
		t.Error("a negative timeout")
	}
}

func TestSlack(t *testing.T) {
	say := func(code int, text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	r := newReceiver(t, nil)
	s, err := NewSlack(HTTPConfig{Client: r.Client()})
	if err != nil {
		t.Fatal(err)
	}
	address := r.URL + "/services/T0/B0/canary"
	for name, c := range map[string]struct {
		reply func(http.ResponseWriter, *http.Request)
		want  Result
		says  string
	}{
		"ok":           {say(200, "ok"), Result{Done: true}, ""},
		"not ok":       {say(200, "<html>sign in"), Result{}, "<html>sign in"},
		"nothing":      {say(200, ""), Result{}, "status 200"},
		"invalid":      {say(400, "invalid_payload"), Result{}, "invalid_payload"},
		"no service":   {say(404, "no_service"), Result{Gone: true}, "no_service"},
		"not found":    {say(404, "<h1>?"), Result{}, "404"},
		"archived":     {say(410, "channel_is_archived"), Result{Gone: true}, "channel_is_archived"},
		"prohibited":   {say(403, "action_prohibited"), Result{}, "action_prohibited"},
		"rate limited": {say(429, "rate_limited"), Result{RetryAfter: 30 * time.Second}, "rate_limited"},
		"error":        {say(500, "rollup_error\r\n\x1b[2J"), Result{}, "rollup_error‹U+000D›‹U+000A›‹U+001B›"},
		"long":         {say(500, strings.Repeat("x", 100<<10)), Result{}, "more characters"},
		"redirect":     {func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/ok", http.StatusFound) }, Result{}, "302"},
	} {
		t.Run(name, func(t *testing.T) {
			r.reply = c.reply
			got, err := s.Send(context.Background(), waiting(), address)
			if got != c.want || (err == nil) != c.want.Done {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 500) {
				t.Errorf("the error says %q", err)
			}
		})
	}
	want, err := slackBody(waiting(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range r.body {
		if string(body) != string(want) || r.header[i].Get("Content-Type") != "application/json" {
			t.Fatalf("sent %s", body)
		}
	}
	r.Close()
	if _, err := s.Send(context.Background(), waiting(), address); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("nobody there: %v", err)
	}
	if err := CheckSlack("http://hooks.slack.example/x"); err == nil {
		t.Error("Slack over plain http")
	}
}
