package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/internal/postgres/pgtest"
)

// certified is a certificate in PEM with its key: its own authority's, where by is nil.
func certified(t *testing.T, by *x509.Certificate, byKey *ecdsa.PrivateKey, host string) (cert *x509.Certificate, key *ecdsa.PrivateKey, certPEM, keyPEM string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(host); ip != nil {
		of.IPAddresses = []net.IP{ip}
	} else if by != nil {
		of.DNSNames = []string{host}
	}
	if by == nil {
		by, byKey = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, byKey)
	must(err)
	cert, err = x509.ParseCertificate(der)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	return cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// TestPostgresByTLS: with each sslmode, against a server that speaks TLS, a connection is as safe
// as the mode says, and what is wrong is told in one line: a wrong password as such.
func TestPostgresByTLS(t *testing.T) {
	server := pgtest.Server(t)
	admin := connect(t, server.SuperuserURL("postgres"))
	run := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ca, caKey, caPEM, _ := certified(t, nil, nil, "ours")
	_, _, otherPEM, _ := certified(t, nil, nil, "others")
	dir := t.TempDir()
	ours, others := filepath.Join(dir, "ours.pem"), filepath.Join(dir, "others.pem")
	for path, text := range map[string]string{ours: caPEM, others: otherPEM} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to, err := url.Parse(server.SuperuserURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	through := func(query string, change func(*url.URL)) string {
		u := *to
		u.RawQuery = query
		if change != nil {
			change(&u)
		}
		return u.String()
	}
	// serving has the server use a certificate for the host; its own user writes the files.
	serving := func(host string) {
		t.Helper()
		_, _, certPEM, keyPEM := certified(t, ca, caKey, host)
		for file, text := range map[string]string{"tls.crt": certPEM, "tls.key": keyPEM} {
			run(`COPY (SELECT unnest(string_to_array('` + strings.TrimSpace(text) + `', E'\n'))) TO PROGRAM 'umask 077; cat > ` + file + `'`)
		}
		run(`ALTER SYSTEM SET ssl_cert_file = 'tls.crt'`)
		run(`ALTER SYSTEM SET ssl_key_file = 'tls.key'`)
		run(`ALTER SYSTEM SET ssl = on`)
		run(`SELECT pg_reload_conf()`)
		// The server reads them when it gets to it: until then it has none, or the former one.
		for deadline := time.After(20 * time.Second); ; {
			conn, err := pgx.Connect(t.Context(), through("sslmode=verify-full&sslrootcert="+ours, nil))
			if err == nil {
				_ = conn.Close(t.Context())
			}
			if (err == nil) == (host == to.Hostname()) {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-deadline:
				t.Fatalf("the server has not taken the certificate of %s: %v", host, err)
			}
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{`ALTER SYSTEM RESET ssl`, `ALTER SYSTEM RESET ssl_cert_file`, `ALTER SYSTEM RESET ssl_key_file`, `SELECT pg_reload_conf()`} {
			if _, err := admin.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	wrong := func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "secret-word") }
	try := func(query string, change func(*url.URL), want string) {
		t.Helper()
		s, err := Open(t.Context(), Config{URL: through(query, change)})
		if err != nil {
			if want == "" || want == "plain" || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret-word") {
				t.Errorf("%s: %v, want %q", query, err, want)
			}
			return
		}
		defer s.Close()
		var encrypted bool
		if err := s.pool.QueryRow(t.Context(), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&encrypted); err != nil || want != "" && want != "plain" || encrypted == (want == "plain") {
			t.Errorf("%s: connected, encrypted %t (%v), want %q", query, encrypted, err, want)
		}
	}
	serving("127.0.0.1")
	try("sslmode=disable", nil, "plain")
	try("sslmode=allow", nil, "plain")
	try("sslmode=prefer", nil, "")
	try("sslmode=require", nil, "")
	try("sslmode=verify-ca&sslrootcert="+ours, nil, "")
	try("sslmode=verify-full&sslrootcert="+ours, nil, "")
	try("sslmode=verify-ca&sslrootcert="+others, nil, "certificate signed by unknown authority")
	try("sslmode=verify-full&sslrootcert="+others, nil, "certificate signed by unknown authority")
	try("sslmode=verify-full", nil, "certificate signed by unknown authority") // by the machine's own
	for _, mode := range []string{"disable", "allow", "prefer", "require", "verify-full&sslrootcert=" + ours} {
		try("sslmode="+mode, wrong, "password authentication failed for user")
	}
	serving("db.example.com")
	try("sslmode=verify-ca&sslrootcert="+ours, nil, "")
	try("sslmode=verify-full&sslrootcert="+ours, nil, "certificate")
}
