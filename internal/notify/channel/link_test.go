package channel

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// A link is sent to whom it is for, in both forms, and stands in no error.
func TestSendLink(t *testing.T) {
	const link = "https://gate.example/welcome/abcdefghijklmnopqrstuvwxyz"
	until := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	box := &mailbox{auth: true}
	serve(t, box, StartTLS)
	if err := sender(t, box.config(StartTLS)).SendLink(context.Background(), ada, link, until); err != nil {
		t.Fatal(err)
	}
	if len(box.mails) != 1 || box.mails[0].to != ada || !box.mails[0].encrypted {
		t.Fatalf("%+v", box.mails)
	}
	mail := strings.ReplaceAll(string(box.mails[0].raw), "=\r\n", "")
	if strings.Count(mail, link) != 2 || !strings.Contains(mail, "Subject: Set your password for Holdpoint") || strings.Count(mail, "24 December 2026, 18:00 UTC") != 2 {
		t.Errorf("the mail is\n%s", mail)
	}
	if header, _, _ := strings.Cut(mail, "\r\n\r\n"); strings.Contains(header, "abcdefghijklmnopqrstuvwxyz") {
		t.Errorf("the link is in the header:\n%s", header)
	}

	refusing := &mailbox{refuse: func(string) error {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	}}
	serve(t, refusing, PlainTCP)
	for _, c := range []MailConfig{refusing.config(PlainTCP), {Addr: "127.0.0.1:1", From: "holdpoint@gate.example", TLS: PlainTCP}} {
		if err := sender(t, c).SendLink(context.Background(), ada, link, until); err == nil || strings.Contains(err.Error(), "abcdefghijklmnopqrstuvwxyz") {
			t.Errorf("got %v", err)
		}
	}
}
