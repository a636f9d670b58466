-- +goose Up
-- Whoever stands in for somebody says nothing against that one's no, so that an inbox has to
-- know who has said no: a list of the identities that spoke with each no, as engine/approval
-- counts it now. It is computed as the other columns are by which an inbox finds a call.
ALTER TABLE approvals ADD COLUMN noes jsonb NOT NULL DEFAULT '[]';
GRANT UPDATE (noes) ON approvals TO holdpoint_runtime;
-- What waits with a no already is looked at once more.
INSERT INTO outbox (approval_id) SELECT id FROM approvals a WHERE status = 'pending'
    AND EXISTS (SELECT FROM facts f WHERE f.approval_id = a.id AND f.kind = 'vote' AND NOT f.yes);

-- +goose Down
ALTER TABLE approvals DROP COLUMN noes;
