package audit

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine/cosign"
)

// Checkpoint is what a log commits itself to: so many leaves, and this root.
type Checkpoint = cosign.Checkpoint

// ErrCheckpoint is returned for a text that is no checkpoint.
var ErrCheckpoint = errors.New("it is no checkpoint")

// ParseCheckpoint reads a note's text (C2SP tlog-checkpoint). It accepts exactly
// what Text writes.
func ParseCheckpoint(text string) (Checkpoint, error) {
	c, err := cosign.ParseCheckpoint(text)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if c.Size == 0 && c.Root != emptyRoot {
		return Checkpoint{}, fmt.Errorf("%w: the empty tree has another root", ErrCheckpoint)
	}
	return c, nil
}

// Sign signs a checkpoint. The first signer's name has to be the origin.
func Sign(c Checkpoint, signers ...note.Signer) ([]byte, error) {
	if len(signers) == 0 || signers[0].Name() != c.Origin {
		return nil, fmt.Errorf("sign a checkpoint of %s: the first key is not the log's", c.Origin)
	}
	text, err := cosign.FormatCheckpoint(c)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint of %s: %w", c.Origin, err)
	}
	signed, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint of %s: %w", c.Origin, err)
	}
	return signed, nil
}

// ErrNotSigned is returned for a checkpoint without a good signature of its log.
var ErrNotSigned = errors.New("the log has not signed it")

// explainSigner says of a note that none of the keys has signed which key did: it is most
// often the wrong one that was given.
func explainSigner(err error, verifiers []note.Verifier) error {
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) || len(unverified.Note.UnverifiedSigs) == 0 || len(verifiers) == 0 {
		return err
	}
	by, given := unverified.Note.UnverifiedSigs[0], verifiers[0]
	return fmt.Errorf("the key is %s+%08x, and the signature is by %s+%08x", given.Name(), given.KeyHash(), by.Name, by.Hash)
}

// OpenCheckpoint reads a signed checkpoint. The verifiers are those of the log's
// keys, of which one has to have signed it in the name of its origin.
func OpenCheckpoint(signed []byte, verifiers ...note.Verifier) (Checkpoint, error) {
	n, err := note.Open(signed, note.VerifierList(verifiers...))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrNotSigned, explainSigner(err, verifiers))
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	// The library takes several spellings of one signature; there is one here.
	for _, sig := range append(n.Sigs, n.UnverifiedSigs...) {
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return Checkpoint{}, fmt.Errorf("%w: the signature of %q is not in base64", ErrNotSigned, sig.Name)
		}
	}
	for _, sig := range n.Sigs {
		if sig.Name == c.Origin {
			return c, nil
		}
	}
	return Checkpoint{}, fmt.Errorf("%w: it is of the log %q", ErrNotSigned, c.Origin)
}

// Cosignature is a witness's word that it has seen a checkpoint, and no other of
// the log that contradicts it.
type Cosignature struct {
	Witness string
	At      time.Time
}

// Witnesses says who besides the log has to have signed a checkpoint. The zero value
// asks nobody.
type Witnesses struct {
	// Keys are the witnesses' public keys (cosign.NewVerifier), each once; two of one
	// name are one witness.
	Keys []note.Verifier
	// Needed is how many of them have to have signed; all of them when 0.
	Needed int
}

// Check returns who of the witnesses has signed, by name. It is an error when these
// are too few, or when one's signature does not verify.
func (w Witnesses) Check(signed []byte) ([]Cosignature, error) {
	if len(w.Keys) == 0 {
		return nil, nil
	}
	names := map[string]bool{}
	for _, k := range w.Keys {
		names[k.Name()] = true
	}
	needed := cmp.Or(w.Needed, len(names))
	n, err := note.Open(signed, note.VerifierList(w.Keys...))
	var nobody *note.UnverifiedNoteError
	switch {
	case errors.As(err, &nobody):
		return nil, fmt.Errorf("no witness of %d that are asked for has signed it", needed)
	case err != nil:
		return nil, fmt.Errorf("its cosignatures are not to be believed: %w", err)
	}
	var list []Cosignature
	for _, sig := range n.Sigs {
		at, err := cosign.Timestamp(sig)
		if err != nil {
			return nil, fmt.Errorf("the cosignature of %s is not to be believed: %w", sig.Name, err)
		}
		if names[sig.Name] {
			list = append(list, Cosignature{Witness: sig.Name, At: at})
		}
		delete(names, sig.Name)
	}
	if len(list) < needed {
		return list, fmt.Errorf("%d of %d witnesses that are asked for have signed it, not %s", len(list), needed, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return list, nil
}
