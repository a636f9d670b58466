-- +goose Up
-- Runtime and reader own nothing: every right that they have is granted by name
-- in these files. Serve and worker log in as members of the runtime role. The
-- reader role is for whoever looks and never changes (exports, reports, somebody's
-- own queries): it sees the log and what the log names, and nothing secret: no
-- arguments, no keys, no password hashes, no sessions. Creating a role needs
-- CREATEROLE; where the migrator lacks it, an administrator creates both once.
-- +goose StatementBegin
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['holdpoint_runtime', 'holdpoint_reader'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            END IF;
        EXCEPTION
            -- Two databases of one cluster migrated at the same moment.
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'the role % does not exist and % may not create it: run CREATE ROLE % NOLOGIN as an administrator', role, current_user, role;
        END;
    END LOOP;
END
$$;
-- +goose StatementEnd

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO holdpoint_runtime, holdpoint_reader;

-- Nobody needs temporary tables. Where the migrator does not own the database, its
-- owner has to revoke the right.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
EXCEPTION
    WHEN insufficient_privilege THEN NULL;
END
$$;
-- +goose StatementEnd

-- One row: which installation this is, and a check value of its data key, so
-- that a process with the wrong key refuses to start instead of writing what
-- nobody can read.
CREATE TABLE installation (
    only_row   boolean     PRIMARY KEY DEFAULT true CHECK (only_row),
    id         uuid        NOT NULL DEFAULT gen_random_uuid(),
    key_check  bytea,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO installation DEFAULT VALUES;
GRANT SELECT, UPDATE (key_check) ON installation TO holdpoint_runtime;

-- The check value is set once.
-- +goose StatementBegin
CREATE FUNCTION installation_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.key_check IS NOT NULL AND NEW.key_check IS DISTINCT FROM OLD.key_check THEN
        RAISE EXCEPTION 'the installation''s data key is already set';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER installation_guard BEFORE UPDATE ON installation FOR EACH ROW EXECUTE FUNCTION installation_guard();

-- The trigger of every table whose rows nobody changes, not even the owner by mistake.
-- +goose StatementBegin
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is not allowed', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE installation;
DROP FUNCTION installation_guard, append_only;
REVOKE USAGE ON SCHEMA public FROM holdpoint_runtime, holdpoint_reader;
