package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
)

// Slack posts notifications to incoming webhooks of Slack.
type Slack struct{ post poster }

// NewSlack returns a sender that uses the client.
func NewSlack(c HTTPConfig) (*Slack, error) {
	p, err := newPoster(c)
	if err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	return &Slack{post: p}, nil
}

// CheckSlack says what is wrong with the address of an incoming webhook. The
// address is a secret: whoever has it can post.
func CheckSlack(address string) error { return checkTarget(address, false) }

// closed are Slack's words for a webhook that will not work again.
var closed = []string{
	"channel_is_archived", "channel_not_found", "invalid_token", "no_active_hooks", "no_service", "no_service_id",
	"no_team", "team_disabled",
}

// Send makes one attempt. It is done when Slack answers "ok". An error holds
// Slack's word for what is wrong, and not the address.
func (s *Slack) Send(ctx context.Context, n Notification, address string) (Result, error) {
	return s.SendOffer(ctx, n, nil, address)
}

// SendOffer is Send with buttons that decide, where the offer has a ticket and can be shown
// as it is; nil for none. It is the one thing that is sent with arguments.
func (s *Slack) SendOffer(ctx context.Context, n Notification, o *engine.Offer, address string) (Result, error) {
	res, err := s.send(ctx, n, o, address)
	if err != nil {
		return res, fmt.Errorf("send %.40q to Slack: %w", n.ID, err)
	}
	return res, nil
}

func (s *Slack) send(ctx context.Context, n Notification, o *engine.Offer, address string) (Result, error) {
	if err := CheckSlack(address); err != nil {
		return Result{}, fmt.Errorf("address: %w", err)
	}
	body, err := slackBody(n, o)
	if err != nil {
		return Result{}, err
	}
	a, err := s.post.send(ctx, address, nil, body)
	if err != nil {
		return Result{}, err
	}
	answer := strings.TrimSpace(string(a.body))
	if a.status == http.StatusOK && answer == "ok" {
		return Result{Done: true}, nil
	}
	err = fmt.Errorf("status %d: %s", a.status, visible(answer, maxName))
	if a.status == http.StatusGone || a.status >= 400 && a.status < 500 && slices.Contains(closed, answer) {
		return Result{Gone: true}, err
	}
	return Result{RetryAfter: a.retryAfter}, err
}

// The shapes of Slack's blocks. Text of others is in plain_text objects alone.
type slackMessage struct {
	Text        string       `json:"text"`
	Blocks      []slackBlock `json:"blocks"`
	Mrkdwn      bool         `json:"mrkdwn"`
	Parse       string       `json:"parse"`
	LinkNames   bool         `json:"link_names"`
	UnfurlLinks bool         `json:"unfurl_links"`
	UnfurlMedia bool         `json:"unfurl_media"`
}

type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Fields   []slackText `json:"fields,omitempty"`
	Elements []any       `json:"elements,omitempty"` // slackText of a context, slackButton of actions
	Expand   bool        `json:"expand,omitempty"`   // a section's text is shown whole, without a click
}

type slackText struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`    // plain_text: ":x:" stays what it is
	Verbatim *bool  `json:"verbatim,omitempty"` // mrkdwn: nothing becomes a link or a mention
}

const (
	maxSection  = 3000 // characters that Slack takes in a section
	maxSections = 40   // of the 50 blocks that it takes in a message
)

// slackBody renders a notification for Slack, with an offer where there is one.
func slackBody(n Notification, o *engine.Offer) ([]byte, error) {
	if err := n.Check(); err != nil {
		return nil, fmt.Errorf("notice: %w", err)
	}
	m := slackMessage{Text: fallback(n), Parse: "none"}
	add := func(b slackBlock) { m.Blocks = append(m.Blocks, b) }
	section := func(text string) {
		t := plain(text)
		add(slackBlock{Type: "section", Text: &t})
	}
	heading := plain(title(n))
	add(slackBlock{Type: "header", Text: &heading})
	if n.Message != "" {
		section(visible(n.Message, maxSentence))
	}
	var fields []slackText
	var small []any
	reason := ""
	for _, f := range facts(n) {
		switch f.Label {
		case "Reason":
			reason = "Reason\n" + f.Text
		case "Approval", "Until":
			small = append(small, plain(f.Label+" "+f.Text))
		default:
			fields = append(fields, plain(f.Label+"\n"+f.Text))
		}
	}
	if len(fields) > 0 {
		add(slackBlock{Type: "section", Fields: fields})
	}
	if reason != "" && !offered(o, n) {
		section(reason)
	}
	m.Blocks = append(m.Blocks, offerBlocks(o, n)...)
	for _, text := range sections(n.Items) {
		section(text)
	}
	if len(small) > 0 {
		add(slackBlock{Type: "context", Elements: small})
	}
	if n.Link != "" {
		// The link's characters are ours alone and none of Slack's (checkLink).
		yes := true
		add(slackBlock{Type: "section", Text: &slackText{
			Type: "mrkdwn", Text: "<" + escape(n.Link) + "|Open in Holdpoint>", Verbatim: &yes,
		}})
	}
	return encode(m)
}

func encode(m any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("write body: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// sections is a digest's list, in as few sections as Slack's limits allow.
func sections(items []Notification) []string {
	groups, more := grouped(items)
	var list []string
	size := 0
	add := func(text string) bool {
		// Slack does not say whether it counts before or after escaping.
		n := utf8.RuneCountInString(escape(text)) + 1
		switch {
		case list != nil && size+n <= maxSection:
			list[len(list)-1] += "\n" + text
			size += n
		case len(list) < maxSections:
			list, size = append(list, text), n
		default:
			return false
		}
		return true
	}
	for _, g := range groups {
		fits := add(g.name())
		for _, item := range g.Items {
			if fits = fits && add("• "+line(item)); !fits {
				more++
			}
		}
	}
	if more > 0 {
		list = append(list, andMore(more))
	}
	return list
}

// fallback is what Slack shows where it shows no blocks: in a notification. It is
// not plain text, so the tool is named only if its name can mean nothing else.
func fallback(n Notification) string {
	text := title(n)
	if n.About != "" {
		return escape(text + ": " + visible(n.About, maxName))
	}
	harmless := n.Tool != "" && len(n.Tool) <= maxName
	for _, c := range n.Tool {
		harmless = harmless && (c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if harmless {
		text += ": " + n.Tool
	}
	return escape(text)
}

func plain(text string) slackText {
	no := false
	return slackText{Type: "plain_text", Text: escape(text), Emoji: &no}
}

// escape takes the meaning from the three characters that have one in any text
// of Slack's.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
