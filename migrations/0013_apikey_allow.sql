-- +goose Up

ALTER TABLE api_key
    -- Lists of patterns of methods; every list must allow a call. Empty for a key that may call all.
    ADD COLUMN methods jsonb NOT NULL DEFAULT '[]',
    -- The accounts that the key may use; null for all of them.
    ADD COLUMN account_ids text[];
