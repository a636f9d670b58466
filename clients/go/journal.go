package holdpoint

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Journal is a file by which calls survive a crash: it says what has been proposed,
// approved, begun and done. It is append-only, one JSON object in a line, and each line is
// on the disk before what it announces is done. docs/clients.md has the format, which the
// clients of all languages share. A journal belongs to one agent.
//
// What makes a call run at most once is the line "begun": of all processes and goroutines
// that would run a call, only the one whose "begun" comes first in the file runs it. A line
// that a crash has cut off is no line, and what it would have announced has not been done.
type Journal struct {
	mu      sync.Mutex
	file    *os.File
	readTo  int64
	entries map[string]*entry
	order   []string
	live    map[string]bool
}

// Steps of a call in the journal.
const (
	stepProposed  = "proposed"
	stepWaiting   = "waiting"
	stepRedeeming = "redeeming"
	stepBegun     = "begun"
	stepRan       = "ran"
	stepOver      = "over"
)

// entry is what the journal says of one call.
type entry struct {
	call, step      string
	tool, key, body string // the proposal, as it was sent
	headers         map[string]string
	approval        string
	redeemKey       string
	redeemBody      string
	redeemKeys      []string // of all redemptions, by whomever
	redeemBodies    []string // and what was sent under each
	named           bool     // call is the caller's own key
	by              string   // whose "begun" counts
	outcome         Outcome
	ms              int64
	why             string // why it is over
}

// line is one line of the journal.
type line struct {
	Call     string            `json:"call"`
	Step     string            `json:"step"`
	At       string            `json:"at"`
	Tool     *string           `json:"tool,omitempty"`
	Key      *string           `json:"key,omitempty"`
	Body     *string           `json:"body,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Named    bool              `json:"named,omitempty"`
	Approval *string           `json:"approval,omitempty"`
	By       *string           `json:"by,omitempty"`
	Outcome  *Outcome          `json:"outcome,omitempty"`
	MS       int64             `json:"ms,omitempty"`
	Why      *string           `json:"why,omitempty"`
}

// take reads one more line about the call.
func (e *entry) take(l line) {
	dropped := l.Step == stepOver && l.By != nil && *l.By == e.by
	switch {
	case e.step == stepBegun && l.Step != stepRan && !dropped, e.step == stepRan && l.Step != stepRan && l.Step != stepOver:
		return // only the first to begin has begun, and nobody else can undo it
	case e.step == stepOver && (e.outcome != "" || l.Step != stepProposed):
		return // what did not run may be proposed again under its key
	}
	switch {
	case l.Step == stepProposed && l.Tool != nil && l.Key != nil && l.Body != nil:
		*e = entry{call: e.call, tool: *l.Tool, key: *l.Key, body: *l.Body, headers: l.Headers, named: l.Named}
	case l.Step == stepWaiting && l.Approval != nil:
		e.approval = *l.Approval
	case l.Step == stepRedeeming && l.Approval != nil && l.Key != nil && l.Body != nil:
		e.approval, e.redeemKey, e.redeemBody = *l.Approval, *l.Key, *l.Body
		e.redeemKeys = append(slices.Clip(e.redeemKeys), *l.Key) // copies of the entry keep theirs
		e.redeemBodies = append(slices.Clip(e.redeemBodies), *l.Body)
	case l.Step == stepBegun && l.By != nil:
		e.by = *l.By
	case l.Step == stepRan && l.Outcome != nil:
		e.outcome, e.ms = *l.Outcome, l.MS
	case l.Step == stepOver && l.Why != nil:
		e.why = *l.Why
	default:
		return // of a later version, or it says too little
	}
	e.step = l.Step
}

// OpenJournal opens a journal, or makes it with mode 0600: it holds arguments and tokens.
func OpenJournal(path string) (*Journal, error) {
	_, err := os.Stat(path)
	made := errors.Is(err, os.ErrNotExist)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600) // #nosec G304 -- the user names the file
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	if made {
		if dir, err := os.Open(filepath.Dir(path)); err == nil { // not on every system
			_ = dir.Sync()
			_ = dir.Close()
		}
	}
	j := &Journal{file: file, entries: map[string]*entry{}, live: map[string]bool{}}
	if err := j.readOn(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return j, nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

func (j *Journal) entry(call string) (entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.readOn(); err != nil {
		return entry{}, err
	}
	if e := j.entries[call]; e != nil {
		return *e, nil
	}
	return entry{}, nil
}

// unfinished are the calls that are not over and that this process is not busy with, the
// oldest first.
func (j *Journal) unfinished() (list []entry, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.readOn(); err != nil {
		return nil, err
	}
	for _, call := range j.order {
		if e := j.entries[call]; e.step != stepOver && !j.live[call] {
			list = append(list, *e)
		}
	}
	return list, nil
}

// enter says that this process is busy with a call, until leave.
func (j *Journal) enter(call string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.live[call] {
		return errors.New("a call under this key is on its way")
	}
	j.live[call] = true
	return nil
}

func (j *Journal) leave(call string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.live, call)
}

// write appends a line. When it returns without an error, the line is on the disk.
func (j *Journal) write(l line) error {
	l.At = time.Now().UTC().Format(time.RFC3339)
	text, err := marshal(l)
	if err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// The line break before it ends a line that a crash has cut off.
	if _, err := j.file.Write(append(append([]byte("\n"), text...), '\n')); err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	return j.readOn()
}

// begin claims the one right to run a call, and returns the claim's name. "": somebody else
// has begun it, or it is over.
func (j *Journal) begin(call string) (by string, err error) {
	by = rand.Text()
	if err := j.write(line{Call: call, Step: stepBegun, By: &by}); err != nil {
		return "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.entries[call]; e == nil || e.step != stepBegun || e.by != by {
		return "", nil
	}
	return by, nil
}

// readOn reads the lines that have been added since, by whomever.
func (j *Journal) readOn() error {
	info, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	data, err := io.ReadAll(io.NewSectionReader(j.file, j.readTo, max(info.Size()-j.readTo, 0)))
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	j.readTo += int64(end)
	for text := range bytes.SplitSeq(data[:end], []byte("\n")) {
		var l line
		if json.Unmarshal(text, &l) != nil || l.Call == "" {
			continue
		}
		e := j.entries[l.Call]
		known := e != nil
		if !known {
			e = &entry{call: l.Call}
		}
		if e.take(l); !known && e.step != "" {
			j.entries[l.Call], j.order = e, append(j.order, l.Call)
		}
	}
	return nil
}

// marshal is json.Marshal, but "<" stays as it is.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
