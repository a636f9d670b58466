-- +goose Up
-- The log that proves itself: every event has a place in a Merkle tree, in the
-- order of events.seq and without a gap. A sequencer gives places a moment after
-- events are durable; it alone signs what the tree has come to, so that whoever
-- keeps a signed checkpoint can show what was changed behind it.

-- One row: how far the log has come. Whoever appends names what it was before.
CREATE TABLE log_head (
    only_row boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    size     bigint      NOT NULL CHECK (size >= 0), -- leaves
    root     bytea       NOT NULL CHECK (length(root) = 32),
    seq      bigint      NOT NULL, -- events.seq of the last leaf
    moved_at timestamptz NOT NULL
);
INSERT INTO log_head (size, root, seq, moved_at) VALUES (0, sha256(''), 0, clock_timestamp());

-- Which event is which leaf, and what people search events by. It is written
-- here and not beside the event because nobody waits for it here.
CREATE TABLE log_entries (
    leaf        bigint      PRIMARY KEY,
    seq         bigint      NOT NULL UNIQUE, -- of events
    at          timestamptz NOT NULL,
    type        text        NOT NULL,
    outcome     text        NOT NULL,
    agent_id    text        NOT NULL,
    tool_name   text        NOT NULL,
    actor_id    text        NOT NULL,
    approval_id text
);
-- A search goes through leaves in order. By agent, tool or kind it merges the
-- pairs of type and outcome that there are, which are a few dozen; so each of
-- these also answers its column with any type and any outcome. They have the leaf
-- as its negative, and the first of them type and outcome as one text: so each
-- search has one index that gives its order, and no estimate can make Postgres
-- read the whole log for a few rows.
CREATE INDEX log_entries_kind ON log_entries ((type || ' ' || outcome), (-leaf));
CREATE INDEX log_entries_agent ON log_entries (agent_id, type, outcome, (-leaf)) WHERE agent_id <> '';
CREATE INDEX log_entries_tool ON log_entries (tool_name, type, outcome, (-leaf)) WHERE tool_name <> '';
CREATE INDEX log_entries_agent_tool ON log_entries (agent_id, tool_name, (-leaf)) WHERE agent_id <> '' AND tool_name <> '';
CREATE INDEX log_entries_actor ON log_entries (actor_id, (-leaf)) WHERE actor_id <> '';
CREATE INDEX log_entries_approval ON log_entries (approval_id, (-leaf)) WHERE approval_id IS NOT NULL;

-- From when the events of a run of 4,096 leaves are. Events come in order of
-- numbers, and their times nearly so; this finds a time's leaves exactly, and
-- costs less than an index of all times.
CREATE TABLE log_spans (
    n        bigint      PRIMARY KEY, -- leaves 4096 n to 4096 n + 4095
    earliest timestamptz NOT NULL,
    latest   timestamptz NOT NULL CHECK (latest >= earliest)
);

-- The tree's hashes, 256 of 32 bytes a tile (C2SP tlog-tiles). The last tile of a
-- level grows until it is full.
CREATE TABLE log_tiles (
    level  smallint NOT NULL,
    n      bigint   NOT NULL,
    hashes bytea    NOT NULL CHECK (length(hashes) % 32 = 0 AND length(hashes) BETWEEN 32 AND 8192),
    PRIMARY KEY (level, n)
);
-- Hashes cannot be compressed.
ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- Every checkpoint that was signed, and what witnesses have signed of it.
CREATE TABLE log_checkpoints (
    size bigint      PRIMARY KEY,
    root bytea       NOT NULL CHECK (length(root) = 32),
    note bytea       NOT NULL CHECK (length(note) <= 16384),
    at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE log_cosignatures (
    size bigint      NOT NULL REFERENCES log_checkpoints (size),
    name text        NOT NULL, -- the witness's
    line text        NOT NULL CHECK (length(line) <= 1024),
    at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (size, name)
);

CREATE TRIGGER log_entries_append_only BEFORE UPDATE OR DELETE ON log_entries FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_entries_no_truncate BEFORE TRUNCATE ON log_entries FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_checkpoints_append_only BEFORE UPDATE OR DELETE ON log_checkpoints FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_checkpoints_no_truncate BEFORE TRUNCATE ON log_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_cosignatures_append_only BEFORE UPDATE OR DELETE ON log_cosignatures FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_cosignatures_no_truncate BEFORE TRUNCATE ON log_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_spans_no_delete BEFORE DELETE ON log_spans FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_spans_no_truncate BEFORE TRUNCATE ON log_spans FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_tiles_no_delete BEFORE DELETE ON log_tiles FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_tiles_no_truncate BEFORE TRUNCATE ON log_tiles FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_head_no_delete BEFORE DELETE ON log_head FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_head_no_truncate BEFORE TRUNCATE ON log_head FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- Tiles and the head only grow.
-- +goose StatementBegin
CREATE FUNCTION log_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'log_head' THEN
        IF NEW.size <= OLD.size OR NEW.seq <= OLD.seq THEN
            RAISE EXCEPTION 'the log only grows' USING ERRCODE = 'insufficient_privilege';
        END IF;
    ELSIF TG_TABLE_NAME = 'log_spans' THEN
        IF NEW.n <> OLD.n OR NEW.earliest > OLD.earliest OR NEW.latest < OLD.latest THEN
            RAISE EXCEPTION 'spans of the log only grow' USING ERRCODE = 'insufficient_privilege';
        END IF;
    ELSIF (NEW.level, NEW.n) <> (OLD.level, OLD.n) OR length(NEW.hashes) <= length(OLD.hashes)
          OR substring(NEW.hashes FOR length(OLD.hashes)) <> OLD.hashes THEN
        RAISE EXCEPTION 'tiles of the log only grow' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER log_head_grows BEFORE UPDATE ON log_head FOR EACH ROW EXECUTE FUNCTION log_grows();
CREATE TRIGGER log_spans_grows BEFORE UPDATE ON log_spans FOR EACH ROW EXECUTE FUNCTION log_grows();
CREATE TRIGGER log_tiles_grows BEFORE UPDATE ON log_tiles FOR EACH ROW EXECUTE FUNCTION log_grows();

-- advance_log appends leaves: the events with these numbers, in this order. It is
-- a compare-and-swap: HPK02 says that the log has moved since whoever asks has
-- looked. Everything of it commits together, or nothing.
-- +goose StatementBegin
CREATE FUNCTION advance_log(old_size bigint, old_root bytea, new_root bytea, seqs bigint[], actors text[],
                            tile_levels smallint[], tile_ns bigint[], tile_hashes bytea[], checkpoint bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    added bigint := cardinality(seqs);
    done  bigint;
    last  bigint;
BEGIN
    SELECT h.seq INTO last FROM public.log_head h WHERE h.size = old_size AND h.root = old_root FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the log is not at % any more', old_size USING ERRCODE = 'HPK02';
    END IF;
    IF added = 0 OR EXISTS (SELECT FROM unnest(seqs) WITH ORDINALITY u (seq, i) WHERE u.seq <= coalesce(seqs[i - 1], last)) THEN
        RAISE EXCEPTION 'events come in their order' USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO public.log_entries (leaf, seq, at, type, outcome, agent_id, tool_name, actor_id, approval_id)
    SELECT old_size + u.i - 1, e.seq, e.appended_at, e.type, e.outcome, e.agent_id, e.tool_name, u.actor, e.approval_id
    FROM unnest(seqs, actors) WITH ORDINALITY u (seq, actor, i) JOIN public.events e ON e.seq = u.seq;
    GET DIAGNOSTICS done = ROW_COUNT;
    IF done <> added THEN
        RAISE EXCEPTION 'an event is not there' USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO public.log_spans AS s (n, earliest, latest)
    SELECT l.leaf / 4096, min(l.at), max(l.at) FROM public.log_entries l WHERE l.leaf >= old_size GROUP BY 1
    ON CONFLICT (n) DO UPDATE SET earliest = least(s.earliest, excluded.earliest), latest = greatest(s.latest, excluded.latest);
    INSERT INTO public.log_tiles (level, n, hashes)
    SELECT u.level, u.n, u.hashes FROM unnest(tile_levels, tile_ns, tile_hashes) u (level, n, hashes)
    ON CONFLICT (level, n) DO UPDATE SET hashes = excluded.hashes;
    UPDATE public.log_head SET size = old_size + added, root = new_root, seq = seqs[added], moved_at = clock_timestamp();
    INSERT INTO public.log_checkpoints (size, root, note) VALUES (old_size + added, new_root, checkpoint);
    PERFORM pg_notify('holdpoint_log', '');
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION advance_log(bigint, bytea, bytea, bigint[], text[], smallint[], bigint[], bytea[], bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION advance_log(bigint, bytea, bytea, bigint[], text[], smallint[], bigint[], bytea[], bytea) TO holdpoint_runtime;
GRANT SELECT ON log_head, log_entries, log_spans, log_tiles, log_checkpoints, log_cosignatures TO holdpoint_runtime;
GRANT INSERT (size, name, line) ON log_cosignatures TO holdpoint_runtime;
-- How far numbers have been given out.
GRANT SELECT ON SEQUENCE events_seq_seq TO holdpoint_runtime;

-- append_events as before, and: a transaction has its id before its events have
-- their numbers. So once all transactions are over that were running when a
-- number had been given out, no lower number can come any more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION append_events(ids uuid[], types text[], outcomes text[], agents text[], tools text[], approvals text[], bodies bytea[],
                                         OUT written bigint, OUT written_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    stopped text;
    now_at  timestamptz;
BEGIN
    PERFORM pg_catalog.pg_current_xact_id();
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
-- append_events may stay: it does what it did.
DROP FUNCTION advance_log(bigint, bytea, bytea, bigint[], text[], smallint[], bigint[], bytea[], bytea);
DROP TABLE log_cosignatures, log_checkpoints, log_tiles, log_spans, log_entries, log_head;
DROP FUNCTION log_grows();
REVOKE SELECT ON SEQUENCE events_seq_seq FROM holdpoint_runtime;
