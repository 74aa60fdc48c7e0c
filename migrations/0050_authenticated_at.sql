-- +goose Up

-- When the person of a browser last proved who they are. NULL, in rows of the previous version: at the sign-in.
ALTER TABLE browser_session ADD COLUMN authenticated_at timestamptz;
