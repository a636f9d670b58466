-- Run once, by the Postgres image, on an empty cluster. Roles and databases only:
-- the tables are migrations', run by "holdpoint migrate" as holdpoint_owner.

-- A statement that fails is quoted in the server's log; these hold passwords.
SET log_min_error_statement = panic;
\set owner_password `cat /run/secrets/owner_password`
\set app_password `cat /run/secrets/app_password`
\set temporal_password `cat /run/secrets/temporal_password`

-- What serve and worker may do is granted to holdpoint_runtime, which nobody
-- logs in as and which owns nothing. holdpoint_app is its member.
CREATE ROLE holdpoint_runtime NOLOGIN;
CREATE ROLE holdpoint_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE holdpoint_app LOGIN PASSWORD :'app_password' IN ROLE holdpoint_runtime;
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';

CREATE DATABASE holdpoint OWNER holdpoint_owner;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

-- Nobody looks into anybody else's.
REVOKE CONNECT, TEMPORARY ON DATABASE holdpoint, temporal, temporal_visibility FROM PUBLIC;
GRANT CONNECT ON DATABASE holdpoint TO holdpoint_runtime;

-- Temporal's visibility schema uses an extension; the database's owner may
-- create it, because Postgres calls it trusted.
