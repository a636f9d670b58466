package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"holdpoint/internal/config"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key, a.file, _ = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue makes a certificate, its key, and a file of each.
func (a *authority) issue(name string, of *x509.Certificate) (cert *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string) {
	a.t.Helper()
	must := func(err error) {
		if err != nil {
			a.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	of.SerialNumber, of.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := of, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, signer)
	must(err)
	cert, err = x509.ParseCertificate(der)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	must(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key, certFile, keyFile
}

// tlsFrontend is a frontend that knows one namespace, and asks for an API key if it has one.
type tlsFrontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	key string
}

func (tlsFrontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (g tlsFrontend) DescribeNamespace(ctx context.Context, _ *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if got := strings.Join(md.Get("authorization"), ","); g.key != "" && got != "Bearer "+g.key {
		return nil, status.Error(codes.PermissionDenied, "Request unauthorized.")
	}
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

// TestTemporalByTLS asks a frontend behind a real TLS listener that demands a
// certificate: what is right works, and what is wrong is told in one line.
func TestTemporalByTLS(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	_, _, serverCert, serverKey := ours.issue("temporal.example.com", &x509.Certificate{DNSNames: []string{"temporal.example.com"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	client := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	_, _, clientCert, clientKey := ours.issue("worker", client)
	_, _, foreignCert, foreignKey := others.issue("worker", client)
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})))
	workflowservice.RegisterWorkflowServiceServer(server, tlsFrontend{key: "the key"})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	right := config.TemporalTLS{CAFile: ours.file, CertFile: clientCert, KeyFile: clientKey, ServerName: "temporal.example.com"}
	with := func(change func(*config.TemporalTLS)) config.TemporalTLS {
		c := right
		change(&c)
		return c
	}
	for name, of := range map[string]struct {
		tls  config.TemporalTLS
		key  string
		want string // of the error; "" for none
	}{
		"all is right":           {right, "the key", ""},
		"another key":            {right, "another", "temporal_api_key"},
		"no key":                 {right, "", "temporal_api_key"},
		"another authority":      {with(func(c *config.TemporalTLS) { c.CAFile = others.file }), "the key", "certificate signed by unknown authority"},
		"the system's":           {with(func(c *config.TemporalTLS) { c.CAFile = "" }), "the key", "certificate signed by unknown authority"},
		"another name":           {with(func(c *config.TemporalTLS) { c.ServerName = "" }), "the key", "certificate"},
		"no certificate":         {with(func(c *config.TemporalTLS) { c.CertFile, c.KeyFile = "", "" }), "the key", "temporal_tls.cert_file"},
		"another's certificate":  {with(func(c *config.TemporalTLS) { c.CertFile, c.KeyFile = foreignCert, foreignKey }), "the key", "temporal_tls.cert_file"},
		"without TLS altogether": {config.TemporalTLS{}, "", "is temporal_tls missing?"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.TemporalAddress, cfg.TemporalTLS, cfg.TemporalKey = listener.Addr().String(), of.tls, of.key
			if err := cfg.Check(config.Temporal); err != nil {
				t.Fatal(err)
			}
			c, err := temporalClient(cfg, slog.New(slog.DiscardHandler), noop.NewTracerProvider())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: cfg.TemporalNamespace})
			err = temporalCause(cfg, err)
			if of.want == "" && err != nil || of.want != "" && (err == nil || !strings.Contains(err.Error(), of.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v, want %q", err, of.want)
			}
		})
	}

	for name, of := range map[string]struct {
		tls  config.TemporalTLS
		want string
	}{
		"no file":              {with(func(c *config.TemporalTLS) { c.CAFile = "/nowhere" }), "temporal_tls.ca_file: open /nowhere"},
		"no certificate":       {with(func(c *config.TemporalTLS) { c.CAFile = clientKey }), "temporal_tls.ca_file: it has no certificate in PEM"},
		"half":                 {with(func(c *config.TemporalTLS) { c.KeyFile = "" }), "give both"},
		"not its key":          {with(func(c *config.TemporalTLS) { c.KeyFile = foreignKey }), "temporal_tls.cert_file: tls: private key does not match"},
		"key and cert swapped": {with(func(c *config.TemporalTLS) { c.CertFile, c.KeyFile = clientKey, clientCert }), "temporal_tls.cert_file:"},
	} {
		cfg := config.Default()
		cfg.TemporalTLS = of.tls
		if err := cfg.Check(config.Temporal); err == nil || !strings.Contains(err.Error(), of.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, of.want)
		}
	}
}
