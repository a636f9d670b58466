-- +goose Up
-- The document that a call was proposed with before somebody edited its arguments, so
-- that the next approver is shown what is different. It is sealed as it was, and goes
-- with the approval's arguments.
CREATE TABLE former_documents (
    approval_id text    NOT NULL REFERENCES approvals (id),
    edition     integer NOT NULL, -- the last one that had it
    sealed      bytea   NOT NULL,
    sealed_key  bytea   NOT NULL,
    PRIMARY KEY (approval_id, edition)
);

-- +goose StatementBegin
CREATE FUNCTION former_documents_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM former_documents WHERE approval_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER former_documents_erased AFTER UPDATE OF erased_at ON approvals FOR EACH ROW WHEN (NEW.erased_at IS NOT NULL) EXECUTE FUNCTION former_documents_erased();

-- What waits for a ticket, or will: those who can attach one find it.
CREATE INDEX approvals_ticket ON approvals (expires_at, id) WHERE status = 'pending' AND requirements @> '[{"kind": "ticket"}]';

GRANT SELECT, INSERT ON former_documents TO holdpoint_runtime;

-- +goose Down
DROP INDEX approvals_ticket;
DROP TRIGGER former_documents_erased ON approvals;
DROP FUNCTION former_documents_erased;
DROP TABLE former_documents;
