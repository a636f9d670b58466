-- +goose Up
-- Whoever administers people in the console may have changes of the rules approved from then on: a
-- rule where there is none. Only the owner changes one or ends it, as before; so this login adds to what is
-- asked for, and takes nothing away. by_groups lets through what a rule holds back, and is the owner's alone.
GRANT SELECT, INSERT (kind, rule, set_by) ON guarded_documents TO holdpoint_people;
-- Such a change stands under an agent that has no key (00033). It was made with the first rule.
INSERT INTO agents (id, name) VALUES ('holdpoint:rules', 'Change of the rules') ON CONFLICT (id) DO NOTHING;

-- +goose Down
REVOKE SELECT, INSERT (kind, rule, set_by) ON guarded_documents FROM holdpoint_people;
