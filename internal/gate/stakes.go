package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"holdpoint/engine/approval"
	"holdpoint/engine/canon"
	"holdpoint/engine/redact"
	"holdpoint/engine/stakes"
	"holdpoint/internal/seal"
	"holdpoint/internal/store"
)

// Stakes is what is at stake with a call, by its exact arguments.
type Stakes struct {
	// Sentence says what the call will do.
	Sentence stakes.Sentence
	// From says whose template the sentence is; "" for one of Holdpoint's own, or none.
	From string
	// Environment is where the call says that it runs, cut and without secrets; "" where
	// it says nothing, or only what it was judged for, the approval's own.
	Environment string
	// FirstTime names the places of those whom or what a call that waits is about that none
	// of the last approved calls of its tool has named, and Larger says that its amount is larger
	// than all of theirs.
	FirstTime []string
	Larger    bool
	// Alike is how the last calls of the same agent and tool were decided, of a call that waits.
	// It is known of calls whose arguments are not told, too.
	Alike DecisionCounts
	// Unreadable says that the call's document cannot be read, and nothing is known of it.
	Unreadable bool
	// Same is the last approved call that is the very same, in a list of what waits; nil for
	// none, and on a card, which has it by itself.
	Same *SameCall
}

// sentences is made when the first one is written, and never changes.
var sentences = sync.OnceValue(func() stakes.Writer { return stakes.Writer{Detector: redact.New()} })

// stakesOf says what is at stake with the call of an approval.
func stakesOf(a approval.Approval, p Proposal) Stakes {
	s := Stakes{Environment: namedEnvironment(p, a.Call.Environment)}
	template := ""
	if t := a.Plan.Stakes; t != nil {
		template, s.From = t.Template, t.From
	}
	s.Sentence = sentences().Write(a.Call.Tool, p.Arguments, template)
	// What is masked on the card is masked in its sentence. Danger, amount and targets are
	// those of the call.
	found := secretFinder{words: true}
	if masked := found.mask("", "", p.Arguments); len(found.places) > 0 {
		shown := sentences().Write(a.Call.Tool, masked, template)
		s.Sentence.Parts, s.Sentence.Rest = shown.Parts, shown.Rest
	}
	return s
}

// environmentNames are the arguments by which tools are told where to run.
var environmentNames = []string{"environment", "env", "stage", "target_environment", "deployment_environment"}

// environmentLength is how many characters of a name of an environment are told.
const environmentLength = 40

// namedEnvironment is where a call says that it runs: what its arguments name, which is
// what counts for the tool, and what its document names. It is "" where that is no other
// than what the call was judged for.
func namedEnvironment(p Proposal, judged string) string {
	names := environmentsOf(p, nil)
	if len(names) == 1 && names[0] == judged {
		return ""
	}
	for i, name := range names {
		names[i] = sentences().Beginning(name, environmentLength)
	}
	return strings.Join(names, ", ")
}

// environmentsOf lists the environments that a call names, each once: those of its
// arguments but of the ones in without, and its document's.
func environmentsOf(p Proposal, without []string) []string {
	var names []string
	add := func(name string) {
		if strings.TrimSpace(name) != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range environmentNames {
		if !slices.Contains(without, name) {
			v, _ := p.Arguments.Get(name)
			add(v.Str())
		}
	}
	add(p.environment)
	return names
}

// rowBytes is how many bytes of arguments are read for a row of a list: more take too
// long.
const rowBytes = 16 << 10

// Stakes says what is at stake with each of these approvals, by id: those that the
// reader has just been listed. It leaves out what has been erased, and what has more
// arguments than a list can wait for. A document that cannot be read is no error of the
// others.
func (g *Queries) Stakes(ctx context.Context, listed []approval.Approval) (map[string]Stakes, error) {
	ids := make([]string, len(listed))
	for i, a := range listed {
		ids[i] = a.ID
	}
	boxes, now, err := g.Store.Approvals.Sealed(ctx, ids, rowBytes)
	if err != nil {
		return nil, err
	}
	same, err := g.sameCalls(ctx, listed)
	if err != nil { // the rows are more than this
		g.Logger.ErrorContext(ctx, "what was approved before not read", "error", err)
	}
	told := make(map[string]Stakes, len(boxes))
	for _, a := range listed {
		box, there := boxes[a.ID]
		if !there {
			continue
		}
		p, err := g.opened(a, box, now)
		if err != nil {
			g.Logger.ErrorContext(ctx, "arguments not read", "approval", a.ID, "error", err)
			told[a.ID] = Stakes{Unreadable: true}
			continue
		}
		s := stakesOf(a, p)
		if former, there := same[a.ID]; there {
			s.Same = &former
		}
		told[a.ID] = s
	}
	g.addFirstTimes(ctx, listed, told, now)
	g.addAlike(ctx, listed, told)
	return told, nil
}

// addAlike says of what waits how calls like it were decided: no more than each one's card
// says. Rows are without it where that cannot be read.
func (g *Queries) addAlike(ctx context.Context, listed []approval.Approval, told map[string]Stakes) {
	var of []store.AgentTool
	for _, a := range listed {
		if a.Status == approval.Pending {
			of = append(of, agentTool(a))
		}
	}
	if len(of) == 0 {
		return
	}
	alike, err := g.Store.Approvals.Alike(ctx, of, alikeCalls)
	if err != nil {
		g.Logger.ErrorContext(ctx, "how alike calls were decided not read", "error", err)
		return
	}
	for _, a := range listed {
		if n, there := alike[agentTool(a)]; there && a.Status == approval.Pending {
			s := told[a.ID]
			s.Alike = n
			told[a.ID] = s
		}
	}
}

func agentTool(a approval.Approval) store.AgentTool {
	return store.AgentTool{AgentID: a.Call.AgentID, Tool: a.Call.Tool}
}

// sameCalls finds what was approved before of the very same calls, of those that wait.
func (g *Queries) sameCalls(ctx context.Context, listed []approval.Approval) (map[string]SameCall, error) {
	var ids []string
	for _, a := range listed {
		if a.Status == approval.Pending {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return g.Store.Approvals.SameApproved(ctx, ids)
}

// SameCall is a former call with the same agent, tool and arguments.
type SameCall = store.SameCall

// opened is the proposal of a sealed document.
func (g *Queries) opened(a approval.Approval, box seal.Box, now time.Time) (Proposal, error) {
	document, err := g.Sealer.Open(a.ID, box)
	if err != nil {
		return Proposal{}, err
	}
	return proposalOf(a, document, now)
}

// alikeCalls is how many former calls of the same agent and tool are counted.
const alikeCalls = 15

// addPastCalls fills in what is known of former calls: it changes as others are decided.
func (g *Queries) addPastCalls(ctx context.Context, card *Card) error {
	args, err := canon.Parse(card.Arguments)
	if err != nil {
		return err
	}
	former, err := g.formerTexts(ctx, card.Approval, args)
	if err != nil {
		return err
	}
	card.Resembles = former.resembling(args)
	if former.calls > 0 {
		card.FirstTime, card.Compared = former.unknown(card.Stakes.Sentence.Targets), former.calls
		card.Larger = stakes.Larger(card.Stakes.Sentence.Amount, former.amounts)
	}
	same, err := g.sameCalls(ctx, []approval.Approval{card.Approval})
	if err != nil {
		return err
	}
	if former, there := same[card.Approval.ID]; there {
		card.Same = &former
	}
	of := agentTool(card.Approval)
	alike, err := g.Store.Approvals.Alike(ctx, []store.AgentTool{of}, alikeCalls)
	card.Alike = alike[of]
	return err
}

// DecisionCounts is how former calls were decided.
type DecisionCounts = store.DecisionCounts

// SimilarCall is a former call of the same agent and tool.
type SimilarCall struct {
	ID string
	At time.Time // when it was approved
	// Arguments are its canonical arguments, with what looks like a secret masked.
	Arguments []byte
}

// comparedCalls is among how many approved calls the last one is looked for that the
// person may read, and that can be read.
const comparedCalls = 10

// lastAlike is the last approved call of the same agent and tool that the person may
// read, the very same one before others; nil for none.
func (g *Queries) lastAlike(ctx context.Context, d delegate, a approval.Approval, same *SameCall) (*SimilarCall, error) {
	former, err := g.Store.Approvals.LastApprovedOf(ctx, a.Call.AgentID, a.Call.Tool, a.ID, resembleBytes, comparedCalls)
	if err != nil {
		return nil, err
	}
	if same != nil {
		r, err := g.Store.Approvals.Get(ctx, same.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			former = append([]store.Record{r}, former...)
		}
	}
	for _, r := range former {
		if !d.mayRead(r.Approval) {
			continue
		}
		p, err := g.opened(r.Approval, r.Sealed, r.Now)
		if err != nil {
			continue // erased meanwhile, or unreadable, as its own card tells
		}
		masked := (&secretFinder{words: true}).mask("", "", p.Arguments)
		return &SimilarCall{ID: r.Approval.ID, At: r.Approval.EndedAt, Arguments: masked.Canonical()}, nil
	}
	return nil, nil
}
