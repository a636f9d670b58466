-- +goose Up
-- How the last calls of an agent's tool were decided: a new one's card says it.
CREATE INDEX approvals_decided ON approvals (agent_id, tool, ended_at DESC) WHERE status IN ('approved', 'denied');

-- +goose Down
DROP INDEX approvals_decided;
