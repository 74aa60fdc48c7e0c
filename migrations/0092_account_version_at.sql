-- +goose NO TRANSACTION
-- +goose Up

CREATE INDEX CONCURRENTLY account_version_at ON account (version_at, id) WHERE version_at IS NOT NULL;
