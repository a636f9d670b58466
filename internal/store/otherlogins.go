package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// OtherLogin is a login of Postgres that is none of the programs', and may connect to this database.
type OtherLogin struct {
	Name string
	// Locks says that it may hold the advisory locks by which the programs take turns.
	Locks bool
	// Unlimited says that it may take all connections that the server has.
	Unlimited bool
}

// maxOtherLogins is how many are read at most.
const maxOtherLogins = 100

// OtherLogins lists the logins that are no superusers, are not the owner's, and are no members of the roles of serve
// and worker, by name.
func (s *Store) OtherLogins(ctx context.Context) ([]OtherLogin, error) {
	return collect(ctx, s.db, pgx.RowToStructByPos[OtherLogin], `SELECT r.rolname, has_function_privilege(r.oid, 'pg_advisory_lock(bigint)', 'EXECUTE'), r.rolconnlimit < 0
		FROM pg_roles r
		WHERE r.rolcanlogin AND NOT r.rolsuper AND has_database_privilege(r.oid, current_database(), 'CONNECT')
		  AND NOT pg_has_role(r.oid, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'events'::regclass), 'MEMBER')
		  AND NOT EXISTS (SELECT FROM pg_roles g WHERE g.rolname IN ('holdpoint_runtime', 'holdpoint_people') AND pg_has_role(r.oid, g.oid, 'MEMBER'))
		ORDER BY r.rolname LIMIT $1`, maxOtherLogins)
}
