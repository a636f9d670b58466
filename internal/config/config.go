// Package config reads the settings of a production process: a YAML file, if one
// is named, and HOLDPOINT_* variables, which win over it. It reports every
// mistake at once, one line each, naming the setting; and it never prints the
// value of a secret.
package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/engine/audit"
	"holdpoint/engine/canon"
	"holdpoint/engine/cosign"
	"holdpoint/engine/token"
	"holdpoint/internal/notify/webpush"
	"holdpoint/internal/seal"
	"holdpoint/internal/sso"
	"holdpoint/internal/stream"
	"holdpoint/internal/tracker"
)

// Config is every setting of a process. Fields that end in _file
// name a file that holds the setting of the same name.
type Config struct {
	Listen            string `yaml:"listen"`
	PublicURL         string `yaml:"public_url"`
	Environment       string `yaml:"environment"`
	Issuer            string `yaml:"issuer"`
	DatabaseURL       string `yaml:"database_url"`
	DatabaseURLFile   string `yaml:"database_url_file"`
	DatabaseAdminURL  string `yaml:"database_admin_url"`
	DatabaseAdminFile string `yaml:"database_admin_url_file"`
	// DatabasePeopleURL is of a login that may change accounts; "" where only commands do.
	DatabasePeopleURL  string      `yaml:"database_people_url"`
	DatabasePeopleFile string      `yaml:"database_people_url_file"`
	DatabaseConns      int         `yaml:"database_max_connections"`
	TemporalAddress    string      `yaml:"temporal_address"`
	TrustedProxies     string      `yaml:"trusted_proxies"`
	MetricsListen      string      `yaml:"metrics_listen"`
	TemporalNamespace  string      `yaml:"temporal_namespace"`
	TemporalTLS        TemporalTLS `yaml:"temporal_tls"`
	TemporalKey        string      `yaml:"temporal_api_key"`
	TemporalKeyFile    string      `yaml:"temporal_api_key_file"`
	// KMS is where the service is that has wrapped files of secrets; "" for none.
	KMS             string          `yaml:"kms"`
	DataKey         string          `yaml:"data_key"`
	DataKeyFile     string          `yaml:"data_key_file"`
	SigningKeys     string          `yaml:"signing_keys"`
	SigningKeysFile string          `yaml:"signing_keys_file"`
	SigningKeyDelay engine.Duration `yaml:"signing_key_delay"` // how long a new one is published before it signs
	TokenTTL        engine.Duration `yaml:"token_ttl"`
	TokenValidity   engine.Duration `yaml:"token_validity"`
	MaxPending      int             `yaml:"max_pending"`
	// What is answered at once: calls and bytes of one credential, bytes of all.
	MaxCallsInFlight      int             `yaml:"max_calls_in_flight"`
	MaxBytesInFlight      int             `yaml:"max_bytes_in_flight"`
	MaxBytesInFlightTotal int             `yaml:"max_bytes_in_flight_total"`
	ExecutionLease        engine.Duration `yaml:"execution_lease"`
	// Retention is how long after its end an approval is kept before what it was
	// about is erased: a duration, or "none", which keeps it.
	Retention        string `yaml:"retention"`
	LogLevel         string `yaml:"log_level"`
	LogFormat        string `yaml:"log_format"`
	PolicyFile       string `yaml:"policy_file"`
	PolicySecret     string `yaml:"policy_secret"`
	PolicySecretFile string `yaml:"policy_secret_file"`
	// FormerPolicySecret may have signed policies as well.
	FormerPolicySecret     string `yaml:"policy_secret_former"`
	FormerPolicySecretFile string `yaml:"policy_secret_former_file"`
	ContractsFile          string `yaml:"contracts_file"`
	LogKey                 string `yaml:"log_key"`
	LogKeyFile             string `yaml:"log_key_file"`
	LogPublicKey           string `yaml:"log_public_key"`
	LogPublicKeyFile       string `yaml:"log_public_key_file"`
	LogFloorFile           string `yaml:"log_floor_file"`
	LogFloorWebhook        string `yaml:"log_floor_webhook"`
	// LogWitnesses are asked to sign the audit log's checkpoints, and LogWitnessed is
	// how many of them have to have signed what is served or exported; only the file
	// has them.
	LogWitnesses []Witness        `yaml:"log_witnesses"`
	LogWitnessed int              `yaml:"log_witnessed"`
	Routing      approval.Routing `yaml:"routing"`
	// Tickets are the trackers that tickets may be of; only the file has them.
	Tickets []tracker.Config `yaml:"tickets"`
	// LogStreams are the receivers that the audit log is sent to; only the file has
	// them.
	LogStreams []stream.Config `yaml:"log_streams"`

	// SSO are the providers by which people sign in; only the file has them. With
	// SSOOnly, passwords sign in administrators alone.
	SSO     []sso.Config `yaml:"sso"`
	SSOOnly bool         `yaml:"sso_only"`
	// SecondFactorRoles are those whose people do nothing without a second factor.
	SecondFactorRoles []string `yaml:"second_factor_roles"`

	SMTP SMTP `yaml:"smtp"`
	// PushKey signs what people's browsers are pushed.
	PushKey     string `yaml:"push_key"`
	PushKeyFile string `yaml:"push_key_file"`
	// OutboundAllowPrivate are networks that are not public and may be asked all the
	// same: those of receivers inside the house.
	OutboundAllowPrivate []string `yaml:"outbound_allow_private"`

	// Pushes is PushKey, read by Check; the zero Key where there is none. PushPrivate are
	// networks whose push services are asked although they are not public: dev's own.
	Pushes      webpush.Key    `yaml:"-"`
	PushPrivate []netip.Prefix `yaml:"-"`
	// Recorded says that a start with other settings than the last one is on record: dev's is not, whose
	// ports are others each time.
	Recorded bool `yaml:"-"`
	// KeepFor is Retention, read by Check; 0 keeps all.
	KeepFor time.Duration `yaml:"-"`
	// AllowPrivate are OutboundAllowPrivate, read by Check.
	AllowPrivate []netip.Prefix `yaml:"-"`
	// Proxies are TrustedProxies, read by Check.
	Proxies []netip.Prefix `yaml:"-"`
	// Trackers are those of Tickets, made by Check; nil where there are none.
	Trackers *tracker.Trackers `yaml:"-"`
	// Sealer, Ring and Level are made of the settings above by Check.
	Sealer *seal.Sealer `yaml:"-"`
	Ring   token.Ring   `yaml:"-"`
	Level  slog.Level   `yaml:"-"`
	// ToTemporal is made of TemporalTLS by Check; nil for a connection without TLS.
	ToTemporal *tls.Config `yaml:"-"`
	// LogKeys are those of LogKey, read by Check where the process signs the audit
	// log.
	LogKeys []audit.Key `yaml:"-"`

	files     []SecretFile      `yaml:"-"` // of secrets; noted by Check
	opener    *opener           `yaml:"-"` // of what a KMS has wrapped; made by Check
	wrappedBy map[string]string `yaml:"-"` // setting → the KMS's key; made by Check
}

// Default is the configuration of somebody who says nothing.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080", Environment: "production", TemporalAddress: "127.0.0.1:7233", TemporalNamespace: "holdpoint",
		SigningKeyDelay: engine.Duration(5 * time.Minute), TokenTTL: engine.Duration(token.DefaultTTL), TokenValidity: engine.Duration(24 * time.Hour), MaxPending: 1000, MaxCallsInFlight: 128, MaxBytesInFlight: 8 << 20, MaxBytesInFlightTotal: 64 << 20, ExecutionLease: engine.Duration(15 * time.Minute),
		Retention: "none",
		LogLevel:  "info", LogFormat: "json", DatabaseConns: 16,
		Routing: approval.Routing{Default: approval.Rule{Role: "reviewer", Needed: 1, ExpiresIn: engine.Duration(24 * time.Hour), IfTooFew: "admin"}},
	}
}

// settings are the variables: HOLDPOINT_ and the setting's YAML name in capitals.
func (c *Config) settings() map[string]any {
	return map[string]any{
		"listen": &c.Listen, "public_url": &c.PublicURL, "environment": &c.Environment, "issuer": &c.Issuer,
		"database_url": &c.DatabaseURL, "database_url_file": &c.DatabaseURLFile,
		"database_admin_url": &c.DatabaseAdminURL, "database_admin_url_file": &c.DatabaseAdminFile, "database_max_connections": &c.DatabaseConns,
		"database_people_url": &c.DatabasePeopleURL, "database_people_url_file": &c.DatabasePeopleFile,
		"trusted_proxies": &c.TrustedProxies, "metrics_listen": &c.MetricsListen,
		"temporal_address": &c.TemporalAddress, "temporal_namespace": &c.TemporalNamespace,
		"temporal_tls_enabled": &c.TemporalTLS.Enabled, "temporal_tls_ca_file": &c.TemporalTLS.CAFile, "temporal_tls_cert_file": &c.TemporalTLS.CertFile,
		"temporal_tls_key_file": &c.TemporalTLS.KeyFile, "temporal_tls_server_name": &c.TemporalTLS.ServerName,
		"temporal_api_key": &c.TemporalKey, "temporal_api_key_file": &c.TemporalKeyFile,
		"kms": &c.KMS, "data_key": &c.DataKey, "data_key_file": &c.DataKeyFile, "signing_keys": &c.SigningKeys, "signing_keys_file": &c.SigningKeysFile, "signing_key_delay": &c.SigningKeyDelay,
		"token_ttl": &c.TokenTTL, "token_validity": &c.TokenValidity, "max_pending": &c.MaxPending, "max_calls_in_flight": &c.MaxCallsInFlight, "max_bytes_in_flight": &c.MaxBytesInFlight, "max_bytes_in_flight_total": &c.MaxBytesInFlightTotal, "execution_lease": &c.ExecutionLease,
		"policy_file": &c.PolicyFile, "policy_secret": &c.PolicySecret, "policy_secret_file": &c.PolicySecretFile, "policy_secret_former": &c.FormerPolicySecret, "policy_secret_former_file": &c.FormerPolicySecretFile, "contracts_file": &c.ContractsFile,
		"log_key": &c.LogKey, "log_key_file": &c.LogKeyFile, "log_public_key": &c.LogPublicKey, "log_public_key_file": &c.LogPublicKeyFile,
		"log_floor_file": &c.LogFloorFile, "log_floor_webhook": &c.LogFloorWebhook,
		"smtp_addr": &c.SMTP.Addr, "smtp_from": &c.SMTP.From, "smtp_user": &c.SMTP.User, "smtp_password": &c.SMTP.Password,
		"smtp_password_file": &c.SMTP.PasswordFile, "smtp_tls": &c.SMTP.TLS, "smtp_allow_plain": &c.SMTP.AllowPlain,
		"sso_only": &c.SSOOnly, "second_factor_roles": &c.SecondFactorRoles,
		"push_key": &c.PushKey, "push_key_file": &c.PushKeyFile,
		"outbound_allow_private": &c.OutboundAllowPrivate,
		"retention":              &c.Retention,
		"log_level":              &c.LogLevel, "log_format": &c.LogFormat,
	}
}

// Load reads the file, when path is not "", and then the variables of the
// environment, given as os.Environ gives them.
func Load(path string, environ []string) (Config, error) {
	c := Default()
	if path != "" {
		if err := c.readFile(path); err != nil {
			return c, &Unreadable{err}
		}
	}
	settings := c.settings()
	var errs []error
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		setting, ours := strings.CutPrefix(name, "HOLDPOINT_")
		// CONFIG names the file, and OPERATOR_KEY_FILE is for commands; the others are for clients, on the same machine perhaps.
		if !ours || setting == "CONFIG" || setting == "URL" || setting == "API_KEY" || setting == "WEBHOOK_SECRET" || setting == "OPERATOR_KEY_FILE" {
			continue
		}
		target, known := settings[strings.ToLower(setting)]
		if !known {
			errs = append(errs, fmt.Errorf("%s: there is no such setting%s", name, nearestName("HOLDPOINT_", setting, slices.Sorted(maps.Keys(settings)))))
			continue
		}
		if err := set(target, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return c, errors.Join(errs...)
}

// named puts the file's name before each line of an error.
func named(path string, err error) error {
	var errs []error
	for line := range strings.Lines(err.Error()) {
		errs = append(errs, fmt.Errorf("%s: %s", path, strings.TrimSuffix(line, "\n")))
	}
	return errors.Join(errs...)
}

func set(target any, value string) error {
	switch t := target.(type) {
	case *string:
		*t = value
		return nil
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return errors.New("want a whole number")
		}
		*t = n
		return nil
	case *bool:
		if value != "true" && value != "false" {
			return errors.New("want true or false")
		}
		*t = value == "true"
		return nil
	case *[]string:
		*t = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	case *engine.Duration:
		var d engine.Duration
		if err := d.UnmarshalText([]byte(value)); err != nil {
			return errors.New("want a duration such as 10m or 24h")
		}
		*t = d // what cannot be read leaves the default, of which there is nothing to say
		return nil
	}
	return fmt.Errorf("a setting of type %T cannot be read", target)
}

// tlsModes are the values of sslmode in a database's URL.
var tlsModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// minSecret is the shortest policy_secret, in characters.
const minSecret = 16

// Need says which settings a process cannot do without.
type Need uint8

// What a process needs.
const (
	Database Need = 1 << iota
	Admin         // the owner role's database URL
	Keys          // data key and signing keys
	Temporal
	HTTP
	DataKey // the data key without signing keys
	Log     // the audit log's private key
)

// Check reads the files that settings name, and returns every mistake that
// matters to a process with the given needs.
func (c *Config) Check(need Need) error {
	var errs []error
	bad := func(setting, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
	}
	c.files = c.SecretFiles()
	wrong, over := c.readSecrets()
	for _, f := range c.files {
		if e, err := Exposed(f.Path); err == nil && e.Written { // one that cannot be read is an error already
			bad(f.Setting, "everybody on this machine may write %s (%s): find out who has, then chmod 600", f.Path, e.Mode)
		}
	}
	if errs = append(errs, wrong...); over {
		return errors.Join(errs...)
	}
	postgres := func(setting, value string) {
		u, err := url.Parse(value)
		if value == "" {
			bad(setting, "it is missing: want postgres://user:password@host:port/database")
		} else if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) {
			bad(setting, "want postgres://user:password@host:port/database")
		} else if mode := u.Query().Get("sslmode"); mode != "" && !slices.Contains(tlsModes, mode) {
			bad(setting, "sslmode: want one of %s", strings.Join(tlsModes, ", "))
		}
	}
	if need&Database != 0 {
		postgres("database_url", c.DatabaseURL)
		if c.DatabaseConns < 4 || c.DatabaseConns > 500 {
			bad("database_max_connections", "want 4 to 500, got %d", c.DatabaseConns)
		}
	}
	if need&(HTTP|Temporal) != 0 && c.DatabasePeopleURL != "" {
		postgres("database_people_url", c.DatabasePeopleURL)
	}
	if need&Admin != 0 {
		postgres("database_admin_url", c.DatabaseAdminURL)
	}
	if need&Temporal != 0 {
		if _, _, err := net.SplitHostPort(c.TemporalAddress); err != nil {
			bad("temporal_address", "want host:port, got %q", c.TemporalAddress)
		}
		if c.TemporalNamespace == "" {
			bad("temporal_namespace", "it is missing")
		}
		errs = append(errs, c.temporalTLS()...)
	}
	switch {
	case need&Keys != 0:
		errs = append(errs, c.keys()...)
	case need&DataKey != 0:
		errs = append(errs, c.dataKey()...)
	}
	if need&Log != 0 {
		errs = append(errs, c.log()...)
	}
	if need&(Log|HTTP) != 0 {
		errs = append(errs, c.witnesses()...)
	}
	if need&(Temporal|HTTP) != 0 {
		errs = append(errs, c.checkNotifications(need&HTTP == 0)...)
	} else if need&DataKey != 0 {
		errs = append(errs, c.privateNetworks()...) // a command adds endpoints
	}
	if need&HTTP != 0 {
		errs = append(errs, c.http()...)
		errs = append(errs, c.sso()...)
	}
	if err := c.Level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		bad("log_level", "want debug, info, warn or error, got %q", c.LogLevel)
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		bad("log_format", "want json or text, got %q", c.LogFormat)
	}
	if strings.TrimSpace(c.Environment) == "" {
		bad("environment", "it is missing: name where approved calls run, such as production")
	}
	if c.KeepFor = 0; c.Retention != "" && c.Retention != "none" {
		var err error
		if c.KeepFor, err = time.ParseDuration(c.Retention); err != nil || c.KeepFor <= 0 {
			bad("retention", "want a duration such as 2160h (90 days), or none, which keeps all, got %q", c.Retention)
		}
	}
	errs = append(errs, c.policySecrets()...)
	if need&(Temporal|HTTP) != 0 {
		errs = append(errs, c.tickets()...)
	}
	if need&Temporal != 0 {
		errs = append(errs, c.logStreams()...)
	}
	for _, err := range c.Routing.Check() {
		errs = append(errs, fmt.Errorf("routing.%w", err))
	}
	told := slices.Clone(errs) // what cannot be read is not missing as well
	errs = slices.DeleteFunc(errs, func(err error) bool {
		name, _, missing := strings.Cut(err.Error(), ": it is missing")
		return missing && slices.ContainsFunc(told, func(other error) bool { return strings.HasPrefix(other.Error(), name+"_file: ") })
	})
	return errors.Join(errs...)
}

// tickets reads the files of tokens and makes the connectors.
func (c *Config) tickets() (errs []error) {
	names := map[string]bool{}
	for i := range c.Tickets {
		t := &c.Tickets[i]
		bad := func(err error) { errs = append(errs, fmt.Errorf("tickets[%d].%w", i, err)) }
		if names[t.Name] {
			bad(errors.New("name: another one has it already"))
		}
		names[t.Name] = true
		if t.TokenFile != "" {
			if t.Token != "" {
				bad(errors.New("token: it is given both by itself and as a file; give one"))
				continue
			}
			var err error
			if t.Token, err = c.opener.read("tickets.token", t.TokenFile); err != nil {
				bad(fmt.Errorf("token_file: %w", err))
				continue
			}
			t.TokenFile = ""
		}
		for _, err := range t.Check() {
			bad(err)
		}
	}
	if len(errs) > 0 || len(c.Tickets) == 0 {
		return errs
	}
	var err error
	if c.Trackers, err = tracker.NewTrackers(c.Tickets); err != nil {
		errs = append(errs, fmt.Errorf("tickets: %w", err))
	}
	return errs
}

// Witness is somebody who signs checkpoints of others' logs.
type Witness struct {
	URL string `yaml:"url"` // without /add-checkpoint
	Key string `yaml:"key"` // name+hash+base64

	// Verifier is made of Key by Check.
	Verifier note.Verifier `yaml:"-"`
}

// witnesses reads the witnesses' keys.
func (c *Config) witnesses() (errs []error) {
	names := map[string]bool{}
	for i := range c.LogWitnesses {
		w := &c.LogWitnesses[i]
		where := fmt.Sprintf("log_witnesses[%d]", i)
		if u, err := url.Parse(w.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("%s.url: want an address such as https://witness.example.com/w1", where))
		}
		var err error
		if w.Verifier, err = cosign.NewVerifier(w.Key); err != nil {
			errs = append(errs, fmt.Errorf("%s.key: %w", where, err))
			continue
		}
		if names[w.Verifier.Name()] {
			errs = append(errs, fmt.Errorf("%s.key: another witness has the name %q already", where, w.Verifier.Name()))
		}
		names[w.Verifier.Name()] = true
	}
	if c.LogWitnessed < 0 || c.LogWitnessed > len(c.LogWitnesses) {
		errs = append(errs, fmt.Errorf("log_witnessed: want 0 to the number of log_witnesses (%d), got %d", len(c.LogWitnesses), c.LogWitnessed))
	}
	return errs
}

// log reads what the audit log is signed with and where its floor is.
func (c *Config) log() (errs []error) {
	var err error
	if c.LogKey == "" {
		errs = append(errs, errors.New("log_key: it is missing: holdpoint key log FILE makes one"))
	} else if c.LogKeys, err = audit.ParseKeys(c.LogKey); err != nil {
		errs = append(errs, fmt.Errorf("log_key: %w", err))
	}
	if c.LogFloorWebhook != "" {
		if u, err := url.Parse(c.LogFloorWebhook); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			errs = append(errs, errors.New("log_floor_webhook: want an address such as https://keeper.example.com/checkpoints"))
		}
	}
	return errs
}

func (c *Config) http() (errs []error) {
	if c.LogPublicKey != "" {
		if _, err := audit.ParseVerifiers(c.LogPublicKey); err != nil {
			// Not what it is instead: it may well be the private one.
			errs = append(errs, errors.New("log_public_key: want name+hash+base64, as holdpoint key log writes it in FILE.pub beside the key"))
		}
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen: want host:port, got %q", c.Listen))
	}
	if _, _, err := net.SplitHostPort(c.MetricsListen); c.MetricsListen != "" && err != nil {
		errs = append(errs, fmt.Errorf("metrics_listen: want host:port, got %q", c.MetricsListen))
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case c.PublicURL == "":
		errs = append(errs, errors.New("public_url: it is missing: want the address under which people reach the console, such as https://holdpoint.example.com"))
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		errs = append(errs, errors.New("public_url: want scheme and host only, such as https://holdpoint.example.com"))
	case u.Scheme == "http" && !loopback(u.Hostname()):
		errs = append(errs, errors.New("public_url: people sign in there, so it must be https (http is for loopback only)"))
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.Issuer = cmp.Or(c.Issuer, c.PublicURL)
	for _, text := range strings.FieldsFunc(c.TrustedProxies, func(r rune) bool { return r == ',' || r == ' ' }) {
		prefix, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("trusted_proxies: want addresses or networks such as 10.0.0.0/8, got %q", text))
			continue
		}
		c.Proxies = append(c.Proxies, prefix.Masked())
	}
	if ttl := time.Duration(c.TokenTTL); ttl < time.Second || ttl > token.MaxTTL {
		errs = append(errs, fmt.Errorf("token_ttl: want 1s to %s, got %s", token.MaxTTL, ttl))
	}
	if validity := time.Duration(c.TokenValidity); validity < time.Duration(c.TokenTTL) || validity > approval.MaxExpiresIn {
		errs = append(errs, fmt.Errorf("token_validity: want token_ttl (%s) to %s, got %s", time.Duration(c.TokenTTL), approval.MaxExpiresIn, validity))
	}
	if delay := time.Duration(c.SigningKeyDelay); delay < 0 || delay > token.MaxTTL {
		errs = append(errs, fmt.Errorf("signing_key_delay: want 0s to %s, got %s", token.MaxTTL, delay))
	}
	if lease := time.Duration(c.ExecutionLease); lease < time.Second || lease > 24*time.Hour {
		errs = append(errs, fmt.Errorf("execution_lease: want 1s to 24h, got %s", lease))
	}
	if c.MaxPending < 1 {
		errs = append(errs, fmt.Errorf("max_pending: want at least 1, got %d", c.MaxPending))
	}
	if c.MaxCallsInFlight < 1 {
		errs = append(errs, fmt.Errorf("max_calls_in_flight: want at least 1, got %d", c.MaxCallsInFlight))
	}
	if c.MaxBytesInFlight < canon.MaxBytes {
		errs = append(errs, fmt.Errorf("max_bytes_in_flight: want at least one body of %d bytes, got %d", canon.MaxBytes, c.MaxBytesInFlight))
	}
	if c.MaxBytesInFlightTotal < c.MaxBytesInFlight {
		errs = append(errs, fmt.Errorf("max_bytes_in_flight_total: want at least max_bytes_in_flight (%d), got %d", c.MaxBytesInFlight, c.MaxBytesInFlightTotal))
	}
	return errs
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Hosts are the host names under which the server may be asked: its public one
// and, when it listens on loopback only, those of loopback. Nil means any: a
// server on a public address is asked under names that its proxy knows.
func (c *Config) Hosts() []string {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || !loopback(host) {
		return nil
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", host}
	if u, err := url.Parse(c.PublicURL); err == nil {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}

// Remote is the address of whoever made a request, for counting attempts: the
// connection's, or, when that is a trusted proxy's, the last one in
// X-Forwarded-For that is none. Of an IPv6 address it is the network of 64 bits,
// which is one customer's.
func (c *Config) Remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	hops := append(strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ","), host)
	for _, hop := range slices.Backward(hops) {
		addr, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break // nobody whom we trust wrote that
		}
		addr = addr.Unmap().WithZone("")
		host = addr.String()
		if addr.Is6() {
			host = netip.PrefixFrom(addr, 64).Masked().String()
		}
		if !slices.ContainsFunc(c.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			break
		}
	}
	return host
}

// Secure reports whether people reach the console over TLS.
func (c *Config) Secure() bool { return strings.HasPrefix(c.PublicURL, "https://") }
