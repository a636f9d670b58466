-- +goose Up
-- People who are administered from the console and by the API, not by commands alone.
-- What serve logs in as, the runtime role, still writes no account: whoever holds it
-- makes nobody a reviewer. A second login, a member of the runtime and of this role,
-- does, where database_people_url names it (docs/database.md).
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'holdpoint_people') THEN
        CREATE ROLE holdpoint_people NOLOGIN;
    END IF;
EXCEPTION
    -- Two databases of one cluster migrated at the same moment.
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'the role holdpoint_people does not exist and % may not create it: run CREATE ROLE holdpoint_people NOLOGIN as an administrator', current_user;
END
$$;
-- +goose StatementEnd

-- Links by which people set a password, once: of a person at most the newest.
CREATE TABLE password_links (
    person_id  text        PRIMARY KEY REFERENCES people (id),
    -- SHA-256 of the link's 130 random bits: reading this table opens no account.
    token_hash bytea       NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL CHECK (expires_at <= created_at + interval '72 hours')
);

-- Whoever is disabled or erased has no link, and no session that comes back to life
-- when the account is enabled again.
-- +goose StatementBegin
CREATE FUNCTION person_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM password_links WHERE person_id = NEW.id;
    DELETE FROM sessions WHERE person_id = NEW.id;
    DELETE FROM challenges WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER person_over AFTER UPDATE OF disabled_at, erased_at ON people FOR EACH ROW
    WHEN (NEW.disabled_at IS NOT NULL OR NEW.erased_at IS NOT NULL) EXECUTE FUNCTION person_over();

-- follow_link sets the password of the person whom a link is of, ends their sessions,
-- and returns who it is: nobody for a link that is used, over or wrong. The runtime role
-- may call it, and neither read links nor make any: it opens no account without one.
-- +goose StatementBegin
CREATE FUNCTION follow_link(token text, password text) RETURNS TABLE (id text, email text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    link public.password_links%ROWTYPE;
BEGIN
    IF password !~ '^\$argon2id\$' THEN
        RAISE EXCEPTION 'this is no hash of a password' USING ERRCODE = 'check_violation';
    END IF;
    -- As every change of accounts: of two who follow a link at once, the second finds none.
    PERFORM pg_advisory_xact_lock(hashtextextended('people', 0));
    DELETE FROM public.password_links l USING public.people p
    WHERE l.token_hash = sha256(convert_to(token, 'UTF8')) AND p.id = l.person_id AND p.disabled_at IS NULL AND p.erased_at IS NULL
    RETURNING l.* INTO link;
    IF link.person_id IS NULL OR link.expires_at <= clock_timestamp() THEN
        RETURN;
    END IF;
    DELETE FROM public.sessions s WHERE s.person_id = link.person_id;
    DELETE FROM public.challenges c WHERE c.person_id = link.person_id;
    RETURN QUERY UPDATE public.people p SET password_hash = password WHERE p.id = link.person_id RETURNING p.id, p.email;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION follow_link FROM PUBLIC;
GRANT EXECUTE ON FUNCTION follow_link TO holdpoint_runtime;

-- Neither the address nor the identity: what the log says of a person stays true.
GRANT INSERT (id, email, name, identity, password_hash, roles), UPDATE (name, password_hash, roles, disabled_at) ON people TO holdpoint_people;
GRANT SELECT, INSERT (person_id, token_hash, expires_at), DELETE ON password_links TO holdpoint_people;

-- +goose Down
DROP TRIGGER person_over ON people;
DROP FUNCTION person_over, follow_link;
DROP TABLE password_links;
REVOKE INSERT (id, email, name, identity, password_hash, roles), UPDATE (name, password_hash, roles, disabled_at) ON people FROM holdpoint_people;
