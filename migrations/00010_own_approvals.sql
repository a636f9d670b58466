-- +goose Up
-- What agents ask about their own approvals: a list of them, the newest first, and
-- whether the very call that is proposed waits already.
CREATE INDEX approvals_own ON approvals (agent_id, opened_at DESC, id DESC);
CREATE INDEX approvals_pending_call ON approvals (agent_id, digest) WHERE status = 'pending';

-- +goose Down
DROP INDEX approvals_pending_call;
DROP INDEX approvals_own;
