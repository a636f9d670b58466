package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/stakes"
	"holdpoint/internal/notify/channel"
)

// The kinds of endpoint.
const (
	Webhook = "webhook"
	Email   = "email"
	Slack   = "slack"
	Push    = "push"
)

// Reviewers stands, among an endpoint's addressees, for everybody who could act
// on the approval at the moment.
const Reviewers = "reviewers"

// Bounds of an endpoint's settings.
const (
	maxEntries = 100
	maxDigest  = 24 * time.Hour
	// MaxOverlap is the longest time for which a replaced secret goes on signing.
	MaxOverlap = 14 * 24 * time.Hour
)

// Settings are an endpoint's: what it is told, about what, and to whom. None of
// it is secret. Empty lists leave nothing out.
type Settings struct {
	// Kinds are what it is told.
	Kinds []engine.NotificationKind `json:"tells,omitempty"`
	// Roles, Tools and Agents leave out approvals that ask none of these roles, of
	// other tools (a name, or a prefix that ends in "*"), of other agents.
	Roles  []string `json:"roles,omitempty"`
	Tools  []string `json:"tools,omitempty"`
	Agents []string `json:"agents,omitempty"`
	// Digest is how long things are gathered, to be told together; 0 means not.
	Digest engine.Duration `json:"digest,omitempty"`
	// To are mail addresses, or Reviewers.
	To []string `json:"to,omitempty"`
	// Own tells the addresses only of what their owners could act on, took part
	// in, or answer for.
	Own bool `json:"own,omitempty"`
	// Format is how a webhook's body is written: "", or CloudEvents.
	Format string `json:"format,omitempty"`
	// Decide is the highest danger of a call that may be decided in Slack, "low" or
	// "medium"; "" for none, which only links to the console.
	Decide string `json:"decide,omitempty"`
	// Host is where it leads, for people to recognize it. The address itself is
	// secret.
	Host string `json:"host,omitempty"`
}

// ParseSettings reads what an endpoint has stored.
func ParseSettings(text json.RawMessage) (Settings, error) {
	var s Settings
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the endpoint's settings: %w", err)
	}
	return s, nil
}

// Check says what is wrong with the settings of an endpoint of a kind, field by
// field.
func (s Settings) Check(kind string) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, t := range s.Kinds {
		if !slices.Contains(engine.EndpointKinds(), t) {
			bad("tells: %.40q is nothing that can be told", t)
		}
	}
	for name, list := range map[string][]string{"roles": s.Roles, "tools": s.Tools, "agents": s.Agents, "to": s.To} {
		if len(list) > maxEntries {
			bad("%s: at most %d, got %d", name, maxEntries, len(list))
		}
		if slices.ContainsFunc(list, func(e string) bool { return strings.TrimSpace(e) == "" || len(e) > 512 }) {
			bad("%s: an entry is empty or too long", name)
		}
	}
	if d := time.Duration(s.Digest); d < 0 || d > maxDigest || d > 0 && d < time.Second {
		bad("digest: want 1s to %s, or 0s for none, got %s", maxDigest, d)
	}
	if s.Format != "" && (kind != Webhook || s.Format != channel.CloudEvents) {
		bad("format: a webhook may have %s, everything else has none", channel.CloudEvents)
	}
	if s.Decide != "" {
		switch {
		case kind != Slack:
			bad("decide: only in Slack can calls be decided")
		case s.Danger() == stakes.Unsaid:
			bad("decide: want low or medium, got %.20q", s.Decide)
		case s.Digest != 0:
			bad("decide: what is gathered cannot be decided: leave digest out")
		}
	}
	switch kind {
	case Email:
		if len(s.To) == 0 {
			bad("to: name mail addresses, or “%s”", Reviewers)
		}
		for _, to := range s.To {
			if a, err := mail.ParseAddress(to); to != Reviewers && (err != nil || a.Address != to) {
				bad("to: %.80q is no mail address", to)
			}
		}
	case Webhook, Slack:
		if len(s.To) > 0 {
			bad("to: only e-mail has addressees")
		}
		if s.Own {
			bad("own: only e-mail is anybody's own")
		}
	case Push:
		if len(s.To) > 0 {
			bad("to: people choose their browsers themselves")
		}
		if s.Own {
			bad("own: web push is always somebody's own")
		}
		if s.Digest != 0 {
			bad("digest: web push gathers nothing: what is told later of a call takes the place of what was told before")
		}
	default:
		bad("kind: want %s, %s, %s or %s, got %.20q", Webhook, Email, Slack, Push, kind)
	}
	return errs
}

// Danger is the highest danger that Decide names; stakes.Unsaid for none.
func (s Settings) Danger() stakes.Danger {
	switch s.Decide {
	case stakes.Low.String():
		return stakes.Low
	case stakes.Medium.String():
		return stakes.Medium
	}
	return stakes.Unsaid
}

// PushKinds are what web push tells unless its endpoint says otherwise: what waits for
// somebody, an access review too, and what is urgent.
func PushKinds() []engine.NotificationKind {
	return slices.DeleteFunc(engine.EndpointKinds(), func(k engine.NotificationKind) bool {
		return k != engine.NotifyAccessReview && !k.Traits().Waits && !k.Traits().Urgent
	})
}

// Key is a secret that signs webhooks, for as long as it does.
type Key struct {
	Secret string `json:"secret"`
	// Until is when it stops; zero for never.
	Until time.Time `json:"until,omitzero"`
}

// EndpointSecrets is what is secret about an endpoint. It is kept sealed.
type EndpointSecrets struct {
	URL string `json:"url,omitempty"`
	// Plain allows http: inside the house, where the worker's settings permit it.
	Plain bool  `json:"plain,omitempty"`
	Keys  []Key `json:"keys,omitempty"`
	// Signing is the signing secret of a Slack app, by which its requests are known.
	Signing string `json:"signing,omitempty"`
}

// Slack's signing secrets have 32 hex digits.
const (
	minSigning = 16
	maxSigning = 200
)

// ParseTarget reads what an endpoint has sealed; nothing is an empty Target. Its
// errors hold nothing of it.
func ParseTarget(text []byte) (EndpointSecrets, error) {
	var t EndpointSecrets
	if len(text) == 0 {
		return t, nil
	}
	if json.Unmarshal(text, &t) != nil {
		return t, errors.New("what is secret about the endpoint cannot be read")
	}
	return t, nil
}

// Check says what is wrong with the target of an endpoint of a kind. It does not
// quote it.
func (t EndpointSecrets) Check(kind string) error {
	switch kind {
	case Webhook:
		return t.Webhook(time.Time{}).Check()
	case Slack:
		if err := channel.CheckSlack(t.URL); err != nil {
			return fmt.Errorf("url: %w", err)
		}
		if n := len(t.Signing); n != 0 && (n < minSigning || n > maxSigning) {
			return fmt.Errorf("signing secret: want %d to %d bytes", minSigning, maxSigning)
		}
	}
	return nil
}

// Webhook is the target as webhooks need it, with the secrets that sign at now.
func (t EndpointSecrets) Webhook(now time.Time) channel.WebhookEndpoint {
	e := channel.WebhookEndpoint{URL: t.URL, AllowPlain: t.Plain}
	for _, k := range t.Keys {
		if k.Until.IsZero() || now.Before(k.Until) {
			e.Secrets = append(e.Secrets, k.Secret)
		}
	}
	return e
}

// Pair reports whether a key pair signs, instead of a shared secret.
func (t EndpointSecrets) Pair() bool {
	return len(t.Keys) > 0 && strings.HasPrefix(t.Keys[0].Secret, "whsk_")
}

// maxKeys is how many secrets sign at most.
const maxKeys = 4

// Rotate puts a new secret first. The one before it goes on signing for overlap, and
// those before that for as long as they were to, so that nobody is cut off when a secret
// is changed twice; 0 drops them all.
func (t EndpointSecrets) Rotate(secret string, now time.Time, overlap time.Duration) EndpointSecrets {
	keys := []Key{{Secret: secret}}
	for i, k := range t.Keys {
		if i == 0 {
			k.Until = now.Add(overlap)
		}
		if overlap > 0 && now.Before(k.Until) && len(keys) < maxKeys {
			keys = append(keys, k)
		}
	}
	t.Keys = keys
	return t
}

// Host is the host of the target, which is no secret.
func (t EndpointSecrets) Host() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Leads is the address without what makes it a secret: the path's last part, and what follows.
// So people tell one Slack workspace, or one service behind a gateway, from another.
func (t EndpointSecrets) Leads() string {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if cut := strings.LastIndexByte(path, '/'); cut >= 0 {
		path = path[:cut] + "/…"
	}
	return u.Scheme + "://" + u.Host + path
}

// Covers reports whether the endpoint is told this of the approval.
func (s Settings) Covers(a approval.Approval, what approval.Notification) bool {
	if len(s.Kinds) > 0 && !slices.Contains(s.Kinds, what.Kind) {
		return false
	}
	if len(s.Agents) > 0 && !slices.Contains(s.Agents, a.Call.AgentID) {
		return false
	}
	if len(s.Tools) > 0 && !slices.ContainsFunc(s.Tools, func(pattern string) bool { return matches(pattern, a.Call.Tool) }) {
		return false
	}
	if len(s.Roles) == 0 {
		return true
	}
	asked := roles(a, what)
	return slices.ContainsFunc(s.Roles, func(r string) bool { return slices.Contains(asked, r) })
}

// matches compares a tool's name with a name or a prefix that ends in "*", as
// routing rules do.
func matches(pattern, tool string) bool {
	plain := func(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
	if prefix, ok := strings.CutSuffix(plain(pattern), "*"); ok {
		return strings.HasPrefix(plain(tool), prefix)
	}
	return plain(pattern) == plain(tool)
}

// roles are those that the approval asks at this moment, or that it has asked at
// all where it does not wait for anybody any more.
func roles(a approval.Approval, what approval.Notification) []string {
	var list []string
	for i, r := range a.Plan.Requirements {
		if i < len(a.State.Requirements) {
			standing := a.State.Requirements[i]
			if what.Kind.Traits().Waits && i != what.Stage && standing.Status != approval.Waiting {
				continue
			}
			list = append(list, standing.Escalated...)
		}
		if len(r.AnyOf) == 0 {
			list = append(list, r.Role)
		}
		for _, g := range r.AnyOf {
			list = append(list, g.Role)
		}
	}
	return list
}
