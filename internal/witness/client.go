package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

const (
	// answerWithin is how long a witness may take for one answer.
	answerWithin = 10 * time.Second
	// maxAnswer is how long its answer may be. Sixteen signatures of the largest
	// kind fit.
	maxAnswer = 128 << 10
)

// Doer sends a request. internal/outbound's Client is one: it decides which
// addresses may be asked, and follows no redirect.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Client asks one witness to cosign checkpoints.
type Client struct {
	// URL is the witness's submission prefix, without /add-checkpoint.
	URL string
	// Verifier is the witness's key, from cosign.NewVerifier. What it has not
	// signed is not believed.
	Verifier note.Verifier
	// HTTP sends the requests.
	HTTP Doer
}

// ConflictError says that the witness has cosigned another size than the one the
// proof starts from. The caller asks again with a proof from Size; if Size is larger
// than its own tree, its own tree has lost leaves.
type ConflictError struct {
	// Size is that of the latest tree which the witness says to have cosigned, 0
	// for none.
	Size int64
}

// Error names the size.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("it has last cosigned a tree of size %d", e.Size)
}

// StatusError is any other answer that is no cosignature. It quotes nothing of
// what the witness said.
type StatusError struct{ Status int }

// Error says what the status means.
func (e *StatusError) Error() string {
	reason := http.StatusText(e.Status)
	switch e.Status {
	case http.StatusBadRequest:
		reason = "it cannot read the request"
	case http.StatusForbidden:
		reason = "it does not accept the log's signature"
	case http.StatusNotFound:
		reason = "it does not know the log, or is not at this address"
	case http.StatusUnprocessableEntity:
		reason = "it does not accept the proof: the tree is not the one that it has cosigned"
	}
	return strings.TrimSpace(fmt.Sprintf("it answered %d: %s", e.Status, reason))
}

// Add submits a signed checkpoint with a proof that its tree has grown from that
// of oldSize leaves, which is empty if oldSize is 0 or the checkpoint's own size.
// It returns the witness's cosignature, verified, as the line to add to the note.
// An error matches ConflictError when the proof has to start from another size,
// StatusError for any other refusal. The same submission may be made again.
func (c *Client) Add(ctx context.Context, oldSize int64, proof []tlog.Hash, checkpointNote []byte) (cosignatureLine string, err error) {
	line, err := c.add(ctx, oldSize, proof, checkpointNote)
	if err != nil {
		return "", fmt.Errorf("ask the witness %s to cosign: %w", c.Verifier.Name(), err)
	}
	return line, nil
}

func (c *Client) add(ctx context.Context, oldSize int64, proof []tlog.Hash, checkpointNote []byte) (string, error) {
	text, err := noteText(checkpointNote)
	if err != nil {
		return "", err
	}
	if oldSize < 0 || len(proof) > maxProof {
		return "", errors.New("the proof is none of a tree")
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	body := request{old: oldSize, proof: proof, checkpoint: checkpointNote}.encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.URL, "/")+addPath, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return "", err
	}
	switch {
	case len(answer) > maxAnswer:
		return "", errors.New("its answer is too large")
	case resp.StatusCode == http.StatusOK:
		return c.cosignature(text, answer)
	case resp.StatusCode == http.StatusConflict:
		return "", conflict(resp.Header.Get("Content-Type"), answer)
	}
	return "", &StatusError{Status: resp.StatusCode}
}

// cosignature picks the line that the witness's key has signed from the answer.
func (c *Client) cosignature(text string, answer []byte) (string, error) {
	n, err := note.Open(append([]byte(text+"\n"), answer...), note.VerifierList(c.Verifier))
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		return "", errors.New("its answer has no signature of its key")
	case errors.As(err, &invalid):
		return "", errors.New("its signature does not verify")
	case err != nil:
		return "", errors.New("its answer is no signature")
	case n.Text != text:
		return "", errors.New("its answer is more than signatures")
	}
	sig := n.Sigs[0]
	if at, err := cosign.Timestamp(sig); err != nil {
		return "", err
	} else if at.Unix() == 0 {
		return "", errors.New("its cosignature has no time")
	}
	return cosign.Line(sig), nil
}

// conflict reads the answer 409. One of another type is not the witness's: some
// proxy's, perhaps.
func conflict(contentType string, answer []byte) error {
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != sizeType {
		return &StatusError{Status: http.StatusConflict}
	}
	text, ended := strings.CutSuffix(string(answer), "\n")
	size, err := cosign.ParseSize(text)
	if err != nil || !ended {
		return errors.New("it names no size that a tree can have")
	}
	return &ConflictError{Size: size}
}
