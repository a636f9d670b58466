-- +goose Up
-- Calls that somebody does not want in their inbox until a time. It hides nothing from
-- anybody else, and nothing that is due before that time (store.Inbox).
CREATE TABLE snoozes (
    person_id   text        NOT NULL REFERENCES people (id),
    approval_id text        NOT NULL REFERENCES approvals (id),
    until       timestamptz NOT NULL,
    PRIMARY KEY (person_id, approval_id)
);
CREATE INDEX snoozes_approval ON snoozes (approval_id);

-- Nothing of it is left once the approval has ended, or the person is erased.
-- +goose StatementBegin
CREATE FUNCTION snoozes_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'people' THEN
        DELETE FROM snoozes WHERE person_id = NEW.id;
    ELSE
        DELETE FROM snoozes WHERE approval_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER snoozes_over AFTER UPDATE OF status ON approvals FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION snoozes_over();
CREATE TRIGGER snoozes_over AFTER UPDATE OF erased_at ON people FOR EACH ROW WHEN (NEW.erased_at IS NOT NULL) EXECUTE FUNCTION snoozes_over();

GRANT SELECT, INSERT, UPDATE (until), DELETE ON snoozes TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER snoozes_over ON people;
DROP TRIGGER snoozes_over ON approvals;
DROP FUNCTION snoozes_over;
DROP TABLE snoozes;
