-- +goose Up

-- When session_version last grew, by the database's clock. Nodes look for changes of which they have got no message.
ALTER TABLE account ADD COLUMN version_at timestamptz;
