-- +goose Up

-- The other members of the problem of a request, as JSON without values of the request; empty if there are none.
ALTER TABLE request_log ADD COLUMN members text NOT NULL DEFAULT '';
-- Whether the request did not count as usage.
ALTER TABLE request_log ADD COLUMN is_free boolean NOT NULL DEFAULT false;
