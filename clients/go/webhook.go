package holdpoint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of what VerifyWebhook believes.
const (
	webhookTolerance = 5 * time.Minute // either way
	minWebhookKey    = 24              // bytes
)

// ErrWebhook is wrapped by every reason for which a webhook is not believed. No
// reason quotes it.
var ErrWebhook = errors.New("the webhook is not genuine")

// Webhook is what a genuine webhook says. It permits nothing: read the approval with
// the agent's own key.
type Webhook struct {
	ID         string // the same for every attempt: pass over what you have seen
	Type       string
	ApprovalID string // "" when it is about none
	Status     Status // the approval's
	Data       json.RawMessage
}

// VerifyWebhook checks a webhook by its secret ("whsec_…"; Standard Webhooks, version
// 1), and returns what it says. body is what came, byte for byte. A webhook that is more
// than five minutes from now is not believed; within these, somebody who overheard it may
// send it again: remember its ID for as long.
func VerifyWebhook(secret string, header http.Header, body []byte, now time.Time) (Webhook, error) {
	text, is := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !is || err != nil || len(key) < minWebhookKey || strings.ContainsAny(text, "\r\n") {
		return Webhook{}, fmt.Errorf("%w: the secret is none", ErrWebhook)
	}
	parts := map[string]string{}
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		values := header.Values(name)
		if len(values) != 1 || values[0] == "" || strings.ContainsFunc(values[0], func(r rune) bool { return r > 0x7f }) {
			return Webhook{}, fmt.Errorf("%w: the header %s is not there once", ErrWebhook, name)
		}
		parts[name] = values[0]
	}
	stamp := parts["Webhook-Timestamp"]
	seconds, err := strconv.ParseUint(stamp, 10, 63)
	if err != nil || len(stamp) > 15 {
		return Webhook{}, fmt.Errorf("%w: its timestamp is no number of seconds", ErrWebhook)
	}
	if d := now.Unix() - int64(seconds); d > int64(webhookTolerance/time.Second) || -d > int64(webhookTolerance/time.Second) { // #nosec G115 -- 15 digits
		return Webhook{}, fmt.Errorf("%w: it is not of these five minutes", ErrWebhook)
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(parts["Webhook-Id"] + "." + stamp + "."))
	m.Write(body)
	want := []byte("v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)))
	fits := false
	for got := range strings.SplitSeq(parts["Webhook-Signature"], " ") {
		fits = hmac.Equal(want, []byte(got)) || fits
	}
	if !fits {
		return Webhook{}, fmt.Errorf("%w: no signature fits", ErrWebhook)
	}
	var said struct {
		Type *string
		Data json.RawMessage
	}
	var about *struct {
		ApprovalID string `json:"approval_id"`
		Status     Status
	}
	if json.Unmarshal(body, &said) != nil || said.Type == nil || json.Unmarshal(said.Data, &about) != nil || about == nil {
		return Webhook{}, fmt.Errorf("%w: its body says nothing that is known", ErrWebhook)
	}
	return Webhook{parts["Webhook-Id"], *said.Type, about.ApprovalID, about.Status, said.Data}, nil
}
