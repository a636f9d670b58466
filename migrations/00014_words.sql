-- +goose Up
-- What a person writes of a call after it was decided is bound to its event by a
-- digest, as comments of facts are. The salt goes with the comment when it is erased.
ALTER TABLE reconciliations ADD COLUMN salt text NOT NULL DEFAULT '';
ALTER TABLE afterwards ADD COLUMN salt text NOT NULL DEFAULT '';
GRANT INSERT (salt) ON reconciliations TO holdpoint_runtime;
GRANT UPDATE (salt) ON afterwards TO holdpoint_runtime;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION reconciliations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION afterwards_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION reconciliations_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want reconciliations%ROWTYPE := OLD;
BEGIN
    want.comment := erased_words(OLD.comment);
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM want AND (erasing('approval', OLD.approval_id) OR erasing('person', OLD.person_id)) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'reconciliations is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION afterwards_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want afterwards%ROWTYPE := OLD;
BEGIN
    IF OLD.done_at IS NOT NULL THEN
        want.comment := erased_words(OLD.comment);
        IF NEW IS NOT DISTINCT FROM want AND (erasing('approval', OLD.approval_id) OR erasing('person', OLD.person_id)) THEN
            RETURN NEW;
        END IF;
        RAISE EXCEPTION 'what was said of approval % afterwards cannot change', OLD.approval_id USING ERRCODE = 'check_violation';
    END IF;
    NEW.done_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
ALTER TABLE afterwards DROP COLUMN salt;
ALTER TABLE reconciliations DROP COLUMN salt;
