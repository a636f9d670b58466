-- +goose Up
-- With which settings each program was last started, so that a start with others is on record. Each is a
-- keyed hash: nobody who reads it can try guesses.
CREATE TABLE starts (
    program  text        PRIMARY KEY CHECK (program IN ('serve', 'worker')),
    settings jsonb       NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT (program, settings), UPDATE (settings, at) ON starts TO holdpoint_runtime;

-- +goose Down
DROP TABLE starts;
