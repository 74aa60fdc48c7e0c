-- +goose Up

-- The id of the key of the entry's hash. Empty: a hash without a key, written by an earlier version.
ALTER TABLE audit_entry ADD COLUMN key_id text NOT NULL DEFAULT '';

-- A keyed hash of the head that was anchored last. NULL: none yet.
ALTER TABLE audit_head ADD COLUMN anchored bytea;
