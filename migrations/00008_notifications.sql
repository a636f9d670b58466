-- +goose Up
-- What people are told, where, and how delivering it goes.

-- Where people are told: a webhook, a mailbox, a Slack channel. What is secret
-- about it is encrypted.
CREATE TABLE endpoints (
    id          text        PRIMARY KEY CHECK (id ~ '^end_[a-z0-9]+$'),
    kind        text        NOT NULL CHECK (kind IN ('webhook', 'email', 'slack')),
    name        text        NOT NULL UNIQUE CHECK (name <> '' AND length(name) <= 200),
    settings    jsonb       NOT NULL, -- notify's own: what is told, for which roles, how bundled
    sealed      bytea,
    sealed_key  bytea,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by  text        NOT NULL,
    disabled_at timestamptz
);

-- What has been found worth telling of an approval: each thing once.
CREATE TABLE announcements (
    approval_id text        NOT NULL REFERENCES approvals (id),
    key         text        NOT NULL,
    tell        text        NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (approval_id, key)
);

-- One thing to tell at one endpoint. Delivered at least once, with its id.
CREATE TABLE notifications (
    id          text        PRIMARY KEY CHECK (id ~ '^ntf_[a-z0-9]+$'),
    endpoint_id text        NOT NULL REFERENCES endpoints (id),
    recipient   text        NOT NULL DEFAULT '', -- a mail address, where the endpoint has many
    approval_id text        REFERENCES approvals (id),
    tell        text        NOT NULL,
    body        jsonb       NOT NULL, -- channel.Notification: no argument, no token
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    status      text        NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'bundled', 'sent', 'dead')),
    bundle_id   text        REFERENCES notifications (id),
    attempts    integer     NOT NULL DEFAULT 0,
    last_error  text        NOT NULL DEFAULT '' CHECK (length(last_error) <= 1000),
    ended_at    timestamptz,
    -- It waits to be told together with others of the same endpoint and recipient;
    -- which ones those are stays as it is from its first attempt on.
    bundles     boolean     NOT NULL DEFAULT false,
    claimed_at  timestamptz,
    -- Since when Temporal has it.
    started_at  timestamptz,
    CHECK ((status = 'bundled') = (bundle_id IS NOT NULL)),
    CHECK ((status = 'waiting') = (ended_at IS NULL))
);
CREATE INDEX notifications_due ON notifications (due_at, id) WHERE status = 'waiting';
CREATE INDEX notifications_bundles ON notifications (endpoint_id, recipient) WHERE status = 'waiting' AND bundles AND claimed_at IS NULL;
CREATE INDEX notifications_bundled ON notifications (bundle_id) WHERE bundle_id IS NOT NULL;
CREATE INDEX notifications_endpoint ON notifications (endpoint_id, status);
CREATE INDEX notifications_dead ON notifications (ended_at DESC, id) WHERE status = 'dead';
-- For erasing what belongs to an approval or a person.
CREATE INDEX notifications_approval ON notifications (approval_id) WHERE approval_id IS NOT NULL;
CREATE INDEX notifications_recipient ON notifications (lower(recipient)) WHERE recipient <> '';

GRANT SELECT ON endpoints, announcements, notifications TO holdpoint_runtime;
GRANT INSERT (id, kind, name, settings, sealed, sealed_key, created_by), UPDATE (name, settings, sealed, sealed_key, disabled_at) ON endpoints TO holdpoint_runtime;
GRANT INSERT (approval_id, key, tell) ON announcements TO holdpoint_runtime;
GRANT INSERT (id, endpoint_id, recipient, approval_id, tell, body, due_at, bundles),
      UPDATE (due_at, status, bundle_id, attempts, last_error, ended_at, claimed_at, started_at) ON notifications TO holdpoint_runtime;

-- +goose Down
DROP TABLE notifications, announcements, endpoints;
