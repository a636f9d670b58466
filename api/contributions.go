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
)

// RemarkBody is a comment or a question.
type RemarkBody struct {
	Comment string `json:"comment" maxLength:"4000"`
}

// EmptyBody is a body in which there is nothing to say.
type EmptyBody struct{}

// ExtensionBody asks for more time.
type ExtensionBody struct {
	By      engine.Duration `json:"by" doc:"How much more, as in 4h."`
	Comment string          `json:"comment,omitempty" maxLength:"4000"`
}

// EditBody is what the arguments are to be.
type EditBody struct {
	Arguments json.RawMessage `json:"arguments" doc:"All arguments, as they are to be."`
	Comment   string          `json:"comment" maxLength:"4000" doc:"Why; the agent learns of it."`
	Digest    string          `json:"digest" doc:"The approval's digest, as it was shown."`
	Version   int             `json:"version" doc:"The approval's version, as it was shown."`
}

// BreakGlassBody approves in an emergency.
type BreakGlassBody struct {
	Comment string `json:"comment" maxLength:"4000" doc:"Why."`
	Alone   bool   `json:"alone,omitempty" doc:"Take it upon yourself alone: somebody else has to look at it afterwards. Left out, it takes two people."`
	Digest  string `json:"digest"`
	Version int    `json:"version"`
}

// StepUpBody proves who the accountable person is, for this very call.
type StepUpBody struct {
	Code     string `json:"code,omitempty" doc:"The six digits of the person's authenticator. Passkeys are for the page."`
	Declined bool   `json:"declined,omitempty" doc:"The person does not want the call."`
	Digest   string `json:"digest"`
	Version  int    `json:"version"`
}

// SupplyBody is what a waiting answer asks for.
type SupplyBody struct {
	Values  json.RawMessage `json:"values" doc:"An object that fits requirements[].form."`
	Digest  string          `json:"digest"`
	Version int             `json:"version"`
}

// PassOnBody says to whom an approval is passed on.
type PassOnBody struct {
	To      string `json:"to" maxLength:"254" doc:"The colleague's e-mail address, or id."`
	Comment string `json:"comment,omitempty" maxLength:"4000" doc:"What the colleague should know."`
}

// ReconciliationBody is what a person found out.
type ReconciliationBody struct {
	Outcome string `json:"outcome" enum:"succeeded,failed"`
	Comment string `json:"comment" maxLength:"4000" doc:"How it is known."`
}

// AfterwardsBody is what somebody else says of a broken glass.
type AfterwardsBody struct {
	Justified bool   `json:"justified"`
	Comment   string `json:"comment" maxLength:"4000"`
}

// conversation lists what signed-in people do with an approval beside voting: the
// same as the forms of its page.
func (a approvalDoor) conversation() []operation {
	problems := []int{400, 401, 403, 404, 409, 410, 413, 415, 422, 503}
	person := func(path, summary, detail string, in any, handle func(*call) error) operation {
		return operation{
			method: "POST", path: "/v1/approvals/{id}/" + path, summary: summary, detail: "For a signed-in person (the session of the console). " + detail,
			scope: signedIn, in: in, out: Approval{}, statuses: []int{200}, problems: problems, repeats: true, handle: handle,
		}
	}
	say := func(what func(gate.Contribution, *call, *access.Idempotency[approval.Approval]) (approval.Approval, error)) func(*call) error {
		return func(c *call) error {
			var in RemarkBody
			body, err := readInto(c, &in)
			if err != nil {
				return err
			}
			return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return what(s, c, once)
			})
		}
	}
	bare := func(what func(gate.Contribution, *call, *access.Idempotency[approval.Approval]) (approval.Approval, error)) func(*call) error {
		return func(c *call) error {
			body, err := readOptional(c, &EmptyBody{})
			if err != nil {
				return err
			}
			return a.contributeInPerson(c, body, "", func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return what(s, c, once)
			})
		}
	}
	return []operation{
		person("comments", "Comment", "Everybody who may see the approval can read it, its agent too.", RemarkBody{},
			say(func(s gate.Contribution, c *call, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return a.Gate.Contributions.Comment(c.r.Context(), s, once)
			})),
		person("questions", "Ask for more information", "The clock stands still for the answer as the approval's rule says.", RemarkBody{},
			say(func(s gate.Contribution, c *call, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return a.Gate.Contributions.Ask(c.r.Context(), s, once)
			})),
		person("information", "Answer a question", "By somebody who answers for the call; its agent uses answers.", RemarkBody{},
			say(func(s gate.Contribution, c *call, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return a.Gate.Contributions.InformInPerson(c.r.Context(), s, once)
			})),
		person("claim", "Claim it", "For half an hour. It keeps nobody else from deciding. The body may be left out.", EmptyBody{},
			bare(func(s gate.Contribution, c *call, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return a.Gate.Contributions.Claim(c.r.Context(), s, once)
			})),
		person("unclaim", "Give it back", "The body may be left out.", EmptyBody{},
			bare(func(s gate.Contribution, c *call, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
				return a.Gate.Contributions.Unclaim(c.r.Context(), s, once)
			})),
		person("pass-on", "Pass it on to a colleague", "A claim for somebody else who could approve it now, and who is told. It keeps nobody else from deciding.", PassOnBody{}, a.passOn),
		person("extensions", "Give it more time", "Where the approval's rule lets the person do so.", ExtensionBody{}, a.extend),
		person("edits", "Change the arguments", "Another digest, judged anew; what was said before is void, and somebody else has to approve.", EditBody{}, a.edit),
		person("break-glass", "Approve in an emergency", "Takes the role break-glass, a reason, and a proof of who you are that is at most five minutes old.", BreakGlassBody{}, a.breakGlass),
		person("step-up", "Prove who answers for the call", "For the accountable person, at an approval whose next_action is verify.", StepUpBody{}, a.stepUp),
		person("values", "Supply what is asked for", "For somebody who answers for the call or has the role, where a requirement has a form; a runtime uses answers.", SupplyBody{}, a.supply),
		person("reconciliation", "Say what became of a call", "Where nobody knows whether it ran.", ReconciliationBody{}, a.reconcile),
		person("afterwards", "Look at a broken glass afterwards", "For anybody but those who broke it and the requesting side.", AfterwardsBody{}, a.reviewBreakGlass),
	}
}

// contributeInPerson lets a signed-in person do something with an approval.
func (a *API) contributeInPerson(c *call, body canon.Value, comment string, do func(gate.Contribution, *access.Idempotency[approval.Approval]) (approval.Approval, error)) error {
	contribution := gate.Contribution{Person: c.person, ApprovalID: c.r.PathValue("id"), Comment: comment, RequestID: RequestID(c.r.Context()), Channel: "api"}
	return answer(a, c, body, func(once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return do(contribution, once)
	}, a.approvalReply(c))
}

func (a approvalDoor) extend(c *call) error {
	var in ExtensionBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Extend(c.r.Context(), s, time.Duration(in.By), once)
	})
}

func (a approvalDoor) passOn(c *call) error {
	var in PassOnBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.PassOn(c.r.Context(), s, in.To, once)
	})
}

func (a approvalDoor) edit(c *call) error {
	var in EditBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	arguments, _ := body.Get("arguments")
	return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Edit(c.r.Context(), gate.EditRequest{Contribution: s, Arguments: arguments, Digest: in.Digest, Version: in.Version}, once)
	})
}

func (a approvalDoor) breakGlass(c *call) error {
	var in BreakGlassBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.BreakGlass(c.r.Context(), s, in.Alone, in.Digest, in.Version, once)
	})
}

func (a approvalDoor) stepUp(c *call) error {
	var in StepUpBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return a.contributeInPerson(c, body, "", func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		if in.Declined {
			return a.Gate.Contributions.StepUp(c.r.Context(), s, "", false, in.Digest, in.Version, once)
		}
		if a.Prove == nil {
			return approval.Approval{}, &failure{Status: http.StatusForbidden, Code: "verification_failed", Detail: "Nobody can prove who they are here."}
		}
		// A code is good once: the repetition of a request that was taken has none.
		if err := a.Gate.Repeated(c.r.Context(), once.Of()); err != nil {
			return approval.Approval{}, err
		}
		if err := a.Gate.Contributions.MayStepUp(c.r.Context(), s, in.Digest, in.Version); err != nil {
			return approval.Approval{}, err
		}
		method, err := a.Prove(c.r.Context(), s.Person, s.ApprovalID+"/"+in.Digest, in.Code)
		if err != nil {
			return approval.Approval{}, err
		}
		return a.Gate.Contributions.StepUp(c.r.Context(), s, method, true, in.Digest, in.Version, once)
	})
}

func (a approvalDoor) supply(c *call) error {
	var in SupplyBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	values, _ := body.Get("values")
	return a.contributeInPerson(c, body, "", func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.AnswerInPerson(c.r.Context(), s, values, in.Digest, in.Version, once)
	})
}

func (a approvalDoor) reconcile(c *call) error {
	var in ReconciliationBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.Reconcile(c.r.Context(), s, approval.Execution(in.Outcome), once)
	})
}

func (a approvalDoor) reviewBreakGlass(c *call) error {
	var in AfterwardsBody
	body, err := readInto(c, &in)
	if err != nil {
		return err
	}
	return a.contributeInPerson(c, body, in.Comment, func(s gate.Contribution, once *access.Idempotency[approval.Approval]) (approval.Approval, error) {
		return a.Gate.Contributions.ReviewBreakGlass(c.r.Context(), s, in.Justified, once)
	})
}
