-- +goose Up
-- The reader role is for whoever looks and never changes: exports, reports,
-- somebody's own queries. It sees the log and what the log names, and nothing that
-- is secret: no arguments, no keys, no password hashes, no sessions. That it has
-- exported is an event, which it can append and no other.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'holdpoint_reader') THEN
        CREATE ROLE holdpoint_reader NOLOGIN;
    END IF;
EXCEPTION
    -- Two databases of one cluster migrated at the same moment.
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role holdpoint_reader does not exist and % may not create it: run CREATE ROLE holdpoint_reader NOLOGIN as an administrator', current_user;
END
$$;
-- +goose StatementEnd
GRANT USAGE ON SCHEMA public TO holdpoint_reader;
GRANT SELECT ON events, log_head, log_entries, log_spans, log_tiles, log_checkpoints, log_cosignatures TO holdpoint_reader;
GRANT SELECT ON documents, active_documents, rulesets, tools, settings, kill_switches, on_call TO holdpoint_reader;
GRANT SELECT (id, name, email, identity, roles, created_at, disabled_at) ON people TO holdpoint_reader;
GRANT SELECT (id, name, owner_id, created_at, disabled_at, profile, revoked_at) ON agents TO holdpoint_reader;
GRANT SELECT (id, agent_id, kind, scopes, max_state, label, created_at, expires_at, revoked_at) ON keys TO holdpoint_reader;
GRANT SELECT (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, requested_by, decision, requirements, excluded, opened_at, expires_at,
              status, version, ended_at, reasons, final, execution, edition, began_at, terms, successor) ON approvals TO holdpoint_reader;
GRANT SELECT (seq, approval_id, at, kind, actor_kind, actor_id, channel, yes, denial, edition, via) ON facts TO holdpoint_reader;

-- Nobody else needs these: a trigger calls the one, store's queries the other.
REVOKE ALL ON FUNCTION look_again(text[], text, text), roles_of(text, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION look_again(text[], text, text), roles_of(text, text[]) TO holdpoint_runtime;

-- record_export appends that somebody exports the log, and nothing else: one event
-- that everybody reads alike, and that says nothing of pages. That an evidence pack
-- was made, and what its pages are, only the runtime role can say, by append_events.
-- +goose StatementBegin
CREATE FUNCTION record_export(id uuid, body bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    told  jsonb := convert_from(body, 'UTF8')::jsonb;
    parts bigint;
    below bigint;
BEGIN
    -- jsonb drops all but the last of members with one name, and the sign of a zero;
    -- json keeps them.
    WITH RECURSIVE v (j) AS (
        SELECT convert_from(body, 'UTF8')::json
        UNION ALL SELECT m.value FROM v CROSS JOIN LATERAL (
            SELECT value FROM json_each(CASE json_typeof(v.j) WHEN 'object' THEN v.j ELSE '{}' END)
            UNION ALL SELECT value FROM json_array_elements(CASE json_typeof(v.j) WHEN 'array' THEN v.j ELSE '[]' END)) m
    ) SELECT count(*), count(*) FILTER (WHERE json_typeof(u.j) = 'number' AND u.j::text LIKE '%-%') INTO parts, below FROM (SELECT v.j FROM v LIMIT 1001) u;
    IF parts > 1000 OR below > 0 OR parts <> (SELECT count(*) FROM jsonb_path_query(told, 'strict $.**'))
       OR (told->>'event_id', told->>'type', told->>'outcome', told->>'agent_id', told->>'tool_name') IS DISTINCT FROM (id::text, 'export', 'ALLOW', '', '')
       OR told - ARRAY['event_id', 'type', 'request_id', 'agent_id', 'tool_name', 'outcome', 'reasons', 'safe_payload', 'actor'] <> '{}'
       OR (jsonb_typeof(told->'request_id'), jsonb_typeof(told->'reasons'), jsonb_typeof(told->'safe_payload'), jsonb_typeof(told->'actor'))
          IS DISTINCT FROM ('string', 'array', 'object', 'object')
       OR told->'safe_payload' ?| ARRAY['as', 'pages']
       -- A runtime login speaks for whoever is at its doors; another for itself.
       OR (NOT pg_has_role(session_user, 'holdpoint_runtime', 'MEMBER')
           AND told->'actor' <> jsonb_build_object('kind', 'service', 'id', session_user, 'channel', 'cli'))
       OR jsonb_path_exists(told, '$.reasons[*] ? (@.type() != "object")')
       OR jsonb_path_exists(told, '$.reasons[*].* ? (@.type() != "string")') OR jsonb_path_exists(told, '$.actor.* ? (@.type() != "string")')
       -- What a strict reader of JSON would not take: names that differ by case only,
       -- numbers that are no whole ones, too much of it.
       OR jsonb_path_exists(told, '$.** ? (@.type() == "object").keyvalue() ? (!(@.key like_regex "^[a-z_]+$"))')
       OR jsonb_path_exists(told, '$.** ? (@.type() == "number") ? (@ > 9007199254740991 || @.floor() != @)')
       OR jsonb_path_exists(told, '$.**{5 to last}') THEN
        RAISE EXCEPTION 'it is no export that is to be recorded' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM public.append_events(ARRAY[id], ARRAY['export'], ARRAY['ALLOW'], ARRAY[''], ARRAY[''], ARRAY[''], ARRAY[body]);
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION record_export(uuid, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_export(uuid, bytea) TO holdpoint_reader, holdpoint_runtime;

-- +goose Down
DROP FUNCTION record_export(uuid, bytea);
GRANT EXECUTE ON FUNCTION look_again(text[], text, text), roles_of(text, text[]) TO PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM holdpoint_reader;
REVOKE USAGE ON SCHEMA public FROM holdpoint_reader;
