-- +goose Up
-- Browsers that people have notified by web push: where each is reached, and what only
-- it can read by. All of that is encrypted, and bound to the row's person: whoever has it
-- could push there. A subscription is the person's own, and goes with their account.
CREATE TABLE push_subscriptions (
    id           text        PRIMARY KEY CHECK (id ~ '^psh_[a-z0-9]+$'),
    person_id    text        NOT NULL REFERENCES people (id),
    name         text        NOT NULL CHECK (name <> '' AND length(name) <= 100),
    -- A keyed hash of the address, which is the browser's: it notifies one person.
    address      bytea       NOT NULL UNIQUE CHECK (length(address) = 32),
    sealed       bytea       NOT NULL CHECK (length(sealed) <= 8192),
    sealed_key   bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz
);
CREATE INDEX push_subscriptions_person ON push_subscriptions (person_id);

-- Whoever is disabled is notified nowhere, and of whoever is erased nothing is left.
-- +goose StatementBegin
CREATE FUNCTION push_subscriptions_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM push_subscriptions WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER push_subscriptions_over AFTER UPDATE OF disabled_at, erased_at ON people FOR EACH ROW
    WHEN (NEW.disabled_at IS NOT NULL OR NEW.erased_at IS NOT NULL) EXECUTE FUNCTION push_subscriptions_over();

ALTER TABLE endpoints DROP CONSTRAINT endpoints_kind_check;
ALTER TABLE endpoints ADD CONSTRAINT endpoints_kind_check CHECK (kind IN ('webhook', 'email', 'slack', 'push'));
-- Dropped: there is nobody to tell any more, or nothing.
ALTER TABLE notifications DROP CONSTRAINT notifications_status_check;
ALTER TABLE notifications ADD CONSTRAINT notifications_status_check CHECK (status IN ('waiting', 'bundled', 'sent', 'dead', 'dropped'));

GRANT SELECT, DELETE ON push_subscriptions TO holdpoint_runtime;
GRANT INSERT (id, person_id, name, address, sealed, sealed_key), UPDATE (sealed, sealed_key, last_used_at) ON push_subscriptions TO holdpoint_runtime;

-- +goose Down
-- What was told by push is not told otherwise.
DELETE FROM notifications WHERE endpoint_id IN (SELECT id FROM endpoints WHERE kind = 'push');
DELETE FROM endpoints WHERE kind = 'push';
UPDATE notifications SET status = 'dead' WHERE status = 'dropped';
ALTER TABLE notifications DROP CONSTRAINT notifications_status_check;
ALTER TABLE notifications ADD CONSTRAINT notifications_status_check CHECK (status IN ('waiting', 'bundled', 'sent', 'dead'));
ALTER TABLE endpoints DROP CONSTRAINT endpoints_kind_check;
ALTER TABLE endpoints ADD CONSTRAINT endpoints_kind_check CHECK (kind IN ('webhook', 'email', 'slack'));
DROP TRIGGER push_subscriptions_over ON people;
DROP FUNCTION push_subscriptions_over;
DROP TABLE push_subscriptions;
