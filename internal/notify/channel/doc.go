// Package channel sends notifications to people and programs: by webhook, by
// e-mail, by Slack.
//
//	Notification ──► Webhook ── POST, signed (Standard Webhooks v1) ──► a program
//	             ├─► Mail ───── SMTP, text and HTML ──────────────────► a person
//	             └─► Slack ──── POST, blocks ─────────────────────────► a Slack channel
//	                    └──► Result: done, gone for good, or not yet
//
// A Notification has no place for an argument, a secret or a token, so that none
// can get out this way. An Offer has arguments: it goes to Slack alone, where an operator
// allows decisions there, with the notification and kept nowhere. What agents write (names of tools, reasons) is shown as
// what it is: nothing in it is taken for markup, a link, a mention or a header, and
// characters that hide or deceive are shown by name.
//
// A sender makes one attempt and says what came of it. It keeps nothing, knows no
// database and retries nothing. Nothing that is sent from here decides anything: it
// links to the console, where people sign in, or has buttons whose press internal/slack
// takes and the gate judges.
package channel
