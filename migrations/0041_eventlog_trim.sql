-- +goose Up

-- Entries of the log are dropped when they are stored, not by age.
DROP INDEX eventlog_entry_at;
