-- +goose Up
-- Whose keys a policy in force names: every one of them has to count. The programs verify the keys that
-- are named; so one that counts beside one that was revoked would let the revoked one's signature do.
-- And where people sign policies, one that was replaced does not come back: a former one, which people
-- have signed as well, would undo what the newer one has tightened.
ALTER TABLE active_documents ADD COLUMN former text[] NOT NULL DEFAULT '{}'; -- digests; nobody writes it but the trigger

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION active_documents_signed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    wanted jsonb;
    people bigint;
    keys   bigint;
BEGIN
    IF NEW.kind <> 'policy' OR TG_OP = 'UPDATE' AND (NEW.digest, NEW.signed_by) IS NOT DISTINCT FROM (OLD.digest, OLD.signed_by) THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.digest <> OLD.digest THEN
        NEW.former := array_append(array_remove(OLD.former, OLD.digest), OLD.digest);
    END IF;
    SELECT g.rule INTO wanted FROM guarded_documents g WHERE g.kind = 'signatures';
    IF NOT FOUND THEN
        RETURN NEW;
    END IF;
    IF NEW.digest = ANY (NEW.former) THEN
        RAISE EXCEPTION 'a policy that was replaced does not come into force again' USING ERRCODE = 'check_violation';
    END IF;
    SELECT count(DISTINCT p.identity), count(*) INTO people, keys FROM policy_signers s JOIN people p ON p.id = s.person_id
        WHERE s.fingerprint = ANY (NEW.signed_by) AND s.revoked_at IS NULL AND p.disabled_at IS NULL
          AND wanted->>'role' = ANY (p.roles);
    IF people < (wanted->>'needed')::integer OR keys < (SELECT count(DISTINCT named) FROM unnest(NEW.signed_by) named) THEN
        RAISE EXCEPTION 'a policy comes into force here with the signatures of people only' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION active_documents_signed() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
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
ALTER TABLE active_documents DROP COLUMN former;
