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
	say("ok   %d comments, %d cards and %d documents are those that the log names", d.Comments, d.Cards, d.Documents)
	if d.Bound > 0 {
		say("ok   %d calls have the arguments that a card shows", d.Bound)
	}
	if d.Unbound > 0 {
		say("note the arguments of %d calls cannot be checked: nobody was shown a card of them, and the log has only a keyed digest", d.Unbound)
	}
	if d.Unchecked > 0 {
		say("note what was supplied for %d calls cannot be checked: the log does not have it", d.Unchecked)
	}
	if d.NoComments+d.NoCards > 0 {
		say("note %d comments and %d cards that the log names are not here: they were erased, or left out", d.NoComments, d.NoCards)
	}
}
