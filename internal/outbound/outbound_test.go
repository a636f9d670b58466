package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var loopback = prefixes("127.0.0.1/32")

// here is a client that may ask the local server and nobody else.
func here(config Config) *Client {
	config.AllowPrivate, config.AllowHTTP = loopback, true
	return New(config)
}

func get(t *testing.T, c *Client, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func TestGet(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" || r.Header.Get("Cookie") != "" || !r.Close {
			t.Errorf("header %v, close %t", r.Header, r.Close)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "hello")
	})
	c := here(Config{MaxBody: 5})
	for range 2 {
		resp, err := get(t, c, s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != "hello" || err != nil || resp.StatusCode != http.StatusTeapot {
			t.Errorf("%d %q, %v", resp.StatusCode, got, err)
		}
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if _, err := get(t, New(Config{AllowPrivate: loopback, RootCAs: roots}), s.URL); err != nil {
		t.Errorf("known authority: %v", err)
	}
	if _, err := get(t, New(Config{AllowPrivate: loopback}), s.URL); err == nil || !strings.Contains(err.Error(), "certificate is not valid") {
		t.Errorf("unknown authority: %v", err)
	}
}

// A server that answers on loopback is not asked without permission, by its
// address or by a name.
func TestForbidden(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	port := s.Listener.Addr().(*net.TCPAddr).Port
	named := "http://tracker.test:" + strconv.Itoa(port) + "/"
	dns := names(t, "127.0.0.1")
	for what, try := range map[string]struct {
		config Config
		url    string
	}{
		"address, nothing allowed": {Config{AllowHTTP: true}, s.URL},
		"name, nothing allowed":    {Config{AllowHTTP: true, Resolver: dns}, named},
		"name, other allowed":      {Config{AllowHTTP: true, AllowPrivate: prefixes("127.0.0.2/32"), Resolver: dns}, named},
		"plain to a public one":    {Config{AllowHTTP: true, AllowPrivate: loopback, Resolver: names(t, "1.1.1.1")}, "http://tracker.test/"},
		"port of a public one":     {Config{Resolver: names(t, "1.1.1.1")}, "https://tracker.test:22/"},
		"metadata":                 {Config{Resolver: names(t, "169.254.169.254")}, "https://tracker.test/latest/meta-data"},
		"name by https":            {Config{Resolver: dns}, strings.Replace(named, "http:", "https:", 1)},
	} {
		if _, err := get(t, New(try.config), try.url); !errors.Is(err, ErrForbiddenAddress) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := get(t, New(Config{AllowPrivate: loopback}), s.URL); err == nil {
		t.Error("plain http without permission")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests got through", n)
	}
	if _, err := get(t, here(Config{Resolver: dns}), named); err != nil || asked.Load() != 1 {
		t.Errorf("the allowed way: %v", err)
	}
}

// names is a resolver whose server answers the n-th question for an IPv4
// address with the n-th of addrs, and from then on with the last one.
func names(t *testing.T, addrs ...string) *net.Resolver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		questions := 0
		for buf := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(buf[12:n], 0) + 5 // name, type, class
			reply := append([]byte(nil), buf[:end]...)
			reply[2], reply[3] = 0x84, 0                        // an authoritative answer
			copy(reply[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})   // one question, no answer
			if binary.BigEndian.Uint16(buf[end-4:end-2]) == 1 { // for an IPv4 address
				ip := netip.MustParseAddr(addrs[min(questions, len(addrs)-1)]).As4()
				questions++
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				reply = append(reply, ip[:]...)
			}
			conn.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// A name that first stands for an allowed address and then for another one is
// refused as soon as it does. The two servers share a port.
func TestRebinding(t *testing.T) {
	var inner, outer atomic.Int32
	in := serve(t, func(http.ResponseWriter, *http.Request) { inner.Add(1) })
	port := strconv.Itoa(in.Listener.Addr().(*net.TCPAddr).Port)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		t.Skipf("ATTENTION: rebinding is not tested here, which takes all of 127.0.0.0/8: %v", err)
	}
	out := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { outer.Add(1) }))
	out.Listener.Close()
	out.Listener = listener
	out.Start()
	t.Cleanup(out.Close)

	config := Config{AllowPrivate: prefixes("127.0.0.2/32"), AllowHTTP: true, Resolver: names(t, "127.0.0.2", "127.0.0.1")}
	url := "http://tracker.test:" + port + "/"
	if _, err := config.CheckURL(url); err != nil {
		t.Fatal(err)
	}
	c := New(config)
	if _, err := get(t, c, url); err != nil {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		if _, err := get(t, c, url); !errors.Is(err, ErrForbiddenAddress) {
			t.Errorf("after: %v", err)
		}
	}
	if inner.Load() != 0 || outer.Load() != 1 {
		t.Errorf("inside asked %d times, outside %d", inner.Load(), outer.Load())
	}
}

func TestRedirect(t *testing.T) {
	var followed atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			followed.Add(1)
			return
		}
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(status)
	})
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		for _, to := range []string{"/there", "http://169.254.169.254/", "%zz", ""} {
			_, err := get(t, here(Config{}), s.URL+"/"+strconv.Itoa(status)+"?to="+strings.ReplaceAll(to, "%", "%25"))
			var redirect *RedirectError
			if !errors.Is(err, ErrRedirect) || !errors.As(err, &redirect) || redirect.Status != status {
				t.Errorf("%d to %q: %v", status, to, err)
			} else if strings.Contains(err.Error(), "169.254") || !strings.Contains(err.Error(), strconv.Itoa(status)) {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
	if followed.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestTooLarge(t *testing.T) {
	const limit = 1000
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		if r.URL.RawQuery == "chunked" {
			w.(http.Flusher).Flush()
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		w.Write(bytes.Repeat([]byte("x"), n))
	})
	for _, test := range []struct {
		path string
		want error
		read int
	}{
		{"/0", nil, 0},
		{"/1000", nil, limit},
		{"/1000?chunked", nil, limit},
		{"/1001", ErrTooLarge, 0},
		{"/1001?chunked", ErrTooLarge, limit},
		{"/3000000?chunked", ErrTooLarge, limit},
	} {
		resp, err := get(t, here(Config{MaxBody: limit}), s.URL+test.path)
		var got []byte
		if err == nil {
			got, err = io.ReadAll(resp.Body)
		}
		if !errors.Is(err, test.want) || len(got) != test.read {
			t.Errorf("%s: %d bytes, %v; want %d, %v", test.path, len(got), err, test.read, test.want)
		}
		if err != nil && resp != nil {
			if n, err := resp.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: reading on: %d, %v", test.path, n, err)
			}
		}
	}
}

// A compressed answer is handed on as it came.
func TestNoDecompression(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	zip.Write(make([]byte, 1<<20))
	zip.Close()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	})
	resp, err := get(t, here(Config{}), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); !bytes.Equal(got, bomb.Bytes()) || err != nil {
		t.Errorf("%d bytes, %v; want %d", len(got), err, bomb.Len())
	}
}

func TestHeaderFlood(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 100 {
			w.Header().Set("X-Flood-"+strconv.Itoa(i), strings.Repeat("x", 1000))
		}
	})
	if _, err := get(t, here(Config{}), s.URL); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

func TestSlow(t *testing.T) {
	for what, first := range map[string]string{"header": "", "body": "some"} {
		started := make(chan struct{}, 1)
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if first != "" {
				io.WriteString(w, first)
				w.(http.Flusher).Flush()
			}
			if r.URL.Path == "/caller" {
				started <- struct{}{}
			}
			<-r.Context().Done()
		})
		read := func(c *Client, ctx context.Context, path string) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err == nil {
				defer resp.Body.Close()
				_, err = io.ReadAll(resp.Body)
			}
			return err
		}
		// Perhaps that is over before the server has seen anything of it.
		if err := read(here(Config{Timeout: 50 * time.Millisecond}), t.Context(), "/timeout"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, timeout: %v", what, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		if err := read(here(Config{Timeout: time.Minute}), ctx, "/caller"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, caller gone: %v", what, err)
		}
	}
}

// net/http reads the environment once, before any test could change it, and
// asks proxies for names only: so a second process asks a name of a local
// resolver, with proxies in its environment.
func TestNoProxy(t *testing.T) {
	if target := os.Getenv("OUTBOUND_TEST_TARGET"); target != "" {
		if _, err := get(t, here(Config{Resolver: names(t, "127.0.0.1")}), target); err != nil {
			t.Error(err)
		}
		return
	}
	var asked atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	s := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxy$")
	child.Env = append(os.Environ(), "NO_PROXY=", "no_proxy=",
		"OUTBOUND_TEST_TARGET=http://tracker.test:"+strconv.Itoa(s.Listener.Addr().(*net.TCPAddr).Port))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		child.Env = append(child.Env, name+"="+proxy.URL, strings.ToLower(name)+"="+proxy.URL)
	}
	if out, err := child.CombinedOutput(); err != nil || asked.Load() != 1 {
		t.Errorf("asked %d times, %v\n%s", asked.Load(), err, out)
	}
}

// No way to fail says more than the host and a reason in our own words, even if
// the other side sends back what it was sent.
func TestErrorsQuoteNoAnswer(t *testing.T) {
	echo := func(text string) string {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				conn.Read(make([]byte, 4096))
				io.WriteString(conn, text)
				conn.Close()
			}
		}()
		return "http://" + listener.Addr().String()
	}
	closed := echo("")
	gone, _ := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	gone.Close()
	for what, base := range map[string]string{
		"hangs up":       closed,
		"status line":    echo("HTTP/1.1 hunter2\r\n\r\n"),
		"no HTTP":        echo("hunter2 hunter2 hunter2\r\n\r\n"),
		"header":         echo("HTTP/1.1 200 OK\r\nhunter2\r\n\r\n"),
		"length":         echo("HTTP/1.1 200 OK\r\nContent-Length: hunter2\r\n\r\n"),
		"encoding":       echo("HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2\r\n\r\n"),
		"switches":       echo("HTTP/1.1 101 hunter2\r\nUpgrade: hunter2\r\nConnection: Upgrade\r\n\r\n"),
		"redirect":       echo("HTTP/1.1 302 hunter2\r\nLocation: https://hunter2/\r\nContent-Length: 0\r\n\r\n"),
		"nobody there":   "http://" + gone.Addr().String(),
		"forbidden":      "http://127.0.0.2",
		"forbidden name": "http://tracker.test",
		"https instead":  strings.Replace(closed, "http:", "https:", 1),
		"user":           "http://hunter2:hunter2@127.0.0.1",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/hunter2?key=hunter2", strings.NewReader("hunter2"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer hunter2")
		resp, err := here(Config{Resolver: names(t, "127.0.0.3")}).Do(req)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s: no error", what)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
