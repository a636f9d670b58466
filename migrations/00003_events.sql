-- +goose Up
-- The audit log. Rows come in through append_events and by no other way, and
-- never change: the runtime role may execute that function and select, and the
-- triggers stop even the owner from changing a row by mistake.

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

-- +goose StatementBegin
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is not allowed', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- append_events appends a batch and says how many events it wrote. Appending an
-- event_id that is already there does nothing, so that a commit whose answer was
-- lost can be tried again. A plain INSERT right would let a caller choose the
-- sequence number (OVERRIDING SYSTEM VALUE) and the time. It is in PL/pgSQL
-- because that keeps the statement's plan; an SQL function makes it anew with
-- every call, which costs more than the insert.
-- +goose StatementBegin
CREATE FUNCTION append_events(ids uuid[], types text[], outcomes text[], agents text[], tools text[], approvals text[], bodies bytea[])
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO public.events (event_id, type, outcome, agent_id, tool_name, approval_id, body)
    SELECT e.id, e.type, e.outcome, e.agent, e.tool, nullif(e.approval, ''), e.body
    FROM unnest(ids, types, outcomes, agents, tools, approvals, bodies) AS e (id, type, outcome, agent, tool, approval, body)
    ON CONFLICT (event_id) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION append_events(uuid[], text[], text[], text[], text[], text[], bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append_events(uuid[], text[], text[], text[], text[], text[], bytea[]) TO holdpoint_runtime;
GRANT SELECT ON events TO holdpoint_runtime;

-- +goose Down
DROP TABLE events;
DROP FUNCTION append_events(uuid[], text[], text[], text[], text[], text[], bytea[]);
DROP FUNCTION append_only();
