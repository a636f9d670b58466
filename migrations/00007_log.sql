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
--
-- One tile is written again several times a second. What it was is cleared away
-- after so many times, and not after a share of a table that only grows.
CREATE TABLE log_tiles (
    level  smallint NOT NULL,
    n      bigint   NOT NULL,
    hashes bytea    NOT NULL CHECK (length(hashes) % 32 = 0 AND length(hashes) BETWEEN 32 AND 8192),
    PRIMARY KEY (level, n)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 3000);
-- Hashes cannot be compressed. (CREATE TABLE takes STORAGE from Postgres 16 on.)
ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- The checkpoints that were signed, and what witnesses have signed of them. Every
-- append has one, which is several a second. For a day all of them are kept, then
-- the last one of every hour (UTC) and those that a witness has signed. What is
-- dropped can be made again, from the tiles; what others were shown, they have.
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

-- How far the audit log has been sent to each receiver outside (setting
-- log_streams). A position moves only once the receiver has taken what is before
-- it; whoever sends next goes on from there. Setting it back sends again, also
-- while workers run: they compare before they move it.
CREATE TABLE log_positions (
    name       text        PRIMARY KEY CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$'), -- the stream's
    leaf       bigint      NOT NULL CHECK (leaf >= 0), -- of log_entries: the next one to send
    at         timestamptz NOT NULL DEFAULT clock_timestamp(), -- when it was moved
    -- What went wrong since, and since when; '' while nothing does. It never holds
    -- what a receiver wrote.
    last_error text        NOT NULL DEFAULT '' CHECK (length(last_error) <= 500),
    failing_at timestamptz CHECK ((failing_at IS NULL) = (last_error = ''))
);

CREATE TRIGGER log_entries_append_only BEFORE UPDATE OR DELETE ON log_entries FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_entries_no_truncate BEFORE TRUNCATE ON log_entries FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_checkpoints_append_only BEFORE UPDATE ON log_checkpoints FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_checkpoints_no_truncate BEFORE TRUNCATE ON log_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_cosignatures_append_only BEFORE UPDATE OR DELETE ON log_cosignatures FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_cosignatures_no_truncate BEFORE TRUNCATE ON log_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_spans_no_delete BEFORE DELETE ON log_spans FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_spans_no_truncate BEFORE TRUNCATE ON log_spans FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_tiles_no_delete BEFORE DELETE ON log_tiles FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_tiles_no_truncate BEFORE TRUNCATE ON log_tiles FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER log_head_no_delete BEFORE DELETE ON log_head FOR EACH ROW EXECUTE FUNCTION append_only();
CREATE TRIGGER log_head_no_truncate BEFORE TRUNCATE ON log_head FOR EACH STATEMENT EXECUTE FUNCTION append_only();

-- Head, spans and tiles only grow.
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

-- No checkpoint goes but by the rule, whoever asks. The next one has to be of the
-- same hour: so the last one of an hour stays, in whatever order others go.
-- +goose StatementBegin
CREATE FUNCTION log_checkpoint_goes() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF OLD.at > clock_timestamp() - interval '1 day'
       OR date_trunc('hour', OLD.at, 'UTC') IS DISTINCT FROM (SELECT date_trunc('hour', c.at, 'UTC') FROM public.log_checkpoints c WHERE c.size > OLD.size ORDER BY c.size LIMIT 1)
       OR EXISTS (SELECT FROM public.log_cosignatures s WHERE s.size = OLD.size) THEN
        RAISE EXCEPTION 'a checkpoint is kept for a day, the last one of an hour and a witnessed one for ever' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN OLD;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER log_checkpoints_thinned BEFORE DELETE ON log_checkpoints FOR EACH ROW EXECUTE FUNCTION log_checkpoint_goes();

-- thin_log_checkpoints removes up to so many of those that may go, the oldest
-- first, and says how many.
-- +goose StatementBegin
CREATE FUNCTION thin_log_checkpoints(most int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM public.log_checkpoints d USING (
        SELECT c.size FROM public.log_checkpoints c
        WHERE c.at < clock_timestamp() - interval '1 day'
          AND date_trunc('hour', c.at, 'UTC') = (SELECT date_trunc('hour', n.at, 'UTC') FROM public.log_checkpoints n WHERE n.size > c.size ORDER BY n.size LIMIT 1)
          AND NOT EXISTS (SELECT FROM public.log_cosignatures s WHERE s.size = c.size)
        ORDER BY c.size LIMIT most) old
    WHERE d.size = old.size;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION thin_log_checkpoints FROM PUBLIC;
GRANT EXECUTE ON FUNCTION thin_log_checkpoints TO holdpoint_runtime;

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
    -- A text that is longer than the programs let it be may be one that no index
    -- holds: its beginning will do, so that nobody who appends can stop the log.
    INSERT INTO public.log_entries (leaf, seq, at, type, outcome, agent_id, tool_name, actor_id, approval_id)
    SELECT old_size + u.i - 1, e.seq, e.appended_at, left(e.type, 64), e.outcome, left(e.agent_id, 200),
        CASE WHEN octet_length(e.tool_name) <= 512 THEN e.tool_name ELSE left(e.tool_name, 128) END, left(u.actor, 200), left(e.approval_id, 200)
    FROM unnest(seqs, actors) WITH ORDINALITY u (seq, actor, i) JOIN public.events e ON e.seq = u.seq;
    GET DIAGNOSTICS done = ROW_COUNT;
    IF done <> added THEN
        RAISE EXCEPTION 'an event is not there' USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO public.log_spans AS s (n, earliest, latest)
    SELECT l.leaf / 4096, min(l.at), max(l.at) FROM public.log_entries l WHERE l.leaf BETWEEN old_size AND old_size + added - 1 GROUP BY 1
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
REVOKE ALL ON FUNCTION advance_log FROM PUBLIC;
GRANT EXECUTE ON FUNCTION advance_log TO holdpoint_runtime;

GRANT SELECT ON log_head, log_entries, log_spans, log_tiles, log_checkpoints, log_cosignatures TO holdpoint_runtime, holdpoint_reader;
GRANT INSERT (size, name, line) ON log_cosignatures TO holdpoint_runtime;
GRANT SELECT, INSERT (name, leaf), UPDATE (leaf, at, last_error, failing_at) ON log_positions TO holdpoint_runtime;

-- +goose Down
DROP TABLE log_positions, log_cosignatures, log_checkpoints, log_tiles, log_spans, log_entries, log_head;
DROP FUNCTION advance_log, thin_log_checkpoints, log_checkpoint_goes, log_grows;
