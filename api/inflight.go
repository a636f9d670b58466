package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"holdpoint/engine/canon"
	"holdpoint/internal/access"
	"holdpoint/internal/fair"
	"holdpoint/internal/identity"
)

// Limits bound the requests that are being answered. Zero stands for the default.
type Limits struct {
	// Calls and Bytes are of one credential: requests that send a body, and their
	// bodies together.
	Calls int
	Bytes int64
	// TotalBytes is of all credentials together: what is above waits, in turns.
	TotalBytes int64
}

// The default limits. A server has those of internal/config.
const (
	defaultCalls      = 128
	defaultBytes      = 8 << 20
	defaultTotalBytes = 64 << 20
)

// tooManyInFlight is the code of what is above a credential's own limits.
const tooManyInFlight = "too_many_in_flight"

// mostLong is how many exports, evidence packs and reports a credential may have under way at
// once: each takes a processor for as long as it lasts, which is the gate's as well.
const mostLong = 2

// longBody is from where on a body takes so much time to be judged that few are
// judged at once: the others are to find a processor free.
const longBody = 64 << 10

// promptRefusals is how many requests of a credential are refused at once within
// refusedFor, which is what Retry-After says. The answers to the others come so much
// later: a client that does not wait would send bodies without end, and their way
// through the machine delays everybody.
const (
	promptRefusals = 128
	refusedFor     = time.Second
)

// Where other credentials had calls judged within othersFor, a pause of pauseFactor
// times what a long body took comes before the next one, of longestPause at most: most
// of the time is the others', and little is left for the garbage collector to do.
const (
	othersFor    = time.Second
	pauseFactor  = 12
	longestPause = 250 * time.Millisecond
)

// inFlight keeps one credential's requests from delaying another's. A request goes
// through it in this order; each wait is a queue in which credentials take turns.
//
//	too many of the credential's own? ─► 429     before the body is read
//	room for the body                            before the body is read
//	judging                                      until the decision goes to the store
//
// It is safe for concurrent use.
type inFlight struct {
	limits Limits
	mu     sync.Mutex
	by     map[string]usage
	judged [2]lastJudged // the last one first; of two credentials
	// reading is for answers that read much of the log.
	reading *fair.Limit
	// room is for bodies; judging is for calls, and long for those that are long.
	room, judging, long *fair.Pool
}

// lastJudged is when a call of a credential was judged.
type lastJudged struct {
	who string
	at  time.Time
}

// usage is what a credential has in flight, and how often it was refused since then.
type usage struct {
	calls   int
	bytes   int64
	refused int
	since   time.Time
}

func newInFlight(l Limits) *inFlight {
	l.Calls = cmp.Or(l.Calls, defaultCalls)
	l.Bytes = cmp.Or(l.Bytes, defaultBytes)
	l.TotalBytes = cmp.Or(l.TotalBytes, defaultTotalBytes)
	processors := runtime.GOMAXPROCS(0)
	return &inFlight{
		limits: l, by: map[string]usage{}, reading: fair.NewLimit(mostLong),
		room: fair.NewPool(l.TotalBytes), judging: fair.NewPool(int64(max(16, 4*processors))), long: fair.NewPool(int64(max(1, processors/2))),
	}
}

// enter counts a request of who's with a body of size bytes; leave has to follow.
// The failure is that there are too many already.
func (f *inFlight) enter(who string, calls int, size int64) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.by[who]
	switch {
	case u.calls+calls > f.limits.Calls:
		return nil, inFlightAlready(fmt.Sprintf("%d requests of yours are being answered already. Send the next one after an answer.", u.calls))
	case u.bytes > 0 && u.bytes+size > f.limits.Bytes:
		return nil, inFlightAlready(fmt.Sprintf("Requests of yours with %d bytes are being answered already, and at most %d may be. A body without Content-Length counts as the longest one.", u.bytes, f.limits.Bytes))
	}
	u.calls, u.bytes = u.calls+calls, u.bytes+size
	f.by[who] = u
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		u := f.by[who]
		u.calls, u.bytes = u.calls-calls, u.bytes-size
		if f.by[who] = u; u.calls == 0 && u.bytes == 0 {
			delete(f.by, who)
		}
	}, nil
}

// inFlightAlready is that a credential has too much in flight.
func inFlightAlready(detail string) *failure {
	return &failure{Status: http.StatusTooManyRequests, Code: tooManyInFlight, RetryAfter: refusedFor, Detail: detail}
}

// read counts an answer of who's that reads much of the log; leave has to follow. The
// failure is that there are too many already.
func (f *inFlight) read(who string) (leave func(), err error) {
	leave, ok := f.reading.Enter(who)
	if !ok {
		return nil, inFlightAlready(fmt.Sprintf("%d exports, evidence packs and reports of yours are under way already. Begin the next one when one of them has ended.", mostLong))
	}
	return leave, nil
}

// retryAfter is how long the answer to a request that enter has refused has to wait.
func (f *inFlight) retryAfter(who string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, busy := f.by[who]
	if !busy {
		return 0 // what it had in flight has been answered meanwhile
	}
	if now.Sub(u.since) >= refusedFor {
		u.refused, u.since = 0, now
	}
	u.refused++
	f.by[who] = u
	if u.refused <= promptRefusals {
		return 0
	}
	return refusedFor
}

// judges says that a call of who's is judged now.
func (f *inFlight) judges(who string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.judged[0].who != who {
		f.judged[1] = f.judged[0]
	}
	f.judged[0] = lastJudged{who, now}
}

// rest is how long the next long body waits after one of who's that took so long.
func (f *inFlight) rest(who string, took time.Duration, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, last := range f.judged {
		if last.who != "" && last.who != who && now.Sub(last.at) < othersFor {
			return min(pauseFactor*took, longestPause)
		}
	}
	return 0
}

// total is what all credentials have in flight.
func (f *inFlight) total() (u usage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.by {
		u.calls, u.bytes = u.calls+one.calls, u.bytes+one.bytes
	}
	return u
}

// waiting is how many requests wait for their turn.
func (f *inFlight) waiting() int {
	n := 0
	for _, pool := range []*fair.Pool{f.room, f.judging, f.long} {
		_, waits := pool.Usage()
		n += waits
	}
	return n
}

// admitted is the key of a context whose request holds room for its body.
type admitted struct{}

// caller names whose request it is.
func (c *call) caller() string {
	if c.isPerson {
		return c.person.ID
	}
	return c.principal.KeyID
}

// admit lets a request with a body in, whose body has not been read. leave has to
// follow.
func (a *API) admit(c *call, op operation) (leave func(), err error) {
	size, calls := c.r.ContentLength, 1
	if size < 0 || size > canon.MaxBytes {
		size = canon.MaxBytes
	}
	if op.held {
		calls = 0 // what it does by itself comes in again as a request
	}
	within, _ := c.r.Context().Value(admitted{}).(bool)
	if within {
		size = 0 // the request that this one is part of is being counted, and holds room
	}
	if op.held {
		c.r = c.r.WithContext(context.WithValue(c.r.Context(), admitted{}, true))
	}
	who := c.caller()
	out, err := a.inFlight.enter(who, calls, size)
	if err != nil {
		select {
		case <-time.After(a.inFlight.retryAfter(who, time.Now())):
		case <-c.r.Context().Done():
		}
		return nil, err
	}
	ctx := c.r.Context()
	if op.held { // what is not held has an end already (serve)
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, answerWithin)
		defer cancel()
	}
	give := func() {}
	if !within {
		if give, err = a.inFlight.room.Take(ctx, who, size); err != nil {
			out()
			return nil, overloaded(err)
		}
	}
	if op.scope == identity.ScopeCheck {
		c.begin = func(size int) (err error) {
			c.giveTurn() // of a body before
			c.turn, err = a.takeTurn(c, who, size)
			return err
		}
	}
	return func() {
		c.giveTurn()
		give()
		out()
	}, nil
}

// giveTurn gives the request's turn to be judged, once it has come, to the next one, whoever
// calls it and however often.
func (c *call) giveTurn() {
	if c.turn != nil {
		c.turn()
	}
}

// takeTurn waits for the turn of a call whose body has been read. give has to
// follow, once or more often; the store gives back by itself when it has the decision.
func (a *API) takeTurn(c *call, who string, size int) (give func(), err error) {
	give = func() {}
	ctx := c.r.Context()
	if size > longBody {
		next, err := a.inFlight.long.Take(ctx, who, 1)
		if err != nil {
			return func() {}, overloaded(err)
		}
		began := time.Now()
		give = sync.OnceFunc(func() {
			now := time.Now()
			time.AfterFunc(a.inFlight.rest(who, now.Sub(began), now), next)
		})
	}
	a.inFlight.judges(who, time.Now())
	judging, err := a.inFlight.judging.Take(ctx, who, 1)
	if err != nil {
		return give, overloaded(err)
	}
	if size <= longBody {
		return judging, nil
	}
	long := give
	return func() { judging(); long() }, nil
}

// overloaded is what a wait for a turn has come to.
func overloaded(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &access.Refusal{Kind: access.Unavailable, Code: "busy", RetryAfter: time.Second, Detail: "Too much is being judged at this moment. Nothing has been granted; try again."}
}
