-- +goose Up
-- What becomes of an approved call: its token and lease, how somebody settled a
-- call whose outcome was unknown, what somebody else said of broken glass; and the
-- answers kept for repeated requests.

-- One token an approval, ever. The token itself is never stored: it is signed
-- from this row whenever its agent asks.
CREATE TABLE tokens (
    jti         text        PRIMARY KEY,
    approval_id text        NOT NULL UNIQUE REFERENCES approvals (id),
    -- What the reviewers have tightened is in force for the token.
    constraints jsonb,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- No token is signed, and none is redeemed, after this.
    valid_until timestamptz NOT NULL,
    redeemed_at timestamptz,
    redeemed_by text,
    -- By when the agent has to say what became of the call.
    lease_until timestamptz,
    -- Since when it is known that the call does not fit the world any more.
    stale_at    timestamptz
);

-- A token comes with the approval, and not before it.
-- +goose StatementBegin
CREATE FUNCTION tokens_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM approvals WHERE id = NEW.approval_id AND status = 'approved') THEN
        RAISE EXCEPTION 'approval % is not approved', NEW.approval_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tokens_approved BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION tokens_approved();

-- A token is redeemed once or becomes stale; an erasure takes what reviewers have
-- tightened.
-- +goose StatementBegin
CREATE FUNCTION tokens_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want tokens%ROWTYPE := OLD;
BEGIN
    IF OLD.constraints IS NOT NULL AND NEW.constraints IS NULL THEN
        want.constraints := NULL;
        IF NEW IS NOT DISTINCT FROM want AND erasing('approval', OLD.approval_id) THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'what token % permits cannot change', OLD.jti USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.redeemed_at IS NOT NULL THEN
        RAISE EXCEPTION 'token % is already redeemed', OLD.jti USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.stale_at IS NOT NULL THEN
        RAISE EXCEPTION 'token % is stale', OLD.jti USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.redeemed_by IS NOT NULL THEN
        NEW.redeemed_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tokens_guard BEFORE UPDATE ON tokens FOR EACH ROW EXECUTE FUNCTION tokens_guard();

-- How somebody who saw a call whose outcome was unknown settled it.
CREATE TABLE reconciliations (
    approval_id text        PRIMARY KEY REFERENCES approvals (id),
    person_id   text        NOT NULL REFERENCES people (id),
    outcome     text        NOT NULL CHECK (outcome IN ('succeeded', 'failed')),
    -- Bound to its event by a digest; the salt goes with the comment.
    comment     text        NOT NULL CHECK (comment <> '' AND length(comment) <= 4000),
    salt        text        NOT NULL DEFAULT '',
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- +goose StatementBegin
CREATE FUNCTION reconciliations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want reconciliations%ROWTYPE := OLD;
BEGIN
    want.comment := erased_words(OLD.comment);
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM want AND (erasing('approval', OLD.approval_id) OR erasing('person', OLD.person_id)) THEN
        NEW.salt := '';
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'reconciliations is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER reconciliations_guard BEFORE UPDATE OR DELETE ON reconciliations FOR EACH ROW EXECUTE FUNCTION reconciliations_guard();

-- What somebody else said of an approval for which one person broke the glass.
CREATE TABLE afterwards (
    approval_id text        PRIMARY KEY REFERENCES approvals (id),
    person_id   text        REFERENCES people (id),
    justified   boolean,
    comment     text        NOT NULL DEFAULT '' CHECK (length(comment) <= 4000),
    salt        text        NOT NULL DEFAULT '', -- as in reconciliations
    owed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at     timestamptz CHECK ((done_at IS NULL) = (person_id IS NULL) AND (done_at IS NULL) = (justified IS NULL))
);
CREATE INDEX afterwards_owed ON afterwards (owed_at) WHERE done_at IS NULL;

-- It is said once; an erasure takes the words.
-- +goose StatementBegin
CREATE FUNCTION afterwards_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want afterwards%ROWTYPE := OLD;
BEGIN
    IF OLD.done_at IS NOT NULL THEN
        want.comment := erased_words(OLD.comment);
        IF NEW IS NOT DISTINCT FROM want AND (erasing('approval', OLD.approval_id) OR erasing('person', OLD.person_id)) THEN
            NEW.salt := '';
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'what was said of approval % afterwards cannot change', OLD.approval_id USING ERRCODE = 'check_violation';
    END IF;
    NEW.done_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER afterwards_guard BEFORE UPDATE ON afterwards FOR EACH ROW EXECUTE FUNCTION afterwards_guard();

-- Answers kept for Idempotency-Key.
CREATE TABLE idempotency (
    credential   text        NOT NULL, -- key or person whose request it was
    key          text        NOT NULL,
    request_hmac bytea       NOT NULL, -- keyed: a request's hash alone could be guessed
    approval_id  text,
    status       integer     NOT NULL,
    header       jsonb       NOT NULL,
    -- It may hold what a tool was to be given, and is encrypted as arguments are;
    -- without a key it is as it was written.
    body         bytea       NOT NULL,
    body_key     bytea,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (credential, key)
);
CREATE INDEX idempotency_created_at ON idempotency (created_at);
CREATE INDEX idempotency_approval ON idempotency (approval_id) WHERE approval_id IS NOT NULL;

GRANT SELECT ON tokens, reconciliations, afterwards, idempotency TO holdpoint_runtime;
GRANT INSERT (jti, approval_id, constraints, valid_until), UPDATE (redeemed_by, lease_until, stale_at) ON tokens TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, outcome, comment, salt) ON reconciliations TO holdpoint_runtime;
GRANT INSERT (approval_id), UPDATE (person_id, justified, comment, salt, done_at) ON afterwards TO holdpoint_runtime;
GRANT INSERT (credential, key, request_hmac, approval_id, status, header, body, body_key), DELETE ON idempotency TO holdpoint_runtime;

-- +goose Down
DROP TABLE idempotency, afterwards, reconciliations, tokens;
DROP FUNCTION afterwards_guard, reconciliations_guard, tokens_guard, tokens_approved;
