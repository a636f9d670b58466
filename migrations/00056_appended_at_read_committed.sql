-- +goose Up
-- append_events, as 00004 has it, but it refuses a transaction whose statements do not see what others have
-- committed meanwhile: by a snapshot of before a kill switch, whoever has the runtime role could append a grant
-- after it. The programs have read committed on every connection.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION append_events(ids uuid[], types text[], outcomes text[], agents text[], tools text[], approvals text[], bodies bytea[],
                              OUT written bigint, OUT written_at timestamptz)
-- pg_temp comes last: what a caller makes there must not stand for anything here.
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    stopped text;
    now_at  timestamptz;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'events are appended at READ COMMITTED: who appends must see every kill switch' USING ERRCODE = 'feature_not_supported';
    END IF;
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

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION append_events(ids uuid[], types text[], outcomes text[], agents text[], tools text[], approvals text[], bodies bytea[],
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
