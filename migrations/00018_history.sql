-- +goose Up
-- Whom an approval asked for, as it ended: who has one of these roles finds it in the
-- history. It is computed once, when nothing of it can change any more.
ALTER TABLE approvals ADD COLUMN asked text[] NOT NULL DEFAULT '{}';

-- +goose StatementBegin
CREATE FUNCTION approvals_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The role that is asked where too few are left counts once it was asked.
    NEW.asked := asked_roles(NEW.requirements, CASE WHEN EXISTS (
        SELECT FROM facts f WHERE f.approval_id = NEW.id AND f.kind = 'escalate' AND f.details ? 'widened') THEN NEW.terms ELSE '{}' END);
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- What has ended already. The guards of approvals would look at each row.
ALTER TABLE approvals DISABLE TRIGGER USER;
UPDATE approvals a SET asked = asked_roles(a.requirements, CASE WHEN EXISTS (
    SELECT FROM facts f WHERE f.approval_id = a.id AND f.kind = 'escalate' AND f.details ? 'widened') THEN a.terms ELSE '{}' END) WHERE a.status <> 'pending';
ALTER TABLE approvals ENABLE TRIGGER USER;

CREATE TRIGGER approvals_over BEFORE UPDATE OF status ON approvals FOR EACH ROW
    WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION approvals_over();
CREATE INDEX approvals_asked ON approvals USING gin (asked) WHERE status <> 'pending';

-- +goose Down
DROP INDEX approvals_asked;
DROP TRIGGER approvals_over ON approvals;
DROP FUNCTION approvals_over;
ALTER TABLE approvals DROP COLUMN asked;
