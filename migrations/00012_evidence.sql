-- +goose Up
-- What was on people's screens. The log has only a digest of a card; the card
-- itself is here, sealed as arguments are, so that an evidence pack can show it
-- and erasing takes it away again.

-- A card as it was rendered, by the digest of exactly those bytes.
CREATE TABLE cards (
    approval_id text        NOT NULL REFERENCES approvals (id),
    digest      text        NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    first_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    sealed      bytea       NOT NULL, -- deflated, then sealed
    sealed_key  bytea, -- NULL once erased
    PRIMARY KEY (approval_id, digest)
);

-- Who was shown which card. The last one is what somebody who votes has seen.
CREATE TABLE cards_shown (
    approval_id text        NOT NULL,
    person_id   text        NOT NULL REFERENCES people (id),
    card_digest text        NOT NULL,
    digest      text        NOT NULL, -- of the call that the card shows
    at          timestamptz NOT NULL DEFAULT clock_timestamp(), -- last, where another one was shown in between
    PRIMARY KEY (approval_id, person_id, card_digest),
    FOREIGN KEY (approval_id, card_digest) REFERENCES cards (approval_id, digest)
);

-- For the approvals of a period.
CREATE INDEX approvals_opened ON approvals (opened_at, id);

-- A card stays what it is, until its approval's arguments are erased: then it
-- goes with them, whoever erases.
-- +goose StatementBegin
CREATE FUNCTION cards_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    want cards%ROWTYPE;
BEGIN
    IF TG_OP = 'INSERT' THEN
        -- Under the approval's lock, so that no card is kept of what is being erased.
        PERFORM FROM approvals WHERE id = NEW.approval_id AND sealed_key IS NOT NULL FOR SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the arguments of approval % are erased: nobody can be shown them', NEW.approval_id USING ERRCODE = 'check_violation';
        END IF;
        NEW.first_at := clock_timestamp();
        RETURN NEW;
    END IF;
    want := OLD;
    want.sealed := '';
    want.sealed_key := NULL;
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM want AND EXISTS (SELECT FROM approvals WHERE id = OLD.approval_id AND sealed_key IS NULL) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'cards is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE FUNCTION cards_erased() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE public.cards SET sealed = '', sealed_key = NULL WHERE approval_id = NEW.id AND sealed_key IS NOT NULL;
    UPDATE public.cards_shown SET digest = 'sha256:' || repeat('0', 64) WHERE approval_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION cards_shown_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The digest of a call could be guessed at: it goes with the arguments.
    IF TG_OP = 'UPDATE' AND (NEW.approval_id, NEW.person_id, NEW.card_digest, NEW.at, NEW.digest) = (OLD.approval_id, OLD.person_id, OLD.card_digest, OLD.at, 'sha256:' || repeat('0', 64))
       AND EXISTS (SELECT FROM approvals WHERE id = OLD.approval_id AND sealed_key IS NULL) THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' OR (NEW.approval_id, NEW.person_id, NEW.card_digest, NEW.digest) <> (OLD.approval_id, OLD.person_id, OLD.card_digest, OLD.digest) THEN
        RAISE EXCEPTION 'cards_shown is append-only: % is not allowed', TG_OP USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER cards_guard BEFORE INSERT OR UPDATE OR DELETE ON cards FOR EACH ROW EXECUTE FUNCTION cards_guard();
CREATE TRIGGER cards_no_truncate BEFORE TRUNCATE ON cards FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER cards_shown_guard BEFORE UPDATE OR DELETE ON cards_shown FOR EACH ROW EXECUTE FUNCTION cards_shown_guard();
CREATE TRIGGER cards_shown_no_truncate BEFORE TRUNCATE ON cards_shown FOR EACH STATEMENT EXECUTE FUNCTION append_only();
CREATE TRIGGER approvals_cards_erased AFTER UPDATE ON approvals FOR EACH ROW
    WHEN (OLD.sealed_key IS NOT NULL AND NEW.sealed_key IS NULL) EXECUTE FUNCTION cards_erased();

GRANT SELECT ON cards, cards_shown TO holdpoint_runtime;
GRANT INSERT (approval_id, digest, sealed, sealed_key) ON cards TO holdpoint_runtime;
GRANT INSERT (approval_id, person_id, card_digest, digest), UPDATE (at) ON cards_shown TO holdpoint_runtime;

-- +goose Down
DROP TRIGGER approvals_cards_erased ON approvals;
DROP TABLE cards_shown, cards;
DROP INDEX approvals_opened;
DROP FUNCTION cards_guard(), cards_erased(), cards_shown_guard();
