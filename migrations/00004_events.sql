-- +goose Up
-- Events. Rows come in through append_events and by no other way, and never
-- change: the runtime role may execute that function and select, and the triggers
-- stop even the owner from changing a row by mistake.

CREATE TABLE events (
    -- Order of appending. Gaps are normal (a rolled-back transaction leaves one)
    -- and say nothing about tampering.
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    uuid        NOT NULL UNIQUE,
    appended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- A row is numbered when it is written and seen when it is committed, so a
    -- lower seq may appear after a higher one. Who follows the log reads only
    -- what no transaction that still runs can precede.
    xact        xid8        NOT NULL DEFAULT pg_current_xact_id(),
    type        text        NOT NULL,
    outcome     text        NOT NULL CHECK (outcome IN ('ALLOW', 'DENY', 'REQUIRE_APPROVAL', 'STEP_UP', 'REQUIRE_TICKET',
                                'REQUIRE_HUMAN', 'APPROVED', 'REJECTED', 'KILL_SWITCH', 'RATE_LIMITED', 'TIMEOUT')),
    agent_id    text        NOT NULL,
    tool_name   text        NOT NULL,
    approval_id text,
    -- The event as JSON, without seq and timestamp: bytes that are hashed and
    -- exported exactly as they were written.
    body        bytea       NOT NULL CHECK (length(body) <= 262144)
);
CREATE INDEX events_approval ON events (approval_id, seq) WHERE approval_id IS NOT NULL;
-- One terminal event an approval, one redemption an approval: whatever the
-- programs do, the second one cannot be written.
CREATE UNIQUE INDEX events_one_settled ON events (approval_id) WHERE type = 'settled';
CREATE UNIQUE INDEX events_one_redeemed ON events (approval_id) WHERE type = 'redeem' AND outcome = 'ALLOW';
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- append_events appends a batch and says how many events it wrote, and when.
-- Appending an event_id that is already there does nothing, so that a commit whose
-- answer was lost can be tried again. A plain INSERT right would let a caller
-- choose the sequence number (OVERRIDING SYSTEM VALUE) and the time. It appends no
-- grant to an agent that a switch stops (an allowed or a waiting call, a spent
-- token, an approval): HPK01 names the agent; the caller refuses that call and
-- tries the others again. It is in PL/pgSQL because that keeps the statement's
-- plan; an SQL function makes it anew with every call, which costs more than the
-- insert.
-- +goose StatementBegin
CREATE FUNCTION append_events(ids uuid[], types text[], outcomes text[], agents text[], tools text[], approvals text[], bodies bytea[],
                              OUT written bigint, OUT written_at timestamptz)
-- pg_temp comes last: what a caller makes there must not stand for anything here.
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    stopped text;
    now_at  timestamptz;
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock_shared(4703514210561396082);
    IF EXISTS (SELECT FROM public.kill_switches) THEN
        SELECT e.agent INTO stopped
        FROM unnest(types, outcomes, agents) AS e (type, outcome, agent)
        JOIN public.kill_switches k ON k.agent_id IN ('', e.agent)
        WHERE (e.type IN ('decision', 'contract') AND e.outcome NOT IN ('DENY', 'KILL_SWITCH', 'RATE_LIMITED'))
           OR (e.type = 'redeem' AND e.outcome = 'ALLOW')
           OR (e.type = 'settled' AND e.outcome = 'APPROVED')
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'a kill switch stops %', stopped USING ERRCODE = 'HPK01';
        END IF;
    END IF;
    now_at := clock_timestamp();
    INSERT INTO public.events (event_id, appended_at, type, outcome, agent_id, tool_name, approval_id, body)
    SELECT e.id, now_at, e.type, e.outcome, e.agent, e.tool, nullif(e.approval, ''), e.body
    FROM unnest(ids, types, outcomes, agents, tools, approvals, bodies) AS e (id, type, outcome, agent, tool, approval, body)
    ON CONFLICT (event_id) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    written_at := now_at;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION append_events FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append_events TO holdpoint_runtime;

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
REVOKE ALL ON FUNCTION record_export FROM PUBLIC;
GRANT EXECUTE ON FUNCTION record_export TO holdpoint_reader, holdpoint_runtime;

-- What an event is about, read from its bytes as engine.Event is written:
-- without blanks, with its members in one order. A quote inside a text is
-- escaped, so that no text can look like a member. They answer NULL for what
-- they do not find and never fail, so that no event can be kept out by them.
-- +goose StatementBegin
CREATE FUNCTION event_code(body bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT substring(convert_from(body, 'UTF8') FROM '"reasons":\[\{"code":"([A-Za-z0-9_]+)"')
$$;
CREATE FUNCTION event_actor(body bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT substring(convert_from(body, 'UTF8') FROM '"actor":\{"kind":"[a-z]+","id":"([^"\\]+)"')
$$;
CREATE FUNCTION event_subject(body bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT substring(convert_from(body, 'UTF8') FROM '"(?:person|subject)":"([^"\\]{1,254})"')
$$;
-- +goose StatementEnd

-- What the auditors' reports look things up by. Each of these indexes is over
-- rows that people make, by hand or by signing in: a decision of the gate is in
-- none of them and pays for none of them.
--
-- Changes of who may do what, in order of time.
CREATE INDEX events_changes ON events (appended_at, seq) WHERE type IN ('admin', 'grant', 'break_glass', 'review_afterwards');
-- Of one kind: who was put on call, who stood in for whom, which policy came.
CREATE INDEX events_admin_code ON events (event_code(body), appended_at, seq) WHERE type = 'admin';
-- All that was ever done to an account or a key.
CREATE INDEX events_subject ON events (event_subject(body), appended_at, seq) WHERE type = 'admin' AND event_subject(body) IS NOT NULL;
-- When somebody last signed in.
CREATE INDEX events_signed_in ON events (event_actor(body), appended_at) WHERE type = 'sign_in' AND outcome = 'ALLOW' AND event_code(body) = 'SIGNED_IN';

GRANT SELECT ON events TO holdpoint_runtime, holdpoint_reader;
-- How far numbers have been given out.
GRANT SELECT ON SEQUENCE events_seq_seq TO holdpoint_runtime;

-- +goose Down
DROP TABLE events;
DROP FUNCTION event_subject, event_actor, event_code, record_export, append_events;
