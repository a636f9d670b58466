-- Run once, by the Postgres image, on an empty cluster. Roles and databases only:
-- the tables are migrations', run by "holdpoint migrate" as holdpoint_owner.

-- A statement that fails is quoted in the server's log; these hold passwords.
SET log_min_error_statement = panic;
\set owner_password `cat /run/secrets/owner_password`
\set app_password `cat /run/secrets/app_password`
\set temporal_password `cat /run/secrets/temporal_password`

-- Five roles (docs/database.md). Nobody logs in as the owner: the migrator acts as
-- it. What serve and worker may do is granted to the runtime, which owns nothing;
-- holdpoint_app is its member. The reader only looks. Whoever is a member of people,
-- too, changes accounts: nobody is, unless you make a login for database_people_url.
CREATE ROLE holdpoint_owner NOLOGIN;
CREATE ROLE holdpoint_runtime NOLOGIN;
CREATE ROLE holdpoint_reader NOLOGIN;
CREATE ROLE holdpoint_people NOLOGIN;
CREATE ROLE holdpoint_migrator LOGIN PASSWORD :'owner_password' IN ROLE holdpoint_owner;
CREATE ROLE holdpoint_app LOGIN PASSWORD :'app_password' IN ROLE holdpoint_runtime;
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';

CREATE DATABASE holdpoint OWNER holdpoint_owner;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

-- Nobody looks into anybody else's.
REVOKE CONNECT, TEMPORARY ON DATABASE holdpoint, temporal, temporal_visibility FROM PUBLIC;
GRANT CONNECT ON DATABASE holdpoint TO holdpoint_owner, holdpoint_runtime, holdpoint_reader;
-- What the migrator makes is the owner's.
ALTER ROLE holdpoint_migrator IN DATABASE holdpoint SET role = 'holdpoint_owner';

\connect holdpoint
-- Postgres lets everybody take locks by number, and keep large objects. The programs take turns by such locks: whoever
-- only reads could keep all from signing in, and the log from growing.
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND (proname ~ '^pg_(try_)?advisory_' OR proname ~ '^lo_(creat|create|from_bytea)$') LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
    FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_(try_)?advisory_' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO holdpoint_owner, holdpoint_runtime, holdpoint_people', f);
    END LOOP;
END $$;

-- Temporal's visibility schema uses an extension; the database's owner may
-- create it, because Postgres calls it trusted.
