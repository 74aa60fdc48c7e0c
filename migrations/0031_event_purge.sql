-- +goose Up

-- How far the events of a deleted account are emptied; null for every other source. From the moment it is set, records of the platform's
-- that arrive late are dropped.
ALTER TABLE event_source ADD COLUMN purged_seq bigint;
