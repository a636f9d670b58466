package store

// reportLists are the reports that are lists. Each has key and at, by which its rows are
// in order and which no two rows have both, and after them the report's columns.
//
// Events are opened as json: jsonb refuses texts that an event may have.
var reportLists = map[string]string{
	"roles":          rolesGiven,
	"approvals":      approvalsEnded,
	"duties":         dutiesInConflict,
	"break-glass":    glassBroken,
	"executions":     executionsOpen,
	"policies":       policiesInForce,
	"factors":        factorsHeld,
	"keys":           keysHeld,
	"access-reviews": accessesReviewed,
	"erasures":       erasedAndHeld,
}

// reportPeople are the columns with the ids of those whom a row is about.
var reportPeople = map[string]string{
	"roles": "person_id", "approvals": "decided_by_id", "duties": "person_id", "break-glass": "person_id", "factors": "person_id", "access-reviews": "person_id",
}

const (
	// eventOpened adds to events e what an event says, and who did it.
	eventOpened = ` CROSS JOIN LATERAL (SELECT convert_from(e.body, 'UTF8')::json AS body) b
		CROSS JOIN LATERAL (SELECT b.body->'actor'->>'id' AS actor, b.body->'actor'->>'channel' AS channel, b.body->'safe_payload' AS told) j
		LEFT JOIN people maker ON maker.id = j.actor `
	// byWhom are the columns that say who did it, and which event says so.
	byWhom = `coalesce(nullif(maker.name, ''), (SELECT 'key “' || k.label || '”' FROM keys k WHERE k.id = j.actor AND k.label <> ''), j.actor) AS by, j.actor AS by_id, j.channel, e.event_id::text AS event_id`
	seqKey = `to_char(e.seq, 'FM0000000000000000000')`
	// whoseApproval are the columns that say whether people approved it, as what, proposed by whom,
	// and who they were: as the event says, or, where it was written before events said so, the approval.
	whoseApproval = `CASE WHEN e.approval_id IS NOT NULL THEN 'people' WHEN b.body->'reasons'->1->>'code' = 'NOBODY_ASKED' THEN 'nobody_asked' ELSE 'no_need' END AS approved, e.approval_id,
		(SELECT coalesce(nullif(q.name, ''), by.id) FROM (SELECT coalesce(j.told->'proposed_by'->>'id', (SELECT a.requested_by->>'id' FROM approvals a WHERE a.id = e.approval_id)) AS id) by
			LEFT JOIN people q ON q.id = by.id) AS proposed_by,
		coalesce((SELECT string_agg(coalesce(nullif(q.name, ''), one.id), ', ' ORDER BY one.n) FROM json_array_elements_text(CASE json_typeof(j.told->'approved_by') WHEN 'array' THEN j.told->'approved_by' END)
			WITH ORDINALITY AS one (id, n) LEFT JOIN people q ON q.id = one.id), ` + voters + `) AS approved_by`
	// voters are the people whose yes counted for the approval that event e names.
	voters = `(SELECT string_agg(DISTINCT coalesce(nullif(p.name, ''), p.id), ', ') FROM approvals a
		JOIN facts f ON f.approval_id = a.id AND f.seq IN (SELECT jsonb_array_elements_text(coalesce(a.final->'counted', '[]'))::bigint)
		JOIN people p ON p.id = f.actor_id WHERE a.id = e.approval_id AND f.yes)`
	// aboutCall are the columns of an approval's call; agent is an agent's name.
	aboutCall = `a.id AS approval_id, a.tool, a.agent_id, agent.name AS agent, a.environment`
)

// rolesGiven are joiners, movers and leavers, and who was put on call or stood in for
// somebody: by the events that tell of it.
const rolesGiven = `SELECT ` + seqKey + ` || '/' || coalesce(one.n, 0) AS key, e.appended_at AS at,
		e.appended_at AS time, act.name AS act, coalesce(nullif(p.name, ''), one.id) AS person, p.email, one.id AS person_id,
		CASE act.code WHEN 'ON_CALL_SET' THEN 'on-call/' || (j.told->>'schedule') ELSE
			(SELECT string_agg(r, ', ' ORDER BY r) FROM json_array_elements_text(roles.after) r WHERE r NOT IN (SELECT json_array_elements_text(roles.before))) END AS roles_given,
		(SELECT string_agg(r, ', ' ORDER BY r) FROM json_array_elements_text(roles.before) r WHERE r NOT IN (SELECT json_array_elements_text(roles.after))) AS roles_taken,
		(SELECT string_agg(r, ', ' ORDER BY r) FROM json_array_elements_text(roles.after) r) AS roles_after,
		CASE WHEN act.name LIKE 'stands_in%' THEN coalesce(nullif(lent.name, ''), j.told->>'person') END AS in_place_of, j.told->>'from' AS valid_from, j.told->>'until' AS valid_until, ` + byWhom + `, ` + whoseApproval + `
	FROM events e
	JOIN (VALUES ('USER_ADDED', 'joined'), ('USER_ROLES_CHANGED', 'moved'), ('USER_DISABLED', 'left'), ('USER_ENABLED', 'returned'),
		('ON_CALL_SET', 'on_call'), ('DELEGATION_MADE', 'stands_in'), ('DELEGATION_REVOKED', 'stands_in_no_more')) AS act (code, name) ON act.code = event_code(e.body)` + eventOpened + `
	CROSS JOIN LATERAL (SELECT CASE json_typeof(j.told->'roles_before') WHEN 'array' THEN j.told->'roles_before' ELSE '[]' END AS before,
		CASE json_typeof(j.told->'roles_after') WHEN 'array' THEN j.told->'roles_after' ELSE '[]' END AS after) roles
	LEFT JOIN LATERAL (
		SELECT id, n FROM json_array_elements_text(CASE WHEN act.code = 'ON_CALL_SET' AND json_typeof(j.told->'people') = 'array' THEN j.told->'people' END) WITH ORDINALITY AS duty (id, n)
		UNION ALL SELECT coalesce(j.told->>'deputy', j.told->>'person', j.told->>'subject'), 1 WHERE act.code <> 'ON_CALL_SET') one ON true
	LEFT JOIN people p ON p.id = one.id OR p.email = one.id
	LEFT JOIN people lent ON lent.id = j.told->>'person'
	WHERE e.type = 'admin' AND e.outcome <> 'DENY' AND e.appended_at >= $3 AND e.appended_at < $2`

// approvalsEnded are all approvals that ended. decided_by are those whose yes counted, or
// who denied it. The amounts are in the sealed arguments: whoever may read those fills them in.
const approvalsEnded = `SELECT a.id AS key, a.ended_at AS at,
		a.ended_at AS time, ` + aboutCall + `, a.risk_domain, array_to_string(a.asked, ', ') AS roles, a.opened_at AS proposed_at,
		extract(epoch FROM a.ended_at - a.opened_at)::float8 AS seconds, a.status,
		CASE WHEN (a.final->>'broken')::boolean THEN 'break_glass' WHEN by.ids IS NOT NULL THEN 'people' WHEN a.terms ? 'accepted_as' OR a.status = 'denied' THEN 'rules'
			WHEN a.status = 'expired' THEN 'time' ELSE 'requesting_side' END AS decided,
		by.names AS decided_by, by.ids AS decided_by_id, a.execution, NULL::text AS amount, NULL::text AS currency, NULL::text AS amount_note
	FROM approvals a LEFT JOIN agents agent ON agent.id = a.agent_id
	LEFT JOIN LATERAL (SELECT string_agg(coalesce(nullif(p.name, ''), v.actor_id), ', ' ORDER BY v.seq) AS names, string_agg(v.actor_id, ', ' ORDER BY v.seq) AS ids
		FROM (SELECT f.actor_id, min(f.seq) AS seq FROM facts f
			WHERE f.approval_id = a.id AND CASE a.status
				WHEN 'approved' THEN f.seq IN (SELECT jsonb_array_elements_text(coalesce(a.final->'counted', '[]'))::bigint)
				WHEN 'denied' THEN NOT f.yes AND f.seq = (a.final->>'decisive')::bigint ELSE false END
			GROUP BY f.actor_id) v LEFT JOIN people p ON p.id = v.actor_id) by ON true
	WHERE a.status <> 'pending' AND a.ended_at >= $3 AND a.ended_at < $2`

// glassBroken has a row for each time that somebody broke the glass, with what has become
// of the review that is owed where they did so alone.
const glassBroken = `SELECT ` + seqKey + ` AS key, e.appended_at AS at,
		e.appended_at AS time, coalesce(nullif(maker.name, ''), j.actor) AS person, maker.email, j.actor AS person_id, ` + aboutCall + `, array_to_string(a.asked, ', ') AS roles,
		a.status, CASE WHEN w.approval_id IS NULL THEN 'not_owed' WHEN w.done_at IS NULL THEN 'owed' WHEN w.justified THEN 'justified' ELSE 'not_justified' END AS review,
		w.owed_at, w.done_at AS reviewed_at, coalesce(nullif(reviewer.name, ''), w.person_id) AS reviewed_by, w.person_id AS reviewed_by_id, a.execution, e.event_id::text AS event_id
	FROM events e` + eventOpened + `JOIN approvals a ON a.id = e.approval_id LEFT JOIN agents agent ON agent.id = a.agent_id
	LEFT JOIN afterwards w ON w.approval_id = a.id LEFT JOIN people reviewer ON reviewer.id = w.person_id
	WHERE e.type = 'break_glass' AND e.outcome <> 'DENY' AND e.appended_at >= $3 AND e.appended_at < $2`

// executionsOpen are approved calls of which it is not reported that they ran, those of
// which a person had to find out, and calls that ran without a decision.
const executionsOpen = `SELECT a.id AS key, a.ended_at AS at,
		a.ended_at AS time, CASE WHEN r.approval_id IS NOT NULL THEN 'found_out' WHEN a.execution = 'unknown' THEN 'outcome_unknown'
			WHEN a.execution = 'redeemed' AND t.lease_until > clock_timestamp() THEN 'running' WHEN a.execution = 'redeemed' THEN 'not_reported'
			WHEN t.stale_at IS NULL AND t.valid_until > clock_timestamp() THEN 'not_run_yet' ELSE 'never_run' END AS finding,
		` + aboutCall + `, t.valid_until AS may_run_until, t.redeemed_at AS run_at, t.lease_until AS report_until,
		a.execution, coalesce(nullif(p.name, ''), r.person_id) AS found_out_by, r.at AS found_out_at, NULL::text AS event_id
	FROM approvals a LEFT JOIN agents agent ON agent.id = a.agent_id LEFT JOIN tokens t ON t.approval_id = a.id
	LEFT JOIN reconciliations r ON r.approval_id = a.id LEFT JOIN people p ON p.id = r.person_id
	WHERE a.status = 'approved' AND a.ended_at >= $3 AND a.ended_at < $2 AND (a.execution IN ('none', 'redeemed', 'unknown') OR r.approval_id IS NOT NULL)
	UNION ALL
	SELECT ` + seqKey + `, e.appended_at, e.appended_at, 'ungated', NULL, e.tool_name, e.agent_id, agent.name, NULL, NULL, NULL, NULL, j.told->>'execution', NULL, NULL, e.event_id::text
	FROM log_entries l JOIN events e ON e.seq = l.seq` + eventOpened + `LEFT JOIN agents agent ON agent.id = e.agent_id
	WHERE l.type || ' ' || l.outcome = 'ungated ALLOW' AND e.appended_at >= $3 AND e.appended_at < $2`

// policiesInForce are the policies and tool contracts that were in force at some moment
// of the period.
const policiesInForce = `SELECT ` + seqKey + ` AS key, greatest(e.appended_at, $1) AS at,
		CASE e.code WHEN 'POLICY_ACTIVATED' THEN 'policy' ELSE 'contracts' END AS kind,
		substring(b.body->'reasons'->0->>'message' FROM 'version "(.*)"') AS version, e.appended_at AS in_force_from, e.until AS in_force_until,
		coalesce(j.told->>'means', '') AS digest, j.told->>'document' AS document,
		CASE WHEN e.approval_id IS NOT NULL THEN 'people' WHEN b.body->'reasons'->1->>'code' = 'NOBODY_ASKED' THEN 'nobody_asked' ELSE 'no_need' END AS approved,
		e.approval_id, (SELECT string_agg(coalesce(nullif(p.name, ''), p.id), ', ' ORDER BY p.id) FROM approvals a JOIN people p ON p.id = ANY (a.excluded) WHERE a.id = e.approval_id) AS author,
		` + voters + ` AS approved_by,
		(SELECT string_agg(DISTINCT coalesce(nullif(q.name, ''), one.signer->>'person'), ', ') FROM json_array_elements(CASE json_typeof(j.told->'signed_by') WHEN 'array' THEN j.told->'signed_by' END) AS one (signer)
			LEFT JOIN people q ON q.id = one.signer->>'person') AS signed_by, ` + byWhom + `
	FROM (SELECT *, event_code(body) AS code, lead(appended_at) OVER (PARTITION BY event_code(body) ORDER BY appended_at, seq) AS until FROM events
		WHERE type = 'admin' AND event_code(body) IN ('POLICY_ACTIVATED', 'TOOL_CONTRACTS_ACTIVATED') AND outcome <> 'DENY') e` + eventOpened + `
	WHERE e.appended_at < $2 AND (e.until IS NULL OR e.until > $1)`

// factorsHeld are the second factors that somebody had at some moment of the period, by
// the events that tell of them, and those of today of which no event tells.
const factorsHeld = `SELECT ` + seqKey + ` AS key, greatest(e.appended_at, $1) AS at,
		coalesce(nullif(p.name, ''), who.id) AS person, p.email, who.id AS person_id, j.told->>'factor' AS factor, e.appended_at AS since, gone.at AS until,
		gone.how AS ended_by, 'log' AS source, ` + byWhom + `
	FROM events e` + eventOpened + `CROSS JOIN LATERAL (SELECT coalesce(j.told->>'person', j.told->>'subject') AS id) who LEFT JOIN people p ON p.id = who.id
	LEFT JOIN LATERAL (SELECT g.appended_at AS at, CASE event_code(g.body) WHEN 'FACTORS_RESET' THEN 'reset' ELSE 'removed' END AS how FROM events g
		CROSS JOIN LATERAL (SELECT convert_from(g.body, 'UTF8')::json->'safe_payload' AS told) left_with
		WHERE g.type = 'admin' AND g.outcome <> 'DENY' AND event_subject(g.body) = who.id AND g.seq > e.seq AND (event_code(g.body) = 'FACTORS_RESET'
			OR event_code(g.body) = 'FACTOR_REMOVED' AND left_with.told->>'factor' = j.told->>'factor'
				AND coalesce(left_with.told->'passkey'->>'credential' = j.told->'passkey'->>'credential', true))
		ORDER BY g.seq LIMIT 1) gone ON true
	WHERE e.type = 'admin' AND event_code(e.body) = 'FACTOR_ADDED' AND e.outcome <> 'DENY' AND e.appended_at < $2 AND (gone.at IS NULL OR gone.at > $1)
	UNION ALL
	SELECT 'now/' || held.kind || '/' || held.n || '/' || held.person_id, greatest(held.since, $1), p.name, p.email, p.id, held.kind, held.since, NULL, NULL, 'database', NULL, NULL, NULL, NULL
	FROM (SELECT person_id, 'totp' AS kind, confirmed_at AS since, 1 AS n FROM totp_factors WHERE confirmed_at IS NOT NULL
		UNION ALL SELECT person_id, 'passkey', created_at, row_number() OVER (PARTITION BY person_id ORDER BY created_at, credential_id) FROM passkeys) held
	JOIN people p ON p.id = held.person_id
	WHERE held.since < $2 AND NOT EXISTS (SELECT FROM events g WHERE g.type = 'admin' AND event_subject(g.body) = held.person_id AND event_code(g.body) = 'FACTOR_ADDED'
		AND g.outcome <> 'DENY' AND convert_from(g.body, 'UTF8')::json->'safe_payload'->>'factor' = held.kind)`

// keysHeld are the API keys that were good at some moment of the period, with who made and
// who revoked them, by the events that tell of it. Of uses only the last is known.
const keysHeld = `SELECT k.id AS key, greatest(k.created_at, $1) AS at,
		k.id AS key_id, k.label, k.kind, agent.name AS agent, k.agent_id, coalesce(nullif(holder.name, ''), k.person_id) AS person, k.person_id, array_to_string(k.scopes, ', ') AS scopes, k.max_state, k.created_at, k.expires_at, k.revoked_at,
		coalesce(nullif(revoker.name, ''), revoked.by) AS revoked_by, u.used_at AS last_used_at, ` + byWhom + `
	FROM keys k LEFT JOIN agents agent ON agent.id = k.agent_id LEFT JOIN people holder ON holder.id = k.person_id LEFT JOIN key_uses u ON u.key_id = k.id
	LEFT JOIN LATERAL (SELECT g.body, g.event_id FROM events g WHERE g.type = 'admin' AND g.outcome <> 'DENY' AND event_subject(g.body) = k.id AND event_code(g.body) = 'KEY_CREATED'
		ORDER BY g.seq LIMIT 1) e ON true
	LEFT JOIN LATERAL (SELECT event_actor(g.body) AS by FROM events g WHERE g.type = 'admin' AND g.outcome <> 'DENY' AND event_subject(g.body) = k.id AND event_code(g.body) = 'KEY_REVOKED'
		ORDER BY g.seq LIMIT 1) revoked ON true
	LEFT JOIN people revoker ON revoker.id = revoked.by` + eventOpened + `
	WHERE k.created_at < $2 AND (k.revoked_at IS NULL OR k.revoked_at > $1) AND (k.expires_at IS NULL OR k.expires_at > $1)`

// accessesReviewed are the lines of all access reviews that were started in the period.
const accessesReviewed = `SELECT r.id || '/' || to_char(l.n, 'FM000000') AS key, r.started_at AS at,
		r.started_at AS time, r.title AS review, r.id AS review_id, r.since AS period_from, r.until AS period_until, r.due_at,
		CASE WHEN r.ended_at IS NULL AND r.due_at <= (SELECT clock_timestamp()) THEN 'overdue' WHEN r.ended_at IS NULL THEN 'open' WHEN r.incomplete <> '' THEN 'ended' ELSE 'completed' END AS state,
		r.ended_at, coalesce(nullif(p.name, ''), p.id) AS person, p.email, p.id AS person_id, l.role, coalesce(nullif(q.name, ''), q.id) AS reviewer, q.id AS reviewer_id,
		CASE WHEN l.removed_at IS NOT NULL THEN 'removed' WHEN l.decision IS NULL THEN 'not_reviewed' ELSE l.decision END AS decision, l.decided_at, l.comment, l.removed_at, r.incomplete, r.digest
	FROM access_reviews r JOIN access_review_lines l ON l.review_id = r.id JOIN people p ON p.id = l.person_id JOIN people q ON q.id = coalesce(l.decided_by, l.reviewer_id)
	WHERE r.started_at >= $3 AND r.started_at < $2`

// erasedAndHeld is what was erased in the period, and what was held from being erased at
// some moment of it. of is a person's name, an agent's, or an approval's tool.
const erasedAndHeld = `SELECT e.id AS key, e.erased_at AS at,
		e.erased_at AS time, 'erased' AS act, e.covers, coalesce(nullif(p.name, ''), a.tool, e.subject) AS of, a.id AS approval_id, e.subject AS of_id, e.rule, array_to_string(e.parts, ', ') AS parts,
		e.reason, NULL::timestamptz AS released_at, NULL::text AS released_by, coalesce(nullif(maker.name, ''), e.erased_by) AS by, e.erased_by AS by_id, e.event_id::text AS event_id
	FROM erasures e LEFT JOIN people p ON e.covers = 'person' AND p.id = e.subject LEFT JOIN approvals a ON e.covers = 'approval' AND a.id = e.subject LEFT JOIN people maker ON maker.id = e.erased_by
	WHERE e.erased_at >= $3 AND e.erased_at < $2
	UNION ALL
	SELECT h.id, greatest(h.placed_at, $1), h.placed_at, 'held', h.covers, coalesce(nullif(p.name, ''), nullif(agent.name, ''), a.tool, nullif(h.subject, '')), a.id, h.subject, NULL, NULL,
		h.reason, h.released_at, coalesce(nullif(releaser.name, ''), h.released_by), coalesce(nullif(maker.name, ''), h.placed_by), h.placed_by, h.placed_event::text
	FROM legal_holds h LEFT JOIN people p ON h.covers = 'person' AND p.id = h.subject LEFT JOIN approvals a ON h.covers = 'approval' AND a.id = h.subject
	LEFT JOIN agents agent ON h.covers = 'agent' AND agent.id = h.subject LEFT JOIN people maker ON maker.id = h.placed_by LEFT JOIN people releaser ON releaser.id = h.released_by
	WHERE h.placed_at < $2 AND (h.released_at IS NULL OR h.released_at > $1)`
