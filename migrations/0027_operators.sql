-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- What operators do that concerns no org has a chain of its own, under an id that no org has.
ALTER TABLE audit_entry DROP CONSTRAINT audit_entry_org_id_fkey;
ALTER TABLE audit_head DROP CONSTRAINT audit_head_org_id_fkey;

-- Operators read the logs of all orgs in the order of time, which is that of the ids.
CREATE INDEX audit_entry_id ON audit_entry (id);

-- Operators look for accounts over all orgs: by id, by the platform's id, by the beginning of a name or a label.
CREATE INDEX account_id ON account (id);
CREATE INDEX account_upstream_id ON account (upstream_id) WHERE disconnecting_at IS NULL;
CREATE INDEX account_username ON account (lower(username) COLLATE "C") WHERE disconnecting_at IS NULL;
CREATE INDEX account_label ON account (lower(label) COLLATE "C") WHERE disconnecting_at IS NULL;
