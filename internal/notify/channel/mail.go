package channel

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// TLSMode is how a connection to a mail server is protected.
type TLSMode string

// The modes. There is none that gives up protection when the server lacks it.
const (
	StartTLS TLSMode = "starttls" // plain at first, then TLS or nothing: port 587
	TLS      TLSMode = "tls"      // TLS from the start: port 465
	PlainTCP TLSMode = "plain"    // none
)

// MailConfig is a mail server and who writes by it.
type MailConfig struct {
	Addr string // host:port
	From string // an address, with or without a name
	// User and Password are both empty where the server asks for none.
	User, Password string
	TLS            TLSMode // empty means StartTLS
	// AllowPlain allows PlainTCP to other hosts than this one, without a password.
	AllowPlain bool
	// Roots are the authorities that the server's certificate is checked by; nil
	// means the system's.
	Roots *x509.CertPool
	// Timeout is for a whole attempt; 0 means 20 seconds.
	Timeout time.Duration
}

// Check says what is wrong with the settings, field by field, and never what the
// password is.
func (c MailConfig) Check() error {
	var errs []error
	host, _, err := c.server()
	if err != nil {
		errs = append(errs, fmt.Errorf("addr: %w", err))
	}
	if _, err := parseAddress(c.From); err != nil {
		errs = append(errs, fmt.Errorf("from: %w", err))
	}
	if (c.User == "") != (c.Password == "") {
		errs = append(errs, errors.New("user, password: one of them is missing"))
	}
	switch c.TLS {
	case "", StartTLS, TLS:
	case PlainTCP:
		switch {
		case loopback(host):
		case !c.AllowPlain:
			errs = append(errs, errors.New("tls: plain is for this host only, unless allow_plain is set"))
		case c.User != "":
			errs = append(errs, errors.New("tls: plain would show the password to the network"))
		}
	default:
		errs = append(errs, fmt.Errorf("tls: %.20q is none of starttls, tls, plain", c.TLS))
	}
	if c.Timeout < 0 {
		errs = append(errs, errors.New("timeout: is negative"))
	}
	return errors.Join(errs...)
}

func (c MailConfig) server() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(c.Addr)
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7F || r == '/' }) {
		return "", 0, errors.New("must be host:port")
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, errors.New("must have a port of 1 to 65535")
	}
	return host, port, nil
}

// parseAddress reads one address, and refuses what a mail server or program could
// read in another way.
func parseAddress(s string) (*netmail.Address, error) {
	if s == "" {
		return nil, errors.New("is missing")
	}
	if len(s) > 320 || visible(s, 320) != s {
		return nil, errors.New("has characters that no address has, or too many")
	}
	a, err := netmail.ParseAddress(s)
	if err != nil {
		return nil, errors.New("is no e-mail address")
	}
	at := strings.LastIndexByte(a.Address, '@')
	if strings.ContainsFunc(a.Address, func(r rune) bool { return r >= 0x7F }) {
		return nil, errors.New("has characters beyond ASCII")
	}
	if strings.ContainsAny(a.Address, " \"<>,;:\\()[]") || strings.Count(a.Address, "@") != 1 || at == 0 || at == len(a.Address)-1 {
		return nil, errors.New("is no plain e-mail address")
	}
	return a, nil
}

// Mail sends notifications to people by SMTP.
type Mail struct {
	config MailConfig
	host   string
	port   int
	from   *netmail.Address
	domain string // of from
}

// NewMail returns a sender, or what Check says. It does not connect.
func NewMail(c MailConfig) (*Mail, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	c.TLS = cmp.Or(c.TLS, StartTLS)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	m := &Mail{config: c}
	var err error
	if m.host, m.port, err = c.server(); err != nil {
		return nil, fmt.Errorf("mail: addr: %w", err)
	}
	if m.from, err = parseAddress(c.From); err != nil {
		return nil, fmt.Errorf("mail: from: %w", err)
	}
	m.domain = m.from.Address[strings.LastIndexByte(m.from.Address, '@')+1:]
	return m, nil
}

// Send makes one attempt to send a notification to one address. It is done when the
// server has taken it, and gone when the server says that there is no such
// mailbox. Every attempt sends the same bytes under the same Message-ID, so that
// a mailbox can tell a repetition.
func (m *Mail) Send(ctx context.Context, n Notification, to string) (Result, error) {
	res, err := m.send(ctx, n, to)
	if err != nil {
		return res, fmt.Errorf("send %.40q by mail: %w", n.ID, err)
	}
	return res, nil
}

func (m *Mail) send(ctx context.Context, n Notification, to string) (Result, error) {
	msg, err := m.message(n, to)
	if err != nil {
		return Result{}, err
	}
	return m.deliver(ctx, msg)
}

// deliver makes one attempt to hand a message to the server.
func (m *Mail) deliver(ctx context.Context, msg *mail.Msg) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.Timeout)
	defer cancel()
	client, err := m.client(ctx)
	if err != nil {
		return Result{}, serverError{"set up", err}
	}
	err = client.DialAndSendWithContext(ctx, msg)
	if msg.IsDelivered() {
		// The server has taken responsibility. What went wrong after that, at the
		// goodbye, is no reason to send twice.
		return Result{Done: true}, nil
	}
	if err == nil {
		return Result{}, errors.New("the server did not say that it has it")
	}
	if ctx.Err() != nil {
		return Result{}, serverError{"hand over", errors.Join(ctx.Err(), err)}
	}
	var refused *mail.SendError
	if errors.As(err, &refused) && refused.Reason == mail.ErrSMTPRcptTo && noMailbox(refused) {
		return Result{Gone: true}, serverError{"there is no such mailbox", err}
	}
	return Result{}, serverError{"hand over", err}
}

// noMailbox says whether the server refuses the address itself, by RFC 3463. A
// refusal for another reason, such as our not being allowed to send, may end.
func noMailbox(e *mail.SendError) bool {
	switch e.EnhancedStatusCode() {
	case "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10":
		return true
	}
	return false
}

// client is a client for one attempt. Its connection ends with ctx, wherever the
// conversation is then.
func (m *Mail) client(ctx context.Context) (*mail.Client, error) {
	protection := &tls.Config{ServerName: m.host, RootCAs: m.config.Roots, MinVersion: tls.VersionTLS12}
	dial := func(dialing context.Context, network, address string) (conn net.Conn, err error) {
		if m.config.TLS == TLS {
			conn, err = (&tls.Dialer{Config: protection}).DialContext(dialing, network, address)
		} else {
			conn, err = (&net.Dialer{}).DialContext(dialing, network, address)
		}
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		return conn, nil
	}
	opts := []mail.Option{
		// The client's own limit comes after ctx, so that it is ctx that says why.
		mail.WithPort(m.port), mail.WithTimeout(m.config.Timeout + time.Second), mail.WithTLSConfig(protection), mail.WithDialContextFunc(dial),
	}
	switch m.config.TLS {
	case TLS:
		opts = append(opts, mail.WithSSL())
	case PlainTCP:
		opts = append(opts, mail.WithTLSPolicy(mail.NoTLS))
	default:
		opts = append(opts, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.config.User != "" {
		methods := []mail.SMTPAuthType{mail.SMTPAuthSCRAMSHA256PLUS, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin}
		if m.config.TLS == PlainTCP { // to this host; see Check
			methods = []mail.SMTPAuthType{mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlainNoEnc, mail.SMTPAuthLoginNoEnc}
		}
		opts = append(opts, mail.WithOpportunisticSMTPAuth(methods...), mail.WithUsername(m.config.User), mail.WithPassword(m.config.Password))
	}
	return mail.NewClient(m.host, opts...)
}

// message is a notification, written and addressed: the same bytes each time.
func (m *Mail) message(n Notification, to string) (*mail.Msg, error) {
	l, err := newMailBody(n)
	if err != nil {
		return nil, err
	}
	msg, err := m.addressed(l, to, n.ID, n.At)
	if err != nil {
		return nil, err
	}
	if n.ApprovalID != "" {
		// Never sent itself: it makes mail programs show an approval's mails together.
		msg.SetGenHeader(mail.HeaderReferences, "<"+fingerprint(n.ApprovalID)+"@"+m.domain+">")
	}
	msg.SetGenHeader("List-Id", "Holdpoint <notifications."+m.domain+">")
	msg.SetGenHeader("X-Holdpoint-Id", n.ID)
	return msg, nil
}

// addressed is a mail to somebody, whose Message-ID is made of id.
func (m *Mail) addressed(l mailBody, to, id string, at time.Time) (*mail.Msg, error) {
	addressee, err := parseAddress(to)
	if err != nil {
		return nil, fmt.Errorf("recipient: %w", err)
	}
	id = fingerprint(id, strings.ToLower(addressee.Address))
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent(), mail.WithBoundary("holdpoint-"+id))
	msg.FromMailAddress(m.from)
	msg.ToMailAddress(&netmail.Address{Address: addressee.Address})
	msg.Subject(l.Subject)
	msg.SetDateWithValue(at.UTC())
	msg.SetMessageIDWithValue(id + "@" + m.domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(mail.TypeTextPlain, l.Text)
	msg.AddAlternativeString(mail.TypeTextHTML, l.HTML)
	return msg, nil
}

// Render writes a notification as the e-mail that Send would send, for previews.
func (m *Mail) Render(w io.Writer, n Notification, to string) error {
	msg, err := m.message(n, to)
	if err != nil {
		return err
	}
	if _, err := msg.WriteTo(w); err != nil {
		return fmt.Errorf("write mail: %w", err)
	}
	return nil
}

// serverError is an error whose text a server wrote: it is shown on one line, and not
// all of it.
type serverError struct {
	what string
	err  error
}

func (e serverError) Error() string { return e.what + ": " + visible(e.err.Error(), maxSentence) }
func (e serverError) Unwrap() error { return e.err }
