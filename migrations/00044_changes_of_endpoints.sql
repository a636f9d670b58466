-- +goose Up
-- A change of an endpoint that is on can wait for people: what it would become stands beside what it is,
-- in an edition of its own, and settlement puts it in its place. It stays there when people refuse it, so
-- that whoever asks for the same again is told so; there is one, the last that was proposed.
ALTER TABLE endpoints
    ADD COLUMN next_settings   jsonb,
    ADD COLUMN next_sealed     bytea,
    ADD COLUMN next_sealed_key bytea,
    ADD COLUMN next_edition    integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT endpoints_next_check CHECK ((next_sealed IS NULL) = (next_sealed_key IS NULL));
GRANT UPDATE (next_settings, next_sealed, next_sealed_key) ON endpoints TO holdpoint_runtime;

-- An edition is counted once: neither a change nor one that is proposed gets the number of another one, so
-- that the number which people approve is of what they were shown.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION endpoints_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    same     boolean := TG_OP = 'UPDATE' AND (NEW.settings, NEW.sealed, NEW.kind) IS NOT DISTINCT FROM (OLD.settings, OLD.sealed, OLD.kind);
    proposed boolean := false;
    last     integer;
    approved jsonb;
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.edition := 1;
        NEW.next_edition := 0;
        NEW.next_settings := NULL;
        NEW.next_sealed := NULL;
        NEW.next_sealed_key := NULL;
    ELSE
        last := greatest(OLD.edition, OLD.next_edition);
        NEW.edition := OLD.edition;
        NEW.next_edition := OLD.next_edition;
        IF NOT same THEN
            proposed := OLD.next_settings IS NOT NULL AND (NEW.settings, NEW.sealed, NEW.kind) IS NOT DISTINCT FROM (OLD.next_settings, OLD.next_sealed, OLD.kind);
            NEW.edition := CASE WHEN proposed THEN OLD.next_edition ELSE last + 1 END;
            NEW.next_settings := NULL;
            NEW.next_sealed := NULL;
            NEW.next_sealed_key := NULL;
        ELSIF (NEW.next_settings, NEW.next_sealed) IS DISTINCT FROM (OLD.next_settings, OLD.next_sealed) THEN
            NEW.next_edition := last + 1;
        END IF;
    END IF;
    IF NEW.disabled_at IS NOT NULL OR same AND OLD.disabled_at IS NULL OR NOT guarded('endpoints', TG_RELID) THEN
        RETURN NEW;
    END IF;
    approved := approved_entry('endpoints', 'endpoint', NEW.id);
    IF (same OR proposed) AND (approved->>'on')::boolean AND (approved->>'edition')::integer = NEW.edition THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'where notifications go is changed here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_endpoints';
END
$$;
-- +goose StatementEnd

-- Nobody is erased to whose address an endpoint writes. One that would have is no reason to keep
-- them: it is forgotten, and whoever approves it still is told that it has been changed.
-- +goose StatementBegin
CREATE FUNCTION endpoints_forget_address() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE endpoints SET next_settings = NULL, next_sealed = NULL, next_sealed_key = NULL WHERE next_settings->'to' ? OLD.email;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER endpoints_forget_address AFTER UPDATE OF erased_at ON people FOR EACH ROW
    WHEN (OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL) EXECUTE FUNCTION endpoints_forget_address();

-- +goose Down
DROP TRIGGER endpoints_forget_address ON people;
DROP FUNCTION endpoints_forget_address;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION endpoints_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    same     boolean := TG_OP = 'UPDATE' AND (NEW.settings, NEW.sealed, NEW.kind) IS NOT DISTINCT FROM (OLD.settings, OLD.sealed, OLD.kind);
    approved jsonb;
BEGIN
    NEW.edition := CASE WHEN TG_OP = 'INSERT' THEN 1 WHEN same THEN OLD.edition ELSE OLD.edition + 1 END;
    IF NEW.disabled_at IS NOT NULL OR same AND OLD.disabled_at IS NULL OR NOT guarded('endpoints', TG_RELID) THEN
        RETURN NEW;
    END IF;
    approved := approved_entry('endpoints', 'endpoint', NEW.id);
    IF same AND (approved->>'on')::boolean AND (approved->>'edition')::integer = OLD.edition THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'where notifications go is changed here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_endpoints';
END
$$;
-- +goose StatementEnd
ALTER TABLE endpoints DROP CONSTRAINT endpoints_next_check,
    DROP COLUMN next_settings, DROP COLUMN next_sealed, DROP COLUMN next_sealed_key, DROP COLUMN next_edition;
