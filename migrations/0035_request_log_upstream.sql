-- +goose Up

-- The platform's error code. upstream_code has it as well if it is a number, for rows that older versions read and wrote.
ALTER TABLE request_log ADD COLUMN upstream_text text NOT NULL DEFAULT '';
