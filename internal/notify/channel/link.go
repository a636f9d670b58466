package channel

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"time"
)

// linkFooter says what the mail with a link is, to whoever did not expect it.
const linkFooter = "Holdpoint sent this by itself, because an administrator asked for it. Answers are not read. If you did not expect it, do nothing, and tell your administrator."

// SendLink makes one attempt to send somebody the link by which they set a password: the
// link is good once, until then. It is in no notification, and kept nowhere.
func (m *Mail) SendLink(ctx context.Context, to, link string, until time.Time) error {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" {
		return fmt.Errorf("send a link by mail: it is no address") // without it: whoever reads it may enter
	}
	v := mailView{
		Title: "Set your password for Holdpoint", Link: link, Footer: linkFooter,
		Message: "This link leads to " + u.Host + ", where you choose your password. It is good once, until " + until.UTC().Format("2 January 2006, 15:04") + " UTC.",
	}
	var html bytes.Buffer
	if err := mailTemplate.Execute(&html, v); err != nil {
		return fmt.Errorf("send a link by mail: %w", err)
	}
	msg, err := m.addressed(mailBody{Subject: v.Title, Text: v.text(), HTML: html.String()}, to, link, time.Now())
	if err == nil {
		_, err = m.deliver(ctx, msg)
	}
	if err != nil {
		return fmt.Errorf("send a link by mail: %w", err)
	}
	return nil
}
