package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Only what ends by itself is waited for.
func TestOutagesThatEnd(t *testing.T) {
	for _, of := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		{&net.DNSError{Err: "no such host", Name: "db"}, true},
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
		{&pgconn.PgError{Code: "57P03"}, true},  // starting
		{&pgconn.PgError{Code: "57P01"}, true},  // told to stop
		{&pgconn.PgError{Code: "53300"}, true},  // too many connections
		{&pgconn.PgError{Code: "28P01"}, false}, // wrong password
		{&pgconn.PgError{Code: "28000"}, false}, // missing role
		{&pgconn.PgError{Code: "3D000"}, false}, // missing database
		{&pgconn.PgError{Code: "42P01"}, false}, // missing table
		{&pgconn.PgError{Code: "42501"}, false}, // missing right
		{&pgconn.PgError{Code: "57014"}, false}, // a statement took too long
		{errors.New("server refused TLS connection"), false},
		{context.Canceled, false},
	} {
		err := translate(fmt.Errorf("connect: %w", of.err))
		if got := errors.Is(err, ErrAway); got != of.want {
			t.Errorf("%v: away %t", of.err, got)
		}
		if of.want && (!errors.Is(err, ErrUnavailable) || !errors.Is(err, of.err)) {
			t.Errorf("%v became %v", of.err, err)
		}
	}
}
