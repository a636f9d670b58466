-- +goose Up
-- What makes approvals hold up: editions of a call, everything that people and
-- systems can contribute, who stands in for whom, standing grants, leases on
-- running calls, and what people are told.

-- On call: who has a schedule's role for a time, as the schedule's own system
-- tells us.
CREATE TABLE on_call (
    schedule   text        NOT NULL CHECK (schedule ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    person_id  text        NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    from_at    timestamptz NOT NULL,
    until_at   timestamptz NOT NULL CHECK (until_at > from_at),
    told_by    text        NOT NULL,
    PRIMARY KEY (schedule, person_id, from_at)
);

-- The roles that somebody has at this moment: their own, and "on-call/NAME" for
-- every schedule on which they are.
-- +goose StatementBegin
CREATE FUNCTION roles_of(person text, own text[]) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT own || coalesce(array_agg(DISTINCT 'on-call/' || o.schedule ORDER BY 'on-call/' || o.schedule), '{}')
    FROM on_call o WHERE o.person_id = person AND o.from_at <= statement_timestamp() AND o.until_at > statement_timestamp()
$$;
-- +goose StatementEnd

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
-- A delegation is only ever revoked.
-- +goose StatementBegin
CREATE FUNCTION delegations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'delegation % is revoked already', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    NEW.revoked_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER delegations_guard BEFORE UPDATE ON delegations FOR EACH ROW EXECUTE FUNCTION delegations_guard();

ALTER TABLE approvals
    -- Changed arguments or stricter rules begin a new edition.
    ADD COLUMN edition       integer     NOT NULL DEFAULT 1,
    ADD COLUMN began_at      timestamptz,
    ADD COLUMN terms         jsonb       NOT NULL DEFAULT '{}', -- approval.Terms
    -- The caller's name for the session that the call belongs to; '' for none.
    ADD COLUMN session       text        NOT NULL DEFAULT '' CHECK (length(session) <= 256),
    -- What has to be unchanged when the call runs, by name; and the approval that
    -- was opened in its place when it was not.
    ADD COLUMN preconditions jsonb       NOT NULL DEFAULT '{}',
    ADD COLUMN successor     text        REFERENCES approvals (id),
    -- What the requesting side supplied with its answer, encrypted as arguments are.
    ADD COLUMN answers       bytea,
    ADD COLUMN answers_key   bytea;
CREATE INDEX approvals_session ON approvals (agent_id, session) WHERE session <> '';
-- For "was this very call denied before?", and for what grants would have covered.
CREATE INDEX approvals_denied ON approvals (agent_id, digest, ended_at DESC) WHERE status = 'denied';
CREATE INDEX approvals_agent_tool ON approvals (agent_id, tool, opened_at DESC);

ALTER TABLE facts
    ADD COLUMN edition integer NOT NULL DEFAULT 1,
    ADD COLUMN via     text[]  NOT NULL DEFAULT '{}', -- whom the actor stands in for, the next one first
    ADD COLUMN details jsonb   NOT NULL DEFAULT '{}', -- approval.Details
    DROP CONSTRAINT facts_kind_check,
    ADD CONSTRAINT facts_kind_check CHECK (kind IN ('vote', 'answer', 'cancel', 'ticket', 'ticket_check', 'verification', 'question', 'information',
        'comment', 'claim', 'unclaim', 'extend', 'escalate', 'edit', 'reopen', 'break_glass'));
DROP INDEX facts_one_yes;
CREATE UNIQUE INDEX facts_one_yes ON facts (approval_id, edition, actor_id) WHERE kind = 'vote' AND yes;

-- A fact is about the edition that there is when it is written.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION facts_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT a.edition INTO NEW.edition FROM approvals a WHERE a.id = NEW.approval_id AND a.status = 'pending';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'approval % takes no more facts', NEW.approval_id USING ERRCODE = 'check_violation';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- How somebody who saw a call whose fate was unknown settled it.
CREATE TABLE reconciliations (
    approval_id text        PRIMARY KEY REFERENCES approvals (id),
    person_id   text        NOT NULL REFERENCES people (id),
    outcome     text        NOT NULL CHECK (outcome IN ('succeeded', 'failed')),
    comment     text        NOT NULL CHECK (comment <> '' AND length(comment) <= 4000),
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What somebody else said of an approval for which one person broke the glass.
CREATE TABLE afterwards (
    approval_id text        PRIMARY KEY REFERENCES approvals (id),
    person_id   text        REFERENCES people (id),
    justified   boolean,
    comment     text        NOT NULL DEFAULT '' CHECK (length(comment) <= 4000),
    owed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at     timestamptz CHECK ((done_at IS NULL) = (person_id IS NULL) AND (done_at IS NULL) = (justified IS NULL))
);
CREATE INDEX afterwards_owed ON afterwards (owed_at) WHERE done_at IS NULL;
-- It is said once.
-- +goose StatementBegin
CREATE FUNCTION afterwards_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.done_at IS NOT NULL THEN
        RAISE EXCEPTION 'what was said of approval % afterwards cannot change', OLD.approval_id USING ERRCODE = 'check_violation';
    END IF;
    NEW.done_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER afterwards_guard BEFORE UPDATE ON afterwards FOR EACH ROW EXECUTE FUNCTION afterwards_guard();

-- At most one terminal state, and it stays; an execution only goes forwards; and
-- what people are asked about changes with a new edition only.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status <> 'pending' AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'approval % is already %', OLD.id, OLD.status USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.execution <> OLD.execution AND NOT (
           (OLD.execution = 'none' AND NEW.execution = 'redeemed')
        OR (OLD.execution = 'redeemed' AND NEW.execution IN ('succeeded', 'failed', 'unknown'))
        -- What nobody knows of is settled by a person, and not silently.
        OR (OLD.execution = 'unknown' AND EXISTS (SELECT FROM reconciliations r WHERE r.approval_id = OLD.id AND r.outcome = NEW.execution))) THEN
        RAISE EXCEPTION 'approval % cannot go from % to %', OLD.id, OLD.execution, NEW.execution USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status <> 'pending' AND (NEW.reasons, NEW.final, NEW.version, NEW.answers)
                    IS DISTINCT FROM (OLD.reasons, OLD.final, OLD.version, OLD.answers) THEN
        RAISE EXCEPTION 'how approval % ended cannot change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.digest, NEW.decision, NEW.requirements, NEW.excluded, NEW.expires_at, NEW.terms, NEW.sealed, NEW.sealed_size, NEW.edition, NEW.began_at)
       IS DISTINCT FROM (OLD.digest, OLD.decision, OLD.requirements, OLD.excluded, OLD.expires_at, OLD.terms, OLD.sealed, OLD.sealed_size, OLD.edition, OLD.began_at) THEN
        IF OLD.status <> 'pending' OR NEW.status <> 'pending' OR NEW.edition <> OLD.edition + 1
           OR NOT EXISTS (SELECT FROM facts WHERE approval_id = OLD.id AND edition = OLD.edition AND kind IN ('edit', 'reopen')) THEN
            RAISE EXCEPTION 'what approval % asks for cannot change without a new edition', OLD.id USING ERRCODE = 'check_violation';
        END IF;
        NEW.began_at := clock_timestamp();
        NEW.version  := OLD.version + 1;
    END IF;
    IF OLD.successor IS NOT NULL AND NEW.successor IS DISTINCT FROM OLD.successor THEN
        RAISE EXCEPTION 'approval % has a successor already', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.status = 'pending' AND NEW.sealed_key IS NULL THEN
        RAISE EXCEPTION 'approval % waits: its arguments cannot be erased', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.status = 'pending' AND NEW.status <> 'pending' THEN
        -- The least that must be so, whatever the programs have computed.
        IF NEW.status = 'approved' AND NOT EXISTS (SELECT FROM facts WHERE approval_id = OLD.id AND edition = OLD.edition AND yes) THEN
            RAISE EXCEPTION 'nobody has said yes to approval %', OLD.id USING ERRCODE = 'check_violation';
        END IF;
        NEW.ended_at := clock_timestamp();
    END IF;
    IF NEW.execution = 'redeemed' AND OLD.execution = 'none'
       AND NOT EXISTS (SELECT FROM tokens WHERE approval_id = OLD.id AND redeemed_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the token of approval % has not been redeemed', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    -- Who waits is told of what can be seen, not of the workflow's bookkeeping.
    IF NEW.revision <> OLD.revision OR (NEW.status, NEW.execution, NEW.version, NEW.successor, NEW.sealed_key IS NULL)
                     IS DISTINCT FROM (OLD.status, OLD.execution, OLD.version, OLD.successor, OLD.sealed_key IS NULL) THEN
        NEW.revision := OLD.revision + 1;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- Time of an approval that has ended matters only to a call that runs.
DROP INDEX approvals_pending_wake;
CREATE INDEX approvals_wake ON approvals (wake_at, id) WHERE status = 'pending' OR execution = 'redeemed';

ALTER TABLE tokens
    -- What the reviewers have tightened is in force for the token.
    ADD COLUMN constraints jsonb,
    -- By when the agent has to say what became of the call.
    ADD COLUMN lease_until timestamptz,
    -- Since when it is known that the call does not fit the world any more.
    ADD COLUMN stale_at    timestamptz;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tokens_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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

-- "Calls like this one are approved": a vote that somebody casts beforehand. Its
-- matchers hold arguments, and are encrypted as those are.
CREATE TABLE standing_grants (
    id          text        PRIMARY KEY CHECK (id ~ '^gra_[a-z0-9]+$'),
    person_id   text        NOT NULL REFERENCES people (id),
    agent_id    text        NOT NULL REFERENCES agents (id),
    tool        text        NOT NULL CHECK (tool <> ''),
    environment text        NOT NULL,
    sealed      bytea       NOT NULL,
    sealed_key  bytea,
    reason      text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
    from_approval text      REFERENCES approvals (id),
    max_uses    integer     NOT NULL CHECK (max_uses BETWEEN 1 AND 1000),
    uses        integer     NOT NULL DEFAULT 0 CHECK (uses BETWEEN 0 AND max_uses),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL CHECK (expires_at > created_at AND expires_at <= created_at + interval '7 days'),
    -- The denials that it would have overruled, and that its maker has seen.
    acknowledged text[]     NOT NULL DEFAULT '{}',
    revoked_at  timestamptz,
    revoked_by  text
);
CREATE INDEX standing_grants_live ON standing_grants (agent_id, tool) WHERE revoked_at IS NULL;
-- A grant is only ever used up or revoked.
-- +goose StatementBegin
CREATE FUNCTION standing_grants_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.uses < OLD.uses OR OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'grant % cannot come back', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.uses > OLD.uses AND (OLD.revoked_at IS NOT NULL OR clock_timestamp() >= OLD.expires_at) THEN
        RAISE EXCEPTION 'grant % is over', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER standing_grants_guard BEFORE UPDATE ON standing_grants FOR EACH ROW EXECUTE FUNCTION standing_grants_guard();
-- For what a grant has voted.
CREATE INDEX facts_grant ON facts ((details->>'grant')) WHERE details ? 'grant';

-- Where people are told: a webhook, a mailbox, a Slack channel. What is secret
-- about it is encrypted.
CREATE TABLE endpoints (
    id          text        PRIMARY KEY CHECK (id ~ '^end_[a-z0-9]+$'),
    kind        text        NOT NULL CHECK (kind IN ('webhook', 'email', 'slack')),
    name        text        NOT NULL UNIQUE CHECK (name <> '' AND length(name) <= 200),
    settings    jsonb       NOT NULL, -- notify's own: what is told, for which roles, how bundled
    sealed      bytea,
    sealed_key  bytea,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by  text        NOT NULL,
    disabled_at timestamptz
);

-- What has been found worth telling of an approval: each thing once.
CREATE TABLE announcements (
    approval_id text        NOT NULL REFERENCES approvals (id),
    key         text        NOT NULL,
    tell        text        NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (approval_id, key)
);

-- One thing to tell at one endpoint. Delivered at least once, with its id.
CREATE TABLE notifications (
    id          text        PRIMARY KEY CHECK (id ~ '^ntf_[a-z0-9]+$'),
    endpoint_id text        NOT NULL REFERENCES endpoints (id),
    recipient   text        NOT NULL DEFAULT '', -- a mail address, where the endpoint has many
    approval_id text        REFERENCES approvals (id),
    tell        text        NOT NULL,
    body        jsonb       NOT NULL, -- notify.Notice: no argument, no token
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    status      text        NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'bundled', 'sent', 'dead')),
    bundle_id   text        REFERENCES notifications (id),
    attempts    integer     NOT NULL DEFAULT 0,
    last_error  text        NOT NULL DEFAULT '' CHECK (length(last_error) <= 1000),
    ended_at    timestamptz,
    -- It waits to be told together with others of the same endpoint and recipient;
    -- which ones those are stays as it is from its first attempt on.
    bundles     boolean     NOT NULL DEFAULT false,
    claimed_at  timestamptz,
    -- Since when Temporal has it.
    started_at  timestamptz,
    CHECK ((status = 'bundled') = (bundle_id IS NOT NULL)),
    CHECK ((status = 'waiting') = (ended_at IS NULL))
);
CREATE INDEX notifications_due ON notifications (due_at, id) WHERE status = 'waiting';
CREATE INDEX notifications_bundles ON notifications (endpoint_id, recipient) WHERE status = 'waiting' AND bundles AND claimed_at IS NULL;
CREATE INDEX notifications_bundled ON notifications (bundle_id) WHERE bundle_id IS NOT NULL;
CREATE INDEX notifications_endpoint ON notifications (endpoint_id, status);
CREATE INDEX notifications_dead ON notifications (ended_at DESC, id) WHERE status = 'dead';

-- Who may decide has changed: what waits for people of these roles is looked at
-- again, and what this person ('' for nobody) answers for or has contributed to.
-- A message that waits already may be on its way, so another one is written.
-- +goose StatementBegin
CREATE FUNCTION look_again(roles text[], person text, identity text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO outbox (approval_id)
    SELECT a.id FROM approvals a WHERE a.status = 'pending' AND (
        EXISTS (SELECT FROM jsonb_array_elements(a.requirements) r WHERE r->>'role' = ANY ($1)
            OR EXISTS (SELECT FROM jsonb_array_elements(coalesce(r->'any_of', '[]')) g WHERE g->>'role' = ANY ($1))
            OR EXISTS (SELECT FROM jsonb_array_elements(coalesce(r->'escalation', '[]')) e WHERE e->>'role' = ANY ($1)))
        OR $2 <> '' AND (a.terms->'accountable' ? $3
            OR EXISTS (SELECT FROM facts f WHERE f.approval_id = a.id AND (f.actor_id = $2 OR $2 = ANY (f.via)))))
$$;
CREATE FUNCTION deciders_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM look_again(roles_of(NEW.id, OLD.roles || NEW.roles), NEW.id, NEW.identity);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER deciders_changed AFTER UPDATE ON people FOR EACH ROW
    WHEN ((OLD.roles, OLD.disabled_at) IS DISTINCT FROM (NEW.roles, NEW.disabled_at)) EXECUTE FUNCTION deciders_changed();

GRANT SELECT ON on_call, delegations, reconciliations, afterwards, standing_grants, endpoints, announcements, notifications TO holdpoint_runtime;
GRANT INSERT, UPDATE (until_at), DELETE ON on_call TO holdpoint_runtime;
GRANT INSERT (id, person_id, deputy_id, from_at, until_at, reason, created_by), UPDATE (revoked_at) ON delegations TO holdpoint_runtime;
GRANT INSERT (terms, session, preconditions) ON approvals TO holdpoint_runtime;
GRANT UPDATE (digest, decision, requirements, excluded, expires_at, terms, sealed, sealed_size, edition, successor, answers, answers_key) ON approvals TO holdpoint_runtime;
GRANT INSERT (via, details) ON facts TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, outcome, comment) ON reconciliations TO holdpoint_runtime;
GRANT INSERT (approval_id), UPDATE (person_id, justified, comment, done_at) ON afterwards TO holdpoint_runtime;
GRANT INSERT (constraints), UPDATE (lease_until, stale_at) ON tokens TO holdpoint_runtime;
GRANT INSERT (id, person_id, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, max_uses, expires_at, acknowledged),
      UPDATE (uses, revoked_at, revoked_by, sealed_key) ON standing_grants TO holdpoint_runtime;
GRANT INSERT (id, kind, name, settings, sealed, sealed_key, created_by), UPDATE (name, settings, sealed, sealed_key, disabled_at) ON endpoints TO holdpoint_runtime;
GRANT INSERT (approval_id, key, tell) ON announcements TO holdpoint_runtime;
GRANT INSERT (id, endpoint_id, recipient, approval_id, tell, body, due_at, bundles), UPDATE (due_at, status, bundle_id, attempts, last_error, ended_at, claimed_at, started_at) ON notifications TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER deciders_changed ON people;
DROP FUNCTION deciders_changed(), look_again(text[], text, text);
DROP TABLE notifications, announcements, endpoints, standing_grants, afterwards, reconciliations, delegations;
DROP FUNCTION standing_grants_guard(), delegations_guard(), afterwards_guard();
DELETE FROM outbox WHERE approval_id IN (SELECT id FROM approvals WHERE edition > 1);
ALTER TABLE tokens DROP COLUMN constraints, DROP COLUMN lease_until, DROP COLUMN stale_at;
DROP INDEX approvals_wake, approvals_session, approvals_denied, approvals_agent_tool;
CREATE INDEX approvals_pending_wake ON approvals (wake_at, id) WHERE status = 'pending';
DROP INDEX facts_one_yes;
CREATE UNIQUE INDEX facts_one_yes ON facts (approval_id, actor_id) WHERE kind = 'vote' AND yes;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION facts_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM approvals WHERE id = NEW.approval_id AND status = 'pending') THEN
        RAISE EXCEPTION 'approval % takes no more facts', NEW.approval_id USING ERRCODE = 'check_violation';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tokens_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.redeemed_at IS NOT NULL THEN
        RAISE EXCEPTION 'token % is already redeemed', OLD.jti USING ERRCODE = 'check_violation';
    END IF;
    NEW.redeemed_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
ALTER TABLE facts DROP COLUMN edition, DROP COLUMN via, DROP COLUMN details,
    DROP CONSTRAINT facts_kind_check,
    ADD CONSTRAINT facts_kind_check CHECK (kind IN ('vote', 'answer', 'cancel', 'ticket', 'verification')) NOT VALID;
ALTER TABLE approvals DROP COLUMN edition, DROP COLUMN began_at, DROP COLUMN terms, DROP COLUMN session, DROP COLUMN preconditions,
    DROP COLUMN successor, DROP COLUMN answers, DROP COLUMN answers_key;
DROP FUNCTION roles_of(text, text[]);
DROP TABLE on_call;
