package evidence

import (
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
)

// stamp writes a time as packs do.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// words writes a machine's name for people.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func or(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// reported says what an agent reported, and what was found in what came with it.
func reported(e engine.Event) string {
	var texts []string
	for i, r := range e.Reasons {
		if outcome, ok := strings.CutPrefix(r.Code, "EXECUTION_"); ok && i == 0 {
			texts = append(texts, "it "+map[string]string{"SUCCEEDED": "succeeded", "FAILED": "failed", "UNKNOWN": "does not know whether it ran"}[outcome]+".")
			continue
		}
		texts = append(texts, or(r.Message, r.Code))
	}
	return strings.Join(texts, " ")
}

func statusWords(status string) string {
	return map[string]string{"waiting": "not sent yet", "bundled": "with another one", "sent": "yes", "dead": "no, given up"}[status]
}

func executionWords(a approval.Approval) string {
	if a.Status == approval.Pending {
		return "waits"
	}
	switch a.Execution {
	case approval.Redeemed:
		return "started; nothing reported yet"
	case approval.Succeeded, approval.Failed:
		return string(a.Execution)
	case approval.Unknown:
		return "nobody knows whether it ran"
	case approval.NotRun:
	}
	return "did not run"
}

func outcomeWords(x approval.Execution) string {
	if x == approval.Succeeded {
		return "succeeded"
	}
	return "failed or never ran"
}

var denialWords = map[approval.Denial]string{
	approval.NotNow: "not now", approval.WrongArgs: "wrong arguments", approval.NeedsInfo: "needs more information", approval.Never: "never",
}

var methodWords = map[string]string{
	"totp": "with a one-time code", "passkey": "with a passkey", "password": "with a password",
}

// factWords says what somebody contributed, and which way it points: "yes", "no"
// or "".
func factWords(f approval.Fact) (what, kind string) {
	switch f.Kind {
	case approval.Vote:
		switch {
		case f.Yes && f.Details.Grant != "":
			return "approved it beforehand, by the standing grant " + f.Details.Grant + ".", "yes"
		case f.Yes:
			return "approved it.", "yes"
		}
		return "denied it: " + or(denialWords[f.Denial], string(f.Denial)) + ".", "no"
	case approval.Reply, approval.TicketCheck, approval.Verification:
		return f.Giver().Says(f.Yes).Pack, map[bool]string{true: "yes", false: "no"}[f.Yes]
	case approval.Cancel:
		return "took the call back.", "no"
	case approval.TicketLink:
		return "attached a ticket.", ""
	case approval.Question:
		return "asked the requesting side a question.", ""
	case approval.Information:
		return "answered the question.", ""
	case approval.Comment:
		return "commented.", ""
	case approval.Claim:
		return "took it on.", ""
	case approval.Unclaim:
		return "gave it back.", ""
	case approval.Extend:
		return "gave it more time: " + time.Duration(f.Details.By).String() + ".", ""
	case approval.Escalate:
		return "found that nobody could decide, and asked those of the escalation.", ""
	case approval.Edit:
		if len(f.Details.Changed) > 0 {
			return "changed the arguments: " + strings.Join(f.Details.Changed, ", ") + ".", ""
		}
		return "changed the arguments.", ""
	case approval.Reopen:
		return "asked anew, because the rules had come to ask for more.", ""
	case approval.BreakGlass:
		if f.Details.Alone {
			return "broke the glass, alone.", "yes"
		}
		return "broke the glass.", "yes"
	}
	return words(string(f.Kind)) + ".", ""
}

// detailWords says what a fact tells beside that.
func detailWords(f approval.Fact) []string {
	var list []string
	add := func(text string) { list = append(list, text) }
	d := f.Details
	if d.Proof != nil {
		add("Proved who they are " + or(methodWords[d.Proof.Method], "by "+d.Proof.Method) + ", at " + stamp(d.Proof.At) + ".")
	} else if decides(f) && f.Yes {
		add("No proof of who they are is on record beside their session.")
	}
	if f.Actor.Channel != "" {
		add("Over: " + f.Actor.Channel + ". Account: " + f.Actor.ID + ".")
	}
	if len(d.Constraints) > 0 {
		add("Only within: " + string(d.Constraints))
	}
	if d.ValidFor > 0 {
		add("Good for " + time.Duration(d.ValidFor).String() + ".")
	}
	if len(d.Supplied) > 0 {
		add("Supplied: " + strings.Join(d.Supplied, ", ") + ".")
	}
	if d.Digest != "" {
		add("The call's digest from then on: " + d.Digest)
	}
	if t := d.Ticket; t != nil {
		parts := []string{strings.TrimSpace(t.System + " " + t.Ref)}
		for _, p := range []struct{ name, value string }{{"title", t.Title}, {"project", t.Project}, {"state", t.State}, {"finding", t.Message}} {
			if p.value != "" {
				parts = append(parts, p.name+": "+p.value)
			}
		}
		add("Ticket " + strings.Join(parts, "; "))
	}
	return list
}
