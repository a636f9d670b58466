-- +goose Up
-- What waits, in narrow rows: an inbox counts all that its reader may decide at each look, and
-- a row of approvals is 2 KB, of which these columns are the last. Nothing that decides reads
-- it. A trigger keeps it, whoever changes an approval; nobody else may write it.
CREATE TABLE waiting_calls (
    id          text        PRIMARY KEY, -- of the approval
    due_at      timestamptz NOT NULL,
    opened_at   timestamptz NOT NULL,
    open_to     text[]      NOT NULL,
    excluded    text[]      NOT NULL,
    spoken      text[]      NOT NULL,
    noes        jsonb       NOT NULL,
    tool        text        NOT NULL,
    agent_id    text        NOT NULL,
    environment text        NOT NULL,
    risk_domain text        NOT NULL,
    waits_for   text        NOT NULL,
    claimed_by  text        NOT NULL,
    request_id  text        NOT NULL,
    words       text        NOT NULL -- what a search looks in, in lower case: ILIKE makes it for each row at each look
) WITH (fillfactor = 80);
GRANT SELECT ON waiting_calls TO holdpoint_runtime;

-- +goose StatementBegin
CREATE FUNCTION approvals_waiting() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF NEW.status <> 'pending' OR NEW.due_at IS NULL THEN
        DELETE FROM public.waiting_calls WHERE id = NEW.id;
    ELSE
        INSERT INTO public.waiting_calls (id, due_at, opened_at, open_to, excluded, spoken, noes, tool, agent_id, environment, risk_domain, waits_for, claimed_by, request_id, words)
        VALUES (NEW.id, NEW.due_at, NEW.opened_at, NEW.open_to, NEW.excluded, NEW.spoken, NEW.noes, NEW.tool, NEW.agent_id, NEW.environment, NEW.risk_domain,
                NEW.waits_for, NEW.claimed_by, NEW.request_id, lower(concat_ws(E'\n', NEW.tool, NEW.agent_id, NEW.environment, NEW.risk_domain)))
        ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at, open_to = excluded.open_to, excluded = excluded.excluded, spoken = excluded.spoken,
            noes = excluded.noes, environment = excluded.environment, risk_domain = excluded.risk_domain, waits_for = excluded.waits_for, claimed_by = excluded.claimed_by, words = excluded.words;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- First, for it takes the strongest lock: taken after that of the triggers, it could be waited for in a circle by
-- a vote that has locked its row.
DROP INDEX approvals_open_to;
CREATE TRIGGER approvals_wait AFTER INSERT ON approvals FOR EACH ROW
    WHEN (NEW.status = 'pending' AND NEW.due_at IS NOT NULL) EXECUTE FUNCTION approvals_waiting();
CREATE TRIGGER approvals_wait_on AFTER UPDATE ON approvals FOR EACH ROW
    WHEN ((OLD.status, OLD.due_at, OLD.open_to, OLD.excluded, OLD.spoken, OLD.noes, OLD.environment, OLD.risk_domain, OLD.waits_for, OLD.claimed_by)
        IS DISTINCT FROM (NEW.status, NEW.due_at, NEW.open_to, NEW.excluded, NEW.spoken, NEW.noes, NEW.environment, NEW.risk_domain, NEW.waits_for, NEW.claimed_by))
    EXECUTE FUNCTION approvals_waiting();

INSERT INTO waiting_calls
    SELECT id, due_at, opened_at, open_to, excluded, spoken, noes, tool, agent_id, environment, risk_domain, waits_for, claimed_by, request_id,
        lower(concat_ws(E'\n', tool, agent_id, environment, risk_domain))
    FROM approvals WHERE status = 'pending' AND due_at IS NOT NULL;
CREATE INDEX waiting_calls_open_to ON waiting_calls USING gin (open_to);
-- The first page of an inbox.
CREATE INDEX waiting_calls_due ON waiting_calls (due_at, id);

-- +goose Down
DROP TRIGGER approvals_wait ON approvals;
DROP TRIGGER approvals_wait_on ON approvals;
DROP FUNCTION approvals_waiting;
DROP TABLE waiting_calls;
CREATE INDEX approvals_open_to ON approvals USING gin (open_to) WHERE status = 'pending';
