package stream

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdpoint/engine"
	"holdpoint/internal/notify/channel"
	"holdpoint/internal/outbound"
)

// The kinds of receiver.
const (
	SyslogKind  = "syslog"
	WebhookKind = "webhook"
)

// The formats of an event.
const (
	JSONFormat = "json" // the event document, as the log's digests have it
	OCSFFormat = "ocsf"
)

// Where a stream begins that has never run.
const (
	FromNow       = "now"
	FromBeginning = "beginning"
)

// Config describes one stream. Printed or logged as a whole it shows its name and
// kind only. Fields that end in File name a file; whoever reads the configuration
// reads that as well, into the field beside it: nothing here does.
type Config struct {
	// Name is what people call the stream, and under what its position is kept:
	// lower-case letters, digits, hyphens.
	Name string `yaml:"name"`
	Kind string `yaml:"kind"`
	// Address is host:port of a syslog receiver, URL a webhook's.
	Address string `yaml:"address"`
	URL     string `yaml:"url"`
	Format  string `yaml:"format"` // json when ""
	From    string `yaml:"from"`   // now when ""
	// Types and Outcomes narrow what is sent; empty ones do not.
	Types    []string `yaml:"types"`
	Outcomes []string `yaml:"outcomes"`

	// Secret signs webhooks (whsec_… or whsk_…). Token is sent as the Authorization
	// header: after "Bearer ", or by itself where it has a scheme of its own.
	Secret     string `yaml:"secret"`
	SecretFile string `yaml:"secret_file"`
	Token      string `yaml:"token"`
	TokenFile  string `yaml:"token_file"`
	// Body is how a webhook's events are put together: lines (when "") or array.
	Body string `yaml:"body"`

	// CAFile are the authorities to trust instead of the system's. CertFile and
	// KeyFile are what a syslog receiver knows us by.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	CA       []byte `yaml:"-"` // PEM, as Cert and Key
	Cert     []byte `yaml:"-"`
	Key      []byte `yaml:"-"`
	// Enterprise is the private enterprise number in the SD-ID: 32473 when 0.
	Enterprise int64 `yaml:"enterprise"`
	// RequireCloseNotify takes no window for taken that the receiver has not
	// answered with a close_notify of its own.
	RequireCloseNotify bool `yaml:"require_close_notify"`

	// Batch is how many events a window has at most, MaxEvent how many bytes one may
	// have, headers and all, before it is sent reduced.
	Batch    int `yaml:"batch"`
	MaxEvent int `yaml:"max_event"`
	// Every is the shortest time between two windows while the stream keeps up,
	// Timeout the longest that a window may take.
	Every   engine.Duration `yaml:"every"`
	Timeout engine.Duration `yaml:"timeout"`
}

// String names the stream and not its secrets.
func (c Config) String() string { return fmt.Sprintf("log stream %q (%s)", c.Name, c.Kind) }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

const (
	defaultSyslogBatch  = 1000
	defaultWebhookBatch = 200
	maxBatch            = 5000
	// defaultMaxEvent is what the receivers of syslog take that say how much.
	defaultMaxEvent = 64 << 10
	minMaxEvent     = 4 << 10
	// headerSize is more than what goes before an event in a message of syslog.
	headerSize     = 512
	defaultEvery   = time.Second
	defaultTimeout = 30 * time.Second
	maxTimeout     = 5 * time.Minute
	maxEvery       = time.Hour
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	tokenForm = regexp.MustCompile(`^[!-~]+( [!-~]+)?$`)
)

func names[T ~string](list []T) []string {
	all := make([]string, len(list))
	for i, name := range list {
		all[i] = string(name)
	}
	return all
}

// Check returns everything that is wrong, one error for each setting and with its
// name in front. No error holds the value of a secret or an address. Private are
// the networks inside the house that may be asked.
func (c Config) Check(private []netip.Prefix) (errs []error) {
	fails := func(field string, err error) { errs = append(errs, fmt.Errorf("%s: %w", field, err)) }
	wrong := func(field, what string) { fails(field, errors.New(what)) }
	oneOf := func(field, value string, known []string) {
		if !slices.Contains(known, value) {
			wrong(field, fmt.Sprintf("want %s, got %.40q", strings.Join(known, ", "), value))
		}
	}
	if !nameForm.MatchString(c.Name) {
		wrong("name", "want 1 to 64 lower-case letters, digits and hyphens")
	}
	oneOf("kind", c.Kind, []string{SyslogKind, WebhookKind})
	oneOf("format", c.format(), []string{JSONFormat, OCSFFormat})
	oneOf("from", c.from(), []string{FromNow, FromBeginning})
	for _, t := range c.Types {
		oneOf("types", t, names(engine.EventTypes()))
	}
	for _, o := range c.Outcomes {
		oneOf("outcomes", o, names(engine.Outcomes()))
	}
	switch c.Kind {
	case SyslogKind:
		errs = append(errs, c.checkSyslog(private)...)
	case WebhookKind:
		errs = append(errs, c.checkWebhook(private)...)
	}
	if c.CA != nil && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		wrong("ca_file", "it holds no certificate in PEM")
	}
	if c.Batch < 0 || c.Batch > maxBatch {
		wrong("batch", fmt.Sprintf("want 1 to %d events, got %d", maxBatch, c.Batch))
	}
	if c.MaxEvent != 0 && (c.MaxEvent < minMaxEvent || c.MaxEvent > 1<<20) {
		wrong("max_event", fmt.Sprintf("want %d to %d bytes, got %d", minMaxEvent, 1<<20, c.MaxEvent))
	}
	if c.Every < 0 || time.Duration(c.Every) > maxEvery {
		wrong("every", "want at most "+maxEvery.String())
	}
	if c.Timeout < 0 || time.Duration(c.Timeout) > maxTimeout {
		wrong("timeout", "want at most "+maxTimeout.String())
	}
	return errs
}

func (c Config) checkSyslog(private []netip.Prefix) (errs []error) {
	fails := func(field string, err error) { errs = append(errs, fmt.Errorf("%s: %w", field, err)) }
	if c.Address == "" {
		fails("address", errors.New("it is missing: want host:port, such as siem.example.com:6514"))
	} else if _, _, err := (outbound.Config{AllowPrivate: private}).CheckAddress(c.Address); err != nil {
		fails("address", addressed(err))
	}
	if c.Enterprise < 0 || c.Enterprise > math.MaxUint32 {
		fails("enterprise", errors.New("want a private enterprise number of IANA"))
	}
	switch {
	case (c.Cert == nil) != (c.Key == nil):
		fails("cert_file", errors.New("it goes with key_file: give both, or none"))
	case c.Cert != nil:
		if _, err := tls.X509KeyPair(c.Cert, c.Key); err != nil {
			fails("cert_file", errors.New("it and key_file are no pair of certificate and key in PEM"))
		}
	}
	errs = append(errs, c.notFor(WebhookKind, map[string]bool{"url": c.URL != "", "secret": c.Secret != "", "token": c.Token != "", "body": c.Body != ""})...)
	return errs
}

func (c Config) checkWebhook(private []netip.Prefix) (errs []error) {
	fails := func(field string, err error) { errs = append(errs, fmt.Errorf("%s: %w", field, err)) }
	if c.URL == "" {
		fails("url", errors.New("it is missing: want an address such as https://siem.example.com/events"))
	} else if _, err := c.client(private).CheckURL(c.URL); err != nil {
		fails("url", addressed(err))
	}
	if c.Secret == "" && c.Token == "" {
		fails("secret", errors.New("it is missing, and so is token: the receiver could not tell our events from anybody's"))
	}
	if c.Secret != "" {
		if _, err := channel.Sign([]string{c.Secret}, "check", time.Unix(1, 0), nil); err != nil {
			fails("secret", errors.New("want whsec_ and 24 to 64 bytes in base64, or a whsk_ key"))
		}
	}
	if c.Token != "" && !tokenForm.MatchString(c.Token) {
		fails("token", errors.New("want printable ASCII on one line: a token, or a scheme, a blank and a token"))
	}
	if c.Body != "" && c.Body != "lines" && c.Body != "array" {
		fails("body", fmt.Errorf("want lines or array, got %.40q", c.Body))
	}
	errs = append(errs, c.notFor(SyslogKind, map[string]bool{
		"address": c.Address != "", "cert_file": c.Cert != nil, "key_file": c.Key != nil, "enterprise": c.Enterprise != 0, "require_close_notify": c.RequireCloseNotify,
	})...)
	return errs
}

// notFor names settings that only the other kind has.
func (c Config) notFor(kind string, given map[string]bool) (errs []error) {
	for _, field := range []string{"address", "url", "secret", "token", "body", "cert_file", "key_file", "enterprise", "require_close_notify"} {
		if given[field] {
			errs = append(errs, fmt.Errorf("%s: only a %s has it", field, kind))
		}
	}
	return errs
}

// addressed says what to do about an address inside the house.
func addressed(err error) error {
	if errors.Is(err, outbound.ErrForbiddenAddress) {
		return fmt.Errorf("%w: a receiver inside the house has to be in outbound_allow_private", err)
	}
	return err
}

func (c Config) client(private []netip.Prefix) outbound.Config {
	return outbound.Config{AllowPrivate: private, AllowHTTP: len(private) > 0, Timeout: c.timeout(), RootCAs: c.roots()}
}

func (c Config) roots() *x509.CertPool {
	if c.CA == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CA)
	return pool
}

func (c Config) format() string { return cmp.Or(c.Format, JSONFormat) }

func (c Config) from() string { return cmp.Or(c.From, FromNow) }

func (c Config) every() time.Duration { return cmp.Or(time.Duration(c.Every), defaultEvery) }

func (c Config) timeout() time.Duration { return cmp.Or(time.Duration(c.Timeout), defaultTimeout) }

func (c Config) batch() int {
	if c.Kind == SyslogKind {
		return cmp.Or(c.Batch, defaultSyslogBatch)
	}
	return cmp.Or(c.Batch, defaultWebhookBatch)
}

// maxEvent bounds an event's encoding; 0 where the receiver says itself what is too large.
func (c Config) maxEvent() int {
	if c.Kind == SyslogKind {
		return cmp.Or(c.MaxEvent, defaultMaxEvent) - headerSize
	}
	return c.MaxEvent
}
