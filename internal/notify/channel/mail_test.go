package channel

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// mailbox is a mail server. It takes mail for whoever refuse lets pass.
type mailbox struct {
	addr   string
	roots  *x509.CertPool
	auth   bool // asks for postman and hunter2
	refuse func(to string) error
	data   func() error // what it says to a whole mail

	mu    sync.Mutex
	mails []received
}

type received struct {
	from, to, user string
	encrypted      bool
	raw            []byte
}

func (m *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{box: m, conn: c}, nil
}

type session struct {
	box  *mailbox
	conn *smtp.Conn
	mail received
}

func (s *session) AuthMechanisms() []string {
	if s.box.auth {
		return []string{sasl.Plain}
	}
	return nil
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "postman" || password != "hunter2" {
			return smtp.ErrAuthFailed
		}
		s.mail.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.box.auth && s.mail.user == "" {
		return smtp.ErrAuthRequired
	}
	s.mail.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.box.refuse != nil {
		if err := s.box.refuse(to); err != nil {
			return err
		}
	}
	s.mail.to = to
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.box.data != nil {
		if err := s.box.data(); err != nil {
			return err
		}
	}
	s.mail.raw = raw
	_, s.mail.encrypted = s.conn.TLSConnectionState()
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.mails = append(s.box.mails, s.mail)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// serve starts a mail server on this host. With a certificate, it has STARTTLS,
// or is TLS from the start.
func serve(t *testing.T, box *mailbox, mode TLSMode) {
	t.Helper()
	server := smtp.NewServer(box)
	server.Domain = "mail.example"
	server.ErrorLog = quiet{}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	box.addr = listener.Addr().String()
	switch mode {
	case PlainTCP:
		server.AllowInsecureAuth = true
	case TLS:
		listener = tls.NewListener(listener, box.certificate(t))
	default:
		server.TLSConfig = box.certificate(t)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: %v", err)
		}
	})
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// certificate makes a throw-away certificate for 127.0.0.1.
func (m *mailbox) certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	m.roots = x509.NewCertPool()
	m.roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}

func (m *mailbox) config(mode TLSMode) MailConfig {
	c := MailConfig{Addr: m.addr, From: "Holdpoint <holdpoint@gate.example>", TLS: mode, Roots: m.roots}
	if m.auth {
		c.User, c.Password = "postman", "hunter2"
	}
	return c
}

func sender(t *testing.T, c MailConfig) *Mail {
	t.Helper()
	m, err := NewMail(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const ada = "ada@people.example"

func TestMail(t *testing.T) {
	for _, mode := range []TLSMode{StartTLS, TLS, PlainTCP} {
		for _, auth := range []bool{false, true} {
			name := string(mode)
			if auth {
				name += " with password"
			}
			t.Run(name, func(t *testing.T) {
				box := &mailbox{auth: auth}
				serve(t, box, mode)
				m := sender(t, box.config(mode))
				n := all(hostile["line breaks"])
				for range 2 {
					if res, err := m.Send(context.Background(), n, ada); err != nil || res != (Result{Done: true}) {
						t.Fatalf("%+v, %v", res, err)
					}
				}
				if res, err := m.Send(context.Background(), n, "Grace Hopper <grace@people.example>"); err != nil || !res.Done {
					t.Fatalf("%+v, %v", res, err)
				}
				if len(box.mails) != 3 {
					t.Fatalf("%d mails", len(box.mails))
				}
				got, again, other := box.mails[0], box.mails[1], box.mails[2]
				if got.from != "holdpoint@gate.example" || got.to != ada || other.to != "grace@people.example" {
					t.Errorf("from %q to %q and %q", got.from, got.to, other.to)
				}
				if got.encrypted != (mode != PlainTCP) || (got.user == "postman") != auth {
					t.Errorf("encrypted %t, user %q", got.encrypted, got.user)
				}
				if !bytes.Equal(got.raw, again.raw) {
					t.Error("the second attempt sends another mail")
				}
				header, _, _ := readMessage(t, got.raw, n)
				if id := header.Get("Message-Id"); id == "" || bytes.Contains(other.raw, []byte(id)) {
					t.Errorf("message id %q is another's, too", id)
				}
			})
		}
	}
}

func TestMailIsNotSentUnprotected(t *testing.T) {
	plain := &mailbox{}
	serve(t, plain, PlainTCP)
	stranger := &mailbox{auth: true}
	serve(t, stranger, StartTLS)
	direct := &mailbox{}
	serve(t, direct, TLS)
	untrusted := stranger.config(StartTLS)
	untrusted.Roots = x509.NewCertPool()
	wrong := stranger.config(StartTLS)
	wrong.Addr = strings.Replace(wrong.Addr, "127.0.0.1", "localhost", 1)
	directly := direct.config(TLS)
	directly.Roots = nil
	for name, c := range map[string]MailConfig{
		"no STARTTLS":               plain.config(StartTLS),
		"no TLS":                    plain.config(TLS),
		"unknown certificate":       untrusted,
		"certificate of other host": wrong,
		"system's roots":            directly,
	} {
		c.Timeout = 5 * time.Second
		if res, err := sender(t, c).Send(context.Background(), waiting(), ada); err == nil || res != (Result{}) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	if n := len(plain.mails) + len(stranger.mails) + len(direct.mails); n != 0 {
		t.Errorf("%d mails were sent", n)
	}
}

func TestMailRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err  *smtp.SMTPError
		want Result
	}{
		"no such mailbox": {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such user"}, Result{Gone: true}},
		"no such domain":  {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 2}, Message: "No such host"}, Result{Gone: true}},
		"relaying":        {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "Relaying denied"}, Result{}},
		"full":            {&smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "Mailbox full"}, Result{}},
		"later":           {&smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 1, 1}, Message: "Greylisted"}, Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			box := &mailbox{refuse: func(string) error { return c.err }}
			serve(t, box, PlainTCP)
			res, err := sender(t, box.config(PlainTCP)).Send(context.Background(), waiting(), ada)
			if err == nil || res != c.want || !strings.Contains(err.Error(), c.err.Message) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	t.Run("content", func(t *testing.T) {
		refusal := &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: strings.Repeat("no \u202E", 200)}
		box := &mailbox{data: func() error { return refusal }}
		serve(t, box, PlainTCP)
		res, err := sender(t, box.config(PlainTCP)).Send(context.Background(), waiting(), ada)
		if err == nil || res != (Result{}) || strings.ContainsFunc(err.Error(), hidden) || len(err.Error()) > 4096 {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("password", func(t *testing.T) {
		box := &mailbox{auth: true}
		serve(t, box, StartTLS)
		c := box.config(StartTLS)
		c.Password = "canary"
		res, err := sender(t, c).Send(context.Background(), waiting(), ada)
		if err == nil || res != (Result{}) || strings.Contains(err.Error(), "canary") || len(box.mails) != 0 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// TestMailTakenIsDone: a server that takes a mail and then hangs up has it. To
// send it again would be to send it twice.
func TestMailTakenIsDone(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() { done <- hangUp(listener) }()
	res, err := sender(t, MailConfig{Addr: listener.Addr().String(), From: "a@gate.example", TLS: PlainTCP}).Send(context.Background(), waiting(), ada)
	if err != nil || res != (Result{Done: true}) {
		t.Errorf("%+v, %v", res, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// hangUp is a mail server that ends the conversation after the mail.
func hangUp(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.example")
	var line []byte
	inData := false
	for b := make([]byte, 1); ; {
		if _, err := conn.Read(b); err != nil {
			return err
		}
		if line = append(line, b[0]); b[0] != '\n' {
			continue
		}
		command := strings.ToUpper(strings.TrimSpace(string(line)))
		line = nil
		switch {
		case inData && command == ".":
			say("250 taken")
			return nil
		case inData:
		case strings.HasPrefix(command, "DATA"):
			inData = true
			say("354 go on")
		default:
			say("250 ok")
		}
	}
}

// TestMailTimeout: a server that says nothing is left when the time is over, or
// when the caller is.
func TestMailTimeout(t *testing.T) {
	listen := func() net.Listener {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return listener
	}
	silent := listen()
	defer silent.Close()
	c := MailConfig{Addr: silent.Addr().String(), From: "a@gate.example", TLS: PlainTCP, Timeout: 50 * time.Millisecond}
	if res, err := sender(t, c).Send(context.Background(), waiting(), ada); !errors.Is(err, context.DeadlineExceeded) || res != (Result{}) {
		t.Errorf("%+v, %v", res, err)
	}
	// Another one, because the first attempt may have come as far as a connection or not.
	listener := listen()
	defer listener.Close()
	c.Addr, c.Timeout = listener.Addr().String(), time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
		}
		cancel()
	}()
	if res, err := sender(t, c).Send(ctx, waiting(), ada); !errors.Is(err, context.Canceled) || res != (Result{}) {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestMailConfig(t *testing.T) {
	good := MailConfig{Addr: "mail.example:587", From: "Holdpoint <holdpoint@gate.example>", User: "u", Password: "canary"}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*MailConfig)
		want   string // the field, or "" if all is well
	}{
		"tls":                     {func(c *MailConfig) { c.TLS = TLS }, ""},
		"no port":                 {func(c *MailConfig) { c.Addr = "mail.example" }, "addr: "},
		"no host":                 {func(c *MailConfig) { c.Addr = ":587" }, "addr: "},
		"path":                    {func(c *MailConfig) { c.Addr = "/run/mail:587" }, "addr: "},
		"bad port":                {func(c *MailConfig) { c.Addr = "mail.example:70000" }, "addr: "},
		"no sender":               {func(c *MailConfig) { c.From = "" }, "from: "},
		"two senders":             {func(c *MailConfig) { c.From = "a@b.example, c@d.example" }, "from: "},
		"line break":              {func(c *MailConfig) { c.From = "a@b.example\r\nBcc: c@d.example" }, "from: "},
		"password alone":          {func(c *MailConfig) { c.User = "" }, "user, password: "},
		"user alone":              {func(c *MailConfig) { c.Password = "" }, "user, password: "},
		"mode":                    {func(c *MailConfig) { c.TLS = "opportunistic" }, "tls: "},
		"plain":                   {func(c *MailConfig) { c.TLS = PlainTCP }, "tls: "},
		"plain allowed":           {func(c *MailConfig) { c.TLS, c.AllowPlain, c.User, c.Password = PlainTCP, true, "", "" }, ""},
		"plain with password":     {func(c *MailConfig) { c.TLS, c.AllowPlain = PlainTCP, true }, "tls: "},
		"plain on this host":      {func(c *MailConfig) { c.TLS, c.Addr = PlainTCP, "127.0.0.1:25" }, ""},
		"plain on this host, v6":  {func(c *MailConfig) { c.TLS, c.Addr = PlainTCP, "[::1]:25" }, ""},
		"plain, name of a number": {func(c *MailConfig) { c.TLS, c.Addr = PlainTCP, "127.0.0.1.example:25" }, "tls: "},
		"timeout":                 {func(c *MailConfig) { c.Timeout = -1 }, "timeout: "},
	} {
		got := good
		c.change(&got)
		err := got.Check()
		if _, made := NewMail(got); (made == nil) != (err == nil) {
			t.Errorf("%s: Check says %v, NewMail %v", name, err, made)
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "canary")):
			t.Errorf("%s: got %v, want %s…", name, err, c.want)
		}
	}
}

func TestRecipients(t *testing.T) {
	m := mailer(t)
	for _, to := range []string{
		"", "ada", "@people.example", "ada@", "a@b.example,c@d.example", "ada@people.example\r\nBcc: x@evil.example",
		"ada@people.example ", "\"a b\"@people.example", "ada@[127.0.0.1]", "ada@people.example\u202E", "ädä@people.example",
		"a\u0430@people.example", "ada@people.example>", "<ada@people.example> SIZE=1", strings.Repeat("a", 330) + "@people.example",
	} {
		if err := m.Render(io.Discard, waiting(), to); err == nil {
			t.Errorf("a mail to %q", to)
		}
	}
	for _, to := range []string{ada, "Ada <ada@people.example>", "a.b+c'd@people.example", "x@localhost"} {
		if err := m.Render(io.Discard, waiting(), to); err != nil {
			t.Errorf("%q: %v", to, err)
		}
	}
}
