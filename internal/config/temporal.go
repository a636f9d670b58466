package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TemporalTLS says how the connection to Temporal is encrypted. It is, when any of it, or
// an API key, is set.
type TemporalTLS struct {
	// Enabled is for a server that needs nothing else: the system's authorities vouch
	// for it.
	Enabled bool `yaml:"enabled"`
	// CAFile has the authorities that the server's certificate is of, instead.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile say who this process is.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is whom the server's certificate names, when that is not the address.
	ServerName string `yaml:"server_name"`
}

// temporalTLS reads the files.
func (c *Config) temporalTLS() (errs []error) {
	of := c.TemporalTLS
	c.ToTemporal = nil
	if of == (TemporalTLS{}) && c.TemporalKey == "" {
		return nil
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: of.ServerName}
	if of.CAFile != "" {
		text, err := os.ReadFile(of.CAFile)
		if made.RootCAs = x509.NewCertPool(); err != nil {
			errs = append(errs, fmt.Errorf("temporal_tls.ca_file: %w", err))
		} else if !made.RootCAs.AppendCertsFromPEM(text) {
			errs = append(errs, errors.New("temporal_tls.ca_file: it has no certificate in PEM"))
		}
	}
	switch {
	case (of.CertFile == "") != (of.KeyFile == ""):
		errs = append(errs, errors.New("temporal_tls: cert_file and key_file go together: give both"))
	case of.CertFile != "":
		// They are read again for each connection: certificates are short-lived.
		load := func() (*tls.Certificate, error) {
			cert, err := os.ReadFile(of.CertFile)
			if err != nil {
				return nil, err
			}
			key, err := c.opener.read("temporal_tls.key", of.KeyFile)
			if err != nil {
				return nil, err
			}
			pair, err := tls.X509KeyPair(cert, []byte(key))
			return &pair, err
		}
		if _, err := load(); err != nil {
			errs = append(errs, fmt.Errorf("temporal_tls.cert_file: %w", err))
		}
		made.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	if len(errs) == 0 {
		c.ToTemporal = made
	}
	return errs
}
