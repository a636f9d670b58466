-- +goose Up
-- Decisions in Slack: whose account there is whose here, and which requests were taken.

-- A person's account in Slack. Who can only write to the database makes none: bound is a
-- keyed hash of the person, the account, and the secret of the app by which it was linked.
CREATE TABLE slack_links (
    person_id text        PRIMARY KEY REFERENCES people (id),
    team_id   text        NOT NULL CHECK (team_id ~ '^[A-Z0-9]{1,32}$'),
    user_id   text        NOT NULL CHECK (user_id ~ '^[A-Z0-9]{1,32}$'),
    bound     bytea       NOT NULL CHECK (length(bound) = 32),
    linked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (team_id, user_id)
);

-- The one code by which a person can link an account. code_hash is bound to the person.
CREATE TABLE slack_codes (
    person_id  text        PRIMARY KEY REFERENCES people (id),
    code_hash  bytea       NOT NULL UNIQUE CHECK (length(code_hash) = 32),
    expires_at timestamptz NOT NULL
);

-- Signatures of requests that were taken, for as long as their time lets them pass.
CREATE TABLE slack_requests (
    signature bytea       PRIMARY KEY CHECK (length(signature) = 32),
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX slack_requests_at ON slack_requests (at);

-- Whoever is disabled decides nowhere, and of whoever is erased nothing is left.
-- +goose StatementBegin
CREATE FUNCTION slack_links_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM slack_links WHERE person_id = NEW.id;
    DELETE FROM slack_codes WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER slack_links_over AFTER UPDATE OF disabled_at, erased_at ON people FOR EACH ROW
    WHEN (NEW.disabled_at IS NOT NULL OR NEW.erased_at IS NOT NULL) EXECUTE FUNCTION slack_links_over();

GRANT SELECT, DELETE ON slack_links, slack_codes, slack_requests TO holdpoint_runtime;
GRANT INSERT (person_id, team_id, user_id, bound) ON slack_links TO holdpoint_runtime;
GRANT INSERT (person_id, code_hash, expires_at) ON slack_codes TO holdpoint_runtime;
GRANT INSERT (signature) ON slack_requests TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER slack_links_over ON people;
DROP FUNCTION slack_links_over;
DROP TABLE slack_requests, slack_codes, slack_links;
