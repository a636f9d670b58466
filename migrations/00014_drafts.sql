-- +goose Up
-- What people have written on a card and not sent: a row for each form, encrypted as
-- arguments are. It is the person's own, and it goes as soon as nobody can send it any more.
CREATE TABLE drafts (
    approval_id text        NOT NULL REFERENCES approvals (id),
    person_id   text        NOT NULL REFERENCES people (id),
    form        text        NOT NULL CHECK (form ~ '^[a-z-]{1,32}$'),
    sealed      bytea       NOT NULL CHECK (length(sealed) <= 2000000),
    sealed_key  bytea       NOT NULL,
    saved_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (approval_id, person_id, form)
);
CREATE INDEX drafts_person ON drafts (person_id);

-- The approval has ended or is erased, or somebody has said what a form asks for: what
-- was written for that goes.
-- +goose StatementBegin
CREATE FUNCTION drafts_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM drafts WHERE approval_id = to_jsonb(NEW)->>TG_ARGV[0] AND form = coalesce(TG_ARGV[1], form);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER drafts_over AFTER UPDATE OF status, erased_at ON approvals FOR EACH ROW
    WHEN ((OLD.status, OLD.erased_at) IS DISTINCT FROM (NEW.status, NEW.erased_at)) EXECUTE FUNCTION drafts_over('id');
CREATE TRIGGER drafts_reconciled AFTER UPDATE OF execution ON approvals FOR EACH ROW
    WHEN (OLD.execution = 'unknown') EXECUTE FUNCTION drafts_over('id', 'reconciliation');
CREATE TRIGGER drafts_over AFTER UPDATE OF done_at ON afterwards FOR EACH ROW EXECUTE FUNCTION drafts_over('approval_id', 'afterwards');

-- +goose StatementBegin
CREATE FUNCTION drafts_of_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM drafts WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER drafts_of_erased AFTER UPDATE OF erased_at ON people FOR EACH ROW WHEN (NEW.erased_at IS NOT NULL) EXECUTE FUNCTION drafts_of_erased();

GRANT SELECT, DELETE ON drafts TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, form, sealed, sealed_key), UPDATE (sealed, sealed_key, saved_at) ON drafts TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER drafts_of_erased ON people;
DROP TRIGGER drafts_over ON afterwards;
DROP TRIGGER drafts_reconciled ON approvals;
DROP TRIGGER drafts_over ON approvals;
DROP FUNCTION drafts_of_erased, drafts_over;
DROP TABLE drafts;
