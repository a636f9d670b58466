package api

import (
	"io"
	"mime"
	"net/http"

	"holdpoint/internal/slack"
)

// formType is the media type of what Slack sends.
const formType = "application/x-www-form-urlencoded"

// SlackPress is what Slack sends when somebody presses a button.
type SlackPress struct {
	Payload string `json:"payload" doc:"Slack's block_actions payload, as JSON."`
}

// SlackCommand is what Slack sends when somebody sends a command.
type SlackCommand struct {
	Command string `json:"command,omitempty" doc:"The command's name: any."`
	Text    string `json:"text" doc:"link and the code that the page of one's account shows."`
	TeamID  string `json:"team_id" doc:"The workspace."`
	UserID  string `json:"user_id" doc:"Who has sent it."`
}

// SlackAnswer is what the sender of a command alone is shown.
type SlackAnswer struct {
	ResponseType    string `json:"response_type" enum:"ephemeral"`
	ReplaceOriginal bool   `json:"replace_original"`
	Text            string `json:"text"`
}

// slackDoor takes the requests of Slack.
type slackDoor struct{ *API }

func (a slackDoor) slack() []operation {
	signature := []parameter{{"X-Slack-Request-Timestamp", "When Slack signed it, in seconds since 1970: at most five minutes ago."}, {"X-Slack-Signature", "v0= and the HMAC-SHA-256 of the body by the app's signing secret."}}
	return []operation{
		{
			method: "POST", path: "/v1/slack/interactions/{endpoint}", summary: "Take a decision made in Slack", scope: public, takes: formType, in: SlackPress{}, statuses: []int{200}, problems: []int{401, 404, 413, 415, 422, 503}, headers: signature,
			detail: "For Slack: the request URL of the app's interactivity, where an endpoint of kind slack allows decisions. What comes of it is told to who has pressed, in Slack.", handle: a.press,
		},
		{
			method: "POST", path: "/v1/slack/commands/{endpoint}", summary: "Link an account in Slack", scope: public, takes: formType, in: SlackCommand{}, out: SlackAnswer{}, statuses: []int{200}, problems: []int{401, 404, 413, 415, 422, 503}, headers: signature,
			detail: "For Slack: the request URL of the app's slash command.", handle: a.command,
		},
	}
}

// request reads what Slack has sent.
func (a slackDoor) request(c *call) (slack.Request, error) {
	if a.Slack == nil {
		return slack.Request{}, &failure{Status: http.StatusNotFound, Code: "no_such_route", Detail: "Nothing is decided in Slack here."}
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != formType {
		return slack.Request{}, &failure{Status: http.StatusUnsupportedMediaType, Code: "content_type", Detail: "The body must be a form, as Slack sends it: Content-Type: " + formType + "."}
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, slack.MaxBody))
	if err != nil {
		return slack.Request{}, &failure{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Detail: "The body has more bytes than anything that Slack sends here, or did not come whole."}
	}
	return slack.Request{
		Endpoint: c.r.PathValue("endpoint"), Timestamp: c.r.Header.Get("X-Slack-Request-Timestamp"), Signature: c.r.Header.Get("X-Slack-Signature"),
		Body: body, ID: RequestID(c.r.Context()),
	}, nil
}

func (a slackDoor) press(c *call) error {
	r, err := a.request(c)
	if err != nil {
		return err
	}
	tell, err := a.Slack.Interaction(c.r.Context(), r)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(c.w).Flush() // else it goes out at the end
	tell(c.r.Context())
	return nil
}

func (a slackDoor) command(c *call) error {
	r, err := a.request(c)
	if err != nil {
		return err
	}
	answer, err := a.Slack.Command(c.r.Context(), r)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, SlackAnswer{ResponseType: answer.Type, ReplaceOriginal: answer.Replace, Text: answer.Text})
}
