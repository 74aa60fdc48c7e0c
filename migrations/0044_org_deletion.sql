-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- An org that is being deleted can be restored until purge_at. Then everything of it is destroyed, and this row is left as a tombstone:
-- its id, the time of the purge (updated_at) and the receipt.
ALTER TABLE org
    ADD COLUMN deletion_requested_at timestamptz,
    ADD COLUMN purge_at timestamptz,
    -- The deletion caused the suspension, so restoring the org ends it.
    ADD COLUMN deletion_suspends boolean NOT NULL DEFAULT false,
    -- From here on the org cannot be restored.
    ADD COLUMN purge_started_at timestamptz,
    -- Of a tombstone. json, not jsonb: receipts stay as they were signed.
    ADD COLUMN receipt json;

CREATE INDEX org_purge ON org (purge_at) WHERE purge_at IS NOT NULL;
