-- +goose Up
-- An accepted call may have a token, too: its approval asks for nobody.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
        -- A call that was accepted when it was proposed asks for nobody's yes, and its event says so.
        IF NEW.status = 'approved' AND NOT EXISTS (SELECT FROM facts WHERE approval_id = OLD.id AND edition = OLD.edition AND yes)
           AND NOT (OLD.terms ? 'accepted_as' AND OLD.requirements = '[]'
                    AND EXISTS (SELECT FROM events WHERE approval_id = OLD.id AND type = 'decision' AND outcome = 'ALLOW')) THEN
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
