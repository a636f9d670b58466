-- +goose Up
-- Who there is: people who decide, agents that ask, keys that agents hold, and
-- sessions of people. The runtime role reads all of it and changes only
-- sessions; people, agents and keys are changed by the owner role (the
-- commands user and key).

CREATE TABLE people (
    id            text        PRIMARY KEY CHECK (id ~ '^usr_[a-z0-9]+$'),
    email         text        NOT NULL UNIQUE CHECK (email = lower(email) AND email <> ''),
    name          text        NOT NULL,
    -- All accounts of one human being share an identity: separation of duties
    -- and quorum count identities, never accounts.
    identity      text        NOT NULL CHECK (identity <> ''),
    password_hash text        NOT NULL,
    roles         text[]      NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at   timestamptz
);

CREATE TABLE agents (
    id          text        PRIMARY KEY CHECK (id <> '' AND length(id) <= 200),
    name        text        NOT NULL,
    owner_id    text        REFERENCES people (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz
);

CREATE TABLE keys (
    id          text        PRIMARY KEY CHECK (id ~ '^key_[a-z0-9]+$'),
    -- An admin key belongs to no agent and cannot propose calls.
    agent_id    text        REFERENCES agents (id) CHECK ((agent_id IS NULL) = (kind = 'admin')),
    kind        text        NOT NULL CHECK (kind IN ('agent', 'runtime', 'admin')),
    -- SHA-256 of a secret of 130 random bits; nothing slower is needed for those.
    secret_hash bytea       NOT NULL CHECK (length(secret_hash) = 32),
    scopes      text[]      NOT NULL,
    -- The highest authorization_state that a holder may claim.
    max_state   text        NOT NULL CHECK (max_state IN ('none', 'user_claimed', 'authenticated', 'validated', 'confirmed')),
    label       text        NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz,
    revoked_at  timestamptz
);

-- Signing keys that must not be believed any more, whatever a process has in
-- its configuration.
CREATE TABLE revoked_signing_keys (
    kid        text        PRIMARY KEY,
    revoked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE sessions (
    -- SHA-256 of the cookie's random id: reading this table gives no session.
    id_hash    bytea       PRIMARY KEY CHECK (length(id_hash) = 32),
    person_id  text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

GRANT SELECT ON people, agents, keys, revoked_signing_keys, sessions TO holdpoint_runtime;
GRANT INSERT (id_hash, person_id, expires_at), DELETE ON sessions TO holdpoint_runtime;

-- Processes cache keys for a moment; this ends the moment at once.
-- +goose StatementBegin
CREATE FUNCTION identity_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdpoint_identity', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER people_changed AFTER INSERT OR UPDATE OR DELETE ON people FOR EACH STATEMENT EXECUTE FUNCTION identity_changed();
CREATE TRIGGER agents_changed AFTER INSERT OR UPDATE OR DELETE ON agents FOR EACH STATEMENT EXECUTE FUNCTION identity_changed();
CREATE TRIGGER keys_changed AFTER INSERT OR UPDATE OR DELETE ON keys FOR EACH STATEMENT EXECUTE FUNCTION identity_changed();

-- +goose Down
DROP TABLE sessions, revoked_signing_keys, keys, agents, people;
DROP FUNCTION identity_changed();
