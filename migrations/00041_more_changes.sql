-- +goose Up
-- Two more kinds of changes that can wait for people: where notifications go, and what is kept from
-- being erased. What tells more people, or keeps less, waits; switching an endpoint off, placing a hold
-- and raising the floor are done at once.
ALTER TABLE documents DROP CONSTRAINT documents_kind_check,
    ADD CONSTRAINT documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings', 'endpoints', 'retention'));
ALTER TABLE guarded_documents DROP CONSTRAINT guarded_documents_kind_check,
    ADD CONSTRAINT guarded_documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings', 'endpoints', 'retention'));

-- Counts the changes of what an endpoint is told and where that goes: people approve one of them, and
-- their document names it without a secret and without an address.
ALTER TABLE endpoints ADD COLUMN edition integer NOT NULL DEFAULT 1;
GRANT INSERT (disabled_at) ON endpoints TO holdpoint_runtime;

-- An endpoint changes while it is off, and people approve that it is on. What it is sealed with may
-- change at any time: the data keys do.
-- +goose StatementBegin
CREATE FUNCTION endpoints_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER endpoints_guard BEFORE INSERT OR UPDATE ON endpoints FOR EACH ROW EXECUTE FUNCTION endpoints_guard();

-- It comes after legal_holds_guard, which says what a release is.
-- +goose StatementBegin
CREATE FUNCTION legal_holds_release_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    approved jsonb;
BEGIN
    IF OLD.released_at IS NOT NULL OR NEW.released_at IS NULL OR NOT guarded('retention', TG_RELID) THEN
        RETURN NEW;
    END IF;
    approved := approved_entry('retention', 'hold', NEW.id);
    IF (approved->>'released')::boolean AND approved->>'by' = NEW.released_by THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a hold is released here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_retention';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER legal_holds_release_guard BEFORE UPDATE ON legal_holds FOR EACH ROW EXECUTE FUNCTION legal_holds_release_guard();

-- The floor is lowered by whoever owns the database, and by nobody else, so that a gate that was taken
-- over cannot. What people approve is that it may be.
ALTER TABLE retention_floor ADD COLUMN permitted interval, ADD COLUMN permitted_by text NOT NULL DEFAULT '';
GRANT UPDATE (permitted, permitted_by) ON retention_floor TO holdpoint_runtime;
-- +goose StatementBegin
CREATE FUNCTION retention_floor_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.shortest <> OLD.shortest THEN
        NEW.permitted := NULL;
        NEW.permitted_by := '';
    ELSIF (NEW.permitted, NEW.permitted_by) IS DISTINCT FROM (OLD.permitted, OLD.permitted_by)
       AND (NEW.permitted_by <> coalesce(current_setting('holdpoint.approval', true), '')
            OR extract(epoch FROM NEW.permitted) IS DISTINCT FROM (approved_entry('retention', 'floor', '')->>'seconds')::numeric) THEN
        RAISE EXCEPTION 'the floor is lowered here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_retention';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER retention_floor_guard BEFORE UPDATE ON retention_floor FOR EACH ROW EXECUTE FUNCTION retention_floor_guard();

-- +goose Down
DROP TRIGGER retention_floor_guard ON retention_floor;
DROP TRIGGER legal_holds_release_guard ON legal_holds;
DROP TRIGGER endpoints_guard ON endpoints;
DROP FUNCTION retention_floor_guard, legal_holds_release_guard, endpoints_guard;
ALTER TABLE retention_floor DROP COLUMN permitted, DROP COLUMN permitted_by;
ALTER TABLE endpoints DROP COLUMN edition;
REVOKE INSERT (disabled_at) ON endpoints FROM holdpoint_runtime;
DELETE FROM guarded_documents WHERE kind IN ('endpoints', 'retention');
ALTER TABLE guarded_documents DROP CONSTRAINT guarded_documents_kind_check,
    ADD CONSTRAINT guarded_documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings'));
-- Documents that were proposed stay: they are what approvals name.
ALTER TABLE documents DROP CONSTRAINT documents_kind_check,
    ADD CONSTRAINT documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings')) NOT VALID;
