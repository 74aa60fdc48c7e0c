-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- A reconnect link looks for an open session of its account before it makes another.
CREATE INDEX connect_session_account ON connect_session (org_id, account_id) WHERE account_id <> '' AND finished_at IS NULL;
