-- +goose Up

-- A function in SQL that cannot become part of what calls it is read and planned at each
-- call, a fifth of a millisecond here. In PL/pgSQL a session plans it once. What they
-- say is as it was.

-- Twice for each change of an approval.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rewrapping() RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    -- By their full names: whoever logs in may have temporary tables of these names.
    IF coalesce(pg_catalog.current_setting('holdpoint.rewrapping', true), '') <> 'on' THEN
        RETURN false;
    END IF;
    RETURN pg_catalog.pg_has_role(session_user, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'public.data_keys'::pg_catalog.regclass), 'MEMBER');
END
$$;
-- +goose StatementEnd

-- At the opening and the end of an approval.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION asked_roles(requirements jsonb, terms jsonb) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(DISTINCT role ORDER BY role), '{}') FROM (
        SELECT r->>'role' FROM jsonb_array_elements(requirements) r
        UNION ALL SELECT g->>'role' FROM jsonb_array_elements(requirements) r, jsonb_array_elements(coalesce(r->'any_of', '[]')) g
        UNION ALL SELECT e->>'role' FROM jsonb_array_elements(requirements) r, jsonb_array_elements(coalesce(r->'escalation', '[]')) e
        UNION ALL SELECT terms->>'if_too_few'
    ) AS asks (role) WHERE role <> '');
END
$$;
-- +goose StatementEnd

-- The id was looked for in the whole row as JSON, with all that was proposed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drafts_over() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_form text := TG_ARGV[1];
BEGIN
    IF TG_ARGV[0] = 'id' THEN
        DELETE FROM drafts WHERE approval_id = NEW.id AND form = coalesce(of_form, form);
    ELSE
        DELETE FROM drafts WHERE approval_id = NEW.approval_id AND form = coalesce(of_form, form);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drafts_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM drafts WHERE approval_id = to_jsonb(NEW)->>TG_ARGV[0] AND form = coalesce(TG_ARGV[1], form);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION asked_roles(requirements jsonb, terms jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog AS $$
    SELECT coalesce(array_agg(DISTINCT role ORDER BY role), '{}') FROM (
        SELECT r->>'role' FROM jsonb_array_elements(requirements) r
        UNION ALL SELECT g->>'role' FROM jsonb_array_elements(requirements) r, jsonb_array_elements(coalesce(r->'any_of', '[]')) g
        UNION ALL SELECT e->>'role' FROM jsonb_array_elements(requirements) r, jsonb_array_elements(coalesce(r->'escalation', '[]')) e
        UNION ALL SELECT terms->>'if_too_few'
    ) AS asks (role) WHERE role <> '';
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rewrapping() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    -- By their full names: whoever logs in may have temporary tables of these names.
    SELECT coalesce(pg_catalog.current_setting('holdpoint.rewrapping', true), '') = 'on'
       AND pg_catalog.pg_has_role(session_user, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'public.data_keys'::pg_catalog.regclass), 'MEMBER')
$$;
-- +goose StatementEnd
