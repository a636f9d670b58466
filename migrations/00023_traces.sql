-- +goose Up
-- The span in which a message for Temporal was written (W3C Trace Context), so that
-- what the worker does about it is found in the trace of the request that asked for it.
ALTER TABLE outbox ADD COLUMN traceparent text CHECK (traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$');
GRANT INSERT (traceparent) ON outbox TO holdpoint_runtime;

-- +goose Down
ALTER TABLE outbox DROP COLUMN traceparent;
