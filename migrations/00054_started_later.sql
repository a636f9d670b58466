-- +goose Up
-- A message after which nothing is to be looked at before the approval's next moment (wake_at): that it was opened,
-- or that its token was spent. Its workflow is started, and has its first task then, or with the next message.
ALTER TABLE outbox ADD COLUMN may_wait boolean NOT NULL DEFAULT false;
GRANT INSERT (may_wait) ON outbox TO holdpoint_runtime;

-- +goose Down
ALTER TABLE outbox DROP COLUMN may_wait;
