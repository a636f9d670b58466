-- +goose Up
-- What a later version may do: TestUpgrade runs it after all migrations that there are.
ALTER TABLE approvals ADD COLUMN department text NOT NULL DEFAULT '' CHECK (length(department) <= 64);
GRANT INSERT (department), UPDATE (department) ON approvals TO holdpoint_runtime;
GRANT SELECT (department) ON approvals TO holdpoint_reader;
CREATE INDEX approvals_department ON approvals (department) WHERE department <> '';
UPDATE approvals SET department = 'unknown' WHERE status = 'pending';

-- +goose Down
ALTER TABLE approvals DROP COLUMN department;
