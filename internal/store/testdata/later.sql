-- +goose Up
-- What a later version may do: TestUpgrade runs it after all migrations that there are.
ALTER TABLE approvals ADD COLUMN cost_center text NOT NULL DEFAULT '' CHECK (length(cost_center) <= 64);
GRANT INSERT (cost_center), UPDATE (cost_center) ON approvals TO holdpoint_runtime;
GRANT SELECT (cost_center) ON approvals TO holdpoint_reader;
CREATE INDEX approvals_cost_center ON approvals (cost_center) WHERE cost_center <> '';
UPDATE approvals SET cost_center = 'unknown' WHERE status = 'pending';

-- +goose Down
ALTER TABLE approvals DROP COLUMN cost_center;
