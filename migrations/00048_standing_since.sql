-- +goose Up
-- Whoever was disabled, or had a role taken away, and has it back, votes anew: what they said before
-- stays void. Their account may have been in other hands then.

-- Since when somebody has what they were given again or later than their account: the moment for each
-- role, and under "" when the account was last enabled. What is not named they have had from the start.
ALTER TABLE people ADD COLUMN since jsonb NOT NULL DEFAULT '{}';
GRANT SELECT (since) ON people TO holdpoint_reader;

-- +goose StatementBegin
CREATE FUNCTION people_since() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.since := OLD.since
        || CASE WHEN OLD.disabled_at IS NOT NULL AND NEW.disabled_at IS NULL THEN jsonb_build_object('', clock_timestamp()) ELSE '{}' END
        || (SELECT coalesce(jsonb_object_agg(r, clock_timestamp()), '{}') FROM unnest(NEW.roles) r WHERE r <> ALL (OLD.roles));
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER people_since BEFORE UPDATE OF roles, disabled_at, since ON people FOR EACH ROW EXECUTE FUNCTION people_since();

-- stands_since reports whether an account that is as it was since a moment is enabled, and was not
-- disabled in between.
CREATE FUNCTION stands_since(disabled_at timestamptz, since jsonb, at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT disabled_at IS NULL AND coalesce((since->>'')::timestamptz <= at, true)
$$;
-- roles_since are the roles that somebody has now and has had since a moment; on-call they only have to be now.
-- +goose StatementBegin
CREATE FUNCTION roles_since(person text, own text[], since jsonb, at timestamptz) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT roles_of(person, CASE WHEN since = '{}' THEN own
        ELSE ARRAY(SELECT r FROM unnest(own) WITH ORDINALITY o (r, n) WHERE coalesce((since->>r)::timestamptz <= at, true) ORDER BY n) END)
$$;
-- +goose StatementEnd
-- regained_since reports whether somebody was given a role, or enabled, after a moment.
CREATE FUNCTION regained_since(since jsonb, at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT since <> '{}' AND EXISTS (SELECT FROM jsonb_each_text(since) s WHERE s.value::timestamptz > at)
$$;
REVOKE ALL ON FUNCTION people_since, stands_since, roles_since, regained_since FROM PUBLIC;
GRANT EXECUTE ON FUNCTION stands_since, roles_since, regained_since TO holdpoint_runtime;

-- Such a person may say yes again. One yes of each is kept to by settlement, which counts people and not rows.
DROP INDEX facts_one_yes;

-- +goose Down
CREATE UNIQUE INDEX facts_one_yes ON facts (approval_id, edition, actor_id) WHERE kind = 'vote' AND yes;
DROP FUNCTION stands_since, roles_since, regained_since;
DROP TRIGGER people_since ON people;
DROP FUNCTION people_since;
ALTER TABLE people DROP COLUMN since;
