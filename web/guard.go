package web

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"holdpoint/web/views"
)

// GuardConfig says what Guard has to know of the server it stands before.
type GuardConfig struct {
	// Secure says that people reach the server over TLS.
	Secure bool
	// Hosts, when set, are the host names, without ports, under which the server
	// may be asked. On a loopback listener this keeps a web page from reaching it
	// by a name of its own that resolves to 127.0.0.1.
	Hosts  []string
	Logger *slog.Logger
}

// contentPolicy allows what the console is made of and nothing else: its own
// style sheet, script and image, its own forms and event streams, its manifest. A service
// worker is a script, by script-src.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// permissions turns off what no page here needs. Passkeys are not named: pages of
// this origin may use them, and nothing is framed.
const permissions = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), " +
	"microphone=(), midi=(), payment=(), serial=(), usb=(), browsing-topics=()"

// Guard is the middleware before every handler of the server. It puts the
// security headers on every answer, refuses unsafe requests that another site
// sent, and refuses unsafe requests that carry a session cookie without saying
// where they come from: only something that is not a browser does that, and it
// has no business with a person's session. Nor may another site's link ask the API
// for something in a person's name: an export is on record as theirs. Requests without a cookie, such as
// those of agents, need no origin. A handler may replace a header for itself.
func Guard(next http.Handler, c GuardConfig) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	logger := c.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secureHeaders(w.Header(), c.Secure)
		if len(c.Hosts) > 0 && !slices.Contains(c.Hosts, hostOnly(r.Host)) {
			refuse(w, r, http.StatusMisdirectedRequest, "wrong_host", "This server does not answer to that host name.")
			return
		}
		err := crossOrigin.Check(r)
		if err != nil || c.Secure && unsafe(r.Method) && fromPlain(r) || hasSessionCookie(r) && (unsafe(r.Method) && withoutOrigin(r) || strings.HasPrefix(r.URL.Path, "/v1/") && fromAnotherSite(r)) {
			logger.WarnContext(r.Context(), "cross-origin request refused", "method", r.Method)
			refuse(w, r, http.StatusForbidden, "cross_origin", "This request did not come from a page of this server, so nothing was done.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// What secureHeaders sets, made once. Nothing is ever added to these.
var (
	secureAlways = []struct {
		name   string
		values []string
	}{
		{"Content-Security-Policy", []string{contentPolicy}},
		{"X-Content-Type-Options", []string{"nosniff"}},
		{"X-Frame-Options", []string{"DENY"}},
		// Not no-referrer: under that, browsers send our own forms with "Origin: null".
		{"Referrer-Policy", []string{"same-origin"}},
		{"Cross-Origin-Opener-Policy", []string{"same-origin"}},
		{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
		{"Permissions-Policy", []string{permissions}},
		{"Cache-Control", []string{"no-store"}},
	}
	strictTransport = []string{"max-age=31536000"}
)

func secureHeaders(h http.Header, secure bool) {
	for _, s := range secureAlways {
		h[s.name] = s.values
	}
	if secure {
		h["Strict-Transport-Security"] = strictTransport
	}
}

func unsafe(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// fromPlain reports whether a page that came without TLS sent the request: whoever is on the
// way can have written it, whatever its host.
func fromPlain(r *http.Request) bool {
	return len(r.Header.Get("Origin")) >= len("http:") && strings.EqualFold(r.Header.Get("Origin")[:len("http:")], "http:")
}

// withoutOrigin reports whether the request says nothing of where it comes from.
func withoutOrigin(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == ""
}

// fromAnotherSite reports whether a browser says that another site asks.
func fromAnotherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

func hasSessionCookie(r *http.Request) bool {
	return len(r.CookiesNamed(cookieName)) > 0 || len(r.CookiesNamed(secureCookieName)) > 0
}

func hostOnly(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// isAPI reports whether an address is the API's, whose errors are problems.
func isAPI(path string) bool {
	return path == "/v1" || strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/access/") || strings.HasPrefix(path, "/scim/") || strings.HasPrefix(path, "/log/") || path == "/mcp" ||
		path == "/pre-tool-check" || path == "/tool-precheck" || path == "/validate-tool-precheck"
}

// asksForPage reports whether the request asks for a page, as browsers do.
func asksForPage(r *http.Request) bool {
	return strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Accept"), ",")), "text/html")
}

// problem answers with a problem document.
func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the caller is gone: there is nobody to tell
		"type": "urn:holdpoint:problem:" + code, "title": http.StatusText(status), "status": status, "code": code, "detail": detail,
	})
}

// refuse answers a program with a problem document and a person with a page.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, detail string) {
	if isAPI(r.URL.Path) {
		problem(w, status, code, detail)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = views.MessagePage(views.Message{
		Frame:   views.Frame{Title: "Refused"},
		Heading: "This request was refused",
		Lines:   []string{detail}, LinkText: "Go to the inbox", LinkTo: "/",
	}).Render(r.Context(), w) // as above
}
