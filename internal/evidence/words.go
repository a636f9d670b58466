package evidence

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
)

// formatTime writes a time as packs do.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// words writes a machine's name for people.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// reported says what an agent reported, and what was found in what came with it.
func reported(e engine.Event) string {
	var texts []string
	for i, r := range e.Reasons {
		if outcome, ok := strings.CutPrefix(r.Code, "EXECUTION_"); ok && i == 0 {
			texts = append(texts, "it "+map[string]string{"SUCCEEDED": "succeeded", "FAILED": "failed", "UNKNOWN": "does not know whether it ran"}[outcome]+".")
			continue
		}
		texts = append(texts, cmp.Or(r.Message, r.Code))
	}
	return strings.Join(texts, " ")
}

func statusWords(status string) string {
	return map[string]string{"waiting": "not sent yet", "bundled": "with another one", "sent": "yes", "dead": "no, given up", "dropped": "no: nobody was to be told any more"}[status]
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

var methodWords = map[string]string{
	"totp": "with a one-time code", "passkey": "with a passkey", "password": "with a password",
}

// factWords says what somebody contributed, and which way it points: "yes", "no"
// or "".
func factWords(f approval.Fact) (what, kind string) {
	what = cmp.Or(f.Statement().Pack, words(string(f.Kind))+".")
	switch {
	case f.Kind == approval.Cancel:
		kind = "no"
	case f.Kind == approval.Vote || f.Kind == approval.BreakGlass || f.Discharger() != "":
		kind = map[bool]string{true: "yes", false: "no"}[f.Yes]
	case f.Kind == approval.Extend:
		what = "gave it more time: " + time.Duration(f.Details.By).String() + "."
	case f.Kind == approval.Edit && len(f.Details.Changed) > 0:
		what = "changed the arguments: " + strings.Join(f.Details.Changed, ", ") + "."
	}
	return what, kind
}

// detailWords says what a fact tells beside that.
func detailWords(f approval.Fact) []string {
	var list []string
	add := func(text string) { list = append(list, text) }
	d := f.Details
	if d.Proof != nil {
		add("Proved who they are " + cmp.Or(methodWords[d.Proof.Method], "by "+d.Proof.Method) + ", at " + formatTime(d.Proof.At) + ".")
	} else if decides(f) && f.Yes {
		add("No proof of who they are is on record beside their session.")
	}
	if d.Signature != nil {
		id, _ := d.Signature.Credential.MarshalText() // it cannot fail
		add("Signed with their passkey " + string(id) + ": the proof at the end has the signature, and the passkey’s public key.")
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

// changedWords says for the page what of the record is not what the log has, and counts it.
func (k *packing) changedWords(changes []audit.Item) []string {
	k.changed += len(changes)
	var list []string
	for _, c := range changes {
		if c.Kind == audit.ItemFact {
			list = append(list, "what somebody said, fact "+strconv.FormatInt(c.Fact, 10))
			continue
		}
		list = append(list, map[string]string{
			audit.ItemCall: "whose call of which tool it is", audit.ItemAsked: "what was asked of whom", audit.ItemArguments: "the arguments",
			audit.ItemEnd: "how, when and why it ended", audit.ItemRan: "what became of the call",
		}[c.Kind])
	}
	return list
}
