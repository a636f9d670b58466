-- +goose Up
-- Single sign-on (OpenID Connect): who somebody is at a provider, and which account
-- here that is.
CREATE TABLE sso_identities (
    -- What the provider calls them: never an address, which may be given to somebody else.
    issuer     text        NOT NULL CHECK (issuer <> '' AND length(issuer) <= 2048),
    subject    text        NOT NULL CHECK (subject <> '' AND length(subject) <= 255),
    person_id  text        NOT NULL REFERENCES people (id),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (issuer, subject),
    -- Whoever has got a former colleague's address at the provider does not get the account.
    UNIQUE (person_id, issuer)
);

-- Sign-ins that have come back from a provider, until they would be too old anyway:
-- each comes back once.
CREATE TABLE sso_returned (
    state_hash bytea       PRIMARY KEY CHECK (length(state_hash) = 32),
    expires_at timestamptz NOT NULL
);
CREATE INDEX sso_returned_expires_at ON sso_returned (expires_at);

-- By which provider somebody came in, and whether they gave more than one factor there.
-- A provider need not say when it has last seen proof.
ALTER TABLE sessions
    ADD COLUMN provider text CHECK (provider <> ''),
    ADD COLUMN provider_mfa boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT sessions_verified_by_check,
    ADD CONSTRAINT sessions_verified_by_check CHECK (verified_by IN ('password', 'totp', 'passkey', 'sso'));

-- An erasure takes what a provider calls somebody. A disabled account keeps it, so that
-- nobody gets another account by the same sign-in.
-- +goose StatementBegin
CREATE FUNCTION person_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sso_identities WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER person_erased AFTER UPDATE OF erased_at ON people FOR EACH ROW
    WHEN (NEW.erased_at IS NOT NULL) EXECUTE FUNCTION person_erased();

-- Whose account a sign-in opens is for whoever writes accounts to say.
GRANT SELECT, INSERT (issuer, subject, person_id) ON sso_identities TO holdpoint_people;
GRANT SELECT (state_hash, expires_at), INSERT (state_hash, expires_at), DELETE ON sso_returned TO holdpoint_runtime;
GRANT INSERT (provider, provider_mfa) ON sessions TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER person_erased ON people;
DROP FUNCTION person_erased;
DELETE FROM sessions WHERE verified_by = 'sso';
ALTER TABLE sessions
    DROP COLUMN provider, DROP COLUMN provider_mfa,
    DROP CONSTRAINT sessions_verified_by_check,
    ADD CONSTRAINT sessions_verified_by_check CHECK (verified_by IN ('password', 'totp', 'passkey'));
DROP TABLE sso_returned, sso_identities;
