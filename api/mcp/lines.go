package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdpoint/engine/canon"
)

// lines is the transport of Serve: a JSON-RPC message a line. What has not
// exactly one reading as JSON never reaches the SDK: it is answered with a
// parse error and the conversation goes on. Batches are refused: no version of
// the protocol but 2025-03-26 has them, and no client is known to send them.
type lines struct {
	out   io.Writer
	hurry func() // called when no more lines will come

	incoming chan line
	closed   chan struct{}
	close    sync.Once

	mu   sync.Mutex // guards out and open
	open map[jsonrpc.ID]bool
	idle chan struct{} // receives when an answer was written
}

// line is a line of the client's, or the end.
type line struct {
	text    []byte
	tooLong bool
	err     error
}

func newLines(in io.Reader, out io.Writer, hurry func()) *lines {
	l := &lines{
		out: out, hurry: hurry, incoming: make(chan line), closed: make(chan struct{}),
		open: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1),
	}
	// A read from a terminal or a pipe cannot be interrupted: it has a goroutine
	// of its own, which ends with its next line once nobody wants that.
	go l.read(bufio.NewReaderSize(in, 64<<10))
	return l
}

func (l *lines) read(in *bufio.Reader) {
	for {
		next := nextLine(in)
		if next.err != nil && (len(next.text) > 0 || next.tooLong) {
			// What comes last may lack its end of line.
			select {
			case l.incoming <- line{text: next.text, tooLong: next.tooLong}:
			case <-l.closed:
				return
			}
			next = line{err: next.err}
		}
		select {
		case l.incoming <- next:
		case <-l.closed:
			return
		}
		if next.err != nil {
			return
		}
	}
}

// nextLine reads a line of any length, and keeps it if a message may be that long.
func nextLine(in *bufio.Reader) line {
	var l line
	for {
		part, err := in.ReadSlice('\n')
		if len(l.text)+len(part) > canon.MaxBytes+2 { // with its end of line
			l.text, l.tooLong = nil, true
		}
		if !l.tooLong {
			l.text = append(l.text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.text, l.err = bytes.TrimSpace(l.text), err
		return l
	}
}

// Connect is called by the SDK, once.
func (l *lines) Connect(context.Context) (sdk.Connection, error) { return l, nil }

// SessionID is empty: there is one session.
func (l *lines) SessionID() string { return "" }

// Close ends the conversation.
func (l *lines) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Read returns the next message, and io.EOF once all that came is answered.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var next line
		select {
		case next = <-l.incoming:
		case <-l.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case next.err != nil:
			l.drain(ctx)
			return nil, next.err
		case next.tooLong:
			if err := l.complain(jsonrpc.CodeParseError, fmt.Sprintf("the message has more than %d bytes", canon.MaxBytes), nil); err != nil {
				return nil, err
			}
			continue
		case len(next.text) == 0:
			continue
		}
		message, err := l.decode(next.text)
		if err != nil {
			return nil, err
		}
		if message == nil {
			continue
		}
		if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() && (r.Method == "tools/call" || r.Method == "tasks/result") {
			l.mu.Lock()
			l.open[r.ID] = true
			l.mu.Unlock()
		}
		return message, nil
	}
}

// decode reads a message; nil when it was none and the client has its error.
func (l *lines) decode(text []byte) (jsonrpc.Message, error) {
	v, err := canon.Parse(text)
	var syntax *canon.SyntaxError
	if errors.As(err, &syntax) {
		return nil, l.complain(jsonrpc.CodeParseError, fmt.Sprintf("not JSON with exactly one reading: %s (%s, at byte %d)", syntax.Message, syntax.Code, syntax.Offset), nil)
	}
	if err != nil {
		return nil, err
	}
	if v.Kind() != canon.ObjectKind {
		return nil, l.complain(jsonrpc.CodeInvalidRequest, "a message is an object; batches are not taken", nil)
	}
	id, _ := v.Get("id")
	if _, whole := id.Int(); id.Kind() == canon.NumberKind && !whole {
		// The SDK would answer another id, which may be another call's.
		return nil, l.complain(jsonrpc.CodeInvalidRequest, "an id that is a number is a whole one, less than 2^53", nil)
	}
	// The canonical form says the same, and every reader reads it alike.
	message, err := jsonrpc.DecodeMessage(asTask(v.Canonical()))
	if err != nil {
		var named json.RawMessage
		if id.Kind() == canon.StringKind || id.Kind() == canon.NumberKind {
			named = id.Canonical()
		}
		return nil, l.complain(jsonrpc.CodeInvalidRequest, "not a JSON-RPC 2.0 message", named)
	}
	return message, nil
}

// drainWithin is how long the last calls may take once no more will come: the
// server refuses what takes it longer.
const drainWithin = 8 * time.Second

// drain waits until the calls that came are answered.
func (l *lines) drain(ctx context.Context) {
	l.hurry()
	limit := time.NewTimer(drainWithin)
	defer limit.Stop()
	for {
		l.mu.Lock()
		left := len(l.open)
		l.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-l.idle:
		case <-limit.C:
			return
		case <-l.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// complain tells the client that what it sent is no message. JSON-RPC wants a
// null id where none could be read.
func (l *lines) complain(code int, message string, id json.RawMessage) error {
	type complaint struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	data, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   complaint       `json:"error"`
	}{"2.0", id, complaint{code, message}})
	if err != nil {
		return fmt.Errorf("encode an error: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeLine(data)
}

// Write sends a message. It may be called by several at once.
func (l *lines) Write(_ context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := message.(*jsonrpc.Response); ok {
		delete(l.open, r.ID)
		select {
		case l.idle <- struct{}{}:
		default: // a signal is waiting already
		}
	}
	return l.writeLine(data)
}

func (l *lines) writeLine(data []byte) error {
	_, err := l.out.Write(append(data, '\n'))
	return err
}
