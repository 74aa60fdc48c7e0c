-- +goose Up

-- The number of the newest entry that was streamed to the operators' collection of logs.
ALTER TABLE audit_head ADD COLUMN streamed bigint NOT NULL DEFAULT 0;
