-- +goose Up

-- From when on every audit entry has a keyed hash. NULL: older entries are still without. It is here and not in the main
-- database, so that a writer of that one cannot have forged entries keyed.
ALTER TABLE keyring.root_key ADD COLUMN audit_keyed_at timestamptz;
