-- +goose Up
-- The public halves of the keys that tokens are signed with, of every process: each
-- publishes those of its file, so that all verify what any of them signs, also in the
-- midst of a change of keys, and a key is known everywhere before it signs. Only what
-- mac vouches for counts, a keyed hash of kid and public: whoever has the runtime role
-- and not the data key adds no key.
CREATE TABLE signing_keys (
    kid          text        PRIMARY KEY CHECK (length(kid) = 43),
    public       bytea       NOT NULL CHECK (length(public) = 32),
    mac          bytea       NOT NULL CHECK (length(mac) = 32),
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When a process last had it in its file.
    seen_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT (kid, public, mac), UPDATE (public, mac, published_at, seen_at) ON signing_keys TO holdpoint_runtime;

-- +goose Down
DROP TABLE signing_keys;
