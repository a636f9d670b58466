-- +goose Up
-- The rules in force, what is registered of tools, the switches that stop agents,
-- and their rate limits. Every gate and worker judges by what is here; files are
-- imported into it.

-- Policy bundles and tool contracts, as they were written, by the digest of
-- their bytes. They stay, so that every decision's rules can be shown
-- afterwards: known_as is the digest of what they mean, which decisions name.
CREATE TABLE documents (
    digest       text        PRIMARY KEY CHECK (digest = 'sha256:' || encode(sha256(body), 'hex')),
    kind         text        NOT NULL CHECK (kind IN ('policy', 'contracts')),
    known_as     text        NOT NULL CHECK (known_as ~ '^sha256:[0-9a-f]{64}$'),
    body         bytea       NOT NULL CHECK (length(body) <= 1048576),
    imported_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX documents_known_as ON documents (known_as);
CREATE TRIGGER documents_append_only BEFORE UPDATE OR DELETE ON documents FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER documents_no_truncate BEFORE TRUNCATE ON documents FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- Which document of each kind is in force; no row means none. The version of a
-- policy in force is also the floor: whoever replaces it holds the row's lock
-- and compares versions under it.
CREATE TABLE active_documents (
    kind         text        PRIMARY KEY CHECK (kind IN ('policy', 'contracts')),
    digest       text        NOT NULL REFERENCES documents (digest),
    activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    activated_by text        NOT NULL
);

-- What every decision was judged by, under the digest that its event names.
CREATE TABLE rulesets (
    digest    text        PRIMARY KEY CHECK (digest = 'sha256:' || encode(sha256(body), 'hex')),
    body      bytea       NOT NULL CHECK (length(body) <= 1048576), -- canonical JSON: environment, routing, document digests
    first_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER rulesets_append_only BEFORE UPDATE OR DELETE ON rulesets FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER rulesets_no_truncate BEFORE TRUNCATE ON rulesets FOR EACH STATEMENT EXECUTE FUNCTION append_only();

CREATE TABLE tools (
    name       text        PRIMARY KEY CHECK (name <> '' AND length(name) <= 512),
    profile    jsonb       NOT NULL, -- registry.Tool
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row: registry.Settings.
CREATE TABLE settings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    body     jsonb   NOT NULL
);

-- Thrown switches; '' is the one that stops every agent.
CREATE TABLE kill_switches (
    agent_id  text        PRIMARY KEY,
    reason    text        NOT NULL CHECK (length(reason) <= 4000),
    thrown_by text        NOT NULL,
    thrown_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A switch takes hold the moment its transaction commits, on every gate,
-- whatever a process remembers: throwing one takes this lock alone, and every
-- append of events shares it and looks at the switches while it does. So an
-- append either commits before the switch does, or sees it.
-- +goose StatementBegin
CREATE FUNCTION kill_switch_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4703514210561396082);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER kill_switches_lock BEFORE INSERT OR UPDATE OR DELETE ON kill_switches FOR EACH STATEMENT EXECUTE FUNCTION kill_switch_lock();

-- Processes keep the registry and the rules in memory; this makes them look again.
-- +goose StatementBegin
CREATE FUNCTION rules_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('holdpoint_rules', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER active_documents_changed AFTER INSERT OR UPDATE OR DELETE ON active_documents FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();
CREATE TRIGGER agents_rules_changed AFTER INSERT OR UPDATE OR DELETE ON agents FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();
CREATE TRIGGER people_rules_changed AFTER INSERT OR UPDATE OR DELETE ON people FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();
CREATE TRIGGER tools_changed AFTER INSERT OR UPDATE OR DELETE ON tools FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();
CREATE TRIGGER settings_changed AFTER INSERT OR UPDATE OR DELETE ON settings FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();
CREATE TRIGGER kill_switches_changed AFTER INSERT OR UPDATE OR DELETE ON kill_switches FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();

-- Calls within the windows of rate limits, and sessions. Counted in Postgres,
-- because an agent may talk to several gates at once. A window is 64 slots of
-- the same width, in milliseconds, so that a count reads 65 rows at most,
-- however many calls there were.
CREATE TABLE rate_calls (
    agent_id   text        NOT NULL,
    tool       text        NOT NULL, -- '' counts all of the agent's calls
    width      bigint      NOT NULL CHECK (width > 0),
    slot       bigint      NOT NULL,
    calls      bigint      NOT NULL,
    expires_at timestamptz NOT NULL, -- when it is in no window any more
    PRIMARY KEY (agent_id, tool, width, slot)
);
CREATE INDEX rate_calls_expires_at ON rate_calls (agent_id, expires_at);
CREATE TABLE rate_sessions (
    agent_id   text        NOT NULL,
    session_id text        NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    calls      bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, session_id)
);

-- count_call counts a call in its slot of a window of so many seconds and
-- returns 0, or, when limit_calls are in the window already, in how many seconds
-- there is room again, and counts nothing. A slot that is partly in the window
-- counts whole.
-- +goose StatementBegin
CREATE FUNCTION count_call(agent text, tool_name text, limit_calls bigint, window_length float8, now_at timestamptz)
RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    w      bigint := greatest(1, ceil(window_length * 1000 / 64)::bigint);
    ms     bigint := floor(extract(epoch FROM now_at) * 1000)::bigint;
    oldest bigint;
    taken  bigint;
BEGIN
    SELECT min(r.slot), coalesce(sum(r.calls), 0) INTO oldest, taken FROM rate_calls r
    WHERE r.agent_id = agent AND r.tool = tool_name AND r.width = w AND r.slot >= (ms - ceil(window_length * 1000)::bigint) / w;
    IF taken >= limit_calls THEN
        RETURN greatest(0.001, ((oldest + 1) * w + window_length * 1000 - ms) / 1000);
    END IF;
    INSERT INTO rate_calls (agent_id, tool, width, slot, calls, expires_at)
    VALUES (agent, tool_name, w, ms / w, 1, now_at + make_interval(secs => window_length + 2.0 * w / 1000))
    ON CONFLICT (agent_id, tool, width, slot) DO UPDATE SET calls = rate_calls.calls + 1;
    RETURN 0;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION count_call FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_call TO holdpoint_runtime;

-- take_call counts a call against an agent's limits, or says which of them it
-- would exceed ('agent', 'tool', 'session') and in how many seconds there is
-- room again. A call that is turned away is not counted. Limits of 0 calls and
-- windows of 0 seconds do not limit. Calls of one agent take turns.
-- +goose StatementBegin
CREATE FUNCTION take_call(agent text, tool_name text, session text,
                          agent_calls bigint, agent_window float8, tool_calls bigint, tool_window float8,
                          session_calls bigint, session_length float8,
                          OUT exceeded text, OUT retry_after float8)
LANGUAGE plpgsql AS $$
DECLARE
    now_at timestamptz;
    s      rate_sessions%ROWTYPE;
BEGIN
    exceeded := '';
    retry_after := 0;
    PERFORM pg_advisory_xact_lock(hashtextextended('take_call ' || agent, 0));
    now_at := clock_timestamp();
    DELETE FROM rate_calls r WHERE r.agent_id = agent AND r.expires_at < now_at;
    IF agent_calls > 0 THEN
        retry_after := count_call(agent, '', agent_calls, agent_window, now_at);
        IF retry_after > 0 THEN
            exceeded := 'agent';
            RETURN;
        END IF;
    END IF;
    IF tool_calls > 0 THEN
        retry_after := count_call(agent, tool_name, tool_calls, tool_window, now_at);
        IF retry_after > 0 THEN
            exceeded := 'tool';
        END IF;
    END IF;
    IF exceeded = '' AND (session_calls > 0 OR session_length > 0) THEN
        INSERT INTO rate_sessions (agent_id, session_id) VALUES (agent, session) ON CONFLICT DO NOTHING;
        SELECT * INTO s FROM rate_sessions r WHERE r.agent_id = agent AND r.session_id = session;
        IF session_calls > 0 AND s.calls >= session_calls
           OR session_length > 0 AND now_at >= s.started_at + make_interval(secs => session_length) THEN
            exceeded := 'session';
        ELSE
            UPDATE rate_sessions r SET calls = r.calls + 1, last_at = now_at WHERE r.agent_id = agent AND r.session_id = session;
        END IF;
    END IF;
    IF exceeded <> '' AND agent_calls > 0 THEN
        -- What was turned away has not counted.
        UPDATE rate_calls r SET calls = r.calls - 1
        WHERE r.agent_id = agent AND r.tool = '' AND r.calls > 0
          AND (r.width, r.slot) = (SELECT q.width, q.slot FROM rate_calls q WHERE q.agent_id = agent AND q.tool = '' ORDER BY q.expires_at DESC LIMIT 1);
    END IF;
    IF exceeded = 'session' AND tool_calls > 0 THEN
        UPDATE rate_calls r SET calls = r.calls - 1
        WHERE r.agent_id = agent AND r.tool = tool_name AND r.calls > 0
          AND (r.width, r.slot) = (SELECT q.width, q.slot FROM rate_calls q WHERE q.agent_id = agent AND q.tool = tool_name ORDER BY q.expires_at DESC LIMIT 1);
    END IF;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION take_call FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_call TO holdpoint_runtime;

GRANT SELECT ON documents, active_documents, rulesets, tools, settings, kill_switches, rate_calls, rate_sessions TO holdpoint_runtime;
GRANT INSERT (digest, kind, known_as, body) ON documents TO holdpoint_runtime;
GRANT INSERT (kind, digest, activated_by), UPDATE (digest, activated_by, activated_at) ON active_documents TO holdpoint_runtime;
GRANT INSERT (digest, body) ON rulesets TO holdpoint_runtime;
GRANT INSERT (name, profile), UPDATE (profile, revoked_at) ON tools TO holdpoint_runtime;
GRANT INSERT, UPDATE (body) ON settings TO holdpoint_runtime;
GRANT INSERT (agent_id, reason, thrown_by), DELETE ON kill_switches TO holdpoint_runtime;
GRANT INSERT, UPDATE (calls), DELETE ON rate_calls TO holdpoint_runtime;
GRANT INSERT (agent_id, session_id), UPDATE (calls, last_at, started_at), DELETE ON rate_sessions TO holdpoint_runtime;
GRANT SELECT ON documents, active_documents, rulesets, tools, settings, kill_switches TO holdpoint_reader;

-- +goose Down
DROP TRIGGER agents_rules_changed ON agents;
DROP TRIGGER people_rules_changed ON people;
DROP TABLE rate_sessions, rate_calls, kill_switches, settings, tools, rulesets, active_documents, documents;
DROP FUNCTION take_call, count_call, rules_changed, kill_switch_lock;
