-- +goose Up
-- What a directory calls somebody beside the name of the account, in parts (RFC 7643, section 4.1.1). It is told what it
-- has said. It goes with the row when the person is erased.
ALTER TABLE directory_users
    ADD COLUMN given_name     text CHECK (given_name <> '' AND length(given_name) <= 255),
    ADD COLUMN family_name    text CHECK (family_name <> '' AND length(family_name) <= 255),
    ADD COLUMN formatted_name text CHECK (formatted_name <> '' AND length(formatted_name) <= 255);
GRANT INSERT (given_name, family_name, formatted_name), UPDATE (given_name, family_name, formatted_name) ON directory_users TO holdpoint_people;

-- +goose Down
ALTER TABLE directory_users DROP COLUMN given_name, DROP COLUMN family_name, DROP COLUMN formatted_name;
