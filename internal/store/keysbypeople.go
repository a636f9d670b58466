package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
)

// Issue stores a key that an administrator makes in the console, as Change changes an
// account: may is told, under the lock that every change of an account holds, whether by is
// an enabled account with the role that administers. ErrNotFound: there is no such agent for which by answers.
func (s Keys) Issue(ctx context.Context, k Key, by, adminRole string, may func(administers bool) error, e engine.Event) error {
	return s.byPeople(ctx, by, adminRole, may, e, `INSERT INTO keys (id, agent_id, kind, secret_hash, scopes, max_state, label, expires_at)
		SELECT $1, nullif($2::text, ''), $3, $4::bytea, $5::text[], $6, $7, $8::timestamptz WHERE $2::text = '' OR EXISTS (SELECT FROM agents WHERE id = $2::text AND disabled_at IS NULL AND revoked_at IS NULL AND owner_id = $9)`,
		k.ID, k.AgentID, k.Kind, k.SecretHash, k.Scopes, k.MaxState, k.Label, k.ExpiresAt, by)
}

// Withdraw is Revoke by an administrator, as Issue stores a key.
func (s Keys) Withdraw(ctx context.Context, id, by, adminRole string, may func(administers bool) error, e engine.Event) error {
	return s.byPeople(ctx, by, adminRole, may, e, `UPDATE keys SET revoked_at = clock_timestamp() WHERE id = $1 AND revoked_at IS NULL`, id)
}

func (s Keys) byPeople(ctx context.Context, by, adminRole string, may func(bool) error, e engine.Event, sql string, args ...any) error {
	_, err := administerOn(ctx, s.db, s.writesPeople(), nil, func(ctx context.Context, tx pgx.Tx) (Done, engine.Event, error) {
		var now LockedAccount
		err := lockPeople(ctx, tx)
		if err == nil {
			err = whoChanges(ctx, tx, &now, by, adminRole)
		}
		if err == nil {
			err = may(now.ByAdministers)
		}
		if err != nil {
			return Done{}, e, err
		}
		tag, err := tx.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			return Done{}, e, ErrNotFound
		}
		return Done{}, e, translate(err)
	})
	return err
}
