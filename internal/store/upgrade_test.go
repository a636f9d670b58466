package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"holdpoint/internal/postgres/pgtest"
	"holdpoint/migrations"
)

// baseline is the last migration of version 0.1.0.
const baseline = 9

// TestUpgrade takes a database with data in every table from the baseline to the
// newest migration and one further. All rows are kept, what waits goes on, and
// triggers and rights refuse what they refused.
func TestUpgrade(t *testing.T) {
	ctx := context.Background()
	url := pgtest.Database(t)
	conn := connect(t, url)
	migrate(t, url, migrations.FS, baseline)
	data, err := os.ReadFile("testdata/baseline.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(ctx, string(data)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, conn)

	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		body, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: body}
	}
	later, err := os.ReadFile("testdata/later.sql")
	if err != nil {
		t.Fatal(err)
	}
	last := len(names) + 1
	files[fmt.Sprintf("%05d_later.sql", last)] = &fstest.MapFile{Data: later}
	migrate(t, url, files, int64(last))

	// A migration may ask for another look at what waits, and adds nothing else.
	var looks int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`).Scan(&looks); err != nil {
		t.Fatal(err)
	}
	for table, rows := range before {
		var lost, count int
		if err := conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FILTER (WHERE NOT EXISTS (
				SELECT FROM %[1]s now WHERE (SELECT jsonb_object_agg(name, to_jsonb(now)->name) FROM jsonb_object_keys(was) name) = was)), (SELECT count(*) FROM %[1]s)
			FROM unnest($1::jsonb[]) was`, table), rows).Scan(&lost, &count); err != nil || lost > 0 || count != len(rows) {
			if table == "outbox" && lost == 0 && count == len(rows)+looks {
				continue
			}
			t.Errorf("%s: %d of %d rows are not as they were, and there are %d: %v", table, lost, len(rows), count, err)
		}
	}
	for _, test := range []struct{ role, code, statement string }{
		{"holdpoint_runtime", "42501", `UPDATE events SET outcome = 'ALLOW'`},
		{"holdpoint_runtime", "42501", `DELETE FROM facts`},
		{"holdpoint_runtime", "42501", `UPDATE approvals SET erased_at = now()`},
		{"holdpoint_runtime", "42501", `UPDATE standing_grants SET sealed_key = NULL`},
		{"holdpoint_runtime", "42501", `DELETE FROM schema_migrations`},
		{"holdpoint_runtime", "HPK01", `SELECT append_events('{00000000-0000-4000-8000-00000000000a}', '{decision}', '{ALLOW}', '{stopped}', '{t}', '{""}', '{"{}"}')`},
		{"holdpoint_runtime", "HPE01", `SELECT erase_approval('apr_ran', 'usr_olga', 'held', gen_random_uuid())`},
		{"holdpoint_runtime", "HPK02", `SELECT advance_log(0, sha256(''), sha256('x'), '{6}', '{""}', '{}', '{}', '{}', '')`},
		{"holdpoint_reader", "42501", `SELECT sealed FROM approvals`},
		{"holdpoint_reader", "42501", `SELECT password_hash FROM people`},
		{"NONE", "42501", `UPDATE events SET outcome = 'ALLOW'`},
		{"NONE", "42501", `UPDATE facts SET comment = 'another'`},
		{"NONE", "42501", `DELETE FROM log_entries`},
		{"NONE", "42501", `UPDATE erasures SET reason = 'another'`},
		{"NONE", "42501", `UPDATE cards SET sealed = 'another'`},
		{"NONE", "23514", `UPDATE approvals SET status = 'denied' WHERE id = 'apr_ran'`},
		{"NONE", "23514", `UPDATE approvals SET sealed_key = NULL WHERE id = 'apr_waits'`},
		{"NONE", "23514", `UPDATE tokens SET redeemed_by = 'another' WHERE jti = 'tok_ran'`},
		{"NONE", "23514", `UPDATE totp_factors SET last_step = 1`},
		{"NONE", "23514", `UPDATE people SET erased_at = NULL WHERE id = 'usr_gone'`},
		{"NONE", "23505", `SELECT append_events('{00000000-0000-4000-8000-00000000000a}', '{settled}', '{REJECTED}', '{bot}', '{t}', '{apr_ran}', '{"{}"}')`},
	} {
		_, err := conn.PgConn().Exec(ctx, "BEGIN; SET LOCAL ROLE "+test.role+"; "+test.statement+"; ROLLBACK").ReadAll()
		var got *pgconn.PgError
		if !errors.As(err, &got) || got.Code != test.code {
			t.Errorf("%s as %s: got %v, want %s", test.statement, test.role, err, test.code)
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.PgConn().Exec(ctx, `BEGIN; SET LOCAL ROLE holdpoint_runtime;
		INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES ('apr_waits', 'vote', 'human', 'usr_ada', 'console', true, '', '');
		UPDATE approvals SET status = 'approved', department = 'accounting' WHERE id = 'apr_waits';
		SELECT append_events('{00000000-0000-4000-8000-00000000000a}', '{settled}', '{APPROVED}', '{bot}', '{t}', '{apr_waits}', '{"{}"}');
		INSERT INTO tokens (jti, approval_id, valid_until) VALUES ('tok_waits', 'apr_waits', now() + interval '1 hour');
		UPDATE tokens SET redeemed_by = 'key_bot' WHERE jti = 'tok_waits';
		UPDATE approvals SET execution = 'redeemed' WHERE id = 'apr_waits';
		UPDATE afterwards SET person_id = 'usr_ada', justified = true WHERE approval_id = 'apr_glass';
		UPDATE standing_grants SET uses = 1;
		UPDATE delegations SET revoked_at = now();
		SELECT advance_log(size, root, sha256('more'), (SELECT array_agg(e.seq ORDER BY e.seq) FROM events e WHERE e.seq > h.seq), '{"", "", ""}', '{}', '{}', '{}', '') FROM log_head h;
		COMMIT`).ReadAll(); err != nil {
		t.Errorf("what waited does not go on: %v", err)
	}
}

func migrate(t *testing.T, url string, files fs.FS, to int64) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versionTable))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(context.Background(), to); err != nil {
		t.Fatal(err)
	}
}

// contents are the rows of every table but that of the migrations. A table without
// any is an error of testdata/baseline.sql.
func contents(t *testing.T, conn *pgx.Conn) map[string][]string {
	t.Helper()
	ctx := context.Background()
	rows, err := conn.Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> $1`, versionTable)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, table := range tables {
		rows, err := conn.Query(ctx, `SELECT to_jsonb(t)::text FROM `+table+` t`)
		if err != nil {
			t.Fatal(err)
		}
		if all[table], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(all[table]) == 0 {
			t.Errorf("%s has no data: %v", table, err)
		}
	}
	return all
}
