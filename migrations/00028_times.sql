-- +goose Up
-- Times that the runtime role writes: none that the programs cannot read, such as
-- 'infinity', of which a single one keeps every process from starting.
UPDATE data_keys SET sealed_at = clock_timestamp() WHERE NOT (sealed_at >= '2000-01-01 00:00Z' AND sealed_at < '3000-01-01 00:00Z');
ALTER TABLE data_keys
    ADD CONSTRAINT data_keys_sealed_at_check CHECK (sealed_at >= '2000-01-01 00:00Z' AND sealed_at < '3000-01-01 00:00Z');
UPDATE signing_keys SET published_at = clock_timestamp() WHERE NOT (published_at >= '2000-01-01 00:00Z' AND published_at < '3000-01-01 00:00Z');
UPDATE signing_keys SET seen_at = clock_timestamp() WHERE NOT (seen_at >= '2000-01-01 00:00Z' AND seen_at < '3000-01-01 00:00Z');
ALTER TABLE signing_keys
    ADD CONSTRAINT signing_keys_published_at_check CHECK (published_at >= '2000-01-01 00:00Z' AND published_at < '3000-01-01 00:00Z'),
    ADD CONSTRAINT signing_keys_seen_at_check CHECK (seen_at >= '2000-01-01 00:00Z' AND seen_at < '3000-01-01 00:00Z');

-- +goose Down
ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_seen_at_check, DROP CONSTRAINT signing_keys_published_at_check;
ALTER TABLE data_keys DROP CONSTRAINT data_keys_sealed_at_check;
