package witness

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

const (
	// addPath is where a checkpoint is submitted, under the witness's URL.
	addPath = "/add-checkpoint"
	// sizeType is the type of an answer that says which size the witness has.
	sizeType = "text/x.tlog.size"
	// maxProof is how many lines a proof may have, and needs for any tree.
	maxProof = 63
	// maxRequest has room for the longest proof and far more than the 16
	// signatures that have to be accepted, of the largest kind there is.
	maxRequest = 256 << 10
)

// request is the body of add-checkpoint:
//
//	old 20852014
//	PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=   the proof, a hash a line
//	…
//	                                               an empty line
//	example.com/log                                the checkpoint, a signed note
//	…
type request struct {
	old        int64
	proof      tlog.TreeProof
	checkpoint []byte
}

func (r request) encode() []byte {
	out := fmt.Appendf(nil, "old %d\n", r.old)
	for _, hash := range r.proof {
		out = fmt.Appendf(out, "%s\n", hash)
	}
	return append(append(out, '\n'), r.checkpoint...)
}

// parseRequest reads the lines before the checkpoint, and leaves that alone.
func parseRequest(body string) (request, error) {
	head, checkpoint, ok := strings.Cut(body, "\n\n")
	if !ok {
		return request{}, errors.New("there is no empty line before the checkpoint")
	}
	lines := strings.Split(head, "\n")
	size, ok := strings.CutPrefix(lines[0], "old ")
	if !ok {
		return request{}, errors.New("the first line is not “old SIZE”")
	}
	old, err := cosign.ParseSize(size)
	if err != nil {
		return request{}, fmt.Errorf("the old size: %w", err)
	}
	r := request{old: old, checkpoint: []byte(checkpoint)}
	if len(lines)-1 > maxProof {
		return request{}, fmt.Errorf("the proof has more than %d lines", maxProof)
	}
	for i, line := range lines[1:] {
		hash, err := cosign.ParseHash(line)
		if err != nil {
			return request{}, fmt.Errorf("line %d of the proof: %w", i+1, err)
		}
		r.proof = append(r.proof, hash)
	}
	return r, nil
}

// noteText is the text of a signed note. Nothing is known of its signatures but
// that they could be some.
func noteText(msg []byte) (string, error) {
	n, err := note.Open(msg, nil)
	var unverified *note.UnverifiedNoteError
	if errors.As(err, &unverified) {
		return unverified.Note.Text, nil
	}
	if err == nil {
		return n.Text, nil
	}
	return "", errors.New("the checkpoint is no signed note")
}
