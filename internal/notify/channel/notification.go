package channel

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
)

// Notification is one thing to tell. It has no field for an argument, a secret or a
// token, and must never be given one in another. Every text in it may come from
// an agent, and is treated so.
type Notification struct {
	// ID begins with "ntf_" and is the same for every attempt and every receiver,
	// so that repetitions can be told.
	ID   string
	Kind engine.NotificationKind
	At   time.Time

	ApprovalID  string
	Tool        string
	Agent       string
	Environment string
	About       string // "change of the policy", where people propose it and no agent calls a tool; "" else
	Reason      string // the first finding's message
	Status      string // the approval's
	Outcome     string // of the audit vocabulary
	Stage       string // "review by finance-approver, 1 of 2"
	Deadline    time.Time
	Link        string // the console's page about it
	Self        string // where the API has it, for programs
	Message     string // one sentence

	Items []Notification // of a digest
}

// Check says what keeps a notification from being sent, field by field.
func (n Notification) Check() error {
	var errs []error
	if err := checkID(n.ID); err != nil {
		errs = append(errs, fmt.Errorf("id: %w", err))
	}
	if !slices.Contains(engine.NotificationKinds(), n.Kind) {
		errs = append(errs, fmt.Errorf("kind: %.40q is none", n.Kind))
	}
	if n.At.IsZero() {
		errs = append(errs, errors.New("at: is missing"))
	}
	if err := checkLink(n.Link); err != nil {
		errs = append(errs, fmt.Errorf("link: %w", err))
	}
	if err := checkLink(n.Self); err != nil {
		errs = append(errs, fmt.Errorf("self: %w", err))
	}
	if n.Kind != engine.NotifyDigest && len(n.Items) > 0 {
		errs = append(errs, errors.New("items: only a digest has any"))
	}
	for i, item := range n.Items {
		if item.Kind == engine.NotifyDigest {
			errs = append(errs, fmt.Errorf("items[%d]: a digest in a digest", i))
		} else if err := item.Check(); err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// checkID holds an id against what may stand in a header and in what is signed.
func checkID(id string) error {
	rest, ok := strings.CutPrefix(id, "ntf_")
	if !ok || rest == "" || len(id) > 128 {
		return errors.New(`must be "ntf_" and up to 124 characters`)
	}
	for _, c := range rest {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return errors.New("may have letters, digits, - and _ only")
		}
	}
	return nil
}

// checkLink allows no link, or one whose every character can stand in an HTML
// attribute, in a line of text and in Slack's <…|…> without meaning anything.
func checkLink(link string) error {
	if link == "" {
		return nil
	}
	if len(link) > 1024 {
		return errors.New("is longer than 1,024 bytes")
	}
	for _, c := range link {
		if c <= ' ' || c >= 0x7F || strings.ContainsRune("<>|\"'`\\^{}", c) {
			return fmt.Errorf("may not have %q", c)
		}
	}
	u, err := url.Parse(link)
	if err != nil {
		return errors.New("is no URL")
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "" {
		return errors.New("must be an http or https URL with a host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("may have no user, query or fragment: links carry no secrets")
	}
	return nil
}

// Result is what came of one attempt to send.
type Result struct {
	// Done: the other side has it.
	Done bool
	// Gone: the other side says that it will never take anything there again. Stop
	// sending to it.
	Gone bool
	// RetryAfter is how long the other side asks to be left alone, or 0. The next
	// attempt is after this or Backoff, whichever is longer.
	RetryAfter time.Duration
}
