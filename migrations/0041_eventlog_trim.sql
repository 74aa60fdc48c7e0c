-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-deletion

-- Entries of the log are dropped when they are stored, not by age.
DROP INDEX eventlog_entry_at;
