-- +goose Up
-- The last calls of a tool that people have approved: what a new one names is compared
-- with what they named.
CREATE INDEX approvals_approved_tool ON approvals (tool, ended_at DESC) WHERE status = 'approved';

-- +goose Down
DROP INDEX approvals_approved_tool;
