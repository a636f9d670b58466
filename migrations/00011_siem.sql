-- +goose Up
-- How far the audit log has been sent to each receiver outside (setting
-- log_streams). A position moves only once the receiver has taken what is before
-- it; whoever sends next goes on from there. Setting it back sends again, also
-- while workers run: they compare before they move it.
CREATE TABLE log_positions (
    name       text        PRIMARY KEY CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'), -- the stream's
    leaf       bigint      NOT NULL CHECK (leaf >= 0), -- of log_entries: the next one to send
    at         timestamptz NOT NULL DEFAULT clock_timestamp(), -- when it was moved
    -- What went wrong since, and since when; '' while nothing does. It never holds
    -- what a receiver wrote.
    last_error text        NOT NULL DEFAULT '' CHECK (length(last_error) <= 500),
    failing_at timestamptz CHECK ((failing_at IS NULL) = (last_error = ''))
);
GRANT SELECT ON log_positions TO holdpoint_runtime;
GRANT INSERT (name, leaf), UPDATE (leaf, at, last_error, failing_at) ON log_positions TO holdpoint_runtime;

-- +goose Down
DROP TABLE log_positions;
