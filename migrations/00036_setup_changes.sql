-- +goose Up
-- Changes of roles, routing and settings that wait for people. What is proposed is a document
-- like a policy: entries, each of which says what one row was and what it becomes. Where a kind is
-- guarded, a trigger lets nothing but an approved entry into the table.
ALTER TABLE documents DROP CONSTRAINT documents_kind_check,
    ADD CONSTRAINT documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings'));
ALTER TABLE guarded_documents DROP CONSTRAINT guarded_documents_kind_check,
    ADD CONSTRAINT guarded_documents_kind_check CHECK (kind IN ('policy', 'contracts', 'roles', 'routing', 'settings'));
-- Roles that membership in a provider's group may give without an approval. Who is in which group is
-- the provider's fact; which groups give what is in the settings, and what they may give is here.
ALTER TABLE guarded_documents ADD COLUMN by_groups text[] NOT NULL DEFAULT '{}' CHECK (kind = 'roles' OR by_groups = '{}');

-- change_approved reports whether an approval is of a document in place of another, asks for what
-- the rule asks for, is approved by the vote of somebody who may (nobody breaks the glass for it), and is
-- being carried out now.
-- +goose StatementBegin
CREATE FUNCTION change_approved(approval text, of_kind text, document text, former text, wanted jsonb) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM approvals a JOIN documents d ON d.digest = a.proposes
        WHERE a.id = approval AND a.proposes = document AND a.replaces = former AND d.kind = of_kind
          AND a.status = 'approved' AND a.execution = 'redeemed' AND a.dialect = 'change'
          AND a.requirements->0->>'role' = wanted->>'role'
          AND (a.requirements->0->>'needed')::integer >= (wanted->>'needed')::integer
          AND coalesce((a.requirements->0->>'signed')::boolean, false) >= coalesce((wanted->>'signed')::boolean, false)
          AND EXISTS (SELECT FROM facts f JOIN people p ON p.id = f.actor_id
              WHERE f.approval_id = a.id AND f.edition = a.edition AND f.kind = 'vote' AND f.yes AND f.actor_kind = 'human' AND p.identity <> ALL (a.excluded)))
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION change_approved FROM PUBLIC;
GRANT EXECUTE ON FUNCTION change_approved TO holdpoint_runtime;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION active_documents_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted jsonb;
    former text;
BEGIN
    -- An INSERT that becomes an UPDATE comes here twice.
    SELECT f.digest INTO former FROM active_documents f WHERE f.kind = NEW.kind;
    IF TG_OP = 'UPDATE' THEN
        former := OLD.digest;
    END IF;
    SELECT g.rule INTO wanted FROM guarded_documents g WHERE g.kind = NEW.kind;
    IF NOT FOUND OR NEW.approval_id IS NULL
       AND pg_has_role(current_user, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
        RETURN NEW;
    END IF;
    IF NOT change_approved(NEW.approval_id, NEW.kind, NEW.digest, coalesce(former, ''), wanted) THEN
        RAISE EXCEPTION 'a % comes into force here by an approval only', NEW.kind USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- approved_entry is what the approval that is being carried out makes of one row; NULL when there is
-- none, or when it says nothing of the row. Settlement names the approval for its own transaction, and
-- no other sees it carried out: it is over when that commits.
-- +goose StatementBegin
CREATE FUNCTION approved_entry(of_kind text, entry text, row_id text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT e->'becomes'
    FROM guarded_documents g, approvals a JOIN documents d ON d.digest = a.proposes, jsonb_array_elements(convert_from(d.body, 'UTF8')::jsonb->'entries') e
    WHERE g.kind = of_kind AND a.id = current_setting('holdpoint.approval', true) AND d.kind = of_kind
      AND change_approved(a.id, of_kind, a.proposes, '', g.rule) AND e->>'what' = entry AND e->>'id' = row_id
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION approved_entry FROM PUBLIC;
GRANT EXECUTE ON FUNCTION approved_entry TO holdpoint_runtime;

-- guarded reports whether the role that is logged in needs an approval for a kind of change. Whoever
-- owns the table may do without, which is the way in an emergency.
-- +goose StatementBegin
CREATE FUNCTION guarded(of_kind text, relation oid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM guarded_documents g WHERE g.kind = of_kind)
        AND NOT (coalesce(current_setting('holdpoint.approval', true), '') = ''
            AND pg_has_role(current_user, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = relation), 'USAGE'))
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION guarded FROM PUBLIC;
GRANT EXECUTE ON FUNCTION guarded TO holdpoint_runtime;

-- Taking a role away and disabling somebody is done at once. Whoever is disabled has no role, so
-- that enabling gives those that the row has.
-- +goose StatementBegin
CREATE FUNCTION people_roles_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gained text[];
BEGIN
    IF NEW.disabled_at IS NOT NULL OR NEW.roles = '{}' THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.disabled_at IS NULL THEN
        gained := ARRAY(SELECT unnest(NEW.roles) EXCEPT SELECT unnest(OLD.roles));
    ELSE
        gained := NEW.roles;
    END IF;
    IF gained = '{}' OR NOT guarded('roles', TG_RELID) THEN
        RETURN NEW;
    END IF;
    IF gained <@ (SELECT g.by_groups FROM guarded_documents g WHERE g.kind = 'roles')
       AND (EXISTS (SELECT FROM sso_identities i WHERE i.person_id = NEW.id) OR EXISTS (SELECT FROM directory_users u WHERE u.person_id = NEW.id AND u.removed_at IS NULL)) THEN
        RETURN NEW;
    END IF;
    IF gained <@ ARRAY(SELECT jsonb_array_elements_text(approved_entry('roles', 'person', NEW.id))) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a role is given here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_roles';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER people_roles_guard BEFORE INSERT OR UPDATE OF roles, disabled_at ON people FOR EACH ROW EXECUTE FUNCTION people_roles_guard();

-- While roles are guarded, only people themselves say who decides in their place.
-- +goose StatementBegin
CREATE FUNCTION delegations_roles_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.created_by <> NEW.person_id AND guarded('roles', TG_RELID) THEN
        RAISE EXCEPTION 'a role is given here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_roles';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER delegations_roles_guard BEFORE INSERT ON delegations FOR EACH ROW EXECUTE FUNCTION delegations_roles_guard();

-- Putting somebody on call gives a role, too. Taking somebody off is done at once.
-- +goose StatementBegin
CREATE FUNCTION on_call_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    approved jsonb;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.until_at <= OLD.until_at OR NOT guarded('routing', TG_RELID) THEN
        RETURN NEW;
    END IF;
    approved := approved_entry('routing', 'schedule', NEW.schedule);
    IF TG_OP = 'INSERT' AND approved->'people' ? NEW.person_id AND NEW.from_at >= (approved->>'from')::timestamptz AND NEW.until_at = (approved->>'until')::timestamptz THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'who is on call is changed here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_routing';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER on_call_guard BEFORE INSERT OR UPDATE ON on_call FOR EACH ROW EXECUTE FUNCTION on_call_guard();

-- +goose StatementBegin
CREATE FUNCTION settings_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM settings s WHERE s.body = NEW.body) AND guarded('settings', TG_RELID)
       AND NEW.body IS DISTINCT FROM approved_entry('settings', 'settings', '') THEN
        RAISE EXCEPTION 'the settings are changed here by an approval only' USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_settings';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER settings_guard BEFORE INSERT OR UPDATE ON settings FOR EACH ROW EXECUTE FUNCTION settings_guard();

-- What is registered of tools and agents; revoking either is done at once. New agents come by the
-- owner's command only.
-- +goose StatementBegin
CREATE FUNCTION registered_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    approved jsonb;
    row_id   text := to_jsonb(NEW)->>TG_ARGV[1];
BEGIN
    -- An INSERT that becomes an UPDATE comes here twice, and is judged the second time.
    IF TG_OP = 'INSERT' AND EXISTS (SELECT FROM tools WHERE name = row_id) THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.profile = OLD.profile AND NOT (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL) OR NOT guarded('settings', TG_RELID) THEN
        RETURN NEW;
    END IF;
    approved := approved_entry('settings', TG_ARGV[0], row_id);
    IF NEW.profile = approved->'profile' AND (approved->>'revoked')::boolean = (NEW.revoked_at IS NOT NULL) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'what is registered of a % is changed here by an approval only', TG_ARGV[0] USING ERRCODE = 'check_violation', CONSTRAINT = 'guarded_settings';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tools_guard BEFORE INSERT OR UPDATE ON tools FOR EACH ROW EXECUTE FUNCTION registered_guard('tool', 'name');
CREATE TRIGGER agents_registered_guard BEFORE UPDATE OF profile, revoked_at ON agents FOR EACH ROW EXECUTE FUNCTION registered_guard('agent', 'id');

-- +goose Down
DROP TRIGGER tools_guard ON tools;
DROP TRIGGER agents_registered_guard ON agents;
DROP TRIGGER settings_guard ON settings;
DROP TRIGGER on_call_guard ON on_call;
DROP TRIGGER delegations_roles_guard ON delegations;
DROP TRIGGER people_roles_guard ON people;
DROP FUNCTION registered_guard, settings_guard, on_call_guard, delegations_roles_guard, people_roles_guard, guarded, approved_entry;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION active_documents_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted jsonb;
    former text;
BEGIN
    SELECT f.digest INTO former FROM active_documents f WHERE f.kind = NEW.kind;
    IF TG_OP = 'UPDATE' THEN
        former := OLD.digest;
    END IF;
    SELECT g.rule INTO wanted FROM guarded_documents g WHERE g.kind = NEW.kind;
    IF NOT FOUND OR NEW.approval_id IS NULL
       AND pg_has_role(current_user, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
        RETURN NEW;
    END IF;
    IF NOT EXISTS (SELECT FROM approvals a JOIN documents d ON d.digest = a.proposes
        WHERE a.id = NEW.approval_id AND a.proposes = NEW.digest AND a.replaces = coalesce(former, '') AND d.kind = NEW.kind
          AND a.status = 'approved' AND a.execution = 'redeemed' AND a.dialect = 'change'
          AND a.requirements->0->>'role' = wanted->>'role'
          AND (a.requirements->0->>'needed')::integer >= (wanted->>'needed')::integer
          AND coalesce((a.requirements->0->>'signed')::boolean, false) >= coalesce((wanted->>'signed')::boolean, false)
          AND EXISTS (SELECT FROM facts f JOIN people p ON p.id = f.actor_id
              WHERE f.approval_id = a.id AND f.edition = a.edition AND f.yes AND f.actor_kind = 'human' AND p.identity <> ALL (a.excluded))) THEN
        RAISE EXCEPTION 'a % comes into force here by an approval only', NEW.kind USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
DROP FUNCTION change_approved;
DELETE FROM guarded_documents WHERE kind NOT IN ('policy', 'contracts');
ALTER TABLE guarded_documents DROP COLUMN by_groups, DROP CONSTRAINT guarded_documents_kind_check,
    ADD CONSTRAINT guarded_documents_kind_check CHECK (kind IN ('policy', 'contracts'));
-- Documents that were proposed stay: they are what approvals name.
ALTER TABLE documents DROP CONSTRAINT documents_kind_check,
    ADD CONSTRAINT documents_kind_check CHECK (kind IN ('policy', 'contracts')) NOT VALID;
