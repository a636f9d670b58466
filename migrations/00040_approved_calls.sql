-- +goose Up
-- That people approved the very same call before: a new one's card and row say it. Calls that were
-- accepted with a token have rows here as well, any number of them, and are not meant.
CREATE INDEX approvals_approved_call ON approvals (agent_id, digest, ended_at DESC)
    WHERE status = 'approved' AND erased_at IS NULL AND NOT terms ? 'accepted_as';

-- +goose Down
DROP INDEX approvals_approved_call;
