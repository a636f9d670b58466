-- +goose Up
-- The data keys that records have been sealed with: by their ids, which tell nothing of
-- them. A process that lacks one refuses to start while anything is sealed with it.
CREATE TABLE data_keys (
    id         text        PRIMARY KEY CHECK (id ~ '^[0-9a-f]{16}$'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When a process last said that it seals with it, which each does twice a minute.
    sealed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When "keys reseal" last found nothing under it: true for as long as nobody has
    -- sealed with it since.
    emptied_at timestamptz
);
GRANT SELECT, INSERT (id), UPDATE (sealed_at) ON data_keys TO holdpoint_runtime;

-- The id of the data key that a record's own key is wrapped by; '' is the installation's
-- first, whose id is not written.
-- +goose StatementBegin
CREATE FUNCTION wrapped_by(wrapped bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT CASE WHEN length(wrapped) = 69 AND get_byte(wrapped, 0) = 1 THEN encode(substr(wrapped, 2, 8), 'hex') ELSE '' END
$$;

-- Whether the owner's command is wrapping records' own keys by another data key. The
-- guards of what must not change let that through, and nobody else: not the runtime
-- role, nor what it calls that runs as the owner, which is why this asks who logged in.
CREATE FUNCTION rewrapping() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    -- By their full names: whoever logs in may have temporary tables of these names.
    SELECT coalesce(pg_catalog.current_setting('holdpoint.rewrapping', true), '') = 'on'
       AND pg_catalog.pg_has_role(session_user, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'public.data_keys'::pg_catalog.regclass), 'MEMBER')
$$;
-- +goose StatementEnd

DROP TRIGGER approvals_guard ON approvals;
CREATE TRIGGER approvals_guard BEFORE UPDATE ON approvals FOR EACH ROW WHEN (NOT rewrapping()) EXECUTE FUNCTION approvals_guard();
DROP TRIGGER cards_guard ON cards;
CREATE TRIGGER cards_guard BEFORE INSERT OR UPDATE OR DELETE ON cards FOR EACH ROW WHEN (NOT rewrapping()) EXECUTE FUNCTION cards_guard();
DROP TRIGGER standing_grants_guard ON standing_grants;
CREATE TRIGGER standing_grants_guard BEFORE UPDATE ON standing_grants FOR EACH ROW WHEN (NOT rewrapping()) EXECUTE FUNCTION standing_grants_guard();
DROP TRIGGER totp_factors_guard ON totp_factors;
CREATE TRIGGER totp_factors_guard BEFORE UPDATE ON totp_factors FOR EACH ROW WHEN (NOT rewrapping()) EXECUTE FUNCTION totp_factors_guard();
-- Nothing that anybody sees has changed.
DROP TRIGGER approvals_changed ON approvals;
CREATE TRIGGER approvals_changed AFTER INSERT OR UPDATE ON approvals FOR EACH ROW WHEN (NOT rewrapping()) EXECUTE FUNCTION approvals_changed();

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM approvals WHERE wrapped_by(sealed_key) <> '') THEN
        RAISE EXCEPTION 'records are sealed with a data key that former versions do not know';
    END IF;
END
$$;
-- +goose StatementEnd
DROP TRIGGER approvals_changed ON approvals;
CREATE TRIGGER approvals_changed AFTER INSERT OR UPDATE ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_changed();
DROP TRIGGER totp_factors_guard ON totp_factors;
CREATE TRIGGER totp_factors_guard BEFORE UPDATE ON totp_factors FOR EACH ROW EXECUTE FUNCTION totp_factors_guard();
DROP TRIGGER standing_grants_guard ON standing_grants;
CREATE TRIGGER standing_grants_guard BEFORE UPDATE ON standing_grants FOR EACH ROW EXECUTE FUNCTION standing_grants_guard();
DROP TRIGGER cards_guard ON cards;
CREATE TRIGGER cards_guard BEFORE INSERT OR UPDATE OR DELETE ON cards FOR EACH ROW EXECUTE FUNCTION cards_guard();
DROP TRIGGER approvals_guard ON approvals;
CREATE TRIGGER approvals_guard BEFORE UPDATE ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_guard();
DROP FUNCTION rewrapping, wrapped_by;
DROP TABLE data_keys;
