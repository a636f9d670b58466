-- +goose Up
-- Approvals, the facts that people and systems contribute to them, what was on
-- people's screens, the grants that vote beforehand, and the outbox that tells
-- Temporal.

CREATE TABLE approvals (
    id            text        PRIMARY KEY CHECK (id ~ '^apr_[a-z0-9]+$'),
    agent_id      text        NOT NULL REFERENCES agents (id),
    request_id    text        NOT NULL,
    -- The caller's name for the session that the call belongs to; '' for none.
    session       text        NOT NULL DEFAULT '' CHECK (length(session) <= 256),
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
    terms         jsonb       NOT NULL DEFAULT '{}', -- approval.Terms
    excluded      text[]      NOT NULL, -- identities of the requesting side
    -- What has to be unchanged when the call runs, by name; and the approval that
    -- was opened in its place when it was not.
    preconditions jsonb       NOT NULL DEFAULT '{}',
    successor     text        REFERENCES approvals (id),
    opened_at     timestamptz NOT NULL,
    expires_in    interval    NOT NULL CHECK (expires_in > interval '0'),
    expires_at    timestamptz NOT NULL,
    -- Changed arguments or stricter rules begin a new edition.
    edition       integer     NOT NULL DEFAULT 1,
    began_at      timestamptz,
    -- The only place where arguments are: the proposing document, encrypted
    -- under the record's own key, which is itself wrapped by the data key.
    -- Erasing the wrapped key erases the record.
    sealed        bytea       NOT NULL,
    sealed_key    bytea,
    sealed_size   integer     NOT NULL, -- bytes of canonical arguments, for the card
    -- What the requesting side supplied with its answer, encrypted as arguments are.
    answers       bytea,
    answers_key   bytea,

    status        text        NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'cancelled')),
    version       integer     NOT NULL,
    revision      bigint      NOT NULL,
    wake_at       timestamptz NOT NULL, -- the next deadline that the workflow waits for
    ended_at      timestamptz CHECK ((ended_at IS NULL) = (status = 'pending')),
    reasons       jsonb       NOT NULL,
    final         jsonb, -- approval.Final: how it stood when it ended
    execution     text        NOT NULL CHECK (execution IN ('none', 'redeemed', 'succeeded', 'failed', 'unknown')),
    erased_at     timestamptz,
    CHECK (execution = 'none' OR status = 'approved')
);
-- Time of an approval that has ended matters only to a call that runs.
CREATE INDEX approvals_wake ON approvals (wake_at, id) WHERE status = 'pending' OR execution = 'redeemed';
CREATE INDEX approvals_pending_agent ON approvals (agent_id) WHERE status = 'pending';
CREATE INDEX approvals_ended ON approvals (ended_at DESC, id DESC) WHERE status <> 'pending';
CREATE INDEX approvals_session ON approvals (agent_id, session) WHERE session <> '';
-- For "was this very call denied before?", and for what grants would have covered.
CREATE INDEX approvals_denied ON approvals (agent_id, digest, ended_at DESC) WHERE status = 'denied';
CREATE INDEX approvals_agent_tool ON approvals (agent_id, tool, opened_at DESC);
-- For evidence of a period.
CREATE INDEX approvals_opened ON approvals (opened_at, id);
-- For what is to be erased next, and for that with which a person has to do.
CREATE INDEX approvals_unerased ON approvals (ended_at, id) WHERE status <> 'pending' AND erased_at IS NULL;
CREATE INDEX approvals_excluded ON approvals USING gin (excluded);
CREATE INDEX approvals_accountable ON approvals USING gin ((terms->'accountable'));
CREATE INDEX approvals_requested_by ON approvals ((requested_by->>'id')) WHERE requested_by->>'kind' = 'human';

-- Time and first state are the database's, whoever inserts.
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

-- At most one terminal state, and it stays; an execution only goes forwards:
--
--   status:    pending ─► approved | denied | expired | cancelled
--   execution: none ─► redeemed ─► succeeded | failed | unknown ─► succeeded | failed
--
-- What people are asked about, and the key of what is sealed, change with a new
-- edition only. What has ended is erased as a whole, by an erasure, or stays.
-- +goose StatementBegin
CREATE FUNCTION approvals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want approvals%ROWTYPE := OLD;
BEGIN
    IF NEW.erased_at IS DISTINCT FROM OLD.erased_at THEN
        want.sealed := '';
        want.sealed_key := NULL;
        want.sealed_size := 0;
        want.answers := NULL;
        want.answers_key := NULL;
        want.digest := 'sha256:' || repeat('0', 64);
        want.session := '';
        want.preconditions := '{}';
        want.erased_at := NEW.erased_at;
        IF OLD.erased_at IS NOT NULL OR OLD.status = 'pending' OR NEW IS DISTINCT FROM want OR NOT erasing('approval', OLD.id) THEN
            RAISE EXCEPTION 'approval % is erased by an erasure only, and as a whole', OLD.id USING ERRCODE = 'check_violation';
        END IF;
        NEW.erased_at := clock_timestamp();
        NEW.revision := OLD.revision + 1;
        RETURN NEW;
    END IF;
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
    IF OLD.status <> 'pending' AND (NEW.reasons, NEW.final, NEW.version, NEW.answers, NEW.answers_key)
                    IS DISTINCT FROM (OLD.reasons, OLD.final, OLD.version, OLD.answers, OLD.answers_key) THEN
        RAISE EXCEPTION 'how approval % ended cannot change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.status = 'pending' AND NEW.sealed_key IS NULL THEN
        RAISE EXCEPTION 'approval % waits: its arguments cannot be erased', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.digest, NEW.decision, NEW.requirements, NEW.excluded, NEW.expires_at, NEW.terms, NEW.sealed, NEW.sealed_key, NEW.sealed_size, NEW.edition, NEW.began_at)
       IS DISTINCT FROM (OLD.digest, OLD.decision, OLD.requirements, OLD.excluded, OLD.expires_at, OLD.terms, OLD.sealed, OLD.sealed_key, OLD.sealed_size, OLD.edition, OLD.began_at) THEN
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

CREATE TABLE facts (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    approval_id text        NOT NULL REFERENCES approvals (id),
    edition     integer     NOT NULL DEFAULT 1,
    at          timestamptz NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('vote', 'answer', 'cancel', 'ticket', 'ticket_check', 'verification', 'question', 'information',
                                'comment', 'claim', 'unclaim', 'extend', 'escalate', 'edit', 'reopen', 'break_glass')),
    actor_kind  text        NOT NULL CHECK (actor_kind IN ('human', 'agent', 'service', 'system')),
    actor_id    text        NOT NULL,
    via         text[]      NOT NULL DEFAULT '{}', -- whom the actor stands in for, the next one first
    channel     text        NOT NULL,
    yes         boolean     NOT NULL,
    denial      text        NOT NULL CHECK (denial IN ('', 'wrong_args', 'not_now', 'never', 'needs_info')),
    comment     text        NOT NULL CHECK (length(comment) <= 4000),
    details     jsonb       NOT NULL DEFAULT '{}' -- approval.Details
);
CREATE INDEX facts_approval ON facts (approval_id, seq);
-- One voice a person, however many requests carried it.
CREATE UNIQUE INDEX facts_one_yes ON facts (approval_id, edition, actor_id) WHERE kind = 'vote' AND yes;
-- What a grant has voted.
CREATE INDEX facts_grant ON facts ((details->>'grant')) WHERE details ? 'grant';
-- What people said of approvals, in order of time, for reports.
CREATE INDEX facts_said ON facts (at) WHERE kind IN ('vote', 'question') AND actor_kind = 'human';
-- For that with which a person has to do.
CREATE INDEX facts_actor ON facts (actor_id);
CREATE INDEX facts_via ON facts USING gin (via) WHERE via <> '{}';

-- A fact's time is the moment at which it is written under the lock on its
-- approval, and its edition the one that there is then, whatever the writer says;
-- what is over takes no more facts.
-- +goose StatementBegin
CREATE FUNCTION facts_now() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER facts_now BEFORE INSERT ON facts FOR EACH ROW EXECUTE FUNCTION facts_now();

-- Facts never change, but that an erasure takes the words, the salt of their
-- digest, the digest of the arguments, what a vote was tightened by and the title
-- of a ticket out of what has ended.
-- +goose StatementBegin
CREATE FUNCTION facts_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want facts%ROWTYPE := OLD;
BEGIN
    IF TG_OP = 'UPDATE' AND EXISTS (SELECT FROM approvals WHERE id = OLD.approval_id AND status <> 'pending') THEN
        want.comment := erased_words(OLD.comment);
        want.details := OLD.details - 'salt';
        IF OLD.actor_kind = 'human' AND erasing('person', OLD.actor_id) AND NEW IS NOT DISTINCT FROM want THEN
            RETURN NEW;
        END IF;
        want.details := want.details - 'digest' - 'constraints' #- '{ticket,title}';
        IF erasing('approval', OLD.approval_id) AND NEW IS NOT DISTINCT FROM want THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'facts is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER facts_append_only BEFORE UPDATE OR DELETE ON facts FOR EACH ROW EXECUTE FUNCTION facts_guard();
CREATE TRIGGER facts_no_truncate BEFORE TRUNCATE ON facts FOR EACH STATEMENT EXECUTE FUNCTION append_only();

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
REVOKE ALL ON FUNCTION look_again FROM PUBLIC;
GRANT EXECUTE ON FUNCTION look_again TO holdpoint_runtime;
CREATE TRIGGER deciders_changed AFTER UPDATE ON people FOR EACH ROW
    WHEN ((OLD.roles, OLD.disabled_at) IS DISTINCT FROM (NEW.roles, NEW.disabled_at)) EXECUTE FUNCTION deciders_changed();

-- Who was shown the whole of an approval's arguments: approving long ones
-- needs it, and it is evidence of what a reviewer saw.
CREATE TABLE card_views (
    approval_id text        NOT NULL REFERENCES approvals (id),
    person_id   text        NOT NULL REFERENCES people (id),
    digest      text        NOT NULL,
    first_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (approval_id, person_id, digest)
);
CREATE INDEX card_views_person ON card_views (person_id);

-- A card as it was rendered, by the digest of exactly those bytes. The log has
-- only the digest; the card is here, sealed as arguments are, so that an evidence
-- pack can show it and erasing takes it away again.
CREATE TABLE cards (
    approval_id text        NOT NULL REFERENCES approvals (id),
    digest      text        NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    first_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    sealed      bytea       NOT NULL, -- deflated, then sealed
    sealed_key  bytea, -- NULL once erased
    PRIMARY KEY (approval_id, digest)
);

-- Who was shown which card. The last one is what somebody who votes has seen.
CREATE TABLE cards_shown (
    approval_id text        NOT NULL,
    person_id   text        NOT NULL REFERENCES people (id),
    card_digest text        NOT NULL,
    digest      text        NOT NULL, -- of the call that the card shows
    at          timestamptz NOT NULL DEFAULT clock_timestamp(), -- last, where another one was shown in between
    PRIMARY KEY (approval_id, person_id, card_digest),
    FOREIGN KEY (approval_id, card_digest) REFERENCES cards (approval_id, digest)
);

-- A card stays what it is, until its approval's arguments are erased: then it
-- goes with them, whoever erases.
-- +goose StatementBegin
CREATE FUNCTION cards_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want cards%ROWTYPE;
BEGIN
    IF TG_OP = 'INSERT' THEN
        -- Under the approval's lock, so that no card is kept of what is being erased.
        PERFORM FROM approvals WHERE id = NEW.approval_id AND sealed_key IS NOT NULL FOR SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the arguments of approval % are erased: nobody can be shown them', NEW.approval_id USING ERRCODE = 'check_violation';
        END IF;
        NEW.first_at := clock_timestamp();
        RETURN NEW;
    END IF;
    want := OLD;
    want.sealed := '';
    want.sealed_key := NULL;
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM want AND EXISTS (SELECT FROM approvals WHERE id = OLD.approval_id AND sealed_key IS NULL) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'cards is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE FUNCTION cards_erased() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE public.cards SET sealed = '', sealed_key = NULL WHERE approval_id = NEW.id AND sealed_key IS NOT NULL;
    UPDATE public.cards_shown SET digest = 'sha256:' || repeat('0', 64) WHERE approval_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION cards_shown_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The digest of a call could be guessed at: it goes with the arguments.
    IF TG_OP = 'UPDATE' AND (NEW.approval_id, NEW.person_id, NEW.card_digest, NEW.at, NEW.digest) = (OLD.approval_id, OLD.person_id, OLD.card_digest, OLD.at, 'sha256:' || repeat('0', 64))
       AND EXISTS (SELECT FROM approvals WHERE id = OLD.approval_id AND sealed_key IS NULL) THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' OR (NEW.approval_id, NEW.person_id, NEW.card_digest, NEW.digest) <> (OLD.approval_id, OLD.person_id, OLD.card_digest, OLD.digest) THEN
        RAISE EXCEPTION 'cards_shown is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER cards_guard BEFORE INSERT OR UPDATE OR DELETE ON cards FOR EACH ROW EXECUTE FUNCTION cards_guard();
CREATE TRIGGER cards_no_truncate BEFORE TRUNCATE ON cards FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER cards_shown_guard BEFORE UPDATE OR DELETE ON cards_shown FOR EACH ROW EXECUTE FUNCTION cards_shown_guard();
CREATE TRIGGER cards_shown_no_truncate BEFORE TRUNCATE ON cards_shown FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER approvals_cards_erased AFTER UPDATE ON approvals FOR EACH ROW
    WHEN (OLD.sealed_key IS NOT NULL AND NEW.sealed_key IS NULL) EXECUTE FUNCTION cards_erased();

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

-- A grant is only ever used up or revoked; an erasure takes what it was for.
-- +goose StatementBegin
CREATE FUNCTION standing_grants_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want standing_grants%ROWTYPE := OLD;
BEGIN
    IF (NEW.sealed, NEW.sealed_key, NEW.reason) IS DISTINCT FROM (OLD.sealed, OLD.sealed_key, OLD.reason) THEN
        want.sealed := '';
        want.sealed_key := NULL;
        want.reason := erased_words(OLD.reason);
        IF NEW IS NOT DISTINCT FROM want AND (erasing('approval', OLD.from_approval) OR erasing('person', OLD.person_id))
           AND (OLD.revoked_at IS NOT NULL OR OLD.uses >= OLD.max_uses OR OLD.expires_at <= clock_timestamp()) THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'what grant % is for cannot change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
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

GRANT SELECT ON approvals, facts, outbox, card_views, cards, cards_shown, standing_grants TO holdpoint_runtime;
GRANT INSERT (id, agent_id, request_id, session, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state,
              decision, requirements, terms, excluded, preconditions, expires_in, sealed, sealed_key, sealed_size),
      UPDATE (digest, decision, requirements, terms, excluded, successor, expires_at, edition, sealed, sealed_key, sealed_size, answers, answers_key,
              status, version, revision, wake_at, reasons, final, execution) ON approvals TO holdpoint_runtime;
GRANT INSERT (approval_id, kind, actor_kind, actor_id, via, channel, yes, denial, comment, details) ON facts TO holdpoint_runtime;
-- SELECT … FOR UPDATE SKIP LOCKED, with which the relay claims rows, asks for a right to update.
GRANT INSERT (approval_id), UPDATE (approval_id), DELETE ON outbox TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, digest) ON card_views TO holdpoint_runtime;
GRANT INSERT (approval_id, digest, sealed, sealed_key) ON cards TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, card_digest, digest), UPDATE (at) ON cards_shown TO holdpoint_runtime;
-- What a key opens goes with the key: nothing but an erasure takes one away.
GRANT INSERT (id, person_id, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, max_uses, expires_at, acknowledged),
      UPDATE (uses, revoked_at, revoked_by) ON standing_grants TO holdpoint_runtime;
GRANT SELECT (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, requested_by, decision, requirements, excluded, opened_at, expires_at,
              status, version, ended_at, reasons, final, execution, edition, began_at, terms, successor) ON approvals TO holdpoint_reader;
GRANT SELECT (seq, approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, edition, via) ON facts TO holdpoint_reader;

-- +goose Down
DROP TRIGGER deciders_changed ON people;
DROP TRIGGER events_settled ON events;
DROP TABLE standing_grants, cards_shown, cards, card_views, outbox, facts, approvals;
DROP FUNCTION standing_grants_guard, cards_shown_guard, cards_erased, cards_guard, deciders_changed, look_again, outbox_changed,
    facts_guard, facts_now, events_settled, approvals_changed, approvals_guard, approvals_open;
