-- +goose Up
-- What a provider's directory has told of people and groups by SCIM (RFC 7643).
CREATE TABLE directory_users (
    person_id   text        PRIMARY KEY REFERENCES people (id),
    -- What the directory calls somebody. The address of an account stays as it is.
    user_name   text        NOT NULL CHECK (user_name <> '' AND length(user_name) <= 254),
    -- It never changes hands: whoever comes with it again is the same person.
    external_id text        UNIQUE CHECK (external_id <> '' AND length(external_id) <= 255),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- people.disabled_at where the directory has set it: it enables nobody whom an
    -- administrator has disabled.
    disabled_at timestamptz,
    removed_at  timestamptz
);
CREATE UNIQUE INDEX directory_users_user_name ON directory_users (lower(user_name)) WHERE removed_at IS NULL;

-- Roles go by the name of a group, so that there is one of a name.
CREATE TABLE directory_groups (
    id          text        PRIMARY KEY CHECK (id ~ '^grp_[a-z0-9]+$'),
    name        text        NOT NULL CHECK (name <> '' AND length(name) <= 255),
    external_id text        CHECK (external_id <> '' AND length(external_id) <= 255),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX directory_groups_name ON directory_groups (lower(name));

CREATE TABLE directory_members (
    group_id  text NOT NULL REFERENCES directory_groups (id) ON DELETE CASCADE,
    person_id text NOT NULL REFERENCES directory_users (person_id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, person_id)
);
CREATE INDEX directory_members_person_id ON directory_members (person_id);

-- An erasure takes what the directory calls somebody, as it takes what providers do.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION person_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sso_identities WHERE person_id = NEW.id;
    DELETE FROM directory_users WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Who gets which roles is for whoever writes accounts to say.
GRANT SELECT ON directory_users, directory_groups, directory_members TO holdpoint_people, holdpoint_runtime;
GRANT INSERT (person_id, user_name, external_id), UPDATE (user_name, external_id, changed_at, disabled_at, removed_at) ON directory_users TO holdpoint_people;
GRANT INSERT (id, name, external_id), UPDATE (name, external_id, changed_at), DELETE ON directory_groups TO holdpoint_people;
GRANT INSERT (group_id, person_id), DELETE ON directory_members TO holdpoint_people;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION person_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sso_identities WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
DROP TABLE directory_members, directory_groups, directory_users;
