-- +goose Up

-- The address to which a link was mailed, sealed with the key of the organisation, until the session ends: the receipt for
-- the connected account goes there. Null for a link that was not mailed.
ALTER TABLE connect_session ADD COLUMN receipt_to bytea;
