-- +goose Up
-- What is due, apart from thousands that were opened at once and have not been settled for the
-- first time: those are found by their opening, and nothing that was decided is behind them.
CREATE INDEX approvals_due ON approvals (wake_at) WHERE (status = 'pending' OR execution = 'redeemed') AND wake_at <> opened_at;
-- What was decided and is not settled yet waits for nobody, and is in no inbox.
CREATE INDEX approvals_unsettled ON approvals (opened_at) WHERE status = 'pending' AND due_at IS NULL;

-- Rows of these two never change. They are seen to soon after they were written, while they are in memory, and
-- for ever: by default Postgres waits until a fifth of the table is new, and reads all of that once more when
-- numbers of transactions run out.
ALTER TABLE events SET (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 500000, autovacuum_freeze_min_age = 0);
ALTER TABLE log_entries SET (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 500000, autovacuum_freeze_min_age = 0);

-- +goose Down
ALTER TABLE log_entries RESET (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_insert_threshold, autovacuum_freeze_min_age);
ALTER TABLE events RESET (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_insert_threshold, autovacuum_freeze_min_age);
DROP INDEX approvals_unsettled;
DROP INDEX approvals_due;
