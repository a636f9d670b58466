package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"holdpoint/internal/notify/channel"
	"holdpoint/internal/outbound"
)

// maxLater is how long a receiver can make us wait.
const maxLater = 15 * time.Minute

// Later is a failure of a receiver that says when it wants to be asked again.
type Later struct {
	After time.Duration
	err   error
}

// Error is the failure's.
func (l *Later) Error() string { return l.err.Error() }

// Unwrap returns the failure.
func (l *Later) Unwrap() error { return l.err }

var errTooLarge = errors.New("the receiver answers 413: it is too large for it")

// Webhook posts windows to an address, signed by the Standard Webhooks
// specification: the id is stream_first_last, the seqs of the first and the last
// event in it. Any 2xx means that all of it was taken.
type Webhook struct {
	name   string
	url    string
	secret string
	token  string
	array  bool
	batch  int
	client *outbound.Client
	// size is how many events fit into a request, as far as is known.
	size int
}

// NewWebhook makes a sender of a configuration that Check takes.
func NewWebhook(c Config, private []netip.Prefix) (*Webhook, error) {
	client := c.client(private)
	if _, err := client.CheckURL(c.URL); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	w := &Webhook{
		name: c.Name, url: c.URL, secret: c.Secret, token: c.Token, array: c.Body == "array", batch: c.batch(), size: c.batch(),
		client: outbound.New(client),
	}
	if w.token != "" && !strings.Contains(w.token, " ") {
		w.token = "Bearer " + w.token
	}
	return w, nil
}

// Send posts a window, in as many requests as the receiver wants it. It says how
// many messages, from the first, were taken.
func (w *Webhook) Send(ctx context.Context, messages []Message) (taken int, err error) {
	for taken < len(messages) {
		n := min(w.size, len(messages)-taken)
		part := messages[taken : taken+n]
		err := w.post(ctx, part, "")
		if errors.Is(err, errTooLarge) && n > 1 {
			w.size = n / 2
			continue
		}
		if errors.Is(err, errTooLarge) {
			small, reduceErr := part[0].reduced()
			if reduceErr != nil {
				return taken, reduceErr
			}
			err = w.post(ctx, []Message{small}, "_reduced")
		}
		if err != nil {
			return taken, err
		}
		taken += n
		// What was too large was one event, perhaps.
		w.size = min(w.batch, w.size+1+w.size/4)
	}
	return taken, nil
}

func (w *Webhook) post(ctx context.Context, messages []Message, suffix string) error {
	first, last := messages[0].Seq, messages[len(messages)-1].Seq
	if err := w.ask(ctx, messages, fmt.Sprintf("%s_%d_%d%s", w.name, first, last, suffix)); err != nil {
		return fmt.Errorf("post events %d to %d: %w", first, last, err)
	}
	return nil
}

func (w *Webhook) ask(ctx context.Context, messages []Message, id string) error {
	body, kind := w.body(messages)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is no URL")
	}
	if w.secret != "" {
		signed, err := channel.Sign([]string{w.secret}, id, time.Now(), body)
		if err != nil {
			return err
		}
		maps.Copy(req.Header, signed)
	} else {
		req.Header.Set(channel.HeaderID, id)
	}
	if w.token != "" {
		req.Header.Set("Authorization", w.token)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "Holdpoint")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// The status is the answer; the rest of it is not read.
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return nil
	case resp.StatusCode == http.StatusRequestEntityTooLarge:
		return errTooLarge
	}
	err = fmt.Errorf("the receiver answers %d", resp.StatusCode)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if seconds, parseErr := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); parseErr == nil {
			return &Later{After: min(time.Duration(seconds)*time.Second, maxLater), err: err} // #nosec G115 -- 31 bits
		}
	}
	return err
}

// body puts events together: a line each, or an array.
func (w *Webhook) body(messages []Message) (body []byte, kind string) {
	bodies := make([][]byte, len(messages))
	for i, m := range messages {
		bodies[i] = m.Body
	}
	if w.array {
		return append(append([]byte("["), bytes.Join(bodies, []byte(","))...), ']'), "application/json"
	}
	return append(bytes.Join(bodies, []byte("\n")), '\n'), "application/x-ndjson"
}
