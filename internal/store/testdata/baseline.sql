-- Data in every table of the baseline, as the program of version 0.1.0 leaves it:
-- TestUpgrade runs this between the baseline and what comes later. It is as fixed as
-- the baseline itself.

BEGIN;
UPDATE installation SET key_check = '\x01';
INSERT INTO people (id, email, name, identity, password_hash, roles) VALUES
    ('usr_olga', 'olga@example.com', 'Olga', 'olga', 'x', '{}'),
    ('usr_ada', 'ada@example.com', 'Ada', 'ada', 'x', '{reviewer}'),
    ('usr_ben', 'ben@example.com', 'Ben', 'ben', 'x', '{reviewer}'),
    ('usr_gone', 'gone@example.com', 'Gone', 'gone', 'x', '{}');
INSERT INTO agents (id, name, owner_id) VALUES ('bot', 'Bot', 'usr_olga'), ('stopped', 'Stopped', 'usr_olga');
INSERT INTO keys (id, agent_id, kind, secret_hash, scopes, max_state) VALUES ('key_bot', 'bot', 'agent', sha256('bot'), '{propose}', 'authenticated');
INSERT INTO revoked_signing_keys (kid) VALUES ('kid');
INSERT INTO sessions (id_hash, person_id, expires_at, verified_at, verified_by) VALUES (sha256('session'), 'usr_ada', now() + interval '1 day', now(), 'totp');
INSERT INTO totp_factors (person_id, secret, secret_key, confirmed_at, last_step) VALUES ('usr_ada', 's', 'k', now(), 7);
INSERT INTO passkeys (credential_id, person_id, public_key, sign_count, aaguid, transports, name, backup_eligible, backed_up)
    VALUES ('c', 'usr_ada', 'p', 1, decode(repeat('00', 16), 'hex'), '{usb}', 'Key', false, false);
INSERT INTO challenges (id_hash, person_id, purpose, bound_to, data, expires_at) VALUES (sha256('challenge'), 'usr_ada', 'vote', 'apr_waits', '{}', now() + interval '1 minute');
INSERT INTO proof_attempts (person_id) VALUES ('usr_ada');
INSERT INTO on_call (schedule, person_id, from_at, until_at, told_by) VALUES ('primary', 'usr_ada', now(), now() + interval '1 day', 'key_bot');
INSERT INTO delegations (id, person_id, deputy_id, from_at, until_at, reason, created_by) VALUES ('dlg_1', 'usr_ben', 'usr_ada', now(), now() + interval '1 day', 'away', 'usr_ben');

INSERT INTO documents (digest, kind, known_as, body) VALUES ('sha256:' || encode(sha256('policy'), 'hex'), 'policy', 'sha256:' || repeat('1', 64), 'policy');
INSERT INTO active_documents (kind, digest, activated_by) SELECT kind, digest, 'usr_olga' FROM documents;
INSERT INTO rulesets (digest, body) VALUES ('sha256:' || encode(sha256('{}'), 'hex'), '{}');
INSERT INTO tools (name, profile) VALUES ('send_payment', '{}');
INSERT INTO settings (body) VALUES ('{}');
INSERT INTO kill_switches (agent_id, reason, thrown_by) VALUES ('stopped', 'runs wild', 'usr_olga');
SELECT take_call('bot', 'send_payment', 'session', 10, 60, 5, 60, 3, 60);
INSERT INTO idempotency (credential, key, request_hmac, approval_id, status, header, body, body_key) VALUES ('key_bot', 'k', 'h', 'apr_waits', 202, '{}', 'b', 'k');

-- apr_waits waits with two facts; apr_ran was approved, redeemed, lost sight of and
-- reconciled; apr_glass was approved by one person alone; apr_blank was denied.
INSERT INTO approvals (id, agent_id, request_id, dialect, tool, category, risk_domain, environment, digest, requested_by, max_state, decision, requirements, terms, excluded,
                       expires_in, sealed, sealed_key, sealed_size)
    SELECT id, 'bot', 'r', 'aana', 'send_payment', 'write', 'finance', 'production', 'sha256:' || repeat('0', 64), '{"kind": "agent", "id": "bot"}', 'authenticated', '{}',
        '[{"kind": "review", "role": "reviewer", "needed": 1}]', '{}', '{olga}', interval '1 day', 's', 'k', 1
    FROM unnest(ARRAY['apr_waits', 'apr_ran', 'apr_glass', 'apr_blank']) id;
INSERT INTO facts (approval_id, kind, actor_kind, actor_id, channel, yes, denial, comment, details) VALUES
    ('apr_waits', 'question', 'human', 'usr_ada', 'console', false, '', 'Which invoice?', '{"salt": "s"}'),
    ('apr_waits', 'information', 'agent', 'bot', 'api', false, '', 'No. 7', '{}'),
    ('apr_ran', 'vote', 'human', 'usr_ada', 'console', true, '', 'fine', '{}'),
    ('apr_glass', 'break_glass', 'human', 'usr_ben', 'console', true, '', 'now', '{}'),
    ('apr_blank', 'vote', 'human', 'usr_gone', 'console', false, 'never', 'no', '{"salt": "s"}');
INSERT INTO outbox (approval_id) VALUES ('apr_waits');
INSERT INTO card_views (approval_id, person_id, digest) VALUES ('apr_waits', 'usr_ada', 'd');
INSERT INTO cards (approval_id, digest, sealed, sealed_key) VALUES ('apr_waits', 'sha256:' || repeat('2', 64), 's', 'k'), ('apr_blank', 'sha256:' || repeat('2', 64), 's', 'k');
INSERT INTO cards_shown (approval_id, person_id, card_digest, digest) SELECT approval_id, 'usr_ada', digest, 'sha256:' || repeat('0', 64) FROM cards;
INSERT INTO standing_grants (id, person_id, agent_id, tool, environment, sealed, sealed_key, reason, from_approval, max_uses, expires_at)
    VALUES ('gra_1', 'usr_ada', 'bot', 'send_payment', 'production', 's', 'k', 'small ones', 'apr_ran', 3, now() + interval '1 day');
UPDATE approvals SET status = 'approved' WHERE id IN ('apr_ran', 'apr_glass');
UPDATE approvals SET status = 'denied', reasons = '[{"code": "denied", "message": "no"}]' WHERE id = 'apr_blank';
INSERT INTO tokens (jti, approval_id, valid_until) VALUES ('tok_ran', 'apr_ran', now() + interval '1 hour'), ('tok_glass', 'apr_glass', now() + interval '1 hour');
UPDATE tokens SET redeemed_by = 'key_bot', lease_until = now() WHERE jti = 'tok_ran';
UPDATE approvals SET execution = 'redeemed' WHERE id = 'apr_ran';
UPDATE approvals SET execution = 'unknown' WHERE id = 'apr_ran';
INSERT INTO reconciliations (approval_id, person_id, outcome, comment) VALUES ('apr_ran', 'usr_ben', 'succeeded', 'the money is there');
UPDATE approvals SET execution = 'succeeded' WHERE id = 'apr_ran';
INSERT INTO afterwards (approval_id) VALUES ('apr_glass');

INSERT INTO endpoints (id, kind, name, settings, created_by) VALUES ('end_1', 'email', 'Mail', '{"to": []}', 'usr_olga');
INSERT INTO announcements (approval_id, key, tell) VALUES ('apr_waits', 'opened', 'opened');
INSERT INTO notifications (id, endpoint_id, recipient, approval_id, tell, body) VALUES ('ntf_1', 'end_1', 'ada@example.com', 'apr_waits', 'opened', '{}');

SELECT append_events(array_agg(id::uuid), array_agg(type), array_agg(outcome), array_agg(text 'bot'), array_agg(text 'send_payment'), array_agg(approval),
    array_agg(convert_to(format('{"event_id":"%s"}', id), 'UTF8')))
FROM (VALUES ('00000000-0000-4000-8000-000000000001', 'decision', 'REQUIRE_APPROVAL', 'apr_waits'),
             ('00000000-0000-4000-8000-000000000002', 'settled', 'APPROVED', 'apr_ran'),
             ('00000000-0000-4000-8000-000000000003', 'redeem', 'ALLOW', 'apr_ran'),
             ('00000000-0000-4000-8000-000000000004', 'settled', 'REJECTED', 'apr_blank'),
             ('00000000-0000-4000-8000-000000000005', 'hold', 'ALLOW', '')) e (id, type, outcome, approval);
INSERT INTO legal_holds (id, covers, subject, reason, placed_by, placed_event) VALUES ('hold_1', 'approval', 'apr_ran', 'a lawsuit', 'usr_olga', '00000000-0000-4000-8000-000000000005');
COMMIT;

UPDATE retention_floor SET shortest = interval '0', changed_by = 'usr_olga';
BEGIN;
SELECT erase_approval('apr_blank', 'usr_olga', 'asked for', '00000000-0000-4000-8000-000000000006');
SELECT append_events(ARRAY['00000000-0000-4000-8000-000000000006'::uuid], '{erasure}', '{ALLOW}', '{bot}', '{send_payment}', '{apr_blank}', ARRAY[bytea '{}']);
COMMIT;
BEGIN;
SELECT erase_person('usr_gone', 'usr_olga', 'asked for', '00000000-0000-4000-8000-000000000007');
SELECT append_events(ARRAY['00000000-0000-4000-8000-000000000007'::uuid], '{erasure}', '{ALLOW}', '{""}', '{""}', '{""}', ARRAY[bytea '{}']);
COMMIT;

-- Five of the seven events have places in the log.
SELECT advance_log(0, (SELECT root FROM log_head), sha256('root'), (SELECT array_agg(seq ORDER BY seq) FROM (SELECT seq FROM events ORDER BY seq LIMIT 5) e),
    array_fill('usr_ada'::text, ARRAY[5]), '{0}', '{0}', ARRAY[decode(repeat('00', 160), 'hex')], 'checkpoint');
INSERT INTO log_cosignatures (size, name, line) VALUES (5, 'witness', 'line');
INSERT INTO log_positions (name, leaf) VALUES ('siem', 3);
