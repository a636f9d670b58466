-- +goose Up
-- What an inbox is found by: whose yes counts now, of what kind, by when, and who has
-- spoken or taken it on. The programs compute it (approval.Asking) with every change of
-- an approval and at every moment at which time changes it; whether a vote counts is
-- never read from here.
ALTER TABLE approvals
    ADD COLUMN due_at     timestamptz, -- when the first of the waiting requirements' times is up
    ADD COLUMN open_to    text[] NOT NULL DEFAULT '{}', -- roles
    ADD COLUMN spoken     text[] NOT NULL DEFAULT '{}', -- identities
    ADD COLUMN waits_for  text   NOT NULL DEFAULT '',   -- engine.Kind
    ADD COLUMN claimed_by text   NOT NULL DEFAULT '';   -- a person's id
-- Until the programs have looked at what waits already: all whom it may ever ask.
UPDATE approvals SET due_at = expires_at, open_to = asked_roles(requirements, terms) WHERE status = 'pending';
INSERT INTO outbox (approval_id) SELECT id FROM approvals WHERE status = 'pending';
DROP INDEX approvals_asked;
CREATE INDEX approvals_open_to ON approvals USING gin (open_to) WHERE status = 'pending';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.opened_at  := clock_timestamp();
    NEW.expires_at := NEW.opened_at + NEW.expires_in;
    NEW.wake_at    := NEW.opened_at;
    NEW.status     := 'pending';
    NEW.version    := 1;
    NEW.revision   := 1;
    NEW.ended_at   := NULL;
    NEW.reasons    := '[]';
    NEW.final      := NULL;
    NEW.execution  := 'none';
    -- A program of before these columns says nothing of them.
    IF NEW.due_at IS NULL THEN
        NEW.due_at  := NEW.expires_at;
        NEW.open_to := asked_roles(NEW.requirements, NEW.terms);
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- Searches of the inbox that people keep under a name. They are theirs alone, and go
-- when the person is erased.
CREATE TABLE inbox_views (
    id        text        PRIMARY KEY CHECK (id ~ '^view_[a-z0-9]+$'),
    person_id text        NOT NULL REFERENCES people (id),
    name      text        NOT NULL CHECK (length(name) BETWEEN 1 AND 60),
    query     text        NOT NULL CHECK (length(query) <= 2000),
    made_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (person_id, name)
);
-- +goose StatementBegin
CREATE FUNCTION inbox_views_erased() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    DELETE FROM public.inbox_views WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER people_inbox_views_erased AFTER UPDATE ON people FOR EACH ROW
    WHEN (OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL) EXECUTE FUNCTION inbox_views_erased();

GRANT INSERT (due_at, open_to, waits_for), UPDATE (due_at, open_to, spoken, waits_for, claimed_by) ON approvals TO holdpoint_runtime;
GRANT SELECT, INSERT (id, person_id, name, query), UPDATE (query), DELETE ON inbox_views TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER people_inbox_views_erased ON people;
DROP FUNCTION inbox_views_erased;
DROP TABLE inbox_views;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION approvals_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.opened_at  := clock_timestamp();
    NEW.expires_at := NEW.opened_at + NEW.expires_in;
    NEW.wake_at    := NEW.opened_at;
    NEW.status     := 'pending';
    NEW.version    := 1;
    NEW.revision   := 1;
    NEW.ended_at   := NULL;
    NEW.reasons    := '[]';
    NEW.final      := NULL;
    NEW.execution  := 'none';
    RETURN NEW;
END
$$;
-- +goose StatementEnd
ALTER TABLE approvals DROP COLUMN due_at, DROP COLUMN open_to, DROP COLUMN spoken, DROP COLUMN waits_for, DROP COLUMN claimed_by;
CREATE INDEX approvals_asked ON approvals USING gin (asked_roles(requirements, terms)) WHERE status = 'pending';
