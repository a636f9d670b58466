package tests

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestRuntimeRoleCannotForge: who has the programs' own database URL can
// neither change what is on record nor choose its order or time.
func TestRuntimeRoleCannotForge(t *testing.T) {
	d := onShared(t)
	a := d.agent(t).hold("forge", nil)
	d.reviewer(t, 0).approve(a)
	d.agent(t).wait(a.ID)
	pending := d.agent(t).hold("pair_forge", nil)
	d.reviewer(t, 0).approve(pending)
	untouched := d.agent(t).hold("forge", nil)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, d.RuntimeURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	before := record(t, d)
	const event = `gen_random_uuid(), 'settled', 'APPROVED', 'demo-agent', 't', NULL, '{}'`
	denied := map[string][]string{
		// insufficient_privilege, whether by missing right or by trigger
		"42501": {
			`UPDATE events SET outcome = 'ALLOW'`, `UPDATE events SET appended_at = now() - interval '1 day'`, `UPDATE events SET body = '{}'`,
			`DELETE FROM events`, `TRUNCATE events`, `TRUNCATE events CASCADE`, `SELECT * FROM events FOR UPDATE`, `DO 'BEGIN LOCK TABLE events IN ACCESS EXCLUSIVE MODE; END'`,
			`INSERT INTO events (event_id, type, outcome, agent_id, tool_name, approval_id, body) VALUES (` + event + `)`,
			`INSERT INTO events (seq, event_id, type, outcome, agent_id, tool_name, approval_id, body) OVERRIDING SYSTEM VALUE VALUES (1, ` + event + `)`,
			`INSERT INTO events (appended_at, event_id, type, outcome, agent_id, tool_name, approval_id, body) VALUES ('2020-01-01', ` + event + `)`,
			`MERGE INTO events e USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE`,
			`MERGE INTO events e USING (SELECT 1) s ON true WHEN MATCHED THEN UPDATE SET outcome = 'ALLOW'`,
			`MERGE INTO events e USING (SELECT 1) s ON false WHEN NOT MATCHED THEN INSERT (event_id, type, outcome, agent_id, tool_name, approval_id, body) VALUES (` + event + `)`,
			`COPY events (event_id, type, outcome, agent_id, tool_name, body) FROM STDIN`, `COPY events TO PROGRAM 'cat'`,
			`ALTER TABLE events DISABLE TRIGGER ALL`, `ALTER TABLE events DISABLE TRIGGER events_append_only`, `DROP TRIGGER events_append_only ON events`,
			`ALTER TABLE events DISABLE ROW LEVEL SECURITY`, `DROP TABLE events`, `ALTER TABLE events RENAME TO old_events`, `DROP INDEX events_one_settled`,
			`CREATE TRIGGER sneaky BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION append_only()`, `CREATE RULE sneaky AS ON INSERT TO events DO INSTEAD NOTHING`,
			`CREATE OR REPLACE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
			`CREATE TABLE public.events_copy AS SELECT * FROM events`, `ALTER FUNCTION append_events(uuid[], text[], text[], text[], text[], text[], bytea[]) SECURITY INVOKER`,
			`SELECT setval('events_seq_seq', 1)`, `SELECT nextval('events_seq_seq')`, `ALTER SEQUENCE events_seq_seq RESTART`,
			`SET session_replication_role = replica`, `SET ROLE holdpoint_owner`, `SET SESSION AUTHORIZATION holdpoint_owner`, `ALTER ROLE holdpoint_app SUPERUSER`,
			`CREATE ROLE helper`, `ALTER SYSTEM SET fsync = off`,

			`UPDATE facts SET yes = true`, `DELETE FROM facts`, `TRUNCATE facts`, `ALTER TABLE facts DISABLE TRIGGER ALL`, `DROP TRIGGER facts_now ON facts`,
			`INSERT INTO facts (at, approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES ('2020-01-01', '` + pending.ID + `', 'vote', 'human', 'usr_x', 'api', true, '', '')`,
			`INSERT INTO facts (seq, approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) OVERRIDING SYSTEM VALUE VALUES (1, '` + pending.ID + `', 'vote', 'human', 'usr_x', 'api', true, '', '')`,
			`MERGE INTO facts f USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE`, `SELECT setval('facts_seq_seq', 1)`,

			`DELETE FROM approvals`, `TRUNCATE approvals CASCADE`, `UPDATE approvals SET ended_at = now()`, `UPDATE approvals SET began_at = now()`, `UPDATE approvals SET opened_at = now()`,
			`UPDATE approvals SET session = 'x'`, `UPDATE approvals SET preconditions = '{}'`, `UPDATE facts SET edition = 2`, `UPDATE facts SET details = '{}'`,
			`INSERT INTO facts (edition, approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES (2, '` + pending.ID + `', 'vote', 'human', 'usr_x', 'api', true, '', '')`,
			`DELETE FROM reconciliations`, `UPDATE reconciliations SET outcome = 'failed'`, `DELETE FROM afterwards`, `UPDATE standing_grants SET expires_at = now()`,
			`UPDATE standing_grants SET max_uses = 1000`, `DELETE FROM standing_grants`, `UPDATE delegations SET until_at = now() + interval '1 year'`, `DELETE FROM delegations`,
			`UPDATE tokens SET constraints = NULL`, `DELETE FROM announcements`,
			`DELETE FROM tokens`, `UPDATE tokens SET redeemed_at = NULL`, `UPDATE tokens SET valid_until = now() + interval '1 year'`,
			`UPDATE people SET roles = '{reviewer}'`, `INSERT INTO people (id, email, name, identity, password_hash) VALUES ('usr_x', 'x@x', 'x', 'x', 'x')`,
			`UPDATE keys SET revoked_at = NULL`, `INSERT INTO agents (id, name) VALUES ('x', 'x')`, `UPDATE agents SET owner_id = NULL`, `DELETE FROM revoked_signing_keys`,
			`UPDATE sessions SET expires_at = now() + interval '1 year'`, `UPDATE installation SET id = gen_random_uuid()`, `DELETE FROM schema_migrations`,
		},
		// What it may do, the guards stop where it would be a lie.
		"23514": {
			`UPDATE approvals SET digest = 'sha256:` + strings.Repeat("0", 64) + `'`, `UPDATE approvals SET expires_at = now()`, `UPDATE approvals SET excluded = '{}'`,
			`UPDATE approvals SET requirements = '[]'`, `UPDATE approvals SET terms = '{}', decision = '{}'`, `UPDATE approvals SET sealed = ''`,
			`UPDATE approvals SET edition = edition + 1 WHERE id = '` + pending.ID + `'`, `UPDATE approvals SET edition = edition + 1, requirements = '[]' WHERE id = '` + pending.ID + `'`,
			`UPDATE approvals SET digest = 'sha256:` + strings.Repeat("0", 64) + `', edition = edition + 1 WHERE id = '` + a.ID + `'`,
			`UPDATE approvals SET status = 'pending' WHERE id = '` + a.ID + `'`, `UPDATE approvals SET status = 'denied' WHERE id = '` + a.ID + `'`,
			`UPDATE approvals SET execution = 'succeeded' WHERE id = '` + a.ID + `'`, `UPDATE installation SET key_check = '\x00'`,
			`UPDATE approvals SET execution = 'redeemed' WHERE id = '` + a.ID + `'`, `UPDATE approvals SET execution = 'redeemed' WHERE id = '` + pending.ID + `'`,
			`UPDATE approvals SET reasons = '[{"code":"OTHER","message":"x"}]' WHERE id = '` + a.ID + `'`, `UPDATE approvals SET final = '{}' WHERE id = '` + a.ID + `'`,
			`UPDATE approvals SET sealed_key = NULL WHERE id = '` + pending.ID + `'`, `UPDATE approvals SET status = 'approved' WHERE id = '` + untouched.ID + `'`,
			`INSERT INTO tokens (jti, approval_id, valid_until) VALUES ('tok_forged', '` + pending.ID + `', now() + interval '1 h')`,
			`INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) VALUES ('` + a.ID + `', 'vote', 'human', 'usr_x', 'api', false, 'never', '')`,
		},
	}
	// This one is no error, only without effect, as what follows shows.
	if _, err := conn.Exec(ctx, `GRANT UPDATE, DELETE ON events TO holdpoint_app`); err != nil {
		t.Error(err)
	}
	// Other words for the same: a role or relation that it may not even see, a
	// guard's own exception.
	alike := map[string][]string{"42501": {"0LP01", "42P01"}, "23514": {"P0001", "42501"}}
	for code, statements := range denied {
		for _, statement := range statements {
			err := attempt(ctx, conn, statement)
			var got *pgconn.PgError
			if !errors.As(err, &got) {
				t.Errorf("not denied: %s (%v)", statement, err)
			} else if got.Code != code && !slices.Contains(alike[code], got.Code) {
				t.Errorf("%s: got %s %s, want %s", statement, got.Code, got.Message, code)
			}
			if conn.IsClosed() {
				t.Fatalf("%s closed the connection", statement)
			}
		}
	}
	if after := record(t, d); after != before {
		t.Errorf("the record changed from\n%s\nto\n%s", before, after)
	}
	// Written beforehand, a terminal event would keep the approval from ending.
	var early *pgconn.PgError
	if _, err := conn.Exec(ctx, strings.Replace(appendSettled, "APPROVAL", pending.ID, 1)); !errors.As(err, &early) || early.Code != "23514" {
		t.Errorf("a terminal event of what waits: %v", err)
	}
	// The one way in gives order and time itself, and takes no second end.
	var unique *pgconn.PgError
	if _, err := conn.Exec(ctx, strings.Replace(appendSettled, "APPROVAL", a.ID, 1)); !errors.As(err, &unique) || unique.Code != "23505" {
		t.Errorf("a second terminal event: %v", err)
	}
}

// attempt runs a statement, and takes it back if it should have worked, so that
// nobody else trips over it.
func attempt(ctx context.Context, conn *pgx.Conn, statement string) error {
	if strings.HasPrefix(statement, "ALTER SYSTEM") { // not allowed in a transaction for anybody
		_, err := conn.Exec(ctx, statement)
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, statement)
	return errors.Join(err, tx.Rollback(ctx))
}

// appendSettled forges a terminal event by the one way in that there is.
const appendSettled = `SELECT append_events(ARRAY[gen_random_uuid()], ARRAY['settled'], ARRAY['APPROVED'], ARRAY['demo-agent'], ARRAY['forge'], ARRAY['APPROVAL'], ARRAY['{}'::bytea])`

// record is everything that must not change, as one text. What the workflow notes for
// itself, when it wakes next, may, and what an inbox is found by.
func record(t testing.TB, d *dev) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var text string
	err = conn.QueryRow(t.Context(), `SELECT
		(SELECT count(*) || ' events ' || md5(string_agg(seq || appended_at::text || event_id || body::text, ',' ORDER BY seq)) FROM events) ||
		(SELECT count(*) || ' facts ' || md5(string_agg(f::text, ',' ORDER BY seq)) FROM facts f) ||
		(SELECT count(*) || ' approvals ' || md5(string_agg((to_jsonb(a) - '{wake_at,revision,due_at,open_to,spoken,waits_for,claimed_by}'::text[])::text, ',' ORDER BY id)) FROM approvals a) ||
		(SELECT count(*) || ' tokens ' || md5(string_agg(x::text, ',' ORDER BY jti)) FROM tokens x) ||
		(SELECT count(*) || ' people ' || md5(string_agg(p::text, ',' ORDER BY id)) FROM people p) ||
		(SELECT count(*) || ' keys ' || md5(string_agg(k::text, ',' ORDER BY id)) FROM keys k) || (SELECT id FROM installation)`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOwnerCannotRewriteByMistake: the triggers stop even the role that owns
// the tables, unless it takes them away first.
func TestOwnerCannotRewriteByMistake(t *testing.T) {
	d := onShared(t)
	conn, err := pgx.Connect(t.Context(), d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	d.agent(t).hold("owned", nil)
	for _, statement := range []string{`UPDATE events SET outcome = 'ALLOW'`, `DELETE FROM events`, `TRUNCATE events`, `TRUNCATE facts`} {
		var got *pgconn.PgError
		if _, err := conn.Exec(t.Context(), statement); !errors.As(err, &got) || got.Code != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
