-- +goose Up
-- The person whom a kept answer tells of: an invitation's has their name and address.
-- It is erased with them.
ALTER TABLE idempotency ADD COLUMN person_id text;
CREATE INDEX idempotency_person ON idempotency (person_id) WHERE person_id IS NOT NULL;
GRANT INSERT (person_id) ON idempotency TO holdpoint_runtime;
-- Whether somebody signs in by a provider: the last administrator who can is not erased.
GRANT SELECT (person_id) ON sso_identities TO holdpoint_runtime;

-- +goose StatementBegin
CREATE FUNCTION erase_answers_of_person() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Whoever repeats the request learns that, and invites nobody anew.
    UPDATE idempotency SET status = 410, header = '{"Content-Type": "application/problem+json"}', body_key = NULL,
        body = convert_to('{"type":"urn:holdpoint:problem:erased","title":"Gone","status":410,"code":"erased","detail":"The answer to this request has been erased."}' || E'\n', 'UTF8')
    WHERE person_id = NEW.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER erase_answers_of_person AFTER UPDATE OF erased_at ON people FOR EACH ROW
    WHEN (NEW.erased_at IS NOT NULL AND OLD.erased_at IS NULL) EXECUTE FUNCTION erase_answers_of_person();

-- +goose Down
REVOKE SELECT (person_id) ON sso_identities FROM holdpoint_runtime;
DROP TRIGGER erase_answers_of_person ON people;
DROP FUNCTION erase_answers_of_person;
ALTER TABLE idempotency DROP COLUMN person_id;
