package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdpoint/engine"
	"holdpoint/engine/approval"
	"holdpoint/internal/seal"
)

// Grant is a vote that somebody cast beforehand for calls that are alike. What
// they have to be like is sealed under the grant's id, as arguments are.
type Grant struct {
	ID           string // "gra_…"
	PersonID     string // who votes by it
	AgentID      string
	Tool         string
	Environment  string
	Sealed       seal.Box
	Reason       string
	FromApproval string // whose card it was made from
	MaxUses      int
	Uses         int
	CreatedAt    time.Time
	ExpiresAt    time.Time
	// Acknowledged are the denials that it would have overruled, which its maker
	// has looked at.
	Acknowledged []string
	RevokedAt    *time.Time
	RevokedBy    string
	// UsedBy are the approvals for which it has voted, the last one first.
	UsedBy []string
	// Voter is the standing of its maker as it was when the grant was read.
	Voter approval.Voter
}

// Live reports whether the grant can still vote at now.
func (g Grant) Live(now time.Time) bool {
	return g.RevokedAt == nil && g.Uses < g.MaxUses && now.Before(g.ExpiresAt)
}

// grantRows are of standing_grants g and, of its maker, people p.
var grantRows = newRows(func(g *Grant) columns {
	return columns{
		{"g.id", &g.ID},
		{"g.person_id", &g.PersonID},
		{"g.agent_id", &g.AgentID},
		{"g.tool", &g.Tool},
		{"g.environment", &g.Environment},
		{"g.sealed", &g.Sealed.Data},
		{"g.sealed_key", &g.Sealed.Key},
		{"g.reason", &g.Reason},
		{"coalesce(g.from_approval, '')", &g.FromApproval},
		{"g.max_uses", &g.MaxUses},
		{"g.uses", &g.Uses},
		{"g.created_at", &g.CreatedAt},
		{"g.expires_at", &g.ExpiresAt},
		{"g.acknowledged", &g.Acknowledged},
		{"g.revoked_at", &g.RevokedAt},
		{"coalesce(g.revoked_by, '')", &g.RevokedBy},
		{"p.identity", &g.Voter.Identity},
		{"roles_since(p.id, p.roles, p.since, g.created_at)", &g.Voter.Roles},
		{"stands_since(p.disabled_at, p.since, g.created_at)", &g.Voter.Active},
	}
})

// Grants lists the grants that are live for the approval's agent, tool and
// environment and were made before it was opened, always in the same order: those
// that end first come first.
func (c *Change) Grants() ([]Grant, error) {
	call := c.Approval.Call
	return grantRows.all(c.tx.Query(c.ctx, `SELECT `+grantRows.names+` FROM standing_grants g JOIN people p ON p.id = g.person_id
		WHERE g.agent_id = $1 AND g.tool = $2 AND g.environment = $3 AND g.revoked_at IS NULL AND g.uses < g.max_uses
		  AND g.expires_at > clock_timestamp() AND g.created_at <= $4
		ORDER BY g.expires_at, g.id`, call.AgentID, call.Tool, call.Environment, c.Approval.Plan.OpenedAt))
}

// UseGrant uses a grant up by one, under the lock on its row, and reports whether
// there was anything left to use. Everybody who uses several takes them in the
// order of Grants.
func (c *Change) UseGrant(id string) (bool, error) {
	tag, err := c.tx.Exec(c.ctx, `UPDATE standing_grants SET uses = uses + 1
		WHERE id = $1 AND revoked_at IS NULL AND uses < max_uses AND expires_at > clock_timestamp()`, id)
	return err == nil && tag.RowsAffected() == 1, translate(err)
}

// MaxLiveGrants is how many live grants a person may have: each of them is looked at
// when an approval that it might be for is settled.
const MaxLiveGrants = 50

// liveGrant is the condition that a grant g is live.
const liveGrant = `g.revoked_at IS NULL AND g.uses < g.max_uses AND g.expires_at > clock_timestamp()`

// MakeGrant stores a grant for the approval's agent, tool and environment that
// lasts for lasting from now on. It returns it with its times. ErrTooMany: its maker has as
// many as one may have.
func (c *Change) MakeGrant(g Grant, lasting time.Duration) (Grant, error) {
	call := c.Approval.Call
	// Of two at once the second is to count the first.
	if _, err := c.tx.Exec(c.ctx, `SELECT pg_advisory_xact_lock(hashtextextended('grants ' || $1, 0))`, g.PersonID); err != nil {
		return g, translate(err)
	}
	var live int
	if err := c.tx.QueryRow(c.ctx, `SELECT count(*) FROM standing_grants g WHERE g.person_id = $1 AND `+liveGrant, g.PersonID).Scan(&live); err != nil {
		return g, translate(err)
	}
	if live >= MaxLiveGrants {
		return g, ErrTooMany
	}
	g.AgentID, g.Tool, g.Environment, g.FromApproval = call.AgentID, call.Tool, call.Environment, c.Approval.ID
	if g.Acknowledged == nil {
		g.Acknowledged = []string{}
	}
	// From the statement's start: no later than the row's own created_at.
	err := c.tx.QueryRow(c.ctx, `INSERT INTO standing_grants (id, person_id, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, max_uses, expires_at, acknowledged)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, statement_timestamp() + make_interval(secs => $11), $12) RETURNING created_at, expires_at`,
		g.ID, g.PersonID, g.AgentID, g.Tool, g.Environment, g.Sealed.Data, g.Sealed.Key, g.Reason, g.FromApproval, g.MaxUses, lasting.Seconds(), g.Acknowledged).
		Scan(&g.CreatedAt, &g.ExpiresAt)
	return g, translate(err)
}

// DeniedSince reports whether a call of the approval's agent, tool and
// environment has been denied since a moment.
func (c *Change) DeniedSince(at time.Time) (bool, error) {
	call, denied := c.Approval.Call, false
	err := c.tx.QueryRow(c.ctx, `SELECT EXISTS (SELECT FROM approvals
		WHERE agent_id = $1 AND tool = $2 AND environment = $3 AND status = 'denied' AND ended_at >= $4)`,
		call.AgentID, call.Tool, call.Environment, at).Scan(&denied)
	return denied, translate(err)
}

// MaxListedGrants bounds how many live grants are listed, and maxGrantsOver how many that are over.
const (
	MaxListedGrants = 5000
	maxGrantsOver   = 200
)

// List lists grants, those that are live first and of each the newest, with the
// clock of the moment. Nobody's new ones, and none that are over, keep a live one off it.
func (s Grants) List(ctx context.Context) ([]Grant, time.Time, error) {
	live, now, err := s.grants(ctx, `WHERE `+liveGrant+` ORDER BY g.created_at DESC, g.id LIMIT $1`, MaxListedGrants)
	if err != nil {
		return nil, now, err
	}
	over, later, err := s.grants(ctx, `WHERE NOT (`+liveGrant+`) ORDER BY g.created_at DESC, g.id LIMIT $1`, maxGrantsOver)
	if now.IsZero() {
		now = later
	}
	return append(live, over...), now, err
}

// Get reads a grant, with the clock of the moment. ErrNotFound: there is none.
func (s Grants) Get(ctx context.Context, id string) (Grant, time.Time, error) {
	list, now, err := s.grants(ctx, `WHERE g.id = $1`, id)
	if err != nil {
		return Grant{}, now, err
	}
	if len(list) == 0 {
		return Grant{}, now, ErrNotFound
	}
	return list[0], now, nil
}

func (s Grants) grants(ctx context.Context, which string, args ...any) ([]Grant, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	now := time.Time{}
	rows, err := s.pool.Query(ctx, `SELECT `+grantRows.names+`,
			coalesce((SELECT array_agg(f.approval_id ORDER BY f.seq DESC) FROM facts f WHERE f.details ? 'grant' AND f.details->>'grant' = g.id), '{}'), clock_timestamp()
		FROM standing_grants g JOIN people p ON p.id = g.person_id `+which, args...)
	if err != nil {
		return nil, now, translate(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Grant, error) {
		var usedBy []string
		g, err := grantRows.one(row, &usedBy, &now)
		g.UsedBy = usedBy
		return g, err
	})
	return list, now, translate(err)
}

// Revoke ends a grant at once. ErrNotFound: there is none that lives.
func (s Grants) Revoke(ctx context.Context, id, by string, once *Idempotency[Done], e engine.Event) error {
	return s.administer(ctx, once, e, `UPDATE standing_grants SET revoked_at = clock_timestamp(), revoked_by = $2
		WHERE id = $1 AND revoked_at IS NULL AND uses < max_uses AND expires_at > clock_timestamp()`, id, by)
}

// ByIDs reads approvals; an id that there is none of is left out.
func (s Approvals) ByIDs(ctx context.Context, ids []string) (map[string]approval.Approval, error) {
	list, _, err := s.list(ctx, `SELECT `+approvalRows.names+`, clock_timestamp() FROM approvals WHERE id = ANY ($1)`, ids)
	found := map[string]approval.Approval{}
	for _, a := range list {
		found[a.ID] = a
	}
	return found, err
}

// PastCall is what a backtest needs of an approval.
type PastCall struct {
	ID       string
	Dialect  string
	Digest   string
	Status   approval.Status
	OpenedAt time.Time
}

var pastRows = newRows(func(p *PastCall) columns {
	return columns{{"id", &p.ID}, {"dialect", &p.Dialect}, {"digest", &p.Digest}, {"status", &p.Status}, {"opened_at", &p.OpenedAt}}
})

// AlikeCalls lists approvals of the agent's calls of a tool in an environment that were
// opened less than within ago, the newest first, with the clock of the moment before: up
// to limit of all, and as many that were denied, so that no number of others hides those.
func (s Grants) AlikeCalls(ctx context.Context, call engine.Call, within time.Duration, limit int) ([]PastCall, time.Time, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, now, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	last := func(more string) string {
		return `(SELECT id FROM approvals WHERE agent_id = $1 AND tool = $2 AND environment = $3 AND opened_at > (SELECT clock_timestamp()) - make_interval(secs => $4)` +
			more + ` ORDER BY opened_at DESC, id LIMIT $5)`
	}
	past, err := pastRows.all(s.pool.Query(ctx, `SELECT `+pastRows.names+` FROM approvals
		WHERE id IN (`+last("")+` UNION ALL `+last(" AND status = 'denied'")+`) ORDER BY opened_at DESC, id`, call.AgentID, call.Tool, call.Environment, within.Seconds(), limit))
	return past, now, err
}

// SealedArguments calls fn with the sealed document of each of the approvals. One is in
// memory at a time. An error of fn ends it and is returned as it is.
func (s Grants) SealedArguments(ctx context.Context, ids []string, fn func(id string, box seal.Box) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT id, sealed, sealed_key FROM approvals WHERE id = ANY ($1)`, ids)
	if err != nil {
		return translate(err)
	}
	var id string
	var box seal.Box
	var stopped error
	_, err = pgx.ForEachRow(rows, []any{&id, &box.Data, &box.Key}, func() error {
		stopped = fn(id, box)
		return stopped
	})
	if stopped != nil {
		return fmt.Errorf("read the documents of former calls: %w", stopped)
	}
	return translate(err)
}

// ValidGrantID reports whether an id has the form of a grant's.
func ValidGrantID(id string) bool {
	return len(id) > 4 && id[:4] == "gra_" && ValidApprovalID("apr_"+id[4:])
}
