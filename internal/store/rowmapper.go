package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// column pairs a name with the field that it is read into, or written from, as a
// pointer. Where it is only read, the name may be an expression.
type column struct {
	name  string
	field any
}

// columns are those of a row. Each kind of row writes them down once; statements
// take their names and their fields from there, so that nothing counts on an order.
type columns []column

func (c columns) fields() []any {
	fields := make([]any, len(c))
	for i := range c {
		fields[i] = c[i].field
	}
	return fields
}

func (c columns) names() string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].name
	}
	return strings.Join(names, ", ")
}

// insert is the statement that adds a row to a table; its parameters are the fields.
func (c columns) insert(table string) string {
	parameters := make([]string, len(c))
	for i := range c {
		parameters[i] = fmt.Sprintf("$%d", i+1)
	}
	return `INSERT INTO ` + table + ` (` + c.names() + `) VALUES (` + strings.Join(parameters, ", ") + `)`
}

// rowsOf reads rows of one kind into values of type T.
type rowsOf[T any] struct {
	names string // what a SELECT lists
	of    func(*T) columns
}

func newRows[T any](of func(*T) columns) rowsOf[T] { return rowsOf[T]{of(new(T)).names(), of} }

// one reads a row; more are fields for what a SELECT lists behind the names.
func (r rowsOf[T]) one(row pgx.Row, more ...any) (T, error) {
	var v T
	err := row.Scan(append(r.of(&v).fields(), more...)...)
	return v, translate(err)
}

// all reads every row of a query's result.
func (r rowsOf[T]) all(rows pgx.Rows, err error) ([]T, error) {
	if err != nil {
		return nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return r.one(row) })
	return list, translate(err)
}

// query reads every row that a statement returns.
func (r rowsOf[T]) query(ctx context.Context, s *db, sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return r.all(s.pool.Query(ctx, sql, args...))
}

// queryOne reads the one row that a statement returns. ErrNotFound: it returned none.
func (r rowsOf[T]) queryOne(ctx context.Context, s *db, sql string, args ...any) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return r.one(s.pool.QueryRow(ctx, sql, args...))
}

// collect reads every row that a statement returns, by scan.
func collect[T any](ctx context.Context, s *db, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, translate(err)
	}
	list, err := pgx.CollectRows(rows, scan)
	return list, translate(err)
}

// into reads every row of a query in a batch.
func (r rowsOf[T]) into(list *[]T) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*list, err = r.all(rows, nil)
		return err
	}
}

// zeroTime is the field of a time that is zero where the column is NULL.
type zeroTime struct{ *time.Time }

// ScanTimestamptz is called by pgx.
func (z zeroTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	*z.Time = v.Time
	return nil
}

// inUTC makes a connection read times as UTC, whatever this machine's zone is.
func inUTC(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}})
}
