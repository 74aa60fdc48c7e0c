-- +goose Up

-- The newest format of stored content that a node can read. Content is written in a format only once all live nodes can read it.
ALTER TABLE node ADD COLUMN format smallint NOT NULL DEFAULT 1;
