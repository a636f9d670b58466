package tracker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"holdpoint/internal/outbound"
)

// tracker is what all connectors share: how to ask, and where tickets are seen.
type tracker struct {
	client *outbound.Client
	urls   outbound.Config // for addresses in answers
	base   string          // address of the API, without a slash at its end
	web    place
	header http.Header
}

func (c Config) tracker() (tracker, error) {
	private, err := c.private()
	if err != nil {
		return tracker{}, err
	}
	kind, _ := kindOf(c.Kind)
	base := kind.base(c.BaseURL)
	web, err := url.Parse(cmp.Or(strings.TrimSuffix(c.WebURL, "/"), kind.pages(base)))
	if err != nil {
		return tracker{}, errors.New("web_url: the address cannot be read")
	}
	config := outbound.Config{AllowPrivate: private, AllowHTTP: c.AllowHTTP, Timeout: time.Duration(c.Timeout)}
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"holdpoint"}}
	maps.Copy(header, kind.header)
	switch {
	case c.Token == "":
	case c.User != "":
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.User+":"+c.Token)))
	default:
		header.Set(kind.authorize(c.Token))
	}
	return tracker{client: outbound.New(config), urls: config, base: base, web: newPlace(web), header: header}, nil
}

// get asks for a path of the API, which must be escaped, and reads the answer
// into out.
func (t *tracker) get(ctx context.Context, path string, out any) error {
	resp, err := t.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read, or will not be
	if err := statusError(resp); err != nil {
		return err
	}
	return decode(resp.Body, out)
}

func (t *tracker) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, t.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, unavailable("no request can be made of it") // the error has the whole address
	}
	req.Header = t.header.Clone()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return resp, nil
}

// statusError translates every status but 200.
func statusError(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return ErrNotFound
	case http.StatusForbidden:
		// GitHub says so as well to whoever asks too often.
		if resp.Header.Get("Retry-After") == "" && resp.Header.Get("X-RateLimit-Remaining") != "0" {
			return ErrNotFound
		}
		return unavailable("it wants to be asked less often (403)")
	case http.StatusUnauthorized:
		return unavailable("it does not accept the connector's credentials (401)")
	case http.StatusTooManyRequests:
		return unavailable("it wants to be asked less often (429)")
	}
	return unavailable("status " + strconv.Itoa(resp.StatusCode))
}

// decode reads one JSON value and nothing after it.
func decode(body io.Reader, out any) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return errUnreadable // the error may quote the answer
	}
	return nil
}

const (
	maxTitle = 300
	maxWord  = 200
)

// finish checks what every ticket must have and cuts what may be long.
func (t Ticket) finish() (Ticket, error) {
	if t.Ref == "" || blank(t.State) || t.CreatedAt.IsZero() || len(t.State) > maxWord || len(t.Project) > maxWord {
		return Ticket{}, errUnreadable
	}
	t.Title, t.Assignee = clip(t.Title), clip(t.Assignee)
	return t, nil
}

func clip(text string) string {
	if utf8.RuneCountInString(text) <= maxTitle {
		return text
	}
	return string([]rune(text)[:maxTitle]) + "…"
}

// place is a web address under which people see tickets.
type place struct{ scheme, host, path string }

func newPlace(u *url.URL) place {
	return place{strings.ToLower(u.Scheme), hostPort(u), strings.TrimSuffix(u.EscapedPath(), "/")}
}

func hostPort(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if strings.EqualFold(u.Scheme, "https") {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

func (p place) String() string { return p.scheme + "://" + p.host + p.path }

const maxRef = 200

// cut checks what holds for every reference and, if it is a full address, takes
// off the tracker's own. Full tells which of the two it was. An address of
// another place, or one with a query, a fragment or escapes, is no reference.
func (p place) cut(ref string) (rest string, full bool, err error) {
	if ref == "" || len(ref) > maxRef || !visible(ref) {
		return "", false, ErrBadRef
	}
	if !strings.Contains(ref, "://") {
		return ref, false, nil
	}
	u, err := url.Parse(ref)
	if err != nil || u.User != nil || strings.ContainsAny(ref, `?#%\`) || newPlace(&url.URL{Scheme: u.Scheme, Host: u.Host}) != (place{p.scheme, p.host, ""}) {
		return "", true, ErrBadRef
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), p.path+"/")
	if !ok {
		return "", true, ErrBadRef
	}
	return rest, true, nil
}
