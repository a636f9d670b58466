-- +goose Up
-- Public keys with which people sign policies. Only the owner writes here: whoever could add a key
-- would sign. A key belongs to one person for good, and one that is revoked stays so.
CREATE TABLE policy_signers (
    fingerprint text        PRIMARY KEY CHECK (fingerprint ~ '^SHA256:[A-Za-z0-9+/]{43}$'),
    person_id   text        NOT NULL REFERENCES people (id),
    public_key  text        NOT NULL CHECK (length(public_key) <= 1024), -- as in a .pub file
    added_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at  timestamptz
);
CREATE INDEX policy_signers_person ON policy_signers (person_id);
GRANT SELECT ON policy_signers TO holdpoint_runtime, holdpoint_reader;
CREATE TRIGGER policy_signers_changed AFTER INSERT OR UPDATE OR DELETE ON policy_signers FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();

-- 'signatures': how many people, with which role, have to have signed a policy that comes into force.
-- 'operator-key': commands name the key of whoever runs them; that binds commands, not the database.
ALTER TABLE guarded_documents DROP CONSTRAINT guarded_documents_kind_check,
    ADD CONSTRAINT guarded_documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings', 'endpoints', 'retention', 'signatures', 'operator-key'));

-- Whose keys had signed the document when it came into force.
ALTER TABLE active_documents ADD COLUMN signed_by text[] NOT NULL DEFAULT '{}';
GRANT INSERT (signed_by), UPDATE (signed_by) ON active_documents TO holdpoint_runtime;

-- The database sees to whose keys those are, now, and the programs to the signatures: every one of
-- them verifies these before it judges by the policy. So neither a login of serve nor a key that was
-- revoked puts a policy in force; and a program of before, which names no keys, neither.
-- +goose StatementBegin
CREATE FUNCTION active_documents_signed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    wanted jsonb;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.digest, NEW.signed_by) IS NOT DISTINCT FROM (OLD.digest, OLD.signed_by) OR NEW.kind <> 'policy' THEN
        RETURN NEW;
    END IF;
    SELECT g.rule INTO wanted FROM guarded_documents g WHERE g.kind = 'signatures';
    IF FOUND AND (SELECT count(DISTINCT p.identity) FROM policy_signers s JOIN people p ON p.id = s.person_id
        WHERE s.fingerprint = ANY (NEW.signed_by) AND s.revoked_at IS NULL AND p.disabled_at IS NULL
          AND wanted->>'role' = ANY (p.roles)) < (wanted->>'needed')::integer THEN
        RAISE EXCEPTION 'a policy comes into force here with the signatures of people only' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER active_documents_signed BEFORE INSERT OR UPDATE ON active_documents FOR EACH ROW EXECUTE FUNCTION active_documents_signed();

-- +goose Down
DROP TRIGGER active_documents_signed ON active_documents;
DROP FUNCTION active_documents_signed;
ALTER TABLE active_documents DROP COLUMN signed_by;
DELETE FROM guarded_documents WHERE kind IN ('signatures', 'operator-key');
ALTER TABLE guarded_documents DROP CONSTRAINT guarded_documents_kind_check,
    ADD CONSTRAINT guarded_documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings', 'endpoints', 'retention'));
DROP TABLE policy_signers;
