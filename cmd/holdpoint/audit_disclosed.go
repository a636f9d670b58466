package main

import (
	"fmt"
	"io"

	"holdpoint/engine/audit"
	"holdpoint/internal/evidence"
)

// pack verifies an evidence pack.
func (v *auditVerify) pack(in io.Reader, verifier *audit.Verifier) (audit.Report, error) {
	report, disclosed, err := evidence.Verify(in, verifier)
	v.disclosed = &disclosed
	return report, err
}

// tellDisclosed says what was found of what a pack discloses.
func tellDisclosed(d audit.Disclosure) {
	say := func(format string, args ...any) { fmt.Fprintf(terminal, format+"\n", args...) }
	say("ok   the pages are those that were written: event %d has their digest", d.Pages)
	say("ok   %s, %s and %s: all are those that the log names", plural(d.Comments, "comment"), plural(d.Cards, "card"), plural(d.Documents, "document"))
	if d.Bound > 0 {
		say("ok   the arguments of %s are those that a card shows", plural(d.Bound, "call"))
	}
	if d.Unbound > 0 {
		say("note the arguments of %s cannot be checked: no card of them is here, and the log has only a keyed digest", plural(d.Unbound, "call"))
	}
	if d.Unchecked > 0 {
		say("note what was supplied for %s cannot be checked: the log does not have it", plural(d.Unchecked, "call"))
	}
	if d.NoArguments > 0 {
		say("note the arguments of %s are not here: erased, or left out", plural(d.NoArguments, "call"))
	}
	if d.NoComments+d.NoCards > 0 {
		say("note %s and %s that the log names are not here: erased, or left out", plural(d.NoComments, "comment"), plural(d.NoCards, "card"))
	}
}
