-- +goose Up
-- What the auditors' reports look things up by. Each of these indexes is over
-- rows that people make, by hand or by signing in: a decision of the gate is in
-- none of them and pays for none of them.

-- What an event is about, read from its bytes as engine.Event is written:
-- without blanks, with its members in one order. A quote inside a text is
-- escaped, so that no text can look like a member. They answer NULL for what
-- they do not find and never fail, so that no event can be kept out by them.
-- +goose StatementBegin
CREATE FUNCTION event_code(body bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT substring(convert_from(body, 'UTF8') FROM '"reasons":\[\{"code":"([A-Za-z0-9_]+)"')
$$;
CREATE FUNCTION event_actor(body bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT substring(convert_from(body, 'UTF8') FROM '"actor":\{"kind":"[a-z]+","id":"([^"\\]+)"')
$$;
CREATE FUNCTION event_subject(body bytea) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT substring(convert_from(body, 'UTF8') FROM '"(?:person|subject)":"([^"\\]{1,254})"')
$$;
-- +goose StatementEnd

-- Changes of who may do what, in order of time.
CREATE INDEX events_changes ON events (appended_at, seq) WHERE type IN ('admin', 'grant', 'break_glass', 'review_afterwards');
-- Of one kind: who was put on call, who stood in for whom, which policy came.
CREATE INDEX events_admin_code ON events (event_code(body), appended_at, seq) WHERE type = 'admin';
-- All that was ever done to an account or a key.
CREATE INDEX events_subject ON events (event_subject(body), appended_at, seq) WHERE type = 'admin' AND event_subject(body) IS NOT NULL;
-- When somebody last signed in.
CREATE INDEX events_signed_in ON events (event_actor(body), appended_at) WHERE type = 'sign_in' AND outcome = 'ALLOW' AND event_code(body) = 'SIGNED_IN';

-- What people said of approvals, in order of time.
CREATE INDEX facts_said ON facts (at) WHERE kind IN ('vote', 'question') AND actor_kind = 'human';
-- The schedules on which somebody was at a moment.
CREATE INDEX on_call_person ON on_call (person_id, from_at);

-- +goose Down
DROP INDEX on_call_person, facts_said, events_signed_in, events_subject, events_admin_code, events_changes;
DROP FUNCTION event_subject(bytea), event_actor(bytea), event_code(bytea);
