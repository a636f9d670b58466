-- +goose Up
-- Changes of the rules that wait for people. Where a kind of document is guarded, nothing comes
-- into force but what an approval has proposed and people have approved.
CREATE TABLE guarded_documents (
    kind   text        PRIMARY KEY CHECK (kind IN ('policy', 'contracts')),
    rule   jsonb       NOT NULL, -- approval.Rule: who decides, how many, until when
    set_by text        NOT NULL,
    set_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Only the owner writes here, so that whoever is to be guarded against cannot end it.
GRANT SELECT ON guarded_documents TO holdpoint_runtime;

-- What an approval proposes to put in force, in place of which document; '' for none. Nobody
-- changes it afterwards: there is no right to.
ALTER TABLE approvals
    ADD COLUMN proposes text REFERENCES documents (digest),
    ADD COLUMN replaces text CHECK ((replaces IS NULL) = (proposes IS NULL));
GRANT INSERT (proposes, replaces) ON approvals TO holdpoint_runtime;
-- Of several processes that see one file, one proposes it.
CREATE UNIQUE INDEX approvals_proposes ON approvals (proposes, replaces) WHERE status = 'pending' AND proposes IS NOT NULL;
CREATE INDEX approvals_proposed ON approvals (proposes, opened_at) WHERE proposes IS NOT NULL;

-- By which approval a document has come into force; none, when nobody was asked.
ALTER TABLE active_documents ADD COLUMN approval_id text REFERENCES approvals (id);
GRANT INSERT (approval_id), UPDATE (approval_id) ON active_documents TO holdpoint_runtime;

-- The least that must be so where a kind is guarded, whatever the programs have computed: the
-- approval proposes this document in place of that one, asks for what the rule asks for,
-- is approved by somebody, and has put nothing in force before. Whoever owns the table may do
-- without, which is the way in an emergency.
-- +goose StatementBegin
CREATE FUNCTION active_documents_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER active_documents_guard BEFORE INSERT OR UPDATE ON active_documents FOR EACH ROW EXECUTE FUNCTION active_documents_guard();
CREATE TRIGGER guarded_documents_changed AFTER INSERT OR UPDATE OR DELETE ON guarded_documents FOR EACH STATEMENT EXECUTE FUNCTION rules_changed();

-- What proposes changes is no agent that somebody could have a key of.
ALTER TABLE keys ADD CONSTRAINT keys_not_of_rules CHECK (agent_id <> 'holdpoint:rules');

-- The approval of what is in force is kept: every process reads in it that people approved it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION why_kept(approval text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT CASE
        WHEN a.erased_at IS NOT NULL THEN 'erased'
        WHEN a.status = 'pending' THEN 'pending'
        WHEN a.execution = 'redeemed' THEN 'running'
        WHEN EXISTS (SELECT FROM active_documents d WHERE d.approval_id = a.id) THEN 'in_force'
        WHEN held(a.id) THEN 'held'
        WHEN a.execution = 'unknown' THEN 'unknown'
        WHEN EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id AND w.done_at IS NULL) THEN 'owed'
        WHEN EXISTS (SELECT FROM tokens t WHERE t.approval_id = a.id AND t.redeemed_at IS NULL AND t.stale_at IS NULL AND t.valid_until > clock_timestamp()) THEN 'spendable'
        WHEN EXISTS (SELECT FROM standing_grants g WHERE g.from_approval = a.id AND g.revoked_at IS NULL AND g.uses < g.max_uses AND g.expires_at > clock_timestamp()) THEN 'granted'
        WHEN greatest(a.ended_at, (SELECT r.at FROM reconciliations r WHERE r.approval_id = a.id), (SELECT w.done_at FROM afterwards w WHERE w.approval_id = a.id))
             > clock_timestamp() - (SELECT shortest FROM retention_floor) THEN 'recent'
        ELSE '' END FROM approvals a WHERE a.id = approval), 'missing')
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION why_kept(approval text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT CASE
        WHEN a.erased_at IS NOT NULL THEN 'erased'
        WHEN a.status = 'pending' THEN 'pending'
        WHEN a.execution = 'redeemed' THEN 'running'
        WHEN held(a.id) THEN 'held'
        WHEN a.execution = 'unknown' THEN 'unknown'
        WHEN EXISTS (SELECT FROM afterwards w WHERE w.approval_id = a.id AND w.done_at IS NULL) THEN 'owed'
        WHEN EXISTS (SELECT FROM tokens t WHERE t.approval_id = a.id AND t.redeemed_at IS NULL AND t.stale_at IS NULL AND t.valid_until > clock_timestamp()) THEN 'spendable'
        WHEN EXISTS (SELECT FROM standing_grants g WHERE g.from_approval = a.id AND g.revoked_at IS NULL AND g.uses < g.max_uses AND g.expires_at > clock_timestamp()) THEN 'granted'
        WHEN greatest(a.ended_at, (SELECT r.at FROM reconciliations r WHERE r.approval_id = a.id), (SELECT w.done_at FROM afterwards w WHERE w.approval_id = a.id))
             > clock_timestamp() - (SELECT shortest FROM retention_floor) THEN 'recent'
        ELSE '' END FROM approvals a WHERE a.id = approval), 'missing')
$$;
-- +goose StatementEnd
ALTER TABLE keys DROP CONSTRAINT keys_not_of_rules;
DROP TRIGGER active_documents_guard ON active_documents;
DROP FUNCTION active_documents_guard;
ALTER TABLE active_documents DROP COLUMN approval_id;
ALTER TABLE approvals DROP COLUMN proposes, DROP COLUMN replaces;
DROP TABLE guarded_documents;
