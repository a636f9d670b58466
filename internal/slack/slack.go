// Package slack takes what people do in Slack: the press of a button below a call, and
// the command that links their account. It knows by Slack's signature that it is Slack
// that says who it was, and by a link that the person has made who that is here; what
// they may decide the gate says, by the rules that hold everywhere.
//
//	signed, of now, not taken before ─► whose account? ─► gate.VoteByMessage ─► answer, to them alone
//
// It never decides anything itself, takes nobody's word for who they are but Slack's, and
// sends nothing but an answer to who has pressed.
package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/notify"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/store"
)

// answerWithin bounds an answer to who has pressed.
const answerWithin = 3 * time.Second

// MaxBody is how many bytes a request has at most. What Slack sends back with a press
// includes the whole message.
const MaxBody = 128 << 10

// Linker links accounts; admin.Slack is one.
type Linker interface {
	// Link uses a code up, for the app that signs with a secret.
	Link(ctx context.Context, code string, a store.SlackAccount, app, requestID string) error
}

// Votes takes votes; gate.Contributions is one.
type Votes interface {
	VoteByMessage(ctx context.Context, m gate.MessageVote) (approval.Approval, error)
}

// Answers tells one person something in Slack; channel.Slack is one.
type Answers interface {
	// Reply sends a text to where Slack wants it, which has to be where the endpoint's
	// own address leads.
	Reply(ctx context.Context, address, to, text string) error
}

// Door takes Slack's requests.
type Door struct {
	Store   *store.Store
	Votes   Votes
	Linker  Linker
	Answers Answers
	// SecondFactorRoles are roles whose people decide only with a second factor.
	SecondFactorRoles []string
	Logger            *slog.Logger
}

// Request is one of Slack's requests as it came.
type Request struct {
	Endpoint  string // whose app it is
	Timestamp string // X-Slack-Request-Timestamp
	Signature string // X-Slack-Signature
	Body      []byte
	ID        string // the request's, for the log
}

// The refusals of what Slack has not signed, or not now. They tell nobody which endpoints
// there are.
var (
	notSigned = &access.Refusal{Kind: access.Unauthenticated, Code: "not_signed", Detail: "Slack has not signed this request for an endpoint that there is, or not within the last five minutes."}
	replayed  = &access.Refusal{Kind: access.Unauthenticated, Code: "replayed", Detail: "This request was taken already."}
	malformed = &access.Refusal{Kind: access.Invalid, Code: "invalid_body", Detail: "The body is not one that Slack sends here: a form with the press of a button, or with a command."}
)

// source is the endpoint that a request is of.
type source struct {
	id       string
	target   notify.EndpointSecrets
	settings notify.Settings
	off      bool
}

// open verifies a request and returns its endpoint and its form. Whatever it refuses was
// not Slack's, or not for the first time.
func (d *Door) open(ctx context.Context, r Request) (source, url.Values, error) {
	at, ok := plausible(r)
	if !ok || len(r.Body) > MaxBody {
		return source{}, nil, notSigned
	}
	s, err := d.source(ctx, r.Endpoint)
	if err != nil {
		return s, nil, err
	}
	mac := signed(s.target.Signing, r)
	if mac == nil {
		return s, nil, notSigned
	}
	now, err := d.Store.Now(ctx)
	if err != nil {
		return s, nil, err
	}
	if now.Sub(at).Abs() > Window {
		return s, nil, notSigned
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return s, nil, malformed
	}
	if err := d.Store.Slack.Take(ctx, mac); errors.Is(err, store.ErrConflict) {
		return s, nil, replayed
	} else if err != nil {
		return s, nil, err
	}
	return s, form, nil
}

var endpointID = regexp.MustCompile(`\Aend_[a-z0-9]{1,64}\z`)

// source reads an endpoint; one that there is not, or that is none of Slack's, has no
// secret that could have signed.
func (d *Door) source(ctx context.Context, id string) (source, error) {
	s := source{id: id}
	if !endpointID.MatchString(id) {
		return s, nil
	}
	e, err := d.Store.Endpoints.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && e.Kind != notify.Slack {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	sealed, err := d.Store.Endpoints.Secret(ctx, id)
	if err == nil {
		s.target, err = notify.ParseTarget(sealed)
	}
	if err == nil {
		s.settings, err = notify.ParseSettings(e.Settings)
	}
	s.off = e.DisabledAt != nil || s.settings.Decide == ""
	return s, err
}

// press is what Slack sends when somebody presses a button
// (https://api.slack.com/reference/interaction-payloads/block-actions).
type press struct {
	Type string `json:"type"`
	User struct {
		ID   string `json:"id"`
		Team string `json:"team_id"`
	} `json:"user"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	ResponseURL string `json:"response_url"`
	Actions     []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
	} `json:"actions"`
}

// Interaction takes the press of a button. tell tells who pressed what came of it, once
// Slack has its 200, for which it waits three seconds. An error is of a request that is not
// Slack's, or of an outage: then nothing was decided.
func (d *Door) Interaction(ctx context.Context, r Request) (tell func(context.Context), err error) {
	s, form, err := d.open(ctx, r)
	if err != nil {
		return nil, err
	}
	var p press
	if json.Unmarshal([]byte(form.Get("payload")), &p) != nil {
		return nil, malformed
	}
	if p.Type != "block_actions" || len(p.Actions) != 1 {
		return func(context.Context) {}, nil // nothing that our messages have
	}
	says, err := d.vote(ctx, s, p, r.ID)
	var refused *access.Refusal
	switch {
	case errors.As(err, &refused):
		says = "Not done. " + refused.Detail
	case err != nil:
		return nil, err
	}
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		if err := d.Answers.Reply(ctx, s.target.URL, p.ResponseURL, says); err != nil {
			d.Logger.WarnContext(ctx, "an answer in Slack was not taken", "endpoint", s.id, "error", err)
		}
	}, nil
}

var slackID = regexp.MustCompile(`\A[A-Z0-9]{1,32}\z`)

// account is an account that Slack names.
func account(team, user string) (store.SlackAccount, bool) {
	return store.SlackAccount{Team: team, User: user}, slackID.MatchString(team) && slackID.MatchString(user)
}

// Channel is how events say where somebody has decided.
const Channel = "slack"

// The refusals of people.
var (
	switchedOff = &access.Refusal{Kind: access.Forbidden, Code: "slack_off", Detail: "Nothing is decided in this channel any more. Open Holdpoint instead."}
	stranger    = &access.Refusal{Kind: access.Forbidden, Code: "slack_stranger", Detail: "You are not a member of the workspace that this channel is of. Open Holdpoint instead."}
	unlinked    = &access.Refusal{Kind: access.Forbidden, Code: "not_linked", Detail: "Your account in Slack is not linked. Open the page of your account in Holdpoint, make a code there, and send it here by “/holdpoint link CODE”."}
	noFactor    = &access.Refusal{Kind: access.Forbidden, Code: "second_factor_missing", Detail: "Your role needs a second factor, which you have not added here. Open Holdpoint instead."}
)

// vote casts the vote of who has pressed, and says what came of it.
func (d *Door) vote(ctx context.Context, s source, p press, requestID string) (string, error) {
	if s.off {
		return "", switchedOff
	}
	if p.User.Team != "" && p.Team.ID != "" && p.User.Team != p.Team.ID {
		return "", stranger
	}
	p.User.Team = cmp.Or(p.User.Team, p.Team.ID)
	who, ok := account(p.User.Team, p.User.ID)
	if !ok {
		return "", unlinked
	}
	person, err := d.Store.Slack.Person(ctx, who, s.target.Signing)
	if errors.Is(err, store.ErrNotFound) {
		return "", unlinked
	}
	if err != nil {
		return "", err
	}
	if len(person.Factors) == 0 && slices.ContainsFunc(d.SecondFactorRoles, person.Has) {
		return "", noFactor
	}
	a := p.Actions[0]
	v := gate.MessageVote{
		Person: person, EndpointID: s.id, Danger: s.settings.Danger(), Ticket: a.Value, Approve: a.ID == channel.SlackApprove, Channel: Channel, RequestID: requestID,
	}
	if !v.Approve {
		kind, ours := strings.CutPrefix(a.ID, channel.SlackDeny)
		if v.Denial = approval.Denial(kind); !ours {
			return "", malformed
		}
	}
	now, err := d.Votes.VoteByMessage(ctx, v)
	if err != nil {
		return "", err
	}
	return outcome(now, v.Approve), nil
}

// outcome says what a vote has come to.
func outcome(a approval.Approval, approve bool) string {
	said := "Your no is recorded."
	if approve {
		said = "Your approval is recorded."
	}
	switch a.State.Status {
	case approval.Approved:
		return said + " Nothing else is needed."
	case approval.Denied:
		return said + " The call does not run."
	case approval.Pending:
		return said + " Others have to decide as well."
	case approval.Expired, approval.Cancelled:
	}
	return said
}

const usage = "Send “/holdpoint link CODE” to link your account. The page of your account in Holdpoint makes the code."

// Command takes a command, and returns what its sender alone is shown.
func (d *Door) Command(ctx context.Context, r Request) (channel.SlackReply, error) {
	s, form, err := d.open(ctx, r)
	if err != nil {
		return channel.SlackReply{}, err
	}
	says, err := d.link(ctx, s, form, r.ID)
	var refused *access.Refusal
	if errors.As(err, &refused) {
		says, err = "Not done. "+refused.Detail, nil
	}
	return channel.SlackAnswer(says), err
}

func (d *Door) link(ctx context.Context, s source, form url.Values, requestID string) (string, error) {
	if s.off {
		return "", switchedOff
	}
	word, code, _ := strings.Cut(strings.TrimSpace(form.Get("text")), " ")
	if !strings.EqualFold(word, "link") {
		return usage, nil
	}
	who, ok := account(form.Get("team_id"), form.Get("user_id"))
	if !ok {
		return "", malformed
	}
	if err := d.Linker.Link(ctx, code, who, s.target.Signing, requestID); err != nil {
		return "", err
	}
	return "Your account is linked: what you decide here, you decide as yourself in Holdpoint.", nil
}
