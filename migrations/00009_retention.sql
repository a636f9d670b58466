-- +goose Up
-- What is kept for how long: holds that keep, a floor below which nothing is
-- erased, and the only functions that erase. What they leave is what the log,
-- its verifier and the state machine need: who did what, and when. What they
-- take is what was said and what was to be done.
--
--   asked for, or old enough ─► no hold, nothing open, past the floor ─► erasure + event ─► blanks
--
-- An erasure is on record or it does not happen: the guards let the blanks
-- through only in a transaction that holds its row, and that row only commits
-- together with its event.

-- What keeps records from being erased. A hold is only ever released.
CREATE TABLE legal_holds (
    id             text        PRIMARY KEY CHECK (id ~ '^hold_[a-z0-9]+$'),
    covers         text        NOT NULL CHECK (covers IN ('approval', 'agent', 'person', 'everything')),
    subject        text        NOT NULL CHECK ((subject = '') = (covers = 'everything')),
    reason         text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
    placed_by      text        NOT NULL,
    placed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    placed_event   uuid        NOT NULL,
    released_by    text,
    released_at    timestamptz,
    released_event uuid,
    CHECK ((released_at IS NULL) = (released_by IS NULL) AND (released_at IS NULL) = (released_event IS NULL))
);
CREATE INDEX legal_holds_live ON legal_holds (covers, subject) WHERE released_at IS NULL;
-- +goose StatementBegin
CREATE FUNCTION legal_holds_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want legal_holds%ROWTYPE;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NOT (CASE NEW.covers
            WHEN 'approval' THEN EXISTS (SELECT FROM approvals WHERE id = NEW.subject)
            WHEN 'agent' THEN EXISTS (SELECT FROM agents WHERE id = NEW.subject)
            WHEN 'person' THEN EXISTS (SELECT FROM people WHERE id = NEW.subject)
            ELSE true END) THEN
            RAISE EXCEPTION 'there is nothing to hold' USING ERRCODE = 'HPE01', DETAIL = 'missing';
        END IF;
        NEW.placed_at := clock_timestamp();
        NEW.released_by := NULL;
        NEW.released_at := NULL;
        NEW.released_event := NULL;
        RETURN NEW;
    END IF;
    want := OLD;
    want.released_by := NEW.released_by;
    want.released_event := NEW.released_event;
    IF OLD.released_at IS NOT NULL OR NEW.released_by IS NULL OR NEW IS DISTINCT FROM want THEN
        RAISE EXCEPTION 'a hold is only ever released' USING ERRCODE = 'check_violation';
    END IF;
    NEW.released_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER legal_holds_guard BEFORE INSERT OR UPDATE ON legal_holds FOR EACH ROW EXECUTE FUNCTION legal_holds_guard();
CREATE TRIGGER legal_holds_kept BEFORE DELETE ON legal_holds FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER legal_holds_no_truncate BEFORE TRUNCATE ON legal_holds FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- One row: how long after its end a record cannot be erased by anybody. Three
-- days, so that whoever misuses the right to erase on a Friday evening is found
-- on Monday with what was asked for still there; and so that it outlasts what
-- hangs on an ended approval: tokens, leases and kept answers of a day.
CREATE TABLE retention_floor (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    shortest   interval    NOT NULL DEFAULT interval '72 hours'
               CHECK (shortest >= interval '0' AND extract(year FROM shortest) = 0 AND extract(month FROM shortest) = 0),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by text        NOT NULL DEFAULT ''
);
INSERT INTO retention_floor DEFAULT VALUES;

-- A hold is in force the moment its transaction commits: placing or releasing
-- one takes this lock alone, as changing the floor does, and every erasure
-- shares it before it looks. So an erasure either commits before the hold does,
-- or sees it.
-- +goose StatementBegin
CREATE FUNCTION retention_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(7214480935526633015);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER legal_holds_lock BEFORE INSERT OR UPDATE ON legal_holds FOR EACH STATEMENT EXECUTE FUNCTION retention_lock();
CREATE TRIGGER retention_floor_lock BEFORE UPDATE ON retention_floor FOR EACH STATEMENT EXECUTE FUNCTION retention_lock();

-- What was erased, when, by whom and why.
CREATE TABLE erasures (
    id         text        PRIMARY KEY DEFAULT 'ers_' || replace(gen_random_uuid()::text, '-', ''),
    covers     text        NOT NULL CHECK (covers IN ('approval', 'person')),
    subject    text        NOT NULL,
    -- Asked for, or by age: then older is what the setting said.
    rule       text        NOT NULL CHECK (rule IN ('request', 'age')),
    older      interval    CHECK ((older IS NULL) = (rule = 'request')),
    reason     text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
    erased_by  text        NOT NULL,
    erased_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    parts      text[]      NOT NULL,
    event_id   uuid        NOT NULL UNIQUE,
    xact       xid8        NOT NULL DEFAULT pg_current_xact_id(),
    UNIQUE (covers, subject)
);
CREATE INDEX erasures_erased_at ON erasures (erased_at DESC, id DESC);
CREATE TRIGGER erasures_append_only BEFORE UPDATE OR DELETE ON erasures FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER erasures_no_truncate BEFORE TRUNCATE ON erasures FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- What is erased, held or released is told by an event of its own, in the same
-- transaction: without one it does not commit.
-- +goose StatementBegin
CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told boolean;
BEGIN
    IF TG_TABLE_NAME = 'erasures' THEN
        told := EXISTS (SELECT FROM events e WHERE e.event_id = NEW.event_id AND e.type = 'erasure' AND e.xact = NEW.xact
            AND e.approval_id IS NOT DISTINCT FROM CASE WHEN NEW.covers = 'approval' THEN NEW.subject END);
    ELSE
        told := EXISTS (SELECT FROM events e WHERE e.event_id = coalesce(NEW.released_event, NEW.placed_event) AND e.type = 'hold' AND e.xact = pg_current_xact_id_if_assigned());
    END IF;
    IF NOT told THEN
        RAISE EXCEPTION 'no event tells of this' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER erasures_told AFTER INSERT ON erasures DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION told();
CREATE CONSTRAINT TRIGGER legal_holds_told AFTER INSERT OR UPDATE ON legal_holds DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION told();

-- erased_words is what stands where a person's words stood: their having been
-- there counts in the state machine (a question, a reason), what they were does
-- not. erasing says whether this very transaction has the erasure on record. The
-- guards of what can be erased ask both.
-- +goose StatementBegin
CREATE FUNCTION erased_words(words text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN words = '' THEN '' ELSE '[erased]' END
$$;
CREATE FUNCTION erasing(what text, whose text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM erasures e WHERE e.covers = what AND e.subject = whose AND e.xact = pg_current_xact_id_if_assigned())
$$;
-- +goose StatementEnd

-- approvals_of are the approvals with which a person, under any account, has to
-- do: on the requesting side, by what they said or saw, or by whom they stood in for.
-- +goose StatementBegin
CREATE FUNCTION approvals_of(person text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH accounts AS (SELECT p.id, p.identity FROM people own JOIN people p ON p.identity = own.identity WHERE own.id = person)
    SELECT a.id FROM approvals a JOIN accounts p ON a.excluded @> ARRAY[p.identity]
    UNION SELECT a.id FROM approvals a JOIN accounts p ON a.terms->'accountable' ? p.identity
    UNION SELECT a.id FROM approvals a JOIN accounts p ON a.requested_by->>'kind' = 'human' AND a.requested_by->>'id' = p.id
    UNION SELECT f.approval_id FROM facts f JOIN accounts p ON f.actor_id = p.id
    UNION SELECT f.approval_id FROM facts f JOIN accounts p ON f.via <> '{}' AND f.via @> ARRAY[p.id]
    UNION SELECT v.approval_id FROM card_views v JOIN accounts p ON v.person_id = p.id
    UNION SELECT r.approval_id FROM reconciliations r JOIN accounts p ON r.person_id = p.id
    UNION SELECT w.approval_id FROM afterwards w JOIN accounts p ON w.person_id = p.id
    UNION SELECT g.from_approval FROM standing_grants g JOIN accounts p ON g.person_id = p.id WHERE g.from_approval IS NOT NULL
$$;
-- +goose StatementEnd

-- held says whether a hold covers an approval: in doubt it does. A hold on a
-- person covers everything with which they have to do, under any account.
-- +goose StatementBegin
CREATE FUNCTION held(approval text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM legal_holds h JOIN approvals a ON a.id = approval WHERE h.released_at IS NULL AND (
        h.covers = 'everything' OR h.covers = 'approval' AND h.subject = a.id OR h.covers = 'agent' AND h.subject = a.agent_id
        OR h.covers = 'person' AND EXISTS (
            SELECT FROM people own JOIN people p ON p.identity = own.identity WHERE own.id = h.subject AND (
                p.identity = ANY (a.excluded) OR a.terms->'accountable' ? p.identity OR a.requested_by->>'id' = p.id
                OR EXISTS (SELECT FROM facts f WHERE f.approval_id = a.id AND (f.actor_id = p.id OR p.id = ANY (f.via)))
                OR EXISTS (SELECT FROM card_views v WHERE v.approval_id = a.id AND v.person_id = p.id)
                OR EXISTS (SELECT FROM reconciliations r WHERE r.approval_id = a.id AND r.person_id = p.id)
                OR EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id AND w.person_id = p.id)
                OR EXISTS (SELECT FROM standing_grants g WHERE g.from_approval = a.id AND g.person_id = p.id)))))
$$;
-- +goose StatementEnd

-- why_kept says why an approval cannot be erased now; '' when it can. What is
-- open is kept: somebody may still need what it says.
-- +goose StatementBegin
CREATE FUNCTION why_kept(approval text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT CASE
        WHEN a.erased_at IS NOT NULL THEN 'erased'
        WHEN a.status = 'pending' THEN 'pending'
        WHEN a.execution = 'redeemed' THEN 'running'
        WHEN held(a.id) THEN 'held'
        WHEN a.execution = 'unknown' THEN 'unknown'
        WHEN EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id AND w.done_at IS NULL) THEN 'owed'
        WHEN EXISTS (SELECT FROM tokens t WHERE t.approval_id = a.id AND t.redeemed_at IS NULL AND t.stale_at IS NULL AND t.valid_until > clock_timestamp()) THEN 'spendable'
        WHEN EXISTS (SELECT FROM standing_grants g WHERE g.from_approval = a.id AND g.revoked_at IS NULL AND g.uses < g.max_uses AND g.expires_at > clock_timestamp()) THEN 'granted'
        WHEN greatest(a.ended_at, (SELECT r.at FROM reconciliations r WHERE r.approval_id = a.id), (SELECT w.done_at FROM afterwards w WHERE w.approval_id = a.id))
             > clock_timestamp() - (SELECT shortest FROM retention_floor) THEN 'recent'
        ELSE '' END FROM approvals a WHERE a.id = approval), 'missing')
$$;
-- +goose StatementEnd

-- why_person_kept is why_kept of a person.
-- +goose StatementBegin
CREATE FUNCTION why_person_kept(person text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT CASE
        WHEN p.erased_at IS NOT NULL THEN 'erased'
        WHEN EXISTS (SELECT FROM legal_holds h LEFT JOIN people o ON h.covers = 'person' AND o.id = h.subject LEFT JOIN agents g ON h.covers = 'agent' AND g.id = h.subject
            WHERE h.released_at IS NULL AND (h.covers = 'everything' OR o.identity = p.identity OR g.owner_id = p.id)) THEN 'held'
        WHEN EXISTS (SELECT FROM legal_holds h WHERE h.released_at IS NULL) AND EXISTS (SELECT FROM approvals_of(p.id) AS mine (id) WHERE held(mine.id)) THEN 'held'
        WHEN EXISTS (SELECT FROM agents g WHERE g.owner_id = p.id AND g.disabled_at IS NULL) THEN 'agents'
        WHEN EXISTS (SELECT FROM standing_grants g WHERE g.person_id = p.id AND g.revoked_at IS NULL AND g.uses < g.max_uses AND g.expires_at > clock_timestamp()) THEN 'granted'
        WHEN EXISTS (SELECT FROM endpoints e WHERE e.settings->'to' ? p.email) THEN 'endpoint'
        WHEN EXISTS (SELECT FROM approvals_of(p.id) AS mine (id) JOIN approvals a ON a.id = mine.id
            WHERE a.status = 'pending' OR a.execution IN ('redeemed', 'unknown')
               OR EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id AND w.done_at IS NULL)) THEN 'pending'
        WHEN EXISTS (SELECT FROM approvals_of(p.id) AS mine (id) JOIN approvals a ON a.id = mine.id
            WHERE greatest(a.ended_at, (SELECT r.at FROM reconciliations r WHERE r.approval_id = a.id), (SELECT w.done_at FROM afterwards w WHERE w.approval_id = a.id))
                  > clock_timestamp() - (SELECT shortest FROM retention_floor)) THEN 'recent'
        ELSE '' END FROM people p WHERE p.id = person), 'missing')
$$;
-- +goose StatementEnd

-- begin_erasing takes the lock that holds wait for, and refuses a transaction
-- whose statements would not see what others have committed meanwhile.
-- +goose StatementBegin
CREATE FUNCTION begin_erasing() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'erasures run at READ COMMITTED: they must see every hold' USING ERRCODE = 'feature_not_supported';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(7214480935526633015);
END
$$;
-- +goose StatementEnd

-- erase_approval erases what an approval was about and what people said of it,
-- and returns which parts there were. The caller appends the event in the same
-- transaction. With older it is by age, and the approval has to have ended that
-- long ago. HPE01 names, as its detail, why it is kept.
-- +goose StatementBegin
CREATE FUNCTION erase_approval(approval text, who text, why text, event uuid, older interval DEFAULT NULL) RETURNS text[]
-- pg_temp comes last: what a caller makes there must not stand for anything here.
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    a     public.approvals%ROWTYPE;
    kept  text;
    parts text[] := ARRAY['arguments'];
BEGIN
    PERFORM public.begin_erasing();
    SELECT * INTO a FROM public.approvals WHERE id = approval FOR UPDATE;
    kept := public.why_kept(approval);
    IF kept = '' AND older IS NOT NULL AND (older < interval '0' OR a.ended_at > clock_timestamp() - older) THEN
        kept := 'young';
    END IF;
    IF kept <> '' THEN
        RAISE EXCEPTION 'approval % is kept: %', approval, kept USING ERRCODE = 'HPE01', DETAIL = kept;
    END IF;
    IF a.answers IS NOT NULL THEN
        parts := parts || text 'answers';
    END IF;
    IF EXISTS (SELECT FROM public.facts f WHERE f.approval_id = approval AND f.comment <> '')
       OR EXISTS (SELECT FROM public.reconciliations r WHERE r.approval_id = approval)
       OR EXISTS (SELECT FROM public.afterwards w WHERE w.approval_id = approval AND w.comment <> '') THEN
        parts := parts || text 'comments';
    END IF;
    IF EXISTS (SELECT FROM public.notifications n WHERE n.approval_id = approval) THEN
        parts := parts || text 'notifications';
    END IF;
    IF EXISTS (SELECT FROM public.idempotency i WHERE i.approval_id = approval) THEN
        parts := parts || text 'kept_answers';
    END IF;
    IF EXISTS (SELECT FROM public.standing_grants g WHERE g.from_approval = approval AND g.sealed_key IS NOT NULL) THEN
        parts := parts || text 'grants';
    END IF;
    IF a.session <> '' OR a.preconditions <> '{}' THEN
        parts := parts || text 'names';
    END IF;
    INSERT INTO public.erasures (covers, subject, rule, older, reason, erased_by, parts, event_id)
    VALUES ('approval', approval, CASE WHEN older IS NULL THEN 'request' ELSE 'age' END, older, why, who, parts, event);

    UPDATE public.approvals SET sealed = '', sealed_key = NULL, sealed_size = 0, answers = NULL, answers_key = NULL,
        digest = 'sha256:' || repeat('0', 64), session = '', preconditions = '{}', erased_at = clock_timestamp() WHERE id = approval;
    UPDATE public.facts SET comment = public.erased_words(comment), details = details - 'salt' - 'digest' - 'constraints' #- '{ticket,title}' WHERE approval_id = approval;
    UPDATE public.tokens SET constraints = NULL WHERE approval_id = approval AND constraints IS NOT NULL;
    UPDATE public.reconciliations SET comment = public.erased_words(comment) WHERE approval_id = approval;
    UPDATE public.afterwards SET comment = public.erased_words(comment) WHERE approval_id = approval;
    -- Who looked, and when first; of what, is gone.
    DELETE FROM public.card_views v WHERE v.approval_id = approval
        AND EXISTS (SELECT FROM public.card_views o WHERE o.approval_id = approval AND o.person_id = v.person_id AND (o.first_at, o.digest) < (v.first_at, v.digest));
    UPDATE public.card_views SET digest = 'sha256:' || repeat('0', 64) WHERE approval_id = approval;
    UPDATE public.notifications SET body = '{}', recipient = '', last_error = CASE WHEN status = 'waiting' THEN 'erased' ELSE '' END,
        ended_at = coalesce(ended_at, clock_timestamp()), status = CASE WHEN status = 'waiting' THEN 'dead' ELSE status END WHERE approval_id = approval;
    -- Somebody who repeats the request learns that, and does not ask anew.
    UPDATE public.idempotency SET status = 410, header = '{"Content-Type": "application/problem+json"}', body_key = NULL,
        body = convert_to('{"type":"urn:holdpoint:problem:erased","title":"Gone","status":410,"code":"erased","detail":"The answer to this request has been erased."}' || E'\n', 'UTF8')
    WHERE approval_id = approval;
    UPDATE public.standing_grants SET sealed = '', sealed_key = NULL, reason = public.erased_words(reason) WHERE from_approval = approval;
    RETURN parts;
END
$$;
-- +goose StatementEnd

-- erase_person takes a person's name, address, means to sign in and words, and
-- returns which parts there were. The id stays, so that the log still says that
-- one human being did what.
-- +goose StatementBegin
CREATE FUNCTION erase_person(person text, who text, why text, event uuid) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    p     public.people%ROWTYPE;
    kept  text;
    parts text[] := ARRAY['name', 'email', 'password'];
BEGIN
    PERFORM public.begin_erasing();
    SELECT * INTO p FROM public.people WHERE id = person FOR UPDATE;
    kept := public.why_person_kept(person);
    IF kept <> '' THEN
        RAISE EXCEPTION 'person % is kept: %', person, kept USING ERRCODE = 'HPE01', DETAIL = kept;
    END IF;
    IF EXISTS (SELECT FROM public.totp_factors f WHERE f.person_id = person) OR EXISTS (SELECT FROM public.passkeys k WHERE k.person_id = person) THEN
        parts := parts || text 'factors';
    END IF;
    IF EXISTS (SELECT FROM public.facts f WHERE f.actor_kind = 'human' AND f.actor_id = person AND f.comment <> '')
       OR EXISTS (SELECT FROM public.reconciliations r WHERE r.person_id = person)
       OR EXISTS (SELECT FROM public.afterwards w WHERE w.person_id = person AND w.comment <> '') THEN
        parts := parts || text 'comments';
    END IF;
    IF EXISTS (SELECT FROM public.delegations d WHERE person IN (d.person_id, d.deputy_id, d.created_by)) THEN
        parts := parts || text 'delegations';
    END IF;
    IF EXISTS (SELECT FROM public.standing_grants g WHERE g.person_id = person AND g.sealed_key IS NOT NULL) THEN
        parts := parts || text 'grants';
    END IF;
    IF EXISTS (SELECT FROM public.notifications n WHERE n.recipient <> '' AND lower(n.recipient) = p.email) THEN
        parts := parts || text 'notifications';
    END IF;
    INSERT INTO public.erasures (covers, subject, rule, reason, erased_by, parts, event_id) VALUES ('person', person, 'request', why, who, parts, event);

    UPDATE public.delegations SET revoked_at = clock_timestamp() WHERE person IN (person_id, deputy_id) AND revoked_at IS NULL;
    UPDATE public.delegations SET reason = public.erased_words(reason) WHERE person IN (person_id, deputy_id, created_by) AND reason <> public.erased_words(reason);
    DELETE FROM public.on_call WHERE person_id = person;
    DELETE FROM public.sessions WHERE person_id = person;
    DELETE FROM public.challenges WHERE person_id = person;
    DELETE FROM public.proof_attempts WHERE person_id = person;
    DELETE FROM public.totp_factors WHERE person_id = person;
    DELETE FROM public.passkeys WHERE person_id = person;
    -- A hash that no password has: an attempt to sign in is as slow as any other.
    UPDATE public.people SET name = 'erased ' || person, email = 'erased ' || person, disabled_at = coalesce(disabled_at, clock_timestamp()), erased_at = clock_timestamp(),
        password_hash = '$argon2id$v=19$m=19456,t=2,p=1$' || repeat('A', 22) || '$' || repeat('A', 43) WHERE id = person;
    UPDATE public.facts SET comment = public.erased_words(comment), details = details - 'salt' WHERE actor_kind = 'human' AND actor_id = person AND comment <> '';
    UPDATE public.reconciliations SET comment = public.erased_words(comment) WHERE person_id = person;
    UPDATE public.afterwards SET comment = public.erased_words(comment) WHERE person_id = person;
    UPDATE public.standing_grants SET sealed = '', sealed_key = NULL, reason = public.erased_words(reason) WHERE person_id = person;
    UPDATE public.notifications SET body = '{}', recipient = '', last_error = CASE WHEN status = 'waiting' THEN 'erased' ELSE '' END,
        ended_at = coalesce(ended_at, clock_timestamp()), status = CASE WHEN status = 'waiting' THEN 'dead' ELSE status END WHERE recipient <> '' AND lower(recipient) = p.email;
    UPDATE public.idempotency i SET status = 410, header = '{"Content-Type": "application/problem+json"}', body_key = NULL,
        body = convert_to('{"type":"urn:holdpoint:problem:erased","title":"Gone","status":410,"code":"erased","detail":"The answer to this request has been erased."}' || E'\n', 'UTF8')
    WHERE i.credential = person OR i.approval_id IN (SELECT f.approval_id FROM public.facts f WHERE f.actor_kind = 'human' AND f.actor_id = person);
    RETURN parts;
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION begin_erasing, erase_approval, erase_person FROM PUBLIC;
GRANT EXECUTE ON FUNCTION begin_erasing, erase_approval, erase_person TO holdpoint_runtime;
GRANT SELECT ON legal_holds, retention_floor, erasures TO holdpoint_runtime;
GRANT INSERT (id, covers, subject, reason, placed_by, placed_event), UPDATE (released_by, released_event) ON legal_holds TO holdpoint_runtime;

-- +goose Down
DROP FUNCTION erase_person, erase_approval, begin_erasing, why_person_kept, why_kept, held, approvals_of, erasing, erased_words;
DROP TABLE erasures, retention_floor, legal_holds;
DROP FUNCTION told, retention_lock, legal_holds_guard;
