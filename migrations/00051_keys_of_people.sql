-- +goose Up
-- An operator's own key is a person's: what is done with it is on record in their name, and it is good for as long as they
-- are an administrator (store.Keys). Programs of before do not look whose a key is: make such keys when none of them is left.
ALTER TABLE keys ADD COLUMN person_id text REFERENCES people (id) CHECK (person_id IS NULL OR kind = 'admin');
-- Only the owner makes such a key, by command: whoever changes accounts may not name a person.
GRANT SELECT (person_id) ON keys TO holdpoint_reader;

-- +goose Down
ALTER TABLE keys DROP COLUMN person_id;
