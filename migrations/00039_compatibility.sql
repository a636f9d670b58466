-- +goose Up
-- The oldest schema whose programs run on this one, beside newer programs, until all are
-- replaced. A migration that takes something away that older programs use raises it
-- to its own number, in its own transaction; one that only adds leaves it as it is.
CREATE TABLE schema_compatibility (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    oldest integer NOT NULL
);
INSERT INTO schema_compatibility (oldest) VALUES (39);
-- Only whoever migrates writes here.
GRANT SELECT ON schema_compatibility TO holdpoint_runtime;

-- +goose Down
DROP TABLE schema_compatibility;
