-- +goose Up
-- Who there is: people who decide, agents that ask, keys that agents hold; how
-- people prove who they are; who is on call and who stands in for whom.

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
    disabled_at   timestamptz,
    erased_at     timestamptz
);

-- A person who has been erased stays erased.
-- +goose StatementBegin
CREATE FUNCTION people_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.erased_at IS NOT NULL OR NEW.erased_at IS NOT NULL AND NOT erasing('person', OLD.id) THEN
        RAISE EXCEPTION 'person % is erased by an erasure only, and for good', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER people_guard BEFORE UPDATE ON people FOR EACH ROW EXECUTE FUNCTION people_guard();

CREATE TABLE agents (
    id          text        PRIMARY KEY CHECK (id <> '' AND length(id) <= 200),
    name        text        NOT NULL,
    owner_id    text        REFERENCES people (id),
    profile     jsonb       NOT NULL DEFAULT '{"trust_level": "basic"}', -- registry.Agent without name and owner
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at timestamptz,
    revoked_at  timestamptz
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

-- Processes cache people, agents and keys for a moment; this ends the moment at once.
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

CREATE TABLE sessions (
    -- SHA-256 of the cookie's random id: reading this table gives no session.
    id_hash     bytea       PRIMARY KEY CHECK (length(id_hash) = 32),
    person_id   text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL,
    -- When and how its person last proved who they are.
    verified_at timestamptz,
    verified_by text        CHECK (verified_by IN ('password', 'totp', 'passkey')),
    CHECK ((verified_at IS NULL) = (verified_by IS NULL))
);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

-- Authenticator apps (TOTP, RFC 6238).
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

-- A confirmed secret is removed or kept, never replaced; a code that was accepted
-- is never accepted again.
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

-- WebAuthn.
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

-- Codes and passwords that are being checked, or were wrong. A row is written
-- before the check and deleted if the code was right, so that guesses made at the
-- same moment count as well.
CREATE TABLE proof_attempts (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person_id text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX proof_attempts_person_id ON proof_attempts (person_id, at);

-- On call: who has a schedule's role for a time, as the schedule's own system says.
CREATE TABLE on_call (
    schedule   text        NOT NULL CHECK (schedule ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    person_id  text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    from_at    timestamptz NOT NULL,
    until_at   timestamptz NOT NULL CHECK (until_at > from_at),
    told_by    text        NOT NULL,
    PRIMARY KEY (schedule, person_id, from_at)
);
-- The schedules on which somebody was at a moment, for reports.
CREATE INDEX on_call_person ON on_call (person_id, from_at);

-- The roles that somebody has at this moment: their own, and "on-call/NAME" for
-- every schedule on which they are.
-- +goose StatementBegin
CREATE FUNCTION roles_of(person text, own text[]) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT own || coalesce(array_agg(DISTINCT 'on-call/' || o.schedule ORDER BY 'on-call/' || o.schedule), '{}')
    FROM on_call o WHERE o.person_id = person AND o.from_at <= statement_timestamp() AND o.until_at > statement_timestamp()
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION roles_of(text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION roles_of(text, text[]) TO holdpoint_runtime;

-- Who decides in whose place, and from when to when.
CREATE TABLE delegations (
    id         text        PRIMARY KEY CHECK (id ~ '^dlg_[a-z0-9]+$'),
    person_id  text        NOT NULL REFERENCES people (id),
    deputy_id  text        NOT NULL REFERENCES people (id) CHECK (deputy_id <> person_id),
    from_at    timestamptz NOT NULL,
    -- Ninety days.
    until_at   timestamptz NOT NULL CHECK (until_at > from_at AND until_at <= from_at + interval '2160 hours'),
    reason     text        NOT NULL CHECK (length(reason) <= 1000),
    created_by text        NOT NULL REFERENCES people (id),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz
);
CREATE INDEX delegations_deputy ON delegations (deputy_id) WHERE revoked_at IS NULL;
CREATE INDEX delegations_person ON delegations (person_id) WHERE revoked_at IS NULL;

-- A delegation is only ever revoked; an erasure takes its reason.
-- +goose StatementBegin
CREATE FUNCTION delegations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want delegations%ROWTYPE := OLD;
BEGIN
    IF NEW.reason IS DISTINCT FROM OLD.reason THEN
        want.reason := erased_words(OLD.reason);
        IF NEW IS NOT DISTINCT FROM want AND (erasing('person', OLD.person_id) OR erasing('person', OLD.deputy_id) OR erasing('person', OLD.created_by)) THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'why delegation % was made cannot change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'delegation % is revoked already', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    NEW.revoked_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER delegations_guard BEFORE UPDATE ON delegations FOR EACH ROW EXECUTE FUNCTION delegations_guard();

-- Who there is, and who answers for an agent, is the owner role's to say (commands
-- user and key).
GRANT SELECT ON people, agents, keys, revoked_signing_keys, sessions, totp_factors, passkeys, challenges, proof_attempts, on_call, delegations TO holdpoint_runtime;
GRANT UPDATE (profile, revoked_at) ON agents TO holdpoint_runtime;
GRANT INSERT (id_hash, person_id, expires_at, verified_at, verified_by), UPDATE (verified_at, verified_by), DELETE ON sessions TO holdpoint_runtime;
GRANT INSERT (person_id, secret, secret_key), UPDATE (secret, secret_key, created_at, confirmed_at, last_step), DELETE ON totp_factors TO holdpoint_runtime;
GRANT INSERT (credential_id, person_id, public_key, sign_count, aaguid, transports, name, backup_eligible, backed_up),
      UPDATE (sign_count, backed_up, name, last_used_at), DELETE ON passkeys TO holdpoint_runtime;
GRANT INSERT (id_hash, person_id, purpose, bound_to, data, expires_at), DELETE ON challenges TO holdpoint_runtime;
GRANT INSERT (person_id), DELETE ON proof_attempts TO holdpoint_runtime;
GRANT INSERT, UPDATE (until_at), DELETE ON on_call TO holdpoint_runtime;
-- The reason is an erasure's to change.
GRANT INSERT (id, person_id, deputy_id, from_at, until_at, reason, created_by), UPDATE (revoked_at) ON delegations TO holdpoint_runtime;
GRANT SELECT (id, name, email, identity, roles, created_at, disabled_at) ON people TO holdpoint_reader;
GRANT SELECT (id, name, owner_id, created_at, disabled_at, profile, revoked_at) ON agents TO holdpoint_reader;
GRANT SELECT (id, agent_id, kind, scopes, max_state, label, created_at, expires_at, revoked_at) ON keys TO holdpoint_reader;
GRANT SELECT ON on_call TO holdpoint_reader;

-- +goose Down
DROP TABLE delegations, on_call, proof_attempts, challenges, passkeys, totp_factors, sessions, revoked_signing_keys, keys, agents, people;
DROP FUNCTION delegations_guard, roles_of, totp_factors_guard, identity_changed, people_guard;
