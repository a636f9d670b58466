-- +goose Up
-- How people prove who they are beyond a password: authenticator apps (TOTP,
-- RFC 6238) and passkeys (WebAuthn), the challenges that are under way, and
-- how often somebody has been wrong.

CREATE TABLE totp_factors (
    person_id    text        PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    -- The secret is encrypted as arguments are: under a key of its own, which is
    -- itself wrapped by the data key.
    secret       bytea       NOT NULL,
    secret_key   bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Until its holder has shown a code, it counts for nothing.
    confirmed_at timestamptz,
    -- The time step of the last code that was taken. It only grows, so that a
    -- code is good once, whichever process it is shown to.
    last_step    bigint      NOT NULL DEFAULT 0
);

CREATE TABLE passkeys (
    credential_id   bytea       PRIMARY KEY CHECK (length(credential_id) BETWEEN 1 AND 1023),
    person_id       text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    public_key      bytea       NOT NULL, -- COSE
    -- What the authenticator counts; 0 for ever where it does not count.
    sign_count      bigint      NOT NULL CHECK (sign_count BETWEEN 0 AND 4294967295),
    aaguid          bytea       NOT NULL CHECK (length(aaguid) = 16),
    transports      text[]      NOT NULL,
    name            text        NOT NULL CHECK (name <> '' AND length(name) <= 100),
    -- Whether it may be copied to other devices never changes; whether it has
    -- been may.
    backup_eligible boolean     NOT NULL,
    backed_up       boolean     NOT NULL CHECK (backup_eligible OR NOT backed_up),
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at    timestamptz
);
CREATE INDEX passkeys_person_id ON passkeys (person_id);

-- What somebody has been asked to prove, for what, and bound to what. Each is
-- good once: whoever takes it deletes it.
CREATE TABLE challenges (
    -- SHA-256 of the random id that the browser holds.
    id_hash    bytea       PRIMARY KEY CHECK (length(id_hash) = 32),
    person_id  text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    purpose    text        NOT NULL CHECK (purpose <> ''),
    bound_to   text        NOT NULL,
    data       jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL CHECK (expires_at <= created_at + interval '5 minutes')
);
CREATE INDEX challenges_person_id ON challenges (person_id, created_at);

-- Codes and passwords that are being looked at, or were wrong. One is taken
-- before it is looked at and given back if it was right, so that guesses made
-- at the same moment count as well.
CREATE TABLE proof_attempts (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person_id text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX proof_attempts_person_id ON proof_attempts (person_id, at);

-- When and how the person of a session last proved who they are. Sessions from
-- before this are as if that were unknown.
ALTER TABLE sessions
    ADD COLUMN verified_at timestamptz,
    ADD COLUMN verified_by text CHECK (verified_by IN ('password', 'totp', 'passkey')),
    ADD CHECK ((verified_at IS NULL) = (verified_by IS NULL));

GRANT SELECT ON totp_factors, passkeys, challenges, proof_attempts TO holdpoint_runtime;
GRANT INSERT (person_id, secret, secret_key), UPDATE (secret, secret_key, created_at, confirmed_at, last_step), DELETE ON totp_factors TO holdpoint_runtime;
GRANT INSERT (credential_id, person_id, public_key, sign_count, aaguid, transports, name, backup_eligible, backed_up),
      UPDATE (sign_count, backed_up, name, last_used_at), DELETE ON passkeys TO holdpoint_runtime;
GRANT INSERT (id_hash, person_id, purpose, bound_to, data, expires_at), DELETE ON challenges TO holdpoint_runtime;
GRANT INSERT (person_id), DELETE ON proof_attempts TO holdpoint_runtime;
GRANT INSERT (verified_at, verified_by), UPDATE (verified_at, verified_by) ON sessions TO holdpoint_runtime;

-- A confirmed secret is never put in another's place, and a code that was taken
-- never becomes good again.
-- +goose StatementBegin
CREATE FUNCTION totp_factors_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.last_step < OLD.last_step
       OR OLD.confirmed_at IS NOT NULL AND (NEW.confirmed_at IS NULL OR NEW.secret <> OLD.secret OR NEW.secret_key <> OLD.secret_key) THEN
        RAISE EXCEPTION 'a confirmed second factor is removed or kept, not changed' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER totp_factors_guard BEFORE UPDATE ON totp_factors FOR EACH ROW EXECUTE FUNCTION totp_factors_guard();

-- +goose Down
ALTER TABLE sessions DROP COLUMN verified_at, DROP COLUMN verified_by;
DROP TABLE proof_attempts, challenges, passkeys, totp_factors;
DROP FUNCTION totp_factors_guard();
