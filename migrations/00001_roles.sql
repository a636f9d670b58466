-- +goose Up
-- The runtime role is what gate, console and worker log in as members of. It
-- owns nothing: every right that it has is granted by name in these files.
-- Creating a role needs CREATEROLE; where the migrator lacks it, a database
-- administrator creates the role once beforehand.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'holdpoint_runtime') THEN
        CREATE ROLE holdpoint_runtime NOLOGIN;
    END IF;
EXCEPTION
    -- Two databases of one cluster migrated at the same moment.
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role holdpoint_runtime does not exist and % may not create it: run CREATE ROLE holdpoint_runtime NOLOGIN as an administrator', current_user;
END
$$;
-- +goose StatementEnd

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO holdpoint_runtime;

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

-- What is set once stays.
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

-- +goose Down
DROP TABLE installation;
DROP FUNCTION installation_guard();
