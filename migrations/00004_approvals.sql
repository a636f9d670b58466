-- +goose Up
-- Approvals, the facts that people and systems contribute to them, the outbox
-- that tells Temporal, the tokens that come of them, and the answers kept for
-- repeated requests.

CREATE TABLE approvals (
    id            text        PRIMARY KEY CHECK (id ~ '^apr_[a-z0-9]+$'),
    agent_id      text        NOT NULL REFERENCES agents (id),
    request_id    text        NOT NULL,
    dialect       text        NOT NULL,
    tool          text        NOT NULL,
    category      text        NOT NULL,
    risk_domain   text        NOT NULL,
    environment   text        NOT NULL,
    digest        text        NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    requested_by  jsonb       NOT NULL, -- engine.Actor
    max_state     text        NOT NULL, -- the credential's cap, for judging again
    decision      jsonb       NOT NULL, -- engine.Decision, as the reviewers' card shows it
    requirements  jsonb       NOT NULL, -- []engine.Requirement, in order of discharge
    excluded      text[]      NOT NULL, -- identities of the requesting side
    opened_at     timestamptz NOT NULL,
    expires_in    interval    NOT NULL CHECK (expires_in > interval '0'),
    expires_at    timestamptz NOT NULL,
    -- The only place where arguments are: the proposing document, encrypted
    -- under the record's own key, which is itself wrapped by the data key.
    -- Erasing the wrapped key erases the record.
    sealed        bytea       NOT NULL,
    sealed_key    bytea,
    sealed_size   integer     NOT NULL, -- bytes of canonical arguments, for the card

    status        text        NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'cancelled')),
    version       integer     NOT NULL,
    revision      bigint      NOT NULL,
    wake_at       timestamptz NOT NULL, -- the next deadline that the workflow waits for
    ended_at      timestamptz CHECK ((ended_at IS NULL) = (status = 'pending')),
    reasons       jsonb       NOT NULL,
    final         jsonb, -- approval.Final: how it stood when it ended
    execution     text        NOT NULL CHECK (execution IN ('none', 'redeemed', 'succeeded', 'failed', 'unknown')),
    CHECK (execution = 'none' OR status = 'approved')
);
CREATE INDEX approvals_pending_wake ON approvals (wake_at, id) WHERE status = 'pending';
CREATE INDEX approvals_pending_agent ON approvals (agent_id) WHERE status = 'pending';
CREATE INDEX approvals_ended ON approvals (ended_at DESC, id DESC) WHERE status <> 'pending';

-- Time and first state are the database's, whoever inserts. wake_at comes in as
-- the first requirement's own time, or NULL for none.
-- +goose StatementBegin
CREATE FUNCTION approvals_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.opened_at  := clock_timestamp();
    NEW.expires_at := NEW.opened_at + NEW.expires_in;
    NEW.wake_at    := NEW.opened_at;
    NEW.status     := 'pending';
    NEW.version    := 1;
    NEW.revision   := 1;
    NEW.ended_at   := NULL;
    NEW.reasons    := '[]';
    NEW.final      := NULL;
    NEW.execution  := 'none';
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER approvals_open BEFORE INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_open();

-- At most one terminal state, and it stays; an execution only goes forwards.
-- +goose StatementBegin
CREATE FUNCTION approvals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status <> 'pending' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'approval % is already %', OLD.id, OLD.status USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.execution <> OLD.execution AND NOT (
           (OLD.execution = 'none' AND NEW.execution = 'redeemed')
        OR (OLD.execution = 'redeemed' AND NEW.execution IN ('succeeded', 'failed', 'unknown'))) THEN
        RAISE EXCEPTION 'approval % cannot go from % to %', OLD.id, OLD.execution, NEW.execution USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status <> 'pending' AND (NEW.reasons, NEW.final, NEW.version, NEW.wake_at)
                    IS DISTINCT FROM (OLD.reasons, OLD.final, OLD.version, OLD.wake_at) THEN
        RAISE EXCEPTION 'how approval % ended cannot change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.status = 'pending' AND NEW.sealed_key IS NULL THEN
        RAISE EXCEPTION 'approval % waits: its arguments cannot be erased', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status = 'pending' AND NEW.status <> 'pending' THEN
        -- The least that must be so, whatever the programs have computed.
        IF NEW.status = 'approved' AND NOT EXISTS (SELECT FROM facts WHERE approval_id = OLD.id AND yes) THEN
            RAISE EXCEPTION 'nobody has said yes to approval %', OLD.id USING ERRCODE = 'check_violation';
        END IF;
        NEW.ended_at := clock_timestamp();
    END IF;
    IF NEW.execution = 'redeemed' AND OLD.execution = 'none'
       AND NOT EXISTS (SELECT FROM tokens WHERE approval_id = OLD.id AND redeemed_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the token of approval % has not been redeemed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    -- Who waits is told of what can be seen, not of the workflow's bookkeeping.
    IF NEW.revision <> OLD.revision OR (NEW.status, NEW.execution, NEW.version, NEW.sealed_key IS NULL)
                     IS DISTINCT FROM (OLD.status, OLD.execution, OLD.version, OLD.sealed_key IS NULL) THEN
        NEW.revision := OLD.revision + 1;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER approvals_guard BEFORE UPDATE ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_guard();

-- +goose StatementBegin
CREATE FUNCTION approvals_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdpoint_approvals', NEW.id);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER approvals_changed AFTER INSERT OR UPDATE ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_changed();

CREATE TABLE facts (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    approval_id text        NOT NULL REFERENCES approvals (id),
    at          timestamptz NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('vote', 'answer', 'cancel', 'ticket', 'verification')),
    actor_kind  text        NOT NULL CHECK (actor_kind IN ('human', 'agent', 'service', 'system')),
    actor_id    text        NOT NULL,
    channel     text        NOT NULL,
    yes         boolean     NOT NULL,
    denial      text        NOT NULL CHECK (denial IN ('', 'wrong_args', 'not_now', 'never', 'needs_info')),
    comment     text        NOT NULL CHECK (length(comment) <= 4000)
);
CREATE INDEX facts_approval ON facts (approval_id, seq);
-- One voice a person, however many requests carried it.
CREATE UNIQUE INDEX facts_one_yes ON facts (approval_id, actor_id) WHERE kind = 'vote' AND yes;

-- A fact's time is the moment at which it is written under the lock on its
-- approval, whatever the writer says; what is over takes no more facts.
-- +goose StatementBegin
CREATE FUNCTION facts_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM approvals WHERE id = NEW.approval_id AND status = 'pending') THEN
        RAISE EXCEPTION 'approval % takes no more facts', NEW.approval_id USING ERRCODE = 'check_violation';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER facts_now BEFORE INSERT ON facts FOR EACH ROW EXECUTE FUNCTION facts_now();
CREATE TRIGGER facts_append_only BEFORE UPDATE OR DELETE ON facts FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER facts_no_truncate BEFORE TRUNCATE ON facts FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- Who was shown the whole of an approval's arguments: approving long ones
-- needs it, and it is evidence of what a reviewer saw.
CREATE TABLE card_views (
    approval_id text        NOT NULL REFERENCES approvals (id),
    person_id   text        NOT NULL REFERENCES people (id),
    digest      text        NOT NULL,
    first_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (approval_id, person_id, digest)
);

-- The terminal event is written with the terminal state or not at all: written
-- beforehand it would keep the approval from ever ending.
-- +goose StatementBegin
CREATE FUNCTION events_settled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM approvals WHERE id = NEW.approval_id AND status <> 'pending') THEN
        RAISE EXCEPTION 'approval % has not ended', NEW.approval_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER events_settled BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.type = 'settled') EXECUTE FUNCTION events_settled();

-- What Temporal has yet to be told: "this approval exists or has changed".
CREATE TABLE outbox (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    approval_id text        NOT NULL REFERENCES approvals (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX outbox_approval ON outbox (approval_id);
-- +goose StatementBegin
CREATE FUNCTION outbox_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdpoint_outbox', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER outbox_changed AFTER INSERT ON outbox FOR EACH STATEMENT EXECUTE FUNCTION outbox_changed();

-- One token an approval, ever. The token itself is never stored: it is signed
-- from this row whenever its agent asks.
CREATE TABLE tokens (
    jti         text        PRIMARY KEY,
    approval_id text        NOT NULL UNIQUE REFERENCES approvals (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- No token is signed, and none is redeemed, after this.
    valid_until timestamptz NOT NULL,
    redeemed_at timestamptz,
    redeemed_by text
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
-- +goose StatementBegin
CREATE FUNCTION tokens_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.redeemed_at IS NOT NULL THEN
        RAISE EXCEPTION 'token % is already redeemed', OLD.jti USING ERRCODE = 'check_violation';
    END IF;
    NEW.redeemed_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tokens_guard BEFORE UPDATE ON tokens FOR EACH ROW EXECUTE FUNCTION tokens_guard();

-- Answers kept for Idempotency-Key.
CREATE TABLE idempotency (
    credential   text        NOT NULL, -- key or person whose request it was
    key          text        NOT NULL,
    request_hmac bytea       NOT NULL, -- keyed: a request's hash alone could be guessed
    approval_id  text,
    status       integer     NOT NULL,
    header       jsonb       NOT NULL,
    body         bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (credential, key)
);
CREATE INDEX idempotency_created_at ON idempotency (created_at);

GRANT SELECT ON approvals, facts, card_views, outbox, tokens, idempotency TO holdpoint_runtime;
GRANT INSERT (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state,
              decision, requirements, excluded, expires_in, sealed, sealed_key, sealed_size) ON approvals TO holdpoint_runtime;
GRANT UPDATE (status, version, revision, wake_at, reasons, final, execution, sealed_key) ON approvals TO holdpoint_runtime;
GRANT INSERT (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment) ON facts TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, digest) ON card_views TO holdpoint_runtime;
GRANT INSERT (approval_id), DELETE ON outbox TO holdpoint_runtime;
-- SELECT … FOR UPDATE SKIP LOCKED, with which the relay claims rows, asks for a right to update.
GRANT UPDATE (approval_id) ON outbox TO holdpoint_runtime;
GRANT INSERT (jti, approval_id, valid_until), UPDATE (redeemed_by) ON tokens TO holdpoint_runtime;
GRANT INSERT (credential, key, request_hmac, approval_id, status, header, body), DELETE ON idempotency TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER events_settled ON events;
DROP TABLE idempotency, tokens, outbox, card_views, facts, approvals;
DROP FUNCTION approvals_open(), approvals_guard(), approvals_changed(), facts_now(), events_settled(), outbox_changed(), tokens_approved(), tokens_guard();
