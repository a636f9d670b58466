package channel

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"holdpoint/engine"
	"holdpoint/internal/golden"
)

func mailer(t testing.TB) *Mail {
	t.Helper()
	m, err := NewMail(MailConfig{Addr: "mail.example:587", From: "Holdpoint <holdpoint@gate.example>"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// renderers is every way in which a notification leaves the house, by file extension.
var renderers = map[string]func(Notification) ([]byte, error){
	"webhook.json": webhookBody,
	"slack.json":   func(n Notification) ([]byte, error) { return slackBody(n, nil) },
	"txt": func(n Notification) ([]byte, error) {
		l, err := newMailBody(n)
		return []byte(l.Subject + "\n\n" + l.Text), err
	},
	"html": func(n Notification) ([]byte, error) {
		l, err := newMailBody(n)
		return []byte(l.HTML), err
	},
	"eml": func(n Notification) ([]byte, error) {
		m, err := NewMail(MailConfig{Addr: "mail.example:587", From: "Holdpoint <holdpoint@gate.example>"})
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = m.Render(&b, n, "ada@people.example")
		return b.Bytes(), err
	},
}

// hostile is text that means something somewhere. Nothing of it may.
var hostile = map[string]string{
	"line breaks":   "refund\r\nBcc: evil@evil.example\r\n\r\n<b>body</b>\n.\nQUIT",
	"bidi":          "pay\u202Etxt.exe\u2066\u2069 \u200F",
	"zero width":    "re\u200Bfu\u200Dnd\uFEFF\u2060\u00AD",
	"tags":          "ok\U000E0041\U000E0042\U000E007F",
	"html":          `</td></table><script>alert(1)</script><img src=https://evil.example/x.png onerror=alert(1)><a href="https://evil.example">Approve</a>`,
	"attribute":     `" style="x" onmouseover='alert(1)' {{.Link}} {{"x"}}`,
	"markdown":      "*bold* _it_ ~no~ `code` ```pre``` [Approve](https://evil.example) > quote\n# head",
	"mentions":      "<!channel> <!here> <@U123|ada> <#C1> <https://evil.example|Open in Holdpoint> @channel @here :skull:",
	"script":        "javascript:alert(document.cookie)",
	"address":       "open https://evil.example/approve now",
	"entities":      "&lt;b&gt; &amp;lt; &#x202e; \\u202e",
	"mime":          "=?utf-8?Q?=0D=0ABcc:_x@evil.example?=\r\n--holdpoint-boundary--",
	"escape":        "\x1b[2J\x1b]0;x\x07\x00\x08\x7f\u0085",
	"lookalikes":    "p\u0430ypal \uFF52efund \U0001D42C xn--pypal-4ve",
	"quotes":        `'; DROP TABLE x; -- ","admin":true}`,
	"not utf-8":     "\xff\xfe\xc0\xaf\xed\xa0\x80",
	"stacked":       "a" + strings.Repeat("\u0301", 200),
	"blanks":        " x" + strings.Repeat(" ", 400) + "y\t\u00A0\u3000\u2800",
	"long":          strings.Repeat("A", 100<<10),
	"long entities": strings.Repeat("&", 100<<10),
	"long marks":    strings.Repeat("\u202E\u202D", 50<<10),
	"long bytes":    strings.Repeat("\xff\xfe", 50<<10),
	"long emoji":    strings.Repeat("\U0001F600\U0001F680", 12<<10),
	"marks":         "‹U+202E› ›‹",
}

// all is a notification that has the text wherever there can be one.
func all(text string) Notification {
	n := waiting()
	n.ApprovalID, n.Tool, n.Agent, n.Environment, n.Reason = text, text, text, text, text
	n.Status, n.Outcome, n.Stage, n.Message = text, text, text, text
	return n
}

func digestOf(n Notification, count int) Notification {
	var list []Notification
	for i := range count {
		item := n
		item.ID = "ntf_i" + strings.ReplaceAll(thousands(i), ",", "")
		item.Agent += strings.Repeat("x", i%3)
		list = append(list, item)
	}
	d := Digest("ntf_digest", list)
	d.Link = "https://holdpoint.example/"
	return d
}

func TestGolden(t *testing.T) {
	decided := waiting()
	decided.ID, decided.Kind, decided.Status, decided.Outcome = "ntf_0002", engine.NotifyDecided, "denied", "DENY"
	decided.Stage, decided.Deadline, decided.Message = "", time.Time{}, "Grace denied it: wrong amount."
	glass := waiting()
	glass.ID, glass.Kind, glass.Tool, glass.Agent = "ntf_0003", engine.NotifyBreakGlass, "db.failover", "ops-bot"
	glass.Deadline, glass.Message = time.Time{}, "Ada let db.failover pass in an emergency."
	evil := waiting()
	evil.ID, evil.Tool, evil.Agent = "ntf_0004", "refund\u202Edaer\r\nBcc: x@evil.example", "<b>p\u0430ypal</b> <!channel>"
	evil.Reason, evil.Message = "Approve at https://evil.example/ \u200B\u200B\u200B \U0001F600", strings.Repeat("long ", 200)
	late := waiting()
	late.ID, late.Kind, late.Deadline = "ntf_0005", engine.NotifyReminder, noon.Add(time.Hour)
	change := waiting()
	change.ID, change.Tool, change.Agent, change.About, change.Environment, change.Reason = "ntf_0006", "holdpoint.policy", "holdpoint:rules", "change of the policy", "", ""
	change.Stage, change.Message = "human by policy-owner", "A change of the policy waits for a decision."
	for name, n := range map[string]Notification{
		"opened": waiting(), "change": change, "decided": decided, "break_glass": glass, "hostile": evil,
		"digest": func() Notification {
			d := Digest("ntf_0009", []Notification{waiting(), decided, glass, evil, late})
			d.Link = "https://holdpoint.example/"
			return d
		}(),
		"long_digest": digestOf(waiting(), 61),
	} {
		for ext, render := range renderers {
			t.Run(name+"."+ext, func(t *testing.T) {
				got, err := render(n)
				if err != nil {
					t.Fatal(err)
				}
				if again, err := render(n); err != nil || !bytes.Equal(got, again) {
					t.Fatalf("the same notification is rendered in two ways (%v)", err)
				}
				if strings.HasSuffix(ext, "json") {
					var indented bytes.Buffer
					if err := json.Indent(&indented, got, "", "  "); err != nil {
						t.Fatal(err)
					}
					got = append(indented.Bytes(), '\n')
				}
				golden.Equal(t, "testdata/"+name+"."+ext, got)
			})
		}
	}
}

// hidden is what must be in nothing that people are shown.
func hidden(c rune) bool {
	return unicode.In(c, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Variation_Selector) ||
		unicode.Is(unicode.Cc, c) && c != '\n' || c == utf8.RuneError
}

func clean(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8", what)
	}
	if i := strings.IndexFunc(text, hidden); i >= 0 {
		t.Errorf("%s holds %q", what, text[i:min(len(text), i+8)])
	}
}

// TestHostileTexts renders hostile texts in every field, alone and in digests, and
// holds the result against what may be in it: the same structure as with harmless
// text, and nothing that is interpreted.
func TestHostileTexts(t *testing.T) {
	for name, text := range hostile {
		for form, n := range map[string]Notification{"notice": all(text), "digest": digestOf(all(text), 60)} {
			t.Run(name+"/"+form, func(t *testing.T) {
				harmless := all("x")
				if form == "digest" {
					harmless = digestOf(all("x"), 60)
				}
				checkWebhook(t, n)
				checkSlack(t, n)
				checkLetter(t, n, harmless)
				checkMessage(t, n)
			})
		}
	}
}

func checkWebhook(t *testing.T, n Notification) {
	t.Helper()
	body, err := webhookBody(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range body {
		if c < ' ' || c >= 0x7F {
			t.Fatalf("the webhook has byte %#x", c)
		}
	}
	if len(body) > 6*maxValue*9*(maxItems+1) {
		t.Errorf("the webhook has %d bytes", len(body))
	}
	var got envelope
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	subject, want := got.Data, n
	if n.Kind == engine.NotifyDigest {
		subject, want = got.Data.Items[0], n.Items[0]
		if len(got.Data.Items) != maxItems || got.Data.More != len(n.Items)-maxItems {
			t.Errorf("the webhook has %d items and %d more", len(got.Data.Items), got.Data.More)
		}
	}
	if len(want.Tool) <= maxValue {
		if utf8.ValidString(want.Tool) && (subject.Tool != want.Tool || subject.Truncated != nil) {
			t.Errorf("the tool came through as %q", subject.Tool)
		}
	} else if len(subject.Tool) > 3*maxValue || len(subject.Truncated) != 9 {
		t.Errorf("%d bytes, truncated %q", len(subject.Tool), subject.Truncated)
	}
}

func checkSlack(t *testing.T, n Notification) {
	t.Helper()
	body, err := slackBody(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	var m slackMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	if m.Mrkdwn || m.LinkNames || m.UnfurlLinks || m.UnfurlMedia || m.Parse != "none" {
		t.Errorf("Slack may interpret: %+v", m)
	}
	if len(m.Blocks) > 50 {
		t.Errorf("%d blocks", len(m.Blocks))
	}
	entity := regexp.MustCompile(`&(amp|lt|gt);`)
	escaped := func(what, text string, limit int) {
		t.Helper()
		clean(t, what, text)
		if size := utf8.RuneCountInString(text); size == 0 || size > limit {
			t.Errorf("%s has %d characters, more than %d", what, size, limit)
		}
		if strings.ContainsAny(text, "<>") || strings.Contains(entity.ReplaceAllString(text, ""), "&") {
			t.Errorf("%s is not escaped: %.200q", what, text)
		}
		if strings.Contains(text, "://") {
			t.Errorf("%s has an address: %.200q", what, text)
		}
	}
	escaped("fallback", m.Text, 300)
	if strings.ContainsAny(m.Text, "*_~`@#:[]()") && m.Text != title(n)+": "+n.Tool {
		t.Errorf("the fallback may be interpreted: %q", m.Text)
	}
	links := 0
	for _, b := range m.Blocks {
		list := append([]slackText{}, b.Fields...)
		for _, e := range b.Elements {
			var text slackText
			if encoded, err := json.Marshal(e); err != nil || json.Unmarshal(encoded, &text) != nil {
				t.Fatalf("%v is no text", e)
			}
			list = append(list, text)
		}
		if len(b.Fields) > 10 || len(b.Elements) > 10 {
			t.Errorf("%d fields, %d elements", len(b.Fields), len(b.Elements))
		}
		if b.Text != nil {
			list = append(list, *b.Text)
		}
		for _, text := range list {
			limit := 2000
			switch {
			case b.Type == "header":
				limit = 150
			case b.Text != nil:
				limit = 3000
			}
			if text.Type == "mrkdwn" {
				links++
				if text.Text != "<"+n.Link+"|Open in Holdpoint>" || text.Verbatim == nil || !*text.Verbatim {
					t.Errorf("mrkdwn: %q", text.Text)
				}
				continue
			}
			if text.Type != "plain_text" || text.Emoji == nil || *text.Emoji {
				t.Errorf("text of others in %s", text.Type)
			}
			escaped(b.Type, text.Text, limit)
		}
	}
	if links != 1 {
		t.Errorf("%d links", links)
	}
}

// skeleton is the structure of a page without its text.
func skeleton(t *testing.T, page string) string {
	t.Helper()
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.TextToken:
		case html.ErrorToken:
			if z.Err() != io.EOF {
				t.Fatal(z.Err())
			}
			return b.String()
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken, html.DoctypeToken, html.CommentToken:
			b.WriteString(z.Token().String())
		}
	}
}

func checkLetter(t *testing.T, n, harmless Notification) {
	t.Helper()
	got, err := newMailBody(n)
	if err != nil {
		t.Fatal(err)
	}
	want, err := newMailBody(harmless)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"subject": got.Subject, "text": got.Text, "HTML": got.HTML, "HTML, read": html.UnescapeString(got.HTML)} {
		clean(t, what, text)
	}
	if strings.Contains(got.Subject, "\n") || utf8.RuneCountInString(got.Subject) > 1500 {
		t.Errorf("subject %.200q", got.Subject)
	}
	// Lines and tags are those of harmless text: none is broken, none is added.
	if g, w := strings.Count(got.Text, "\n"), strings.Count(want.Text, "\n"); g != w {
		t.Errorf("%d lines, want %d", g, w)
	}
	if g, w := skeleton(t, got.HTML), skeleton(t, want.HTML); g != w {
		t.Errorf("the page is\n%s\nwant\n%s", g, w)
	}
	if strings.Count(got.Text, "://") != 1 || strings.Count(html.UnescapeString(got.HTML), "://") != 1 {
		t.Error("there is another address than ours")
	}
	if got := strings.Count(got.HTML, "<a "); got != 1 || !strings.Contains(want.HTML, `<a href="`+n.Link+`"`) {
		t.Errorf("%d links", got)
	}
	for _, tag := range []string{"<img", "<script", "<form", "<link", "<iframe", "<style", "<input", "<button"} {
		if strings.Contains(got.HTML, tag) {
			t.Errorf("the page has %s", tag)
		}
	}
	if len(got.HTML) > 300<<10 {
		t.Errorf("the page has %d bytes", len(got.HTML))
	}
}

func checkMessage(t *testing.T, n Notification) {
	t.Helper()
	var b bytes.Buffer
	if err := mailer(t).Render(&b, n, "ada@people.example"); err != nil {
		t.Fatal(err)
	}
	readMessage(t, b.Bytes(), n)
}

// readMessage reads a mail as a mail program would, and returns its parts.
func readMessage(t *testing.T, raw []byte, n Notification) (header netmail.Header, text, page string) {
	t.Helper()
	for l := range bytes.SplitSeq(raw, []byte("\r\n")) {
		if len(l) > 998 {
			t.Errorf("a line has %d bytes", len(l))
		}
		for _, c := range l {
			if c < ' ' && c != '\t' || c >= 0x7F {
				t.Fatalf("the mail has byte %#x", c)
			}
		}
	}
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, name := range strings.Fields("Auto-Submitted Content-Type Date From List-Id Message-Id Mime-Version References Subject To X-Auto-Response-Suppress X-Holdpoint-Id") {
		allowed[name] = true
	}
	for name, values := range m.Header {
		if !allowed[name] || len(values) != 1 {
			t.Errorf("header %s: %q", name, values)
		}
	}
	for name, want := range map[string]string{
		"Auto-Submitted": "auto-generated", "X-Holdpoint-Id": n.ID, "List-Id": "Holdpoint <notifications.gate.example>",
		"To": "<ada@people.example>",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	subjectLine, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subjectLine != subject(n) {
		t.Errorf("subject %.200q, %v; want %.200q", subjectLine, err, subject(n))
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s, %v", kind, err)
	}
	var parts []string
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, strings.ReplaceAll(string(content), "\r\n", "\n"))
	}
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	want, err := newMailBody(n)
	if err != nil {
		t.Fatal(err)
	}
	if parts[0] != want.Text || parts[1] != want.HTML {
		t.Error("the parts are not the letter")
	}
	return m.Header, parts[0], parts[1]
}

// TestMarksAreNamed: what was deceptive is there by name, and emojis by themselves.
func TestMarksAreNamed(t *testing.T) {
	n := all("pay\u202Eme \U0001F600")
	for ext, render := range renderers {
		if ext == "webhook.json" || ext == "eml" {
			continue
		}
		out, err := render(n)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(html.UnescapeString(string(out)), "pay‹U+202E›me \U0001F600") {
			t.Errorf("%s: %s", ext, out)
		}
	}
}
