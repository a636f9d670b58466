package channel

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
)

// What the buttons are called in what Slack sends back: SlackApprove, or SlackDeny and the
// kind of denial as the wire names it (approval.Denial).
const (
	SlackApprove = "holdpoint_approve"
	SlackDeny    = "holdpoint_deny_"
)

// Why there are no buttons for what holds deceptive characters, or what Slack makes links
// of, and for what Slack would cut.
const (
	notPlain = "it has characters that a message cannot show as they are"
	tooLong  = "it is too long to be shown whole"
)

// maxLaid is how many characters of arguments a section takes beside its heading.
const maxLaid = maxSection - 20

// noButtons says why there are no buttons for the offer, "" where there are.
func noButtons(o *engine.Offer, n Notification) string {
	if o.Why != "" || o.Ticket == "" {
		return o.Why
	}
	if utf8.RuneCountInString(escape(o.Laid)) > maxLaid || utf8.RuneCountInString(o.Sentence) > maxSentence {
		return tooLong
	}
	for text, limit := range map[string]int{o.Sentence: maxSentence, o.Arguments: maxSection, n.Tool: maxName, n.Agent: maxName, n.Environment: maxName} {
		if visible(text, limit) != text {
			return notPlain
		}
	}
	for _, r := range o.Reasons {
		if visible(r, maxSentence) != r {
			return notPlain
		}
	}
	return ""
}

// offered reports whether the message has buttons.
func offered(o *engine.Offer, n Notification) bool {
	return o != nil && o.Ticket != "" && noButtons(o, n) == ""
}

// slackButton is a button that asks before it does anything.
type slackButton struct {
	Type     string       `json:"type"`
	Text     slackText    `json:"text"`
	ActionID string       `json:"action_id"`
	Value    string       `json:"value"`
	Style    string       `json:"style,omitempty"`
	Confirm  slackConfirm `json:"confirm"`
}

type slackConfirm struct {
	Title   slackText `json:"title"`
	Text    slackText `json:"text"`
	Confirm slackText `json:"confirm"`
	Deny    slackText `json:"deny"`
}

// offerBlocks are what the message has of the offer.
func offerBlocks(o *engine.Offer, n Notification) []slackBlock {
	if o == nil {
		return nil
	}
	if !offered(o, n) {
		if noButtons(o, n) == "" {
			return nil
		}
		return []slackBlock{{Type: "context", Elements: []any{plain("Decide it in Holdpoint: " + visible(noButtons(o, n), maxSentence) + ".")}}}
	}
	var blocks []slackBlock
	section := func(text string) {
		t := plain(text)
		blocks = append(blocks, slackBlock{Type: "section", Text: &t, Expand: true})
	}
	section(o.Sentence)
	section("Arguments\n" + o.Laid)
	if len(o.Reasons) > 0 {
		section("Held because\n• " + strings.Join(o.Reasons, "\n• "))
	}
	button := func(id, text, style, asks, says string) slackButton {
		return slackButton{
			Type: "button", Text: plain(text), ActionID: id, Value: o.Ticket, Style: style,
			Confirm: slackConfirm{Title: plain(asks), Text: plain(says), Confirm: plain(text), Deny: plain("Back")},
		}
	}
	return append(blocks, slackBlock{Type: "actions", Elements: []any{
		button(SlackApprove, "Approve", "primary", "Approve this call?", "It may run once, with the arguments that are shown."),
		button(SlackDeny+"wrong_args", "Deny: wrong arguments", "danger", "Deny this call?", "The agent may ask again with other arguments."),
		button(SlackDeny+"not_now", "Deny: not now", "", "Deny this call?", "The agent may ask again later."),
		button(SlackDeny+"never", "Deny: never", "", "Deny this call?", "The agent must not ask for this again."),
	}})
}

// Reply tells one person something in Slack, where address is the incoming webhook of the
// message and to is where Slack wants the answer: it has to be of the same server.
func (s *Slack) Reply(ctx context.Context, address, to, text string) error {
	from, err1 := url.Parse(address)
	back, err2 := url.Parse(to)
	if err1 != nil || err2 != nil || CheckSlack(to) != nil || back.Scheme != from.Scheme || !strings.EqualFold(back.Host, from.Host) {
		return errors.New("answer in Slack: the address for it is none of Slack's")
	}
	body, err := encode(SlackAnswer(text))
	if err != nil {
		return err
	}
	a, err := s.post.send(ctx, to, nil, body)
	if err == nil && a.status != http.StatusOK {
		err = errors.New("answer in Slack: " + http.StatusText(a.status))
	}
	return err
}

// SlackReply is what one person alone is shown in Slack.
type SlackReply struct {
	Type    string `json:"response_type"`
	Replace bool   `json:"replace_original"`
	Text    string `json:"text"`
}

// SlackAnswer is a text that the person alone is shown who did something, and that
// replaces nothing.
func SlackAnswer(text string) SlackReply { return SlackReply{Type: "ephemeral", Text: escape(text)} }
