package channel

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"strings"
)

//go:embed mail.html
var mailHTML string

var mailTemplate = template.Must(template.New("mail").Parse(mailHTML))

// footer says what an e-mail is not for.
const footer = "Holdpoint sent this by itself. Nothing is decided by e-mail: answers to it are not read, and its only link leads to " +
	"the console, where you sign in. Text like ‹U+202E› stands for a character that would be invisible or deceptive."

// mailBody is a notification as an e-mail, before it is addressed.
type mailBody struct {
	Subject string
	Text    string
	HTML    string
}

// mailView is what the template shows. Every text in it is visible's.
type mailView struct {
	Title, Message, More, Link, Footer string
	Facts                              []fact
	Groups                             []mailGroup
}

type mailGroup struct {
	Name  string
	Lines []string
}

func newMailBody(n Notification) (mailBody, error) {
	if err := n.Check(); err != nil {
		return mailBody{}, fmt.Errorf("notice: %w", err)
	}
	v := mailView{Title: title(n), Message: visible(n.Message, maxSentence), Link: n.Link, Footer: footer, Facts: facts(n)}
	groups, more := grouped(n.Items)
	for _, g := range groups {
		lg := mailGroup{Name: g.name()}
		for _, item := range g.Items {
			lg.Lines = append(lg.Lines, line(item))
		}
		v.Groups = append(v.Groups, lg)
	}
	if more > 0 {
		v.More = andMore(more)
	}
	var html bytes.Buffer
	if err := mailTemplate.Execute(&html, v); err != nil {
		return mailBody{}, fmt.Errorf("write mail: %w", err)
	}
	return mailBody{Subject: subject(n), Text: v.text(), HTML: html.String()}, nil
}

// text is the mail without markup.
func (v mailView) text() string {
	var b strings.Builder
	b.WriteString(v.Title + "\n")
	if v.Message != "" {
		b.WriteString("\n" + v.Message + "\n")
	}
	if len(v.Facts) > 0 {
		b.WriteString("\n")
	}
	for _, f := range v.Facts {
		fmt.Fprintf(&b, "%-13s%s\n", f.Label+":", f.Text)
	}
	for _, g := range v.Groups {
		b.WriteString("\n" + g.Name + "\n")
		for _, l := range g.Lines {
			b.WriteString("  - " + l + "\n")
		}
	}
	if v.More != "" {
		b.WriteString("\n" + v.More + "\n")
	}
	if v.Link != "" {
		b.WriteString("\nOpen in Holdpoint:\n" + v.Link + "\n")
	}
	b.WriteString("\n-- \n" + v.Footer + "\n")
	return b.String()
}

// fingerprint makes an id from parts, the same for the same parts.
func fingerprint(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
