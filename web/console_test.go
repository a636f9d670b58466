package web

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"holdpoint/engine"
	"holdpoint/internal/gate"
)

// client is a browser of sorts: it keeps cookies, says that its forms come
// from the same origin, and does not follow redirects.
type client struct {
	t *testing.T
	*http.Client
	url string
	m   *fakeGate
	c   *Console
}

func start(t *testing.T, edit func(*Config)) *client {
	t.Helper()
	m := newFakeGate()
	cfg := Config{Inbox: m, History: m, Cards: m, Votes: m, Contributions: m, Requirements: m, Edits: m, CallSessions: m, Outcomes: m, Changes: m, Agents: m.registry, Tools: m.registry, Settings: m.registry, InForce: m.registry.inForce, SignIn: m, Sessions: m, Names: m, Clock: m.now}
	if edit != nil {
		edit(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.Register(mux)
	mux.HandleFunc("/", c.NotFound)
	mux.HandleFunc("POST /v1/approvals/{id}/votes", func(http.ResponseWriter, *http.Request) {})
	handler := Guard(mux, GuardConfig{Secure: cfg.Secure})
	server := httptest.NewUnstartedServer(handler)
	if cfg.Secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	hc := server.Client()
	hc.Jar = jar
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{t: t, Client: hc, url: server.URL, m: m, c: c}
}

type answer struct {
	*http.Response
	body string
}

func (c *client) do(method, path string, form url.Values, header ...string) answer {
	c.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, c.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := c.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		sendsOnce(c.t, string(body))
	}
	return answer{res, string(body)}
}

// sendsOnce fails for a form of a page that a browser would send with a field twice, which
// is refused.
func sendsOnce(t *testing.T, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	attribute := func(n *html.Node, key string) string {
		for _, a := range n.Attr {
			if a.Key == key {
				return a.Val
			}
		}
		return ""
	}
	for form := range root.Descendants() {
		if form.Data != "form" || attribute(form, "method") != "post" {
			continue
		}
		sent, offered := url.Values{}, map[string]bool{}
		for n := range form.Descendants() {
			name, kind := attribute(n, "name"), attribute(n, "type")
			if name == "" || n.Data != "input" && n.Data != "select" && n.Data != "textarea" && n.Data != "button" {
				continue
			}
			if kind == "radio" || n.Data == "button" { // one of them is sent
				if offered[n.Data+name] {
					continue
				}
				offered[n.Data+name] = true
			}
			sent.Add(name, attribute(n, "value"))
		}
		if err := refuseRepeated(sent); err != nil {
			t.Errorf("the form to %s: %v", attribute(form, "action"), err)
		}
	}
}

func (c *client) get(path string, header ...string) answer {
	c.t.Helper()
	return c.do(http.MethodGet, path, nil, header...)
}

func (c *client) signIn(email string) *client {
	c.t.Helper()
	if a := c.do(http.MethodPost, "/login", url.Values{"email": {email}, "password": {"right"}}); a.StatusCode != http.StatusSeeOther {
		c.t.Fatalf("sign in: %s\n%s", a.Status, a.body)
	}
	return c
}

func (c *client) cookie() string {
	return c.cookieNamed(c.c.site.sessions.name())
}

func ballotFor(c *gate.Card, decision string) url.Values {
	return url.Values{"decision": {decision}, "digest": {c.Approval.Call.Digest}, "version": {"1"}, "kind": {"not_now"}, "comment": {"because"}}
}

func (a answer) want(t *testing.T, status int, texts ...string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("got %s, want %d\n%s", a.Status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("page lacks %q:\n%s", text, a.body)
		}
	}
}

// TestFieldsSentTwice: a form with a field twice says two things, and none of them is done.
func TestFieldsSentTwice(t *testing.T) {
	c, _ := startWithDrafts(t)
	one, other := c.m.add("apr_1", "payments.transfer", `{"amount":1}`, nil), c.m.add("apr_2", "payments.transfer", `{"amount":2}`, nil)
	c.signIn("ada@example.com")
	for name, second := range map[string]string{"decision": "deny", "digest": "sha256:0", "version": "1", "kind": "never", "comment": "x"} {
		form := ballotFor(one, "approve")
		form.Add(name, second)
		c.do("POST", "/approvals/apr_1/votes", form).want(t, http.StatusUnprocessableEntity, "the field “"+name+"” more than once")
		c.do("POST", "/approvals/apr_1/draft", url.Values{"form": {"votes"}, "votes:" + name: {second, second}}, "Sec-Fetch-Dest", "empty").want(t, http.StatusUnprocessableEntity, `"code":"field_twice"`)
	}
	several := url.Values{"id": {"apr_1", "apr_2"}, "decision:apr_1": {"approve", "deny"}, "decision": {"approve"}}
	for _, card := range []*gate.Card{one, other} {
		several.Set("digest:"+card.Approval.ID, card.Approval.Call.Digest)
		several.Set("version:"+card.Approval.ID, "1")
	}
	c.do("POST", bulkPath, several).want(t, http.StatusUnprocessableEntity, "the field “decision:apr_1” more than once")
	c.do("POST", "/login", url.Values{"email": {"ada@example.com", "bob@example.com"}, "password": {"right"}}).want(t, http.StatusUnprocessableEntity, "the field “email” more than once")
	if len(c.m.votes) != 0 {
		t.Errorf("voted %v", c.m.votes)
	}
}

func TestSignInAndOut(t *testing.T) {
	c := start(t, nil)
	c.get("/").want(t, http.StatusSeeOther)
	if got := c.get("/approvals/x?full=1").Header.Get("Location"); got != "/login?next=%2Fapprovals%2Fx%3Ffull%3D1" {
		t.Errorf("sent to %q", got)
	}
	wrong := c.do("POST", "/login", url.Values{"email": {"ada@example.com"}, "password": {"wrong"}})
	nobody := c.do("POST", "/login", url.Values{"email": {"adb@example.com"}, "password": {"wrong"}})
	wrong.want(t, http.StatusUnauthorized, "do not go together", `value="ada@example.com"`)
	if strings.ReplaceAll(wrong.body, "ada@", "adb@") != nobody.body {
		t.Error("a wrong password and an unknown account look different")
	}
	many := c.do("POST", "/login", url.Values{"email": {"ada@example.com"}, "password": {"hammer"}})
	many.want(t, http.StatusTooManyRequests, "Too many attempts")
	if many.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After: %q", many.Header.Get("Retry-After"))
	}
	if c.cookie() != "" {
		t.Error("a cookie without having signed in")
	}
	c.signIn("ada@example.com").get("/").want(t, http.StatusOK, "Ada Lovelace", "Nothing waits for you", "comes here by itself", "finance-approver")
	c.get("/login?next=/history").want(t, http.StatusSeeOther)
	id := c.cookie()
	c.do("POST", "/logout", url.Values{}).want(t, http.StatusSeeOther)
	if len(c.m.sessions) != 0 || c.cookie() != "" {
		t.Errorf("after signing out: sessions %d, cookie %q", len(c.m.sessions), c.cookie())
	}
	c.get("/", "Cookie", cookieName+"="+id).want(t, http.StatusSeeOther)
}

func TestSession(t *testing.T) {
	for _, secure := range []bool{false, true} {
		c := start(t, func(cfg *Config) { cfg.Secure = secure })
		planted := strings.Repeat("A", 43)
		name := c.c.site.sessions.name()
		sum := sha256.Sum256([]byte(planted))
		c.m.sessions[string(sum[:])] = "usr_linus"
		res := c.do("POST", "/login", url.Values{"email": {"ada@example.com"}, "password": {"right"}}, "Cookie", name+"="+planted)
		res.want(t, http.StatusSeeOther)
		cookies := res.Cookies()
		if len(cookies) != 2 {
			t.Fatalf("got %d cookies", len(cookies))
		}
		known, k := cookies[0], cookies[1]
		if known.Name != map[bool]string{false: "holdpoint_known", true: "__Host-holdpoint_known"}[secure] || known.Value != "known" || known.Secure != secure || !known.HttpOnly ||
			known.SameSite != http.SameSiteLaxMode || known.Path != "/" || known.Domain != "" || known.MaxAge != 365*24*3600 {
			t.Errorf("cookie of the browser: %s", known.Raw)
		}
		raw, err := base64.RawURLEncoding.DecodeString(k.Value)
		if err != nil || len(raw) != 32 || k.Value == planted {
			t.Errorf("session id %q", k.Value)
		}
		if k.Name != map[bool]string{false: "holdpoint", true: "__Host-holdpoint"}[secure] || k.Secure != secure || !k.HttpOnly ||
			k.SameSite != http.SameSiteLaxMode || k.Path != "/" || k.Domain != "" || k.MaxAge != 12*3600 {
			t.Errorf("cookie: %s", k.Raw)
		}
		if _, there := c.m.sessions[string(sum[:])]; there {
			t.Error("the session from before signing in lives on")
		}
		for stored := range c.m.sessions {
			if h := sha256.Sum256([]byte(k.Value)); stored != string(h[:]) {
				t.Error("something else than the id's hash is stored")
			}
		}
		c.get("/").want(t, http.StatusOK)
		p := c.m.people["ada@example.com"]
		p.Disabled = true
		c.m.people[p.Email] = p
		c.get("/").want(t, http.StatusSeeOther) // at once
	}
}

func TestSessionOutage(t *testing.T) {
	c := start(t, func(cfg *Config) { cfg.Sessions = away{} })
	for _, path := range []string{"/", "/login", "/history"} {
		c.get(path, "Cookie", cookieName+"="+strings.Repeat("A", 43)).want(t, http.StatusServiceUnavailable, "Nothing was decided")
	}
	if _, ok, err := c.c.Signed(withCookie(strings.Repeat("A", 43))); ok || err == nil {
		t.Errorf("Signed: got %v, %v", ok, err)
	}
	for _, id := range []string{"", "x", strings.Repeat("A", 42), strings.Repeat("A", 42) + "B", strings.Repeat("A", 44), strings.Repeat("+", 43)} {
		if _, ok, err := c.c.Signed(withCookie(id)); ok || err != nil {
			t.Errorf("id %q is not one: got %v, %v", id, ok, err)
		}
	}
}

func withCookie(id string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: cookieName, Value: id})
	return r
}

type away struct{ Sessions }

func (away) Load(context.Context, []byte) (p engine.Person, err error) {
	return p, errors.New("no database")
}

func TestLocalPath(t *testing.T) {
	for next, want := range map[string]string{
		"": "/", "/": "/", "/history?cursor=a%2Fb": "/history?cursor=a%2Fb", "/approvals/apr_1?full=1": "/approvals/apr_1?full=1",
		"//evil.example": "/", "/\\evil.example": "/", "\\\\evil": "/", "https://evil.example/": "/", "javascript:alert(1)": "/",
		"/%5cevil.example": "/", "/%2f/evil.example": "/", "/\tevil": "/", "/\nSet-Cookie: a": "/", "/%0d%0aSet-Cookie": "/", " /x": "/",
		"/login?next=/login": "/", "/logout": "/", "/" + strings.Repeat("a", 3000): "/", "/ü": "/", "http:/history": "/",
	} {
		if got := localPath(next); got != want {
			t.Errorf("localPath(%q) = %q, want %q", next, got, want)
		}
	}
	c := start(t, nil)
	res := c.do("POST", "/login", url.Values{"email": {"ada@example.com"}, "password": {"right"}, "next": {"//evil.example/"}})
	if got := res.Header.Get("Location"); got != "/" {
		t.Errorf("sent to %q", got)
	}
}

func TestCrossOrigin(t *testing.T) {
	c := start(t, nil).signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, nil)
	for name, header := range map[string][]string{
		"another site":        {"Sec-Fetch-Site", "cross-site"},
		"a sibling":           {"Sec-Fetch-Site", "same-site"},
		"another origin":      {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
		"no origin":           {"Sec-Fetch-Site", "", "Origin", "null"},
		"nothing said":        {"Sec-Fetch-Site", ""},
		"another port":        {"Sec-Fetch-Site", "", "Origin", "http://127.0.0.1:1"},
		"with a method trick": {"Sec-Fetch-Site", "cross-site", "X-HTTP-Method-Override", "GET"},
	} {
		for _, path := range []string{"/approvals/apr_1/votes", "/logout", "/login"} {
			c.do("POST", path, ballotFor(card, "approve"), header...).want(t, http.StatusForbidden, "This request was refused")
		}
		res := c.do("POST", "/v1/approvals/apr_1/votes", url.Values{}, header...)
		res.want(t, http.StatusForbidden, `"code":"cross_origin"`)
		if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s: content type %q", name, got)
		}
	}
	if len(c.m.votes) != 0 {
		t.Errorf("votes: %+v", c.m.votes)
	}
	// Nothing here answers to it, once it is let through.
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusNotFound, "none": http.StatusNotFound, "": http.StatusNotFound} {
		c.do("GET", "/v1/audit/export", nil, "Sec-Fetch-Site", site).want(t, want)
	}
	c.do("GET", "/", nil, "Sec-Fetch-Site", "cross-site").want(t, http.StatusOK) // still signed in, and pages may be linked to
	// An agent has no cookie and no origin.
	c.Jar = nil
	c.do("POST", "/v1/approvals/apr_1/votes", url.Values{}, "Sec-Fetch-Site", "").want(t, http.StatusOK)
	// The same origin, said the old way.
	c.do("POST", "/logout", url.Values{}, "Sec-Fetch-Site", "", "Origin", c.url).want(t, http.StatusSeeOther)
}

// Under TLS a form of a page that came without it is another origin's, on the same host, too.
func TestCrossOriginUnderTLS(t *testing.T) {
	c := start(t, func(c *Config) { c.Secure = true }).signIn("ada@example.com")
	plain := strings.Replace(c.url, "https:", "http:", 1)
	for _, origin := range []string{plain, strings.Replace(plain, "http:", "HTTP:", 1)} {
		c.do("POST", "/logout", url.Values{}, "Sec-Fetch-Site", "", "Origin", origin).want(t, http.StatusForbidden, "This request was refused")
	}
	c.do("POST", "/logout", url.Values{}, "Sec-Fetch-Site", "", "Origin", c.url).want(t, http.StatusSeeOther)
}

func TestHosts(t *testing.T) {
	h := Guard(http.NotFoundHandler(), GuardConfig{Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, want := range map[string]int{
		"localhost:8080": 404, "127.0.0.1": 404, "[::1]:80": 404, "LOCALHOST": 404, "evil.example:8080": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("host %q: got %d, want %d", host, w.Code, want)
		}
	}
}

func TestHeadersOnEveryPage(t *testing.T) {
	c := start(t, func(cfg *Config) { cfg.Secure = true })
	paths := []string{"/login", "/", "/history", "/approvals/apr_1", "/approvals/none", "/nowhere", "/live", "/static/none"}
	check := func(a answer, path string) {
		t.Helper()
		for name, want := range map[string]string{
			"Content-Security-Policy": contentPolicy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Permissions-Policy": permissions, "Strict-Transport-Security": "max-age=31536000", "Cache-Control": "no-store",
		} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, got, want)
			}
		}
		if regexp.MustCompile(`(?i)<script>|<style|\son[a-z]+=|\sstyle=|https?://`).MatchString(a.body) {
			t.Errorf("%s: something inline or from elsewhere:\n%s", path, a.body)
		}
	}
	c.m.add("apr_1", "payments.transfer", `{}`, nil)
	for _, p := range paths {
		check(c.get(p), p)
	}
	c.signIn("ada@example.com")
	for _, p := range paths[1:6] {
		check(c.get(p), p)
	}
	c.m.broken = errors.New("no database")
	check(c.get("/"), "an outage")
	check(c.do("POST", "/approvals/apr_1/votes", url.Values{}, "Sec-Fetch-Site", "cross-site"), "a refusal")
	if strings.Contains(contentPolicy, "unsafe") {
		t.Error("the content policy allows something unsafe")
	}
}

func TestStatic(t *testing.T) {
	c := start(t, nil)
	page := c.get("/login").body
	for _, m := range regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		a := c.get(m[1])
		a.want(t, http.StatusOK)
		if a.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || a.body == "" {
			t.Errorf("%s: %v", m[1], a.Header)
		}
		packed := c.get(m[1], "Accept-Encoding", "gzip")
		if strings.Contains(m[1], ".png?") { // it is compressed already
			if packed.Header.Get("Content-Encoding") != "" || packed.body != a.body {
				t.Errorf("%s: compressed again", m[1])
			}
			continue
		}
		reader, err := gzip.NewReader(strings.NewReader(packed.body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(reader); err != nil || string(text) != a.body || packed.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: compressed, it is another: %v", m[1], err)
		}
		path, _, _ := strings.Cut(m[1], "?")
		c.get(path, "If-None-Match", a.Header.Get("ETag")).want(t, http.StatusNotModified)
	}
	c.get("/static/static.go").want(t, http.StatusNotFound)
	c.get("/static/..%2fdoc.go").want(t, http.StatusNotFound)
}

func TestLive(t *testing.T) {
	c := start(t, nil)
	c.get("/live").want(t, http.StatusUnauthorized)
	c.signIn("ada@example.com")
	card := c.m.add("apr_1", "payments.transfer", `{}`, nil)
	c.get("/approvals/none/live").want(t, http.StatusNotFound)
	pages, events := []string{"/", "/approvals/apr_1"}, map[string]string{"/": "event: rows", "/approvals/apr_1": "event: changed"}
	for tries := 1; len(pages) > 0; tries++ {
		page, began := pages[0], time.Now()
		m := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(c.get(page).body)
		if m == nil {
			t.Fatalf("%s: no event stream", page)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		req, err := http.NewRequestWithContext(ctx, "GET", c.url+m[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		if !lines.Scan() || lines.Text() != ": here" {
			t.Fatalf("%s: a page that is true is told %q", page, lines.Text())
		}
		c.m.mu.Lock()
		card.Approval.Revision++
		c.m.notify()
		c.m.mu.Unlock()
		for lines.Scan() && lines.Text() != events[page] {
		}
		if lines.Text() != events[page] {
			t.Errorf("%s: not told of a change", page)
		}
		// Signing out elsewhere ends the stream at the next change.
		c.m.mu.Lock()
		saved := c.m.sessions
		c.m.sessions = map[string]string{}
		c.m.notify()
		c.m.mu.Unlock()
		for lines.Scan() {
		}
		// A heartbeat ends it as well: only before the first one is it the change.
		if lines.Err() != nil {
			t.Errorf("%s: the stream of an ended session did not end well: %v", page, lines.Err())
		}
		if time.Since(began) < heartbeat {
			pages = pages[1:]
		} else if tries == 4 {
			t.Fatalf("%s: the stream of an ended session goes on", page)
		}
		c.m.mu.Lock()
		c.m.sessions = saved
		c.m.mu.Unlock()
		cancel()
		_ = res.Body.Close()
	}
	var s streams
	for range maxStreamsEach {
		if !s.enter("a") {
			t.Fatal("turned away too early")
		}
	}
	if s.enter("a") || !s.enter("b") {
		t.Error("streams are not counted by person")
	}
	s.leave("a")
	if !s.enter("a") {
		t.Error("a place is not given back")
	}
}

func TestStoppingEndsStreams(t *testing.T) {
	stopping := make(chan struct{})
	c := start(t, func(cfg *Config) { cfg.Stopping = stopping }).signIn("ada@example.com")
	res, err := c.Get(c.url + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Scan()
	close(stopping)
	for lines.Scan() {
	}
	if lines.Err() != nil {
		t.Errorf("the stream did not end well: %v", lines.Err())
	}
}
