-- +goose Up

-- The events that a request caused: a line for each with its id, its kind and the account, which is empty for an event of the organisation.
ALTER TABLE request_log ADD COLUMN events text NOT NULL DEFAULT '';
