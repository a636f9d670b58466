-- +goose Up
-- Which roles an approval asks for, at once, later, or when it is widened: an inbox
-- finds its own among thousands that wait for others.
-- +goose StatementBegin
CREATE FUNCTION asked_roles(requirements jsonb, terms jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog AS $$
    SELECT coalesce(array_agg(DISTINCT role ORDER BY role), '{}') FROM (
        SELECT r->>'role' FROM jsonb_array_elements(requirements) r
        UNION ALL SELECT g->>'role' FROM jsonb_array_elements(requirements) r, jsonb_array_elements(coalesce(r->'any_of', '[]')) g
        UNION ALL SELECT e->>'role' FROM jsonb_array_elements(requirements) r, jsonb_array_elements(coalesce(r->'escalation', '[]')) e
        UNION ALL SELECT terms->>'if_too_few'
    ) AS asks (role) WHERE role <> '';
$$;
-- +goose StatementEnd
CREATE INDEX approvals_asked ON approvals USING gin (asked_roles(requirements, terms)) WHERE status = 'pending';

-- +goose Down
DROP INDEX approvals_asked;
DROP FUNCTION asked_roles;
