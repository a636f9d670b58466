-- +goose Up
-- When an API key was last used, to the minute, so that one that nobody needs is seen and
-- revoked. A table of its own: a change of keys has every process forget all keys.
CREATE TABLE key_uses (
    key_id  text        PRIMARY KEY REFERENCES keys (id) ON DELETE CASCADE,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT (key_id), UPDATE (used_at) ON key_uses TO holdpoint_runtime;
GRANT SELECT ON key_uses TO holdpoint_reader;

-- +goose Down
DROP TABLE key_uses;
