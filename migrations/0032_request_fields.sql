-- +goose Up

-- Which fields of a request were wrong: a code and a pointer per line, never a value. Empty for a request without such a problem.
ALTER TABLE request_log ADD COLUMN fields text NOT NULL DEFAULT '';
