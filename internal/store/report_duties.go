package store

// dutiesInConflict are the conflicts of duties that the data shows. Some are of roles and
// accounts, as the period's end had them; the others are of what people did in the period.
// Most of what people did is refused at the door: these look for it in the data alone.
const dutiesInConflict = `WITH stood AS (
		-- The roles of each account at the end of the period, by the last event that tells.
		SELECT p.id, p.email, p.name, p.identity, last.at, CASE WHEN last.roles IS NULL THEN p.roles ELSE ARRAY(SELECT json_array_elements_text(last.roles)) END AS roles
		FROM people p LEFT JOIN LATERAL (
			SELECT e.appended_at AS at, CASE json_typeof(t.told->'roles_after') WHEN 'array' THEN t.told->'roles_after' END AS roles
			FROM events e CROSS JOIN LATERAL (SELECT convert_from(e.body, 'UTF8')::json->'safe_payload' AS told) t
			WHERE e.type = 'admin' AND e.outcome <> 'DENY' AND event_subject(e.body) IN (p.id, p.email) AND e.appended_at < $2
				AND event_code(e.body) IN ('USER_ADDED', 'USER_ROLES_CHANGED', 'USER_DISABLED', 'USER_ENABLED')
			ORDER BY e.appended_at DESC, e.seq DESC LIMIT 1) last ON true
		WHERE p.created_at < $2 AND (last.roles IS NOT NULL OR p.disabled_at IS NULL OR p.disabled_at >= $2)
	), votes AS (
		SELECT f.seq, f.approval_id, f.edition, f.at, f.actor_id, p.identity FROM facts f JOIN people p ON p.id = f.actor_id
		WHERE f.kind = 'vote' AND f.yes AND f.actor_kind = 'human' AND f.at >= $1 AND f.at < $2
	), found AS (
		SELECT 'two_accounts' AS finding, b.created_at AS time, b.id AS person_id, first.email AS other, NULL::text AS approval_id, NULL::bigint AS count
		FROM people b JOIN LATERAL (SELECT o.* FROM people o WHERE o.identity = b.identity AND (o.created_at, o.id) < (b.created_at, b.id)
			AND (o.disabled_at IS NULL OR o.disabled_at > $1) ORDER BY o.created_at, o.id LIMIT 1) first ON true
		WHERE b.created_at < $2 AND (b.disabled_at IS NULL OR b.disabled_at > $1)
		UNION ALL
		SELECT CASE power.role WHEN $5 THEN 'administers_and_decides' ELSE 'audits_and_decides' END, coalesce(s.at, $1), s.id, array_to_string(others.roles, ', '), NULL, NULL
		FROM stood s CROSS JOIN (VALUES ($5::text), ($6::text)) AS power (role)
		CROSS JOIN LATERAL (SELECT ARRAY(SELECT r FROM unnest(s.roles) r WHERE r NOT IN ($5, $6) ORDER BY r) AS roles) others
		WHERE power.role = ANY (s.roles) AND cardinality(others.roles) > 0
		UNION ALL
		SELECT 'administered_and_decided', max(v.at), v.actor_id, NULL, NULL, count(*) FROM votes v
		WHERE v.actor_id IN (SELECT event_actor(e.body) FROM events e WHERE e.type = 'admin' AND e.outcome <> 'DENY' AND e.appended_at >= $1 AND e.appended_at < $2
			AND event_code(e.body) ~ '^(USER|KEY|AGENT|TOOL|SETTINGS|POLICY)_')
		GROUP BY v.actor_id
		UNION ALL
		SELECT CASE WHEN v.identity = ANY (a.excluded) THEN 'decided_own_call' ELSE 'decided_for_own_agent' END, v.at, v.actor_id, agent.name, a.id, NULL
		FROM votes v JOIN approvals a ON a.id = v.approval_id LEFT JOIN agents agent ON agent.id = a.agent_id LEFT JOIN people owner ON owner.id = agent.owner_id
		WHERE v.identity = ANY (a.excluded) OR v.identity = owner.identity
		UNION ALL
		SELECT 'voted_twice', max(v.at), max(v.actor_id), string_agg(DISTINCT v.actor_id, ', '), v.approval_id, count(*) FROM votes v
		GROUP BY v.approval_id, v.edition, v.identity HAVING count(DISTINCT v.actor_id) > 1
		UNION ALL
		SELECT 'reviewed_own_emergency', w.done_at, w.person_id, NULL, w.approval_id, NULL FROM afterwards w JOIN people r ON r.id = w.person_id
		WHERE w.done_at >= $1 AND w.done_at < $2 AND EXISTS (SELECT FROM facts f JOIN people p ON p.id = f.actor_id
			WHERE f.approval_id = w.approval_id AND f.kind = 'break_glass' AND p.identity = r.identity)
	)
	SELECT found.finding || '/' || found.person_id || '/' || coalesce(found.approval_id, '') || '/' || row_number() OVER (
			PARTITION BY found.finding, found.person_id, found.approval_id, found.time ORDER BY found.other) AS key, greatest(found.time, $1) AS at,
		found.finding, found.time, p.name AS person, p.email, p.id AS person_id, found.other, found.approval_id, a.tool, a.agent_id, found.count
	FROM found JOIN people p ON p.id = found.person_id LEFT JOIN approvals a ON a.id = found.approval_id`
