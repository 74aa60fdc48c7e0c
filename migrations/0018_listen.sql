-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- How the account's live connection stands. Off until a listener has begun, and again when the account stops or gets another session.
ALTER TABLE account_health
ADD COLUMN listener_state text NOT NULL DEFAULT 'off',
ADD COLUMN listener_since timestamptz,
ADD COLUMN last_event_at timestamptz;

-- The accounts of a shard in the order of their ids, for whoever listens to them.
CREATE INDEX account_health_shard ON account_health (shard, account_id);

-- owner: account
-- Who listens to a shard, as the epoch of its lease: what a listener with an older one has to say is not written.
CREATE TABLE account_shard (
    shard smallint PRIMARY KEY,
    epoch bigint NOT NULL
);

-- There are 64 shards instead of 8: FNV-1a of the account's id, as package id has it.
-- +goose StatementBegin
DO $$
DECLARE
    one record;
    hash bigint;
BEGIN
    FOR one IN SELECT org_id, account_id FROM account_health LOOP
        hash := 2166136261;
        FOR i IN 1..length(one.account_id) LOOP
            hash := ((hash # ascii(substr(one.account_id, i, 1))) * 16777619) & 4294967295;
        END LOOP;
        UPDATE account_health SET shard = hash % 64 WHERE org_id = one.org_id AND account_id = one.account_id;
    END LOOP;
END
$$;
-- +goose StatementEnd
