package channel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// defaultTimeout is for a whole attempt.
	defaultTimeout = 20 * time.Second
	// maxAnswer is how much of an answer is read.
	maxAnswer = 4 << 10
	// maxRetryAfter is the longest that a receiver can make us wait.
	maxRetryAfter = 24 * time.Hour
)

// HTTPConfig is what the senders over HTTP need.
type HTTPConfig struct {
	// Client sends. It has to be one that is guarded against addresses inside the
	// house; redirects and cookies are switched off here.
	Client *http.Client
	// Timeout is for a whole attempt; 0 means 20 seconds.
	Timeout time.Duration
}

type poster struct {
	client  http.Client
	timeout time.Duration
}

func newPoster(c HTTPConfig) (poster, error) {
	if c.Client == nil {
		return poster{}, errors.New("client: is missing")
	}
	if c.Timeout < 0 {
		return poster{}, errors.New("timeout: is negative")
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	p := poster{client: *c.Client, timeout: c.Timeout}
	p.client.Jar = nil
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return p, nil
}

type answer struct {
	status     int
	retryAfter time.Duration // of a 429 or 503
	body       []byte        // the first of it
}

func (p poster) send(ctx context.Context, target string, header http.Header, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return answer{}, errors.New("make request: the address is no URL")
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", "Holdpoint")
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("post: %w", withoutURL(err))
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode}
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable {
		a.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	// What the status says holds, whether the rest of the answer comes or not.
	a.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return a, nil
}

// withoutURL takes the address out of an error of the client: for Slack, and
// often for others, it is the secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the header: seconds or a date. What is neither is 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	var d time.Duration
	if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	} else if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		d = time.Duration(seconds) * time.Second
	}
	return min(max(d, 0), maxRetryAfter)
}

// loopback says whether a host is this one.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
