-- +goose Up
-- Access reviews: people look through who has which role, and say of each that it is still
-- needed, or that it is to be taken away.
CREATE TABLE access_reviews (
    id         text        PRIMARY KEY CHECK (id ~ '^arv_[a-z0-9]+$'),
    title      text        NOT NULL CHECK (title <> '' AND length(title) <= 200),
    roles      text[]      NOT NULL, -- which roles it is about; none: all
    since      timestamptz NOT NULL, -- the period that it is of
    until      timestamptz NOT NULL CHECK (until > since),
    due_at     timestamptz NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_by text        NOT NULL,
    -- When the reviewers are told next; none, when nobody is any more.
    remind_at  timestamptz DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    ended_by   text,
    -- Why it ended with accesses that nobody has looked at, or that were not taken away.
    incomplete text        NOT NULL DEFAULT '' CHECK (length(incomplete) <= 1000),
    -- Of all lines, as the event of its end has it.
    digest     text,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL) AND (ended_at IS NULL) = (digest IS NULL) AND (ended_at IS NULL OR remind_at IS NULL))
);
CREATE INDEX access_reviews_remind ON access_reviews (remind_at) WHERE remind_at IS NOT NULL;

-- One role of one account, and what its reviewer says of it.
CREATE TABLE access_review_lines (
    review_id   text        NOT NULL REFERENCES access_reviews (id),
    n           integer     NOT NULL,
    person_id   text        NOT NULL REFERENCES people (id),
    role        text        NOT NULL CHECK (role <> ''),
    reviewer_id text        NOT NULL REFERENCES people (id),
    -- As the reviewer finds it when the review starts.
    last_sign_in timestamptz,
    votes       integer     NOT NULL, -- in the period
    decision    text        CHECK (decision IN ('certified', 'removal_asked')),
    decided_by  text        REFERENCES people (id),
    decided_at  timestamptz,
    comment     text        NOT NULL DEFAULT '' CHECK (length(comment) <= 1000),
    -- Since when the account is known to have the role no more.
    removed_at  timestamptz,
    PRIMARY KEY (review_id, n),
    UNIQUE (review_id, person_id, role),
    CHECK ((decision IS NULL) = (decided_at IS NULL) AND (decision IS NULL) = (decided_by IS NULL) AND (removed_at IS NULL OR decision IS NOT DISTINCT FROM 'removal_asked'))
);
CREATE INDEX access_review_lines_open ON access_review_lines (reviewer_id, review_id) WHERE decision IS NULL;

-- Nobody reviews their own access, under whichever account; what somebody has decided stays
-- decided; and what is over does not change. An erasure takes comments.
-- +goose StatementBegin
CREATE FUNCTION access_review_lines_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    over boolean;
BEGIN
    SELECT r.ended_at IS NOT NULL INTO over FROM access_reviews r WHERE r.id = NEW.review_id FOR SHARE;
    IF TG_OP = 'UPDATE' AND NEW.comment = '' AND to_jsonb(NEW) - 'comment' = to_jsonb(OLD) - 'comment' THEN
        RETURN NEW;
    END IF;
    IF over THEN
        RAISE EXCEPTION 'the access review % is over', NEW.review_id USING ERRCODE = 'check_violation';
    END IF;
    IF EXISTS (SELECT FROM people p JOIN people q ON q.identity = p.identity WHERE p.id = NEW.person_id AND q.id IN (NEW.reviewer_id, NEW.decided_by)) THEN
        RAISE EXCEPTION 'nobody reviews their own access' USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'UPDATE' AND ((NEW.review_id, NEW.n, NEW.person_id, NEW.role) IS DISTINCT FROM (OLD.review_id, OLD.n, OLD.person_id, OLD.role)
       OR OLD.decision IS NOT NULL AND (NEW.decision, NEW.decided_by, NEW.decided_at, NEW.reviewer_id) IS DISTINCT FROM (OLD.decision, OLD.decided_by, OLD.decided_at, OLD.reviewer_id)
       OR OLD.removed_at IS NOT NULL AND NEW.removed_at IS DISTINCT FROM OLD.removed_at) THEN
        RAISE EXCEPTION 'what was said of an access stays as it is' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER access_review_lines_guard BEFORE INSERT OR UPDATE ON access_review_lines FOR EACH ROW EXECUTE FUNCTION access_review_lines_guard();

-- +goose StatementBegin
CREATE FUNCTION access_reviews_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.ended_at IS NOT NULL THEN
        RAISE EXCEPTION 'the access review % is over', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER access_reviews_guard BEFORE UPDATE ON access_reviews FOR EACH ROW EXECUTE FUNCTION access_reviews_guard();

-- What somebody wrote of accesses, or what was written of theirs, goes with them.
-- +goose StatementBegin
CREATE FUNCTION erase_reviews_of_person() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE access_review_lines SET comment = '' WHERE NEW.id IN (person_id, reviewer_id, decided_by) AND comment <> '';
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER erase_reviews_of_person AFTER UPDATE OF erased_at ON people FOR EACH ROW
    WHEN (NEW.erased_at IS NOT NULL AND OLD.erased_at IS NULL) EXECUTE FUNCTION erase_reviews_of_person();

GRANT SELECT ON access_reviews, access_review_lines TO holdpoint_runtime;
GRANT INSERT (id, title, roles, since, until, due_at, started_by), UPDATE (remind_at, ended_at, ended_by, incomplete, digest) ON access_reviews TO holdpoint_runtime;
GRANT INSERT (review_id, n, person_id, role, reviewer_id, last_sign_in, votes),
      UPDATE (reviewer_id, decision, decided_by, decided_at, comment, removed_at) ON access_review_lines TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER erase_reviews_of_person ON people;
DROP TABLE access_review_lines, access_reviews;
DROP FUNCTION erase_reviews_of_person, access_review_lines_guard, access_reviews_guard;
