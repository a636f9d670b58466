package mcp

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressEvery is how often a client that asked for progress is told that a call
// waits: clients that count silence count from the last time.
const progressEvery = 5 * time.Second

// asksForProgress reports whether a message is a call of holdpoint_await whose client
// asks to be told of its progress. Only such a call is answered by a stream of events;
// everybody else gets one JSON document.
func asksForProgress(message []byte) bool {
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name string   `json:"name"`
			Meta sdk.Meta `json:"_meta"`
		} `json:"params"`
	}
	return json.Unmarshal(message, &m) == nil && m.Method == "tools/call" && m.Params.Name == awaitTool && validToken(m.Params.Meta["progressToken"])
}

// validToken reports whether a decoded value can be a progressToken: a text, or a whole number.
func validToken(token any) bool {
	switch v := token.(type) {
	case string:
		return true
	case float64:
		return v == math.Trunc(v)
	}
	return false
}

// teller is how a call's client is told of its progress; nil when it does not ask for that.
func teller(r *sdk.CallToolRequest) func(context.Context, *sdk.ProgressNotificationParams) {
	token := r.Params.Meta["progressToken"]
	if r.Session == nil || !validToken(token) {
		return nil
	}
	return func(ctx context.Context, p *sdk.ProgressNotificationParams) {
		p.ProgressToken = token
		_ = r.Session.NotifyProgress(ctx, p) // the answer says all there is; whether anybody listens shows there
	}
}

// tellWaiting tells a client that asked for it that a call waits for people, now, every
// few seconds, and at once when saw is handed an approval with another question. Nothing is
// told any more once stop has returned.
func (r request) tellWaiting(ctx context.Context, now *waiting, wait time.Duration) (saw func(*waiting), stop func()) {
	if r.tell == nil || now.Status != "pending" || wait <= 0 {
		return func(*waiting) {}, func() {}
	}
	says, others := now.waits(), make(chan string)
	told := says
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		began, tick := time.Now(), time.NewTicker(progressEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			r.tell(ctx, &sdk.ProgressNotificationParams{
				Progress: time.Since(began).Seconds(), Total: wait.Seconds(), Message: says,
			})
			select {
			case <-tick.C:
			case says = <-others:
			case <-ctx.Done():
			}
		}
	})
	saw = func(a *waiting) {
		if next := a.waits(); next != told {
			told = next
			select {
			case others <- next:
			case <-ctx.Done():
			}
		}
	}
	return saw, func() {
		cancel()
		telling.Wait()
	}
}

// streamed is an answer of several events: a proxy that collects them would tell of the
// progress when it is over.
func streamed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Accel-Buffering", "no")
		next.ServeHTTP(w, r)
	})
}
