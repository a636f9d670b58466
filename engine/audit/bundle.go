package audit

import (
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Gone reports whether the record is none: its place is in the log, and the event
// is not in the database any more.
func (r Record) Gone() bool { return r.ID == "" }

// goneEntry stands in a bundle for the leaf whose event is gone. It is no entry:
// without a digest it is leaf data of no event, so it never fits its leaf hash.
func goneEntry(seq int64) []byte {
	return fmt.Appendf(nil, `{"gone":true,"seq":%d,"v":%d}`, seq, Version)
}

// Bundle is the bundle of these records, in their order: the entries computed from
// the events as they are now. One that was changed since does not fit its leaf
// hash, and neither does what stands for one that is gone.
func Bundle(records []Record) []byte {
	var bundle []byte
	for _, r := range records {
		entry := goneEntry(r.Seq())
		if !r.Gone() {
			entry = r.Entry()
		}
		bundle = appendEntry(bundle, entry)
	}
	return bundle
}

// ProofText is the proof that a checkpoint's log has a leaf, in the form that
// other tools read and that can be kept in a file (C2SP tlog-proof): the leaf's
// index, the inclusion proof, and the signed checkpoint as it is.
func ProofText(leaf int64, proof tlog.RecordProof, checkpoint []byte) string {
	lines := []string{"c2sp.org/tlog-proof@v1", fmt.Sprintf("index %d", leaf)}
	for _, h := range proof {
		lines = append(lines, h.String())
	}
	return strings.Join(lines, "\n") + "\n\n" + string(checkpoint)
}
