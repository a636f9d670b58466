package api

import (
	"encoding/json"
	"net/http"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/gate"
	"holdpoint/internal/identity"
)

// AnswerBody is what the requesting side answers: whether the user confirms the
// call, with the values that it asks for, or what a reviewer wanted to know.
type AnswerBody struct {
	Confirmed   *bool           `json:"confirmed,omitempty" doc:"true: the user confirmed this very action; false: the user does not want it."`
	Values      json.RawMessage `json:"values,omitempty" doc:"The values that requirements[].form asks for."`
	Digest      string          `json:"digest,omitempty" doc:"The approval's digest, as the user was shown it. Required once somebody has changed the arguments."`
	Information string          `json:"information,omitempty" maxLength:"4000" doc:"The answer to the reviewer's question, instead of confirmed."`
	Comment     string          `json:"comment,omitempty" maxLength:"4000"`
}

// TicketBody names a ticket.
type TicketBody struct {
	Ticket string `json:"ticket" minLength:"1" maxLength:"200" doc:"Its reference, such as PAY-12, or its full address in the tracker."`
	System string `json:"system,omitempty" maxLength:"64" doc:"Of which configured tracker it is. May be left out where the reference fits only one."`
}

// CancelBody is empty: there is nothing to say.
type CancelBody struct{}

// VoteBody is a reviewer's vote.
type VoteBody struct {
	Decision string `json:"decision" enum:"approve,deny"`
	Kind     string `json:"kind,omitempty" enum:"wrong_args,not_now,never,needs_info" doc:"What kind of no; required to deny."`
	Comment  string `json:"comment,omitempty" maxLength:"4000"`
	Digest   string `json:"digest" doc:"The approval's digest, as it was shown."`
	Version  int    `json:"version" doc:"The approval's version, as it was shown."`
	// Constraints and ValidFor tighten what the approval permits.
	Constraints json.RawMessage `json:"constraints,omitempty" doc:"With approve: a JSON object of constraints that are narrower than those that a rule sets. None that the call is outside of already, as a max_amount below its amount."`
	ValidFor    engine.Duration `json:"valid_for,omitempty" doc:"With approve: for how long the permission is good at most, as in 10m."`
	// Challenge and Assertion sign the vote.
	Challenge string          `json:"challenge,omitempty" doc:"The challenge_id of POST …/votes/challenge."`
	Assertion json.RawMessage `json:"assertion,omitempty" doc:"What the voter's passkey has answered: a PublicKeyCredential as JSON (WebAuthn), binary values in base64url."`
}

// VoteChallenge is what a browser needs to have a passkey sign a vote.
type VoteChallenge struct {
	ChallengeID string          `json:"challenge_id" doc:"Send it back with the vote, as challenge. It is good once, for five minutes."`
	PublicKey   json.RawMessage `json:"publicKey" doc:"The argument of navigator.credentials.get, binary values in base64url."`
}

func (a approvalDoor) answerApproval(c *call) error {
	var in AnswerBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	id, values := c.r.PathValue("id"), canon.Value{}
	switch {
	case in.Information != "" && in.Confirmed == nil && len(in.Values) == 0:
		return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
			return a.Gate.Contributions.Inform(c.r.Context(), c.principal, id, in.Information, RequestID(c.r.Context()), once)
		}, a.approvalReply(c))
	case in.Confirmed == nil || in.Information != "":
		return &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "Say either confirmed, or information.",
			Fields: []FieldError{{Path: "/confirmed", Message: "is required, unless information answers a question"}},
		}
	case len(in.Values) > 0:
		values, _ = body.Get("values")
	}
	return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Answer(c.r.Context(), c.principal, gate.AnswerRequest{
			ApprovalID: id, Confirmed: *in.Confirmed, Comment: in.Comment, Values: values, Digest: in.Digest, RequestID: RequestID(c.r.Context()),
		}, once)
	}, a.approvalReply(c))
}

func (a approvalDoor) attachTicket(c *call) error {
	var in TicketBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.AttachTicket(c.r.Context(), c.principal, c.r.PathValue("id"), in.System, in.Ticket, RequestID(c.r.Context()), once)
	}, a.approvalReply(c))
}

func (a approvalDoor) cancelApproval(c *call) error {
	body, err := readOptional(c, &CancelBody{})
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Cancel(c.r.Context(), c.principal, c.r.PathValue("id"), RequestID(c.r.Context()), once)
	}, a.approvalReply(c))
}

func (a approvalDoor) vote(c *call) error {
	v, body, err := a.readVote(c)
	if err != nil {
		return err
	}
	return answer(a.API, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Vote(c.r.Context(), v, once)
	}, a.approvalReply(c))
}

// signVote gives what a passkey has to sign of the vote.
func (a approvalDoor) signVote(c *call) error {
	v, _, err := a.readVote(c)
	if err != nil {
		return err
	}
	ceremony, err := a.Gate.Contributions.SignVote(c.r.Context(), v)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, VoteChallenge{ceremony.ChallengeID, ceremony.PublicKey})
}

func (a approvalDoor) readVote(c *call) (v gate.VoteRequest, body canon.Value, err error) {
	var in VoteBody
	if body, err = readInto(c, &in); err != nil {
		return v, body, err
	}
	if in.Decision != "approve" && in.Decision != "deny" {
		return v, body, &failure{
			Status: http.StatusUnprocessableEntity, Code: "invalid_body", Detail: "decision must be approve or deny.",
			Fields: []FieldError{{Path: "/decision", Message: "must be approve or deny"}},
		}
	}
	return gate.VoteRequest{
		Person: c.person, ApprovalID: c.r.PathValue("id"), Approve: in.Decision == "approve",
		Denial: approval.Denial(in.Kind), Comment: in.Comment, Digest: in.Digest, Version: in.Version,
		RequestID: RequestID(c.r.Context()), Channel: "api", Constraints: in.Constraints, ValidFor: time.Duration(in.ValidFor),
		Signed: identity.Proof{ChallengeID: in.Challenge, Assertion: in.Assertion},
	}, body, nil
}
