-- +goose Up
-- Notifications that go before others are looked for by their kind: a queue of a hundred thousand others
-- would have been read for each hundred that are sent.
CREATE INDEX notifications_unsent ON notifications (tell, due_at, id) WHERE status = 'waiting' AND started_at IS NULL;

-- +goose Down
DROP INDEX notifications_unsent;
