-- +goose NO TRANSACTION
-- +goose Up

-- An attempt that was interrupted leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS account_version_at;
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE INDEX CONCURRENTLY account_version_at ON account (version_at, id) WHERE version_at IS NOT NULL;
