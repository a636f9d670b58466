-- +goose Up
-- That the very same call was approved before: a new one's card and row say it.
CREATE INDEX approvals_approved_call ON approvals (agent_id, digest, ended_at DESC) WHERE status = 'approved';

-- +goose Down
DROP INDEX approvals_approved_call;
