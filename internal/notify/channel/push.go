package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/stakes"
	"holdpoint/internal/notify/webpush"
)

// Push brings notifications to browsers, by the push services of their makers.
type Push struct {
	post    poster
	key     webpush.Key
	contact string
}

// NewPush returns a sender that uses the client and signs with the key. contact is
// where push services reach whoever runs this: public_url, where that is https.
func NewPush(c HTTPConfig, key webpush.Key, contact string) (*Push, error) {
	p, err := newPoster(c)
	if err == nil && !key.There() {
		err = errors.New("key: is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	if !strings.HasPrefix(contact, "https://") {
		contact = ""
	}
	return &Push{post: p, key: key, contact: contact}, nil
}

// How long a push service keeps a push for a browser that is away.
const (
	defaultTTL = 24 * time.Hour
	maxTTL     = 28 * 24 * time.Hour
)

// ErrTooLate says that what a push would tell has come to its end.
var ErrTooLate = errors.New("its deadline has passed")

// Send makes one attempt. sentence is what the call will do, where the browser's person
// wants that on a lock screen; else "". Any 2xx is done, 404 and 410 are gone. An error
// holds neither the address nor anything that the service wrote. The service keeps the
// push until the notification's deadline: ErrTooLate, where that is over.
func (p *Push) Send(ctx context.Context, n Notification, to webpush.Subscription, sentence string, now time.Time) (Result, error) {
	res, err := p.send(ctx, n, to, sentence, now)
	if err != nil {
		return res, fmt.Errorf("push %.40q: %w", n.ID, err)
	}
	return res, nil
}

func (p *Push) send(ctx context.Context, n Notification, to webpush.Subscription, sentence string, now time.Time) (Result, error) {
	lasts := defaultTTL
	if !n.Deadline.IsZero() {
		if lasts = min(n.Deadline.Sub(now), maxTTL); lasts <= 0 {
			return Result{}, ErrTooLate
		}
	}
	text, err := pushText(n, sentence, to.Endpoint)
	if err != nil {
		return Result{}, err
	}
	body, err := webpush.Encrypt(to, text)
	if err != nil {
		return Result{}, err
	}
	authorization, err := p.key.Authorization(to.Endpoint, p.contact, now)
	if err != nil {
		return Result{}, err
	}
	header := http.Header{}
	header.Set("Authorization", authorization)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Encoding", "aes128gcm")
	header.Set("TTL", strconv.Itoa(int(lasts.Seconds())))
	header.Set("Urgency", urgency(n.Kind))
	header.Set("Topic", topic(n, to.Endpoint))
	a, err := p.post.send(ctx, to.Endpoint, header, body)
	if err != nil {
		return Result{}, err
	}
	switch {
	case a.status >= 200 && a.status <= 299:
		return Result{Done: true}, nil
	case a.status == http.StatusNotFound || a.status == http.StatusGone:
		return Result{Gone: true}, fmt.Errorf("the browser has ended its subscription: status %d", a.status)
	}
	return Result{RetryAfter: a.retryAfter}, fmt.Errorf("status %d", a.status)
}

// urgency is how soon a phone in somebody's pocket is to be woken (RFC 8030, section 5.3).
func urgency(k engine.NotificationKind) string {
	if t := k.Traits(); t.Waits || t.Urgent || k == engine.NotifyTest {
		return "high"
	}
	return "normal"
}

// topic is the same for all that one browser is told of an approval: what has not reached
// it yet gives way to what is told later. It is another one for each browser, so that it
// tells the service nothing, and not which people are asked about the same call.
func topic(n Notification, endpoint string) string {
	about := cmp.Or(n.ApprovalID, n.ID)
	sum := sha256.Sum256([]byte("holdpoint push " + about + " " + endpoint))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:32]
}

// pushed is what the service worker reads (web/static/sw.js).
type pushed struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Path  string `json:"path"`
	Tag   string `json:"tag"`
	Until string `json:"until,omitempty"`
}

const openHoldpoint = "Open Holdpoint"

// pushText is what a browser is told. Without a sentence it holds nothing of the call
// but of what sort it is, by its tool's name, or that a change of the rules waits.
func pushText(n Notification, sentence, endpoint string) ([]byte, error) {
	if err := n.Check(); err != nil {
		return nil, fmt.Errorf("notice: %w", err)
	}
	t := pushed{Title: title(n), Body: openHoldpoint, Path: "/", Tag: topic(n, endpoint)}
	if u, err := url.Parse(n.Link); err == nil && u.Path != "" {
		t.Path = u.EscapedPath()
	}
	switch n.Kind {
	case engine.NotifyOpened, engine.NotifyStage, engine.NotifyEdited, engine.NotifyEscalated, engine.NotifyInfoGiven:
		t.Title = waitingFor(n) + " waits for you"
	case engine.NotifyPassedOn:
		t.Title = waitingFor(n) + " was passed on to you"
	case engine.NotifyReminder:
		t.Title = waitingFor(n) + " still waits for you"
	case engine.NotifyTest:
		t.Body = "Notifications reach this browser."
	default:
	}
	if n.Kind.Traits().Waits && !n.Deadline.IsZero() {
		t.Until = formatTime(n.Deadline)
	}
	if sentence != "" {
		t.Body = visible(sentence, maxSentence)
	}
	return json.Marshal(t)
}

// waitingFor is what waits: "A payment".
func waitingFor(n Notification) string {
	for _, sort := range []string{n.About, stakes.Sort(n.Tool)} {
		if sort != "" {
			return withArticle(sort)
		}
	}
	return "A call"
}
