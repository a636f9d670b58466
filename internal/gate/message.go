package gate

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/stakes"
	"holdpoint/internal/access"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Bounds of what a message shows whole.
const (
	messageArguments = 700 // characters of canonical arguments
	messageLines     = 30
	messageReasons   = 5
)

// Messages say what may be told of a call where there is no page.
type Messages struct {
	Store  *store.Store
	Sealer *seal.Sealer
	Logger *slog.Logger
}

// Summary says how an approval stands, and in one sentence what its call will do; "" is
// the sentence where nobody can tell, and the status where the person may not see it.
// Nothing is recorded: nobody has been shown the arguments.
func (g Messages) Summary(ctx context.Context, personID, approvalID string) (approval.Status, string, error) {
	p, err := g.Store.People.Get(ctx, personID)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.Disabled {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	q := &Queries{core: &core{Config: Config{Store: g.Store, Sealer: g.Sealer, Logger: g.Logger}}}
	d, err := q.delegate(ctx, p)
	if err != nil {
		return "", "", err
	}
	r, err := g.Store.Approvals.Get(ctx, approvalID)
	if errors.Is(err, store.ErrNotFound) || err == nil && !d.mayRead(r.Approval) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	told, err := q.Stakes(ctx, []approval.Approval{r.Approval})
	return r.Approval.Status, told[approvalID].Sentence.String(), err
}

// Offer says what a message to an endpoint may show of a call, where danger is the highest
// that may be decided there. Nothing is recorded: a message is shown to nobody in particular.
func (g Messages) Offer(ctx context.Context, endpointID, approvalID string, danger stakes.Danger) (engine.Offer, error) {
	q := &Queries{core: &core{Config: Config{Store: g.Store, Sealer: g.Sealer, Logger: g.Logger}}}
	r, err := g.Store.Approvals.Get(ctx, approvalID)
	if err != nil {
		return engine.Offer{}, fmt.Errorf("read approval %s: %w", approvalID, err)
	}
	o, err := q.offer(ctx, r, danger)
	if err == nil && o.Why == "" {
		o.Ticket = q.ticketFor(endpointID, r.Approval)
	}
	return o, err
}

// needsPage says what of an approval takes the console's page, "" for nothing: everything
// but a plain vote does.
func needsPage(a approval.Approval) string {
	switch {
	case a.Status != approval.Pending:
		return "it is decided"
	case a.Plan.Edition > 1:
		return "it was changed since it was asked for"
	case len(a.Unlogged) > 0:
		return "its record needs a look"
	case slices.ContainsFunc(a.Facts, isTalk):
		return "people have talked about it on its page"
	}
	for i, r := range a.Plan.Requirements {
		kind := r.Kind.Traits()
		switch {
		case kind.Discharger == engine.Requester && i < a.State.Stage: // has been given
		case kind.Discharger != engine.Reviewers || kind.FreshProof:
			return "it takes more than a review: " + kind.Noun
		case r.Signed:
			return "a vote on it is signed by a passkey"
		}
	}
	return ""
}

// isTalk reports whether a fact is something to read before deciding.
func isTalk(f approval.Fact) bool {
	return f.Kind == approval.Question || f.Kind == approval.Information || f.Kind == approval.Comment
}

// offer is Offer without its ticket.
func (g *Queries) offer(ctx context.Context, r store.Record, danger stakes.Danger) (engine.Offer, error) {
	a := r.Approval
	no := func(why string) (engine.Offer, error) { return engine.Offer{Why: why}, nil }
	if why := needsPage(a); why != "" {
		return no(why)
	}
	document, err := g.Sealer.Open(a.ID, r.Sealed)
	if errors.Is(err, seal.ErrErased) {
		return no("its arguments were erased")
	}
	var p Proposal
	if err == nil {
		p, err = proposalOf(a, document, a.Plan.OpenedAt)
	}
	supplied, errAnswers := g.answers(a.ID, r.Answers)
	if err = errors.Join(err, errAnswers); err != nil {
		g.Logger.ErrorContext(ctx, "arguments not read", "approval", a.ID, "error", err)
		return no("its arguments cannot be read")
	}
	told := stakesOf(a, p)
	var laid bytes.Buffer
	if err := json.Indent(&laid, p.Arguments.Canonical(), "", "  "); err != nil {
		return engine.Offer{}, fmt.Errorf("lay out the arguments of %s: %w", a.ID, err)
	}
	o := engine.Offer{Sentence: told.Sentence.String(), Arguments: string(p.Arguments.Canonical()), Laid: laid.String()}
	for _, f := range a.Decision.Findings {
		if f.Route != engine.Accept && !slices.Contains(o.Reasons, f.Message) {
			o.Reasons = append(o.Reasons, f.Message)
		}
	}
	switch {
	case told.Sentence.Danger == stakes.Unsaid:
		return no("nobody has said how dangerous such a call is")
	case told.Sentence.Danger > danger:
		return no("its danger is " + told.Sentence.Danger.String())
	case told.Environment != "":
		return no("it names another environment than it was judged for")
	case utf8.RuneCountInString(o.Arguments) > messageArguments || strings.Count(o.Laid, "\n") >= messageLines || len(o.Reasons) > messageReasons:
		return no("it is too long to be shown whole")
	case supplied != nil:
		return no("values were supplied with its answer")
	}
	masked, err := maskedOf(Card{Arguments: []byte(o.Arguments), Document: document})
	if err != nil {
		return engine.Offer{}, err
	}
	if masked != nil {
		return no("values of it look like secrets")
	}
	former, err := g.formerTexts(ctx, a, p.Arguments)
	if err != nil {
		return engine.Offer{}, err
	}
	if len(former.resembling(p.Arguments)) > 0 {
		return no("a name in it is drawn like another one that was approved")
	}
	return o, nil
}

// ticketFor is what a button for the call as it is carries:
//
//	approval id . version . digest . keyed hash of these and of the endpoint
func (g *core) ticketFor(endpointID string, a approval.Approval) string {
	version := strconv.Itoa(a.Version)
	return strings.Join([]string{a.ID, version, a.Call.Digest, g.ticketHash(endpointID, a.ID, version, a.Call.Digest)}, ".")
}

func (g *core) ticketHash(says ...string) string {
	return hex.EncodeToString(g.Sealer.Row(append([]string{"button"}, says...)...))
}

// readTicket is what a button is for; false for one that is not of that endpoint.
func (g *Contributions) readTicket(endpointID, ticket string) (id string, version int, digest string, ok bool) {
	parts := strings.Split(ticket, ".")
	if len(parts) != 4 || !hmac.Equal([]byte(parts[3]), []byte(g.ticketHash(endpointID, parts[0], parts[1], parts[2]))) {
		return "", 0, "", false
	}
	version, err := strconv.Atoi(parts[1])
	return parts[0], version, parts[2], err == nil
}

// MessageVote is a person's vote by a button of a message.
type MessageVote struct {
	// Person has no proof of who they are but that they could press the button.
	Person engine.Person
	// EndpointID is where the message went, Danger the highest that may be decided there
	// now, and Ticket the button's.
	EndpointID string
	Danger     stakes.Danger
	Ticket     string
	Approve    bool
	Denial     approval.Denial // required when not Approve
	Channel    string
	RequestID  string
}

// VoteByMessage is Vote for who decides where no page is: what a message would not offer
// now is refused (not_offered), whatever the button says.
func (g *Contributions) VoteByMessage(ctx context.Context, m MessageVote) (approval.Approval, error) {
	v := VoteRequest{Person: m.Person, Approve: m.Approve, Denial: m.Denial, Channel: m.Channel, RequestID: m.RequestID}
	var ok bool
	if v.ApprovalID, v.Version, v.Digest, ok = g.readTicket(m.EndpointID, m.Ticket); !ok {
		return approval.Approval{}, g.refuse(ctx, notOffered("the button is not one of ours"), g.voteRefused(v, v.actor()))
	}
	r, _, err := g.readFor(ctx, m.Person, v.ApprovalID)
	switch {
	case errors.Is(err, access.NoSuchApproval):
		return g.Vote(ctx, v, nil) // refuses it, and records the refusal
	case err != nil:
		return approval.Approval{}, err
	case sameCard(r.Approval, v.Digest, v.Version) != nil || settledRefusal(r.Approval) != nil:
		return g.Vote(ctx, v, nil) // refuses it, and records the refusal
	}
	o, err := (&Queries{core: g.core}).offer(ctx, r, m.Danger)
	if err != nil {
		return approval.Approval{}, err
	}
	if o.Why != "" {
		return approval.Approval{}, g.refuse(ctx, notOffered(o.Why), g.event(engine.Voted, engine.Deny, r.Approval, v.actor(), m.RequestID))
	}
	return g.Vote(ctx, v, nil)
}

func notOffered(why string) *access.Refusal {
	return &access.Refusal{Kind: access.Forbidden, Code: "not_offered", Detail: "This cannot be decided here: " + why + ". Decide it in the console."}
}
