-- +goose Up

-- When the link was first opened, by whoever or whatever; null if it never was.
ALTER TABLE connect_session ADD COLUMN opened_at timestamptz;
