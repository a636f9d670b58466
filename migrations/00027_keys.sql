-- +goose Up
-- API keys that administrators make and revoke in the console: by the login that changes
-- accounts (docs/database.md), and still not by the runtime role, which makes itself no
-- key. What a key is for never changes, and one that is revoked stays revoked.
GRANT INSERT (id, agent_id, kind, secret_hash, scopes, max_state, label, expires_at), UPDATE (revoked_at) ON keys TO holdpoint_people;

-- +goose StatementBegin
CREATE FUNCTION key_stays_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'key % is revoked, and stays so', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER key_stays_revoked BEFORE UPDATE OF revoked_at ON keys FOR EACH ROW EXECUTE FUNCTION key_stays_revoked();

-- +goose Down
DROP TRIGGER key_stays_revoked ON keys;
DROP FUNCTION key_stays_revoked;
REVOKE INSERT (id, agent_id, kind, secret_hash, scopes, max_state, label, expires_at), UPDATE (revoked_at) ON keys FROM holdpoint_people;
