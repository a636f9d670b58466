package mcpproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine is the longest message.
const maxLine = 16 << 20

// lines is a connection with a message a line. Lines that are no message are passed
// over: many a server prints something else there.
type lines struct {
	out io.Writer
	end func() error

	incoming chan jsonrpc.Message
	err      error // why incoming was closed
	closed   chan struct{}
	close    sync.Once
	mu       sync.Mutex // guards out
}

// Lines is the connection to a host that reads out and writes in.
func Lines(in io.Reader, out io.Writer) sdk.Connection {
	return newLines(in, out, func() error { return nil })
}

func newLines(in io.Reader, out io.Writer, end func() error) *lines {
	l := &lines{out: out, end: end, incoming: make(chan jsonrpc.Message), closed: make(chan struct{})}
	// A read from a pipe cannot be interrupted: it has a goroutine of its own.
	go func() {
		defer close(l.incoming)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(make([]byte, 64<<10), maxLine)
		for scanner.Scan() {
			m, err := jsonrpc.DecodeMessage(scanner.Bytes())
			if err != nil {
				continue
			}
			select {
			case l.incoming <- m:
			case <-l.closed:
				return
			}
		}
		l.err = scanner.Err()
	}()
	return l
}

// Read returns the next message, or io.EOF.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-l.incoming:
		if !ok {
			return nil, errors.Join(io.EOF, l.err)
		}
		return m, nil
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message. It may be called by several at once.
func (l *lines) Write(_ context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.out.Write(append(data, '\n'))
	return err
}

// Close ends the conversation.
func (l *lines) Close() error {
	err := error(nil)
	l.close.Do(func() { close(l.closed); err = l.end() })
	return err
}

// SessionID is empty: there is one.
func (l *lines) SessionID() string { return "" }

// How long a server may take to end by itself, and after it was told to.
const (
	endsWithin = 5 * time.Second
	dieWithin  = 2 * time.Second
)

// Command starts a server as a child of this program, which gets its environment but
// for what is Holdpoint's own, such as the agent's key. What the server prints as
// errors goes to stderr.
func Command(program string, args []string, stderr io.Writer) (sdk.Connection, error) {
	cmd := exec.Command(program, args...) //nolint:noctx,gosec // the operator names it, and Close ends it
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "HOLDPOINT_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return newLines(out, in, func() error {
		_ = in.Close()
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		for _, step := range []struct {
			within time.Duration
			signal os.Signal
		}{{endsWithin, syscall.SIGTERM}, {dieWithin, syscall.SIGKILL}} {
			select {
			case <-ended:
				return nil
			case <-time.After(step.within):
				_ = cmd.Process.Signal(step.signal)
			}
		}
		<-ended
		return nil
	}), nil
}
