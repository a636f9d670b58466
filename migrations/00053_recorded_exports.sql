-- +goose Up
-- Whoever appends an event holds what a kill switch and the log wait for, until the end of their transaction. A login
-- that only reads appends nothing any more: that it exports is kept here, and whoever gives events their places
-- appends it. So no reader that leaves a transaction open keeps a switch from being thrown, or the log from growing.
CREATE TABLE recorded_exports (
    event_id uuid        PRIMARY KEY,
    login    text        NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Far less than an event may have, and more than an export takes.
    body     bytea       NOT NULL CHECK (length(body) <= 65536)
);
-- The runtime sees whether there are any, and takes them by the function below alone.
GRANT SELECT (event_id) ON recorded_exports TO holdpoint_runtime;

-- record_export records that somebody exports the log, and nothing else: one event
-- that everybody reads alike, and that says nothing of pages. That an evidence pack
-- was made, and what its pages are, only the runtime role can say, by append_events.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION record_export(id uuid, body bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    told    jsonb   := convert_from(body, 'UTF8')::jsonb;
    runtime boolean := pg_has_role(session_user, 'holdpoint_runtime', 'MEMBER');
    parts   bigint;
    below   bigint;
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
       OR (NOT runtime AND told->'actor' <> jsonb_build_object('kind', 'service', 'id', session_user, 'channel', 'cli'))
       OR jsonb_path_exists(told, '$.reasons[*] ? (@.type() != "object")')
       OR jsonb_path_exists(told, '$.reasons[*].* ? (@.type() != "string")') OR jsonb_path_exists(told, '$.actor.* ? (@.type() != "string")')
       -- What a strict reader of JSON would not take: names that differ by case only,
       -- numbers that are no whole ones, too much of it.
       OR jsonb_path_exists(told, '$.** ? (@.type() == "object").keyvalue() ? (!(@.key like_regex "^[a-z_]+$"))')
       OR jsonb_path_exists(told, '$.** ? (@.type() == "number") ? (@ > 9007199254740991 || @.floor() != @)')
       OR jsonb_path_exists(told, '$.**{5 to last}') THEN
        RAISE EXCEPTION 'it is no export that is to be recorded' USING ERRCODE = 'check_violation';
    END IF;
    IF runtime THEN
        PERFORM public.append_events(ARRAY[id], ARRAY['export'], ARRAY['ALLOW'], ARRAY[''], ARRAY[''], ARRAY[''], ARRAY[body]);
        RETURN;
    END IF;
    -- No worker takes them, or somebody makes them: neither fills the disk.
    IF (SELECT count(*) FROM (SELECT FROM public.recorded_exports r WHERE r.login = session_user LIMIT 100) own) = 100 THEN
        RAISE EXCEPTION '100 exports of % wait to be recorded: is a worker running?', session_user USING ERRCODE = 'configuration_limit_exceeded';
    END IF;
    INSERT INTO public.recorded_exports (event_id, login, body) VALUES (id, session_user, body) ON CONFLICT DO NOTHING;
END
$$;

-- append_recorded_exports appends up to so many of them, the oldest first, and says how many it took. What is not
-- committed yet waits for nobody: it comes later.
CREATE FUNCTION append_recorded_exports(most int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    ids    uuid[];
    bodies bytea[];
    blank  text[];
BEGIN
    WITH taken AS (
        DELETE FROM public.recorded_exports r
        WHERE r.event_id IN (SELECT q.event_id FROM public.recorded_exports q ORDER BY q.at, q.event_id LIMIT most FOR UPDATE SKIP LOCKED)
        RETURNING r.event_id, r.at, r.body
    ) SELECT array_agg(t.event_id ORDER BY t.at, t.event_id), array_agg(t.body ORDER BY t.at, t.event_id) INTO ids, bodies FROM taken t;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    blank := array_fill(''::text, ARRAY[cardinality(ids)]);
    PERFORM public.append_events(ids, array_fill('export'::text, ARRAY[cardinality(ids)]), array_fill('ALLOW'::text, ARRAY[cardinality(ids)]), blank, blank, blank, bodies);
    PERFORM pg_notify('holdpoint_log', ''); -- whoever has recorded one waits for it
    RETURN cardinality(ids);
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION append_recorded_exports FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append_recorded_exports TO holdpoint_runtime;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION record_export(id uuid, body bytea)
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
DROP FUNCTION append_recorded_exports;
DROP TABLE recorded_exports;
