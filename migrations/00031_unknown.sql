-- +goose Up
-- Each look at an inbox asks for the calls of which nobody knows whether they ran: few, among
-- all approvals that there ever were.
CREATE INDEX approvals_unknown ON approvals (ended_at, id) WHERE execution = 'unknown';

-- +goose Down
DROP INDEX approvals_unknown;
