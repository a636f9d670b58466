package mcpproxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ids are those of the proxy's own requests, of host and server alike.
type ids struct {
	prefix string
	count  atomic.Int64
}

func newIDs() *ids { return &ids{prefix: "holdpoint-" + rand.Text() + "-"} }

// next is the id of a request of the proxy's own.
func (i *ids) next() jsonrpc.ID {
	id, _ := jsonrpc.MakeID(fmt.Sprint(i.prefix, i.count.Add(1))) // a text always is one
	return id
}

// own reports whether a request with this id was the proxy's own.
func (i *ids) own(id jsonrpc.ID) bool {
	text, _ := id.Raw().(string)
	return strings.HasPrefix(text, i.prefix)
}

// serverSide is the proxy's conversation with the server.
type serverSide struct {
	sdk.Connection
	ids  *ids
	gone chan struct{} // closed when the server answers nothing any more

	mu   sync.Mutex
	open map[jsonrpc.ID]*exchange
}

func newServerSide(conn sdk.Connection, ids *ids) *serverSide {
	return &serverSide{Connection: conn, ids: ids, gone: make(chan struct{}), open: map[jsonrpc.ID]*exchange{}}
}

// exchange is a request that the server has got and not answered.
type exchange struct {
	method string
	answer chan *jsonrpc.Response // nil: the host's own request, whose answer passes
}

// send sends a message to the server, whose end is seen where it is read.
func (s *serverSide) send(ctx context.Context, m jsonrpc.Message) { _ = s.Write(ctx, m) }

// pass sends a request of the host's, whose answer passes.
func (s *serverSide) pass(ctx context.Context, r *jsonrpc.Request) error {
	s.mu.Lock()
	s.open[r.ID] = &exchange{method: r.Method}
	s.mu.Unlock()
	err := s.Write(ctx, r)
	if err != nil {
		s.answered(r.ID)
	}
	return err
}

// has reports whether the server has got a request with this id and not answered it.
func (s *serverSide) has(id jsonrpc.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id] != nil
}

// unanswered are the host's own requests that the server has not answered.
func (s *serverSide) unanswered() (left []jsonrpc.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.open {
		if e.answer == nil {
			left = append(left, id)
		}
	}
	return left
}

// answered takes a request from those that the server has not answered; nil if it
// is none of them.
func (s *serverSide) answered(id jsonrpc.ID) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.open[id]
	delete(s.open, id)
	return e
}

// errGone says that the server will not answer any more.
var errGone = errors.New("the server has ended, or its answer was not waited for")

// ask sends the server a request and waits for its answer, as long as ctx and the
// server last.
func (s *serverSide) ask(ctx context.Context, r *jsonrpc.Request) (*jsonrpc.Response, error) {
	e := &exchange{method: r.Method, answer: make(chan *jsonrpc.Response, 1)}
	s.mu.Lock()
	s.open[r.ID] = e
	s.mu.Unlock()
	if err := s.Write(ctx, r); err != nil {
		s.answered(r.ID)
		return nil, err
	}
	select {
	case a := <-e.answer:
		return a, nil
	case <-s.gone:
		return nil, errGone
	case <-ctx.Done():
		s.answered(r.ID)
		return nil, context.Cause(ctx)
	}
}
