package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ListQuery says which rows of a report are wanted.
type ListQuery struct {
	List         string    // its name, of reportLists
	Since, Until time.Time // Until is not in it
	// After is Listing.Next of the page before; "" for the first page.
	After string
	Limit int
	// PersonID is the id of whom the rows are about; "" is everybody. It is for lists with
	// ListOfPeople only.
	PersonID string
	// Admin and Auditor are the roles that administer and that read everything.
	Admin, Auditor string
}

// Listing is a page of a report that is a list.
type Listing struct {
	// Columns name the cells. Times are RFC 3339 in UTC, and what is not known is "".
	Columns []string
	Rows    [][]string
	Next    string // "" where there are no more
	// Places are cursors: for each row, where a page begins that goes on behind it.
	Places []string
}

// List is a page of a report. A cursor that is not one of ours, and the name of no
// report, are ErrNotFound.
func (s Reports) List(ctx context.Context, q ListQuery) (Listing, error) {
	var found Listing
	sql, known := reportLists[q.List]
	at, key, err := parseListPlace(q.After, q.Since)
	if !known || err != nil {
		return found, ErrNotFound
	}
	err = s.reading(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT * FROM (`+sql+`) AS listed WHERE `+inTheirPlace+ofPerson(q)+` ORDER BY at, key LIMIT $7`,
			q.Since, q.Until, at, key, q.Admin, q.Auditor, q.Limit+1, q.PersonID)
		if err != nil {
			return err
		}
		defer rows.Close()
		for i, f := range rows.FieldDescriptions() { // none where Postgres refuses, which rows.Err says
			if i >= 2 {
				found.Columns = append(found.Columns, f.Name)
			}
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return err
			}
			if len(found.Rows) == q.Limit {
				found.Next = found.Places[q.Limit-1]
				break
			}
			row := make([]string, len(values)-2)
			for i, v := range values[2:] {
				row[i] = cell(v)
			}
			found.Rows, found.Places = append(found.Rows, row), append(found.Places, listPlace(values[0], values[1]))
		}
		rows.Close()
		return rows.Err()
	})
	return found, translate(err)
}

// CountList is how many rows a report has, up to most; one more stands for more.
func (s Reports) CountList(ctx context.Context, q ListQuery, most int) (n int, err error) {
	sql, known := reportLists[q.List]
	if !known {
		return 0, ErrNotFound
	}
	err = s.reading(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM (`+sql+`) AS listed WHERE `+inTheirPlace+ofPerson(q)+` LIMIT $7) AS first_rows`,
			q.Since, q.Until, q.Since, "", q.Admin, q.Auditor, most+1, q.PersonID).Scan(&n)
	})
	return n, translate(err)
}

// inTheirPlace are the rows after a cursor. Each of reportLists takes of the parameters
// what it needs: the period ($1, $2), where the page begins ($3), the two roles ($5, $6).
const inTheirPlace = `(at, key) > ($3::timestamptz, $4::text) AND $1::timestamptz <= $3 AND $1 < $2::timestamptz AND $5::text <> $6::text`

// ListOfPeople reports whether each row of a list names people by whom the list can be narrowed.
func ListOfPeople(list string) bool { return reportPeople[list] != "" }

// ofPerson narrows a list to rows about the person ($8).
func ofPerson(q ListQuery) string {
	column := reportPeople[q.List]
	if column == "" {
		return ` AND $8::text IS NOT NULL`
	}
	return ` AND ($8::text = '' OR $8 = ANY (string_to_array(listed.` + column + `, ', ')))`
}

// reading runs what a report reads, of one moment, which may take longer than what
// calls wait for.
func (s Reports) reading(ctx context.Context, read func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, reportTimeout.Milliseconds())); err != nil {
			return err
		}
		return read(ctx, tx)
	})
}

// cell writes a value of a report.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case float64:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return fmt.Sprint(v)
}

// listPlace is the cursor of a row's key and time.
func listPlace(key, at any) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cell(at) + " " + cell(key)))
}

// parseListPlace reads a cursor of listPlace; "" is before everything from since on.
func parseListPlace(cursor string, since time.Time) (at time.Time, key string, err error) {
	if cursor == "" {
		return since, "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	stamp, key, ok := strings.Cut(string(raw), " ")
	if err != nil || !ok || len(key) > 300 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return at, "", ErrNotFound
	}
	at, err = time.Parse(time.RFC3339Nano, stamp)
	if err != nil || at.Before(since) || at.Year() > 9999 {
		return at, "", ErrNotFound
	}
	return at, key, nil
}
