package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdpoint/engine"
	"holdpoint/engine/registry"
)

// Snapshot reads everything that is registered, as it is at one moment.
func (s Registry) Snapshot(ctx context.Context) (*registry.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var snap *registry.Snapshot
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows := &pgx.Batch{}
		snap = queueRegistry(rows)
		return tx.SendBatch(ctx, rows).Close()
	})
	return snap, translate(err)
}

// queueRegistry reads everything that is registered.
func queueRegistry(rows *pgx.Batch) *registry.Snapshot {
	snap := &registry.Snapshot{
		Settings: registry.DefaultSettings(), Agents: map[string]registry.Agent{}, Tools: map[string]registry.Tool{}, Kills: map[string]registry.Kill{},
	}
	rows.Queue(`SELECT body FROM settings`).Query(each(func(row pgx.Rows) error {
		var body []byte
		if err := row.Scan(&body); err != nil {
			return err
		}
		return decode("the settings", body, &snap.Settings)
	}))
	rows.Queue(`SELECT a.id, a.name, coalesce(p.email, ''), a.profile, coalesce(a.revoked_at, a.disabled_at)
		FROM agents a LEFT JOIN people p ON p.id = a.owner_id WHERE a.id <> $1`, RulesAgent).Query(each(func(row pgx.Rows) error {
		a, err := scanAgent(row)
		snap.Agents[a.ID] = a
		return err
	}))
	rows.Queue(`SELECT name, profile, revoked_at FROM tools`).Query(each(func(row pgx.Rows) error {
		t, err := scanTool(row)
		snap.AddTool(t)
		return err
	}))
	rows.Queue(`SELECT ` + killRows.names + ` FROM kill_switches`).Query(each(func(row pgx.Rows) error {
		k, err := killRows.one(row)
		snap.Kills[k.AgentID] = k
		return err
	}))
	return snap
}

// each reads every row with scan.
func each(scan func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func decode(what string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	return nil
}

func scanAgent(row pgx.Row) (registry.Agent, error) {
	var a registry.Agent
	var id, name, owner string
	var profile []byte
	var revoked *time.Time
	if err := row.Scan(&id, &name, &owner, &profile, &revoked); err != nil {
		return a, err
	}
	if err := decode("the profile of agent "+id, profile, &a); err != nil {
		// What is not known of one agent keeps nobody else's from being known: its
		// own calls are refused.
		a, revoked = registry.Agent{}, &time.Time{}
	}
	a.ID, a.Name, a.Owner, a.RevokedAt = id, name, owner, revoked
	return a, nil
}

func scanTool(row pgx.Row) (registry.Tool, error) {
	var t registry.Tool
	var name string
	var profile []byte
	var revoked *time.Time
	if err := row.Scan(&name, &profile, &revoked); err != nil {
		return t, err
	}
	if err := decode("the profile of a tool", profile, &t); err != nil {
		t, revoked = registry.Tool{}, &time.Time{} // as with agents
	}
	t.Name, t.RevokedAt = name, revoked
	return t, nil
}

var killRows = newRows(func(k *registry.Kill) columns {
	return columns{{"agent_id", &k.AgentID}, {"reason", &k.Reason}, {"thrown_by", &k.By}, {"thrown_at", &k.At}}
})

// RegisterAgent registers an agent or replaces all that is registered of it; it
// takes the role that owns the database. The owner, if any, is the person with
// that e-mail address: ErrNotFound when there is none.
func (s Registry) RegisterAgent(ctx context.Context, a registry.Agent, once *Idempotency[Done], e engine.Event) error {
	profile, err := AgentProfile(a)
	if err != nil {
		return err
	}
	return s.administer(ctx, once, e, `INSERT INTO agents (id, name, owner_id, profile)
		SELECT $1, $2, p.id, $4 FROM (SELECT) one LEFT JOIN people p ON p.email = $3 WHERE $3 = '' OR p.id IS NOT NULL
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, owner_id = excluded.owner_id, profile = excluded.profile`,
		a.ID, a.Name, a.Owner, profile)
}

// ChangeAgent replaces what is registered of an agent beside its name and its
// owner. ErrNotFound: there is none.
func (s Registry) ChangeAgent(ctx context.Context, a registry.Agent, once *Idempotency[Done], e engine.Event) error {
	profile, err := AgentProfile(a)
	if err != nil {
		return err
	}
	return s.administer(ctx, once, e, `UPDATE agents SET profile = $2 WHERE id = $1`, a.ID, profile)
}

// AgentProfile is what is registered of an agent and has no column of its own.
func AgentProfile(a registry.Agent) ([]byte, error) {
	id := a.ID
	a.ID, a.Name, a.Owner, a.RevokedAt = "", "", "", nil
	encoded, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode agent %s: %w", id, err)
	}
	return encoded, nil
}

// RevokeAgent ends an agent's registration, or restores it. ErrNotFound: there
// is no agent of which that would change anything.
func (s Registry) RevokeAgent(ctx context.Context, id string, revoke bool, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `UPDATE agents SET revoked_at = CASE WHEN $2 THEN clock_timestamp() END
		WHERE id = $1 AND (revoked_at IS NULL) = $2`, id, revoke)
}

// ToolProfile is what is registered of a tool.
func ToolProfile(t registry.Tool) ([]byte, error) {
	t.RevokedAt = nil
	encoded, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode tool %s: %w", t.Name, err)
	}
	return encoded, nil
}

// RegisterTool registers a tool or replaces what is registered of it.
func (s Registry) RegisterTool(ctx context.Context, t registry.Tool, once *Idempotency[Done], e engine.Event) error {
	encoded, err := ToolProfile(t)
	if err != nil {
		return err
	}
	return s.administer(ctx, once, e, `INSERT INTO tools (name, profile) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET profile = excluded.profile`, t.Name, encoded)
}

// RevokeTool ends a tool's registration, or restores it. ErrNotFound: there is
// no tool of which that would change anything.
func (s Registry) RevokeTool(ctx context.Context, name string, revoke bool, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `UPDATE tools SET revoked_at = CASE WHEN $2 THEN clock_timestamp() END
		WHERE name = $1 AND (revoked_at IS NULL) = $2`, name, revoke)
}

// PutSettings replaces the settings.
func (s Registry) PutSettings(ctx context.Context, settings registry.Settings, once *Idempotency[Done], e engine.Event) error {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	return s.administer(ctx, once, e, `INSERT INTO settings (body) VALUES ($1) ON CONFLICT (only_row) DO UPDATE SET body = excluded.body`, encoded)
}

// ThrowKillSwitch throws the kill switch of an agent, or of all for "". From the moment
// it returns, nothing is granted to them by any gate. ErrConflict: it is on
// already.
func (s Registry) ThrowKillSwitch(ctx context.Context, k registry.Kill, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `INSERT INTO kill_switches (agent_id, reason, thrown_by) VALUES ($1, $2, $3)`, k.AgentID, k.Reason, k.By)
}

// killLock is the number of the advisory lock that throwing a kill switch takes alone, and that
// every append of events shares (migrations 00003 and 00004).
const killLock = 4703514210561396082

// LockHolder is a session of Postgres that holds a lock.
type LockHolder struct {
	PID   int32
	Login string
}

// KillLockHolders lists sessions that a kill switch would wait for: those that append at this
// moment, and whoever keeps the lock and should not.
func (s Registry) KillLockHolders(ctx context.Context) ([]LockHolder, error) {
	return collect(ctx, s.db, pgx.RowToStructByPos[LockHolder], `SELECT a.pid, coalesce(a.usename, '') FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND (l.classid::bigint << 32) + l.objid::bigint = $1
		  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.pid <> pg_backend_pid()
		ORDER BY a.pid LIMIT 20`, int64(killLock))
}

// ReleaseKillSwitch ends a kill switch. ErrNotFound: it is not on.
func (s Registry) ReleaseKillSwitch(ctx context.Context, agentID string, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `DELETE FROM kill_switches WHERE agent_id = $1`, agentID)
}

// administer changes one row and appends the event that says so, in one
// transaction, and keeps the answer for a repetition when once is set, whose
// Render is given Done.
func (s *db) administer(ctx context.Context, once *Idempotency[Done], e engine.Event, sql string, args ...any) error {
	return s.administerIn(ctx, once, e, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return translate(err)
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		if tag.RowsAffected() != 1 {
			return errors.New("more than one row would have changed")
		}
		return nil
	})
}

// administerIn is administer for what takes more than one statement.
func (s *db) administerIn(ctx context.Context, once *Idempotency[Done], e engine.Event, change func(context.Context, pgx.Tx) error) error {
	_, err := administerWith(ctx, s, once, func(ctx context.Context, tx pgx.Tx) (Done, engine.Event, error) {
		return Done{}, e, change(ctx, tx)
	})
	return err
}

// administerWith is administerIn for an event that tells what the change did.
// once.Render is given what the change returns.
func administerWith[T any](ctx context.Context, s *db, once *Idempotency[T], change func(context.Context, pgx.Tx) (T, engine.Event, error)) (T, error) {
	return administerOn(ctx, s, s.reserve, once, change)
}

// administerOn is administerWith on one of the pools.
func administerOn[T any](ctx context.Context, s *db, pool *pgxpool.Pool, once *Idempotency[T], change func(context.Context, pgx.Tx) (T, engine.Event, error)) (T, error) {
	var result T
	err := s.inTxOn(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		if once != nil {
			if err := lockKeys(ctx, tx, []int64{once.lock()}); err != nil {
				return err
			}
			if err := s.replayIn(ctx, tx, once.Of()); err != nil {
				return err
			}
		}
		var e engine.Event
		var err error
		if result, e, err = change(ctx, tx); err != nil {
			return err
		}
		rows := &pgx.Batch{}
		queueEvents(rows, []engine.Event{e}, nil)
		if once != nil {
			person := ""
			if account, of := any(result).(LockedAccount); of {
				person = account.ID
			}
			if err := s.queueReply(rows, once.Of(), "", person, once.Render(result, nil)); err != nil {
				return err
			}
		}
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	return result, err
}

// ExceededLimit says which of an agent's limits a call would exceed: "agent",
// "tool" or "session", "" for none; and how long until there is room again (0
// when that will not come by itself).
type ExceededLimit struct {
	Limit      string
	RetryAfter time.Duration
}

// Killed reports whether a switch stops the agent at this moment, whatever a
// process remembers.
func (s Registry) Killed(ctx context.Context, agentID string) (killed bool, err error) {
	return value[bool](ctx, s.db, `SELECT EXISTS (SELECT FROM kill_switches WHERE agent_id IN ('', $1))`, agentID)
}

// nameLocks lets one at a time through for each name.
type nameLocks struct {
	mu    sync.Mutex
	queue map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token while nobody has the turn
	waiting int
}

// take waits for the name's turn; done must follow.
func (t *nameLocks) take(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	if t.queue == nil {
		t.queue = map[string]*turn{}
	}
	q := t.queue[name]
	if q == nil {
		q = &turn{free: make(chan struct{}, 1)}
		q.free <- struct{}{}
		t.queue[name] = q
	}
	q.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.waiting--; q.waiting == 0 {
			delete(t.queue, name)
		}
	}
	select {
	case <-q.free:
		return func() { q.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// TakeCall counts a call against its agent's limits, right across all gates. A
// call that exceeds one is not counted. The count is not flushed to disk by
// itself: an outage of Postgres may forget the last moment's calls.
func (s Registry) TakeCall(ctx context.Context, agentID, tool, session string, l registry.Limits) (ExceededLimit, error) {
	var x ExceededLimit
	var seconds float64
	// An agent's calls take turns in Postgres: here, too, so that one agent holds
	// one connection at most.
	done, err := s.turns.take(ctx, agentID)
	if err != nil {
		return x, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer done()
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows := &pgx.Batch{}
		rows.Queue(`SET LOCAL synchronous_commit = off`)
		rows.Queue(`SELECT exceeded, retry_after FROM take_call($1, $2, $3, $4, $5, $6, $7, $8, $9)`, agentID, tool, session,
			l.Agent.Calls, time.Duration(l.Agent.Per).Seconds(), l.Tool.Calls, time.Duration(l.Tool.Per).Seconds(),
			l.Session.Calls, time.Duration(l.Session.Per).Seconds()).QueryRow(func(row pgx.Row) error { return row.Scan(&x.Limit, &seconds) })
		return translate(tx.SendBatch(ctx, rows).Close())
	})
	x.RetryAfter = time.Duration(math.Ceil(seconds)) * time.Second
	return x, err
}

// ForgetCalls drops counted calls and sessions that no limit can ask about any
// more.
func (s Registry) ForgetCalls(ctx context.Context) error {
	return s.exec(ctx, `WITH calls AS (DELETE FROM rate_calls WHERE expires_at < (SELECT clock_timestamp()))
		DELETE FROM rate_sessions WHERE last_at < (SELECT clock_timestamp()) - interval '31 days'`)
}
