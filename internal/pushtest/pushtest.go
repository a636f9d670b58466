// Package pushtest is a push service with its browsers, in software, for tests. It
// takes what a real one takes (RFC 8030, 8188, 8291 and 8292) and refuses the rest, and
// it reads what only a browser can read. It never serves anything but tests.
package pushtest

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdpoint/internal/notify/webpush"
)

var base64url = base64.RawURLEncoding

// Service is a push service on this machine.
type Service struct {
	*httptest.Server
	mu       sync.Mutex
	browsers map[string]*Browser
	answer   *Answer
	refused  []string
}

// Answer is what a service answers instead of taking a push.
type Answer struct {
	Status     int
	RetryAfter string
}

// Browser is one that has subscribed.
type Browser struct {
	Subscription webpush.Subscription
	service      *Service
	key          string // the application server's, in base64url
	private      *ecdh.PrivateKey
	auth         []byte
	pushes       chan Push
}

// Push is one that a browser was brought.
type Push struct {
	Text           string
	TTL            int
	Topic, Urgency string
	// Body is what the service saw.
	Body []byte
}

// New starts a service: by https where secure.
func New(t testing.TB, secure bool) *Service {
	t.Helper()
	s := &Service{browsers: map[string]*Browser{}}
	if secure {
		s.Server = httptest.NewTLSServer(s)
	} else {
		s.Server = httptest.NewServer(s)
	}
	t.Cleanup(s.Close)
	return s
}

// Subscribe makes a browser that takes pushes of the application server with the key.
func (s *Service) Subscribe(t testing.TB, key string) *Browser {
	t.Helper()
	b := &Browser{service: s, key: key, auth: make([]byte, 16), pushes: make(chan Push, 10_000)}
	var err error
	if b.private, err = ecdh.P256().GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	rand.Read(b.auth)
	path := "/push/" + rand.Text()
	b.Subscription = webpush.Subscription{
		Endpoint: s.URL + path, P256DH: base64url.EncodeToString(b.private.PublicKey().Bytes()), Auth: base64url.EncodeToString(b.auth),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers[path] = b
	return b
}

// Unsubscribe ends the browser's subscription at the service: pushes are answered 410.
func (b *Browser) Unsubscribe() {
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	for path, other := range b.service.browsers {
		if other == b {
			delete(b.service.browsers, path)
		}
	}
}

// Answers has the service answer so from now on; nil has it take what comes.
func (s *Service) Answers(a *Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = a
}

// Refused lists why pushes were refused that no real service would take.
func (s *Service) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Next waits for a push to the browser. An error says that none came while ctx lasted.
func (b *Browser) Next(ctx context.Context) (Push, error) {
	select {
	case p := <-b.pushes:
		return p, nil
	case <-ctx.Done():
		return Push{}, errors.New("no push came: " + strings.Join(b.service.Refused(), "; "))
	}
}

// Waiting is how many pushes the browser has been brought that Next has not returned.
func (b *Browser) Waiting() int { return len(b.pushes) }

// ServeHTTP takes a push.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(status int, why string) {
		s.refused = append(s.refused, why)
		http.Error(w, why, status)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 8192))
	b := s.browsers[r.URL.Path]
	switch {
	case err != nil || r.Method != http.MethodPost:
		refuse(http.StatusMethodNotAllowed, "it is no POST with a body")
		return
	case b == nil:
		http.Error(w, "the subscription has ended", http.StatusGone)
		return
	case s.answer != nil:
		if s.answer.RetryAfter != "" {
			w.Header().Set("Retry-After", s.answer.RetryAfter)
		}
		http.Error(w, "as the test wants it", s.answer.Status)
		return
	}
	if why := authorized(r.Header.Get("Authorization"), b.key, s.URL, time.Now()); why != "" {
		refuse(http.StatusForbidden, why)
		return
	}
	p, why := b.read(r.Header, body)
	if why != "" {
		refuse(http.StatusBadRequest, why)
		return
	}
	b.pushes <- p
	w.Header().Set("Location", s.URL+"/message/"+rand.Text())
	w.WriteHeader(http.StatusCreated)
}

var topic = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// read is what the browser makes of a push, or why it is none.
func (b *Browser) read(h http.Header, body []byte) (Push, string) {
	p := Push{Topic: h.Get("Topic"), Urgency: h.Get("Urgency"), Body: body}
	var err error
	if p.TTL, err = strconv.Atoi(h.Get("TTL")); err != nil || p.TTL < 0 {
		return p, "TTL is no number of seconds"
	}
	switch {
	case h.Get("Content-Encoding") != "aes128gcm" || h.Get("Content-Type") != "application/octet-stream":
		return p, "the body is not said to be aes128gcm"
	case len(body) > 4096:
		return p, "the body is longer than a service has to take"
	case p.Topic != "" && !topic.MatchString(p.Topic):
		return p, "the topic is none"
	case p.Urgency != "" && p.Urgency != "very-low" && p.Urgency != "low" && p.Urgency != "normal" && p.Urgency != "high":
		return p, "the urgency is none"
	}
	text, err := webpush.Decrypt(body, b.private, b.auth)
	if err != nil {
		return p, err.Error()
	}
	p.Text = string(text)
	return p, ""
}

// authorized says why the header does not say that the holder of the key pushes to this
// origin now; "" where it does.
func authorized(header, key, origin string, now time.Time) string {
	token, public, _ := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if len(parts) != 3 || public != key {
		return "it is not signed with the key that the browser subscribed to"
	}
	point, err1 := base64url.DecodeString(key)
	head, err2 := base64url.DecodeString(parts[0])
	said, err3 := base64url.DecodeString(parts[1])
	signature, err4 := base64url.DecodeString(parts[2])
	if errors.Join(err1, err2, err3, err4) != nil || len(signature) != 64 {
		return "the token cannot be read"
	}
	verifier, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || !ecdsa.Verify(verifier, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		return "the token's signature is wrong"
	}
	var algorithm struct{ Alg string }
	var claims struct {
		Aud string
		Exp int64
		Sub string
	}
	if errors.Join(json.Unmarshal(head, &algorithm), json.Unmarshal(said, &claims)) != nil || algorithm.Alg != "ES256" {
		return "the token cannot be read"
	}
	expires := time.Unix(claims.Exp, 0)
	switch {
	case claims.Aud != origin:
		return "the token is for " + claims.Aud
	case !expires.After(now) || expires.After(now.Add(24*time.Hour)):
		return "the token does not end within a day"
	case claims.Sub != "" && !strings.HasPrefix(claims.Sub, "https:") && !strings.HasPrefix(claims.Sub, "mailto:"):
		return "the token names no contact"
	}
	return ""
}
