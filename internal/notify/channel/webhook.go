package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/engine"
)

// maxValue is how many bytes of a text a webhook carries.
const maxValue = 4096

// WebhookEndpoint is where webhooks go to.
type WebhookEndpoint struct {
	URL string
	// Secrets sign, each of them (whsec_ or whsk_): one, or two while one replaces
	// the other.
	Secrets []string
	// Format is how the body is written: "", or CloudEvents.
	Format string
	// AllowPlain allows http to other hosts than this one.
	AllowPlain bool
}

// Check says what is wrong with an endpoint, field by field.
func (e WebhookEndpoint) Check() error {
	var errs []error
	if err := checkTarget(e.URL, e.AllowPlain); err != nil {
		errs = append(errs, fmt.Errorf("url: %w", err))
	}
	if _, err := signers(e.Secrets); err != nil {
		errs = append(errs, fmt.Errorf("secrets: %w", err))
	}
	return errors.Join(errs...)
}

// checkTarget holds an address that is posted to against what it must be. Its
// errors do not name it: who knows it may be able to post there.
func checkTarget(target string, plain bool) error {
	if target == "" {
		return errors.New("is missing: want https://…")
	}
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return errors.New("is no absolute URL: want https://…")
	}
	if u.User != nil {
		return errors.New("may hold no user or password")
	}
	if u.Fragment != "" {
		return errors.New("may have no fragment")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return errors.New("must begin with https://")
	case !plain && !loopback(u.Hostname()):
		return errors.New("must be https, unless plain http is allowed")
	}
	return nil
}

// Webhook sends notifications to programs, signed by the Standard Webhooks
// specification.
type Webhook struct{ post poster }

// NewWebhook returns a sender that uses the client.
func NewWebhook(c HTTPConfig) (*Webhook, error) {
	p, err := newPoster(c)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	return &Webhook{post: p}, nil
}

// Send makes one attempt. Any 2xx is done; 410 is gone. Everything else, redirects
// too, is an error and may be tried again. The body is the same at every attempt,
// the timestamp and with it the signature are of now. An error holds neither the
// address nor anything that the receiver wrote.
func (w *Webhook) Send(ctx context.Context, n Notification, to WebhookEndpoint) (Result, error) {
	res, err := w.send(ctx, n, to)
	if err != nil {
		return res, fmt.Errorf("send %.40q by webhook: %w", n.ID, err)
	}
	return res, nil
}

func (w *Webhook) send(ctx context.Context, n Notification, to WebhookEndpoint) (Result, error) {
	if err := to.Check(); err != nil {
		return Result{}, err
	}
	body, err := webhookBody(n)
	if err != nil {
		return Result{}, err
	}
	if to.Format == CloudEvents {
		if body, err = cloudEvent(n, body); err != nil {
			return Result{}, err
		}
	}
	header, err := Sign(to.Secrets, n.ID, time.Now(), body)
	if err != nil {
		return Result{}, err
	}
	if to.Format == CloudEvents {
		header.Set("Content-Type", cloudEventType)
	}
	a, err := w.post.send(ctx, to.URL, header, body)
	if err != nil {
		return Result{}, err
	}
	switch {
	case a.status >= 200 && a.status <= 299:
		return Result{Done: true}, nil
	case a.status == http.StatusGone:
		return Result{Gone: true}, errors.New("the receiver wants no more: status 410")
	}
	return Result{RetryAfter: a.retryAfter}, fmt.Errorf("status %d", a.status)
}

// envelope is a webhook's body, as docs/notifications.md promises it. Empty
// fields are left out; fields may be added, and never change their meaning.
type envelope struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      datum  `json:"data"`
}

type datum struct {
	ID          string                  `json:"id"`
	Kind        engine.NotificationKind `json:"kind"`
	At          string                  `json:"at"`
	ApprovalID  string                  `json:"approval_id,omitempty"`
	Tool        string                  `json:"tool,omitempty"`
	Agent       string                  `json:"agent,omitempty"`
	Environment string                  `json:"environment,omitempty"`
	Reason      string                  `json:"reason,omitempty"`
	Status      string                  `json:"status,omitempty"`
	Outcome     string                  `json:"outcome,omitempty"`
	Stage       string                  `json:"stage,omitempty"`
	Deadline    string                  `json:"deadline,omitempty"`
	Link        string                  `json:"link,omitempty"`
	Self        string                  `json:"self,omitempty"`
	Message     string                  `json:"message,omitempty"`
	Truncated   []string                `json:"truncated,omitempty"`
	Items       []datum                 `json:"items,omitempty"`
	More        int                     `json:"more,omitempty"`
}

// webhookBody renders a notification for programs: texts as they are, not made visible,
// in JSON of ASCII alone, so that whoever prints it is not deceived either.
func webhookBody(n Notification) ([]byte, error) {
	if err := n.Check(); err != nil {
		return nil, fmt.Errorf("notice: %w", err)
	}
	e := envelope{Type: EventType(n.Kind), Timestamp: formatTime(n.At), Data: newDatum(n)}
	groups, more := grouped(n.Items)
	for _, g := range groups {
		for _, item := range g.Items {
			e.Data.Items = append(e.Data.Items, newDatum(item))
		}
	}
	e.Data.More = more
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("write body: %w", err)
	}
	return asciiJSON(body), nil
}

// EventType is the type of a kind's webhooks, such as "approval.opened".
func EventType(k engine.NotificationKind) string {
	switch k {
	case engine.NotifyDigest:
		return "approvals.digest"
	case engine.NotifyTest:
		return "endpoint.test"
	case engine.NotifyAccessReview:
		return "access_review.waiting"
	default:
	}
	return "approval." + string(k)
}

func newDatum(n Notification) datum {
	d := datum{
		ID: n.ID, Kind: n.Kind, At: formatTime(n.At), ApprovalID: n.ApprovalID, Tool: n.Tool, Agent: n.Agent,
		Environment: n.Environment, Reason: n.Reason, Status: n.Status, Outcome: n.Outcome, Stage: n.Stage, Link: n.Link, Self: n.Self,
		Message: n.Message,
	}
	if !n.Deadline.IsZero() {
		d.Deadline = formatTime(n.Deadline)
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"approval_id", &d.ApprovalID},
		{"tool", &d.Tool},
		{"agent", &d.Agent},
		{"environment", &d.Environment},
		{"reason", &d.Reason},
		{"status", &d.Status},
		{"outcome", &d.Outcome},
		{"stage", &d.Stage},
		{"message", &d.Message},
	} {
		if len(*f.value) <= maxValue {
			continue
		}
		end := maxValue
		for end > maxValue-utf8.UTFMax && !utf8.RuneStart((*f.value)[end]) {
			end--
		}
		*f.value = (*f.value)[:end]
		d.Truncated = append(d.Truncated, f.name)
	}
	slices.Sort(d.Truncated)
	return d
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// asciiJSON writes every character beyond ASCII as an escape, which means the
// same.
func asciiJSON(text []byte) []byte {
	var b strings.Builder
	for _, c := range string(text) {
		switch {
		case c < 0x7F:
			b.WriteRune(c)
		case c <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			c -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+c>>10, 0xDC00+c&0x3FF)
		}
	}
	return []byte(b.String())
}
