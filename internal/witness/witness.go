// Package witness is both sides of a witness of transparency logs (C2SP
// tlog-witness). A Witness remembers the latest tree that it saw of each log it
// is configured for, and cosigns a log's next checkpoint only with a proof that
// the tree has grown from the one it remembers. A Client asks such a witness,
// ours or anybody's, to cosign our own.
//
// A Witness never cosigns a smaller tree, a second tree of one size, or a tree
// whose proof it has not verified; and no cosignature leaves before the state
// that goes with it is on disk. It stores no entries of a log, and cannot tell
// whether they are true.
package witness

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"holdpoint/engine/cosign"
)

// Log is a log to witness.
type Log struct {
	// Origin is the first line of its checkpoints.
	Origin string
	// Keys are its keys: one of them must have signed a checkpoint.
	Keys []note.Verifier
}

// ParseLogs reads logs as they are given on the command line, each a log's public
// key or ORIGIN=KEY. Without an origin it is the key's name. Several keys of one
// origin are one log. Keys are Ed25519 keys of notes (type 0x01).
func ParseLogs(texts []string) ([]Log, error) {
	var logs []Log
	places := map[string]int{}
	for _, text := range texts {
		if strings.Contains(text, "PRIVATE+KEY+") {
			return nil, errors.New("this is a private key: give the public one, name+ID+key") // and it is not shown
		}
		origin, key, err := parseLog(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		i, ok := places[origin]
		if !ok {
			i = len(logs)
			places[origin] = i
			logs = append(logs, Log{Origin: origin})
		}
		logs[i].Keys = append(logs[i].Keys, key)
	}
	return logs, nil
}

func parseLog(text string) (string, note.Verifier, error) {
	key, err := note.NewVerifier(text)
	if err == nil {
		return key.Name(), key, nil
	}
	// Origins and names may have an equals sign. The key's ID is of its name, so
	// only one way to take the text apart fits.
	for i, c := range text {
		if c != '=' {
			continue
		}
		if key, err = note.NewVerifier(text[i+1:]); err == nil {
			return text[:i], key, nil
		}
	}
	return "", nil, fmt.Errorf("it is neither the public key of a log, name+ID+key, nor ORIGIN=KEY: %w", err)
}

// Config is what a Witness is made of. Everything is required.
type Config struct {
	// Signer has the witness's name and key. A key has one state: with another
	// state it would forget what it has said.
	Signer *cosign.Signer
	// Logs are the logs to witness.
	Logs []Log
	// State is the file that keeps the latest checkpoints. It is made when it is
	// not there.
	State string
	// Now is the clock that cosignatures are dated by.
	Now func() time.Time
	// Logger records every checkpoint that is cosigned, and of logs that
	// contradict themselves.
	Logger *slog.Logger
}

// Witness answers add-checkpoint, and serves the latest checkpoint of each log
// to monitors. It is safe for use by several goroutines.
type Witness struct {
	config Config
	logs   map[string]map[keyName]note.Verifier
	state  *state
	mux    *http.ServeMux
}

// keyName is what a signature says of its key.
type keyName struct {
	name string
	hash uint32
}

// New opens the state and returns a witness. The state is this witness's alone
// until Close.
func New(config Config) (*Witness, error) {
	w := &Witness{config: config, logs: map[string]map[keyName]note.Verifier{}, mux: http.NewServeMux()}
	if len(config.Logs) == 0 {
		return nil, errors.New("there is no log to witness")
	}
	for _, log := range config.Logs {
		// An origin that no checkpoint can have is a mistake.
		if _, err := cosign.FormatCheckpoint(cosign.Checkpoint{Origin: log.Origin}); err != nil {
			return nil, fmt.Errorf("the origin %q cannot be a checkpoint's first line", log.Origin)
		}
		if len(log.Keys) == 0 || w.logs[log.Origin] != nil {
			return nil, fmt.Errorf("the log %q has no key, or is there twice", log.Origin)
		}
		w.logs[log.Origin] = map[keyName]note.Verifier{}
		for _, key := range log.Keys {
			id := keyName{key.Name(), key.KeyHash()}
			if w.logs[log.Origin][id] != nil {
				return nil, fmt.Errorf("the log %q has two keys %s+%08x", log.Origin, id.name, id.hash)
			}
			w.logs[log.Origin][id] = key
		}
	}
	var err error
	if w.state, err = openState(config.State, config.Signer.Verifier(), w.keysOf); err != nil {
		return nil, err
	}
	w.mux.HandleFunc("POST "+addPath, w.add)
	w.mux.HandleFunc("GET /{origin}/checkpoint", w.monitor)
	return w, nil
}

// keysOf are the keys of a log; none for a log that is not one of ours.
func (w *Witness) keysOf(origin string) []note.Verifier {
	return slices.Collect(maps.Values(w.logs[origin]))
}

// Close gives the state up. Requests that come later are refused.
func (w *Witness) Close() error { return w.state.close() }

// Latest is the size that was last cosigned of a log, if any was.
func (w *Witness) Latest(origin string) (int64, bool) {
	r, ok := w.state.latest(origin)
	return r.size, ok
}

// ServeHTTP answers POST /add-checkpoint, and GET /HASH/checkpoint, where HASH
// is the SHA-256 of a log's origin in hexadecimal.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.mux.ServeHTTP(rw, r) }

// refusal is an answer other than a cosignature.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

func (w *Witness) add(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Cache-Control", "no-store")
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(rw, "the request cannot be read", status)
		return
	}
	line, err := w.cosign(string(body))
	var refused *refusal
	switch {
	case err == nil:
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(rw, line)
	case errors.As(err, &refused) && refused.status == http.StatusConflict:
		rw.Header().Set("Content-Type", sizeType)
		rw.WriteHeader(refused.status)
		_, _ = io.WriteString(rw, refused.text)
	case errors.As(err, &refused):
		http.Error(rw, refused.text, refused.status)
	default:
		w.config.Logger.Error("a checkpoint could not be cosigned", "error", err)
		http.Error(rw, "the witness cannot cosign now", http.StatusInternalServerError)
	}
}

// cosign returns the cosignature, as a line of a note, of the checkpoint that
// body submits.
func (w *Witness) cosign(body string) (string, error) {
	req, err := parseRequest(body)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	text, err := noteText(req.checkpoint)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	origin, _, _ := strings.Cut(text, "\n")
	keys, ok := w.logs[origin]
	if !ok {
		return "", refuse(http.StatusNotFound, "this witness does not know the log")
	}
	signed, err := verified(req.checkpoint, text, keys)
	if err != nil {
		return "", refuse(http.StatusForbidden, "%v", err)
	}
	checkpoint, err := cosign.ParseCheckpoint(text)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	if req.old > checkpoint.Size {
		return "", refuse(http.StatusBadRequest, "the old size is larger than the checkpoint's")
	}
	var line string
	_, err = w.state.advance(origin, func(former record) (record, error) {
		if req.old != former.size {
			return record{}, refuse(http.StatusConflict, "%d\n", former.size)
		}
		if err := follows(former, checkpoint, req.proof); err != nil {
			w.report(former, checkpoint, signed)
			return record{}, refuse(http.StatusUnprocessableEntity, "%v", err)
		}
		sig, err := w.config.Signer.Sign(text, w.config.Now())
		if err != nil {
			return record{}, err
		}
		line = cosign.Line(sig)
		return record{size: checkpoint.Size, root: checkpoint.Root, note: signed + line}, nil
	})
	if err != nil {
		return "", err
	}
	w.config.Logger.Info("cosigned", "origin", origin, "size", checkpoint.Size)
	return line, nil
}

// verified returns the note with one signature of each key of the log that has
// signed it, and no other. One that does not verify spoils the note, also when
// it is the second of a key, at which note.Open does not look.
func verified(msg []byte, text string, keys map[keyName]note.Verifier) (string, error) {
	out := text + "\n"
	kept := map[keyName]bool{}
	for line := range strings.Lines(string(msg[len(text)+1:])) {
		// That the line has this form is known from noteText.
		name, encoded, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "— "), "\n"), " ")
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(data) < 5 {
			return "", errors.New("a signature cannot be read")
		}
		id := keyName{name, binary.BigEndian.Uint32(data)}
		key, ok := keys[id]
		if !ok {
			continue
		}
		if !key.Verify([]byte(text), data[4:]) {
			return "", fmt.Errorf("the signature of %s does not verify", name)
		}
		if !kept[id] {
			out += line
		}
		kept[id] = true
	}
	if len(kept) == 0 {
		return "", errors.New("no key of the log has signed the checkpoint")
	}
	return out, nil
}

// follows reports why next does not follow former, or nil if the proof shows
// that it does (RFC 6962, section 2.1.2).
func follows(former record, next cosign.Checkpoint, proof tlog.TreeProof) error {
	if next.Size == 0 && next.Root != tlog.Hash(sha256.Sum256(nil)) {
		return errors.New("the root is not that of an empty tree")
	}
	if former.size == 0 {
		// An empty tree is the start of every tree.
		if len(proof) > 0 {
			return errors.New("from an empty tree there is nothing to prove")
		}
		return nil
	}
	if next.Size == former.size && next.Root != former.root {
		return errors.New("the root is not the one that was cosigned for this size")
	}
	if err := tlog.CheckTree(proof, next.Size, next.Root, former.size, former.root); err != nil {
		return errors.New("the proof does not show that the tree has grown from the one that was cosigned")
	}
	return nil
}

// report keeps the evidence where a log has signed two trees of one size. A
// proof that is wrong says nothing of the log: anybody can send one.
func (w *Witness) report(former record, next cosign.Checkpoint, signed string) {
	if former.size == next.Size && former.root != next.Root && former.note != "" {
		w.config.Logger.Warn("a log has signed two trees of one size", "origin", next.Origin, "size", next.Size, "cosigned", former.note, "refused", signed)
	}
}

// monitor serves the latest checkpoint of a log, with the log's signatures and
// the witness's own.
func (w *Witness) monitor(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Cache-Control", "no-store")
	for origin := range w.logs {
		sum := sha256.Sum256([]byte(origin))
		if r.PathValue("origin") != hex.EncodeToString(sum[:]) {
			continue
		}
		if latest, ok := w.state.latest(origin); ok {
			rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
			rw.Header().Set("Content-Length", strconv.Itoa(len(latest.note)))
			_, _ = io.WriteString(rw, latest.note)
			return
		}
	}
	http.Error(rw, "this witness has cosigned no such log", http.StatusNotFound)
}
