-- +goose Up

-- The logo on an organisation's connect pages: a PNG that we wrote ourselves, and a hash of it for its address. Null for
-- none.
ALTER TABLE connect_page ADD COLUMN logo bytea;
ALTER TABLE connect_page ADD COLUMN logo_tag text NOT NULL DEFAULT '';
